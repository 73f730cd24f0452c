"""Redirects from River UI's pages of dead letters."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.web.http.request_context import url
from riverui.web.http.routes import GuardedRoute


async def dead_letters(request: Request) -> Response:
    """Redirect to the list of dead letters, which can be filtered by one kind and one queue."""
    given = [(name, request.query_params.get(name, "")) for name in ("kind", "queue")]
    chosen = urlencode([(name, value) for name, value in given if value and "," not in value])
    where = url(request, "dead_letters.index")
    return RedirectResponse(f"{where}?{chosen}" if chosen else where, status_code=302)


async def dead_letter(request: Request) -> Response:
    """Redirect to one dead letter."""
    where = url(request, "dead_letters.show", id=request.path_params["id"])
    return RedirectResponse(where, status_code=302)


ROUTES = (
    GuardedRoute("GET", "/dead-letter-jobs", "river_ui.dead_letters", "jobs.read", dead_letters),
    GuardedRoute(
        "GET",
        "/dead-letter-jobs/{id:river_bigint}",
        "river_ui.dead_letter",
        "jobs.read",
        dead_letter,
    ),
)
