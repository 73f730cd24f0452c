"""Redirects from River UI's page addresses to the nearest pages of riverui."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.domain.jobs import JobState
from riverui.storage.interface.params import Field
from riverui.web.http import cookies
from riverui.web.http.context import access
from riverui.web.http.cookies import Notice
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url

_JOBS_PARAMETERS = frozenset({"id", "kind", "limit", "priority", "queue", "tags"})
"""Parameters of River UI's job list besides the state."""


async def jobs(request: Request) -> Response:
    """Redirect from River UI's job list, whose address ends in a slash and which shows running jobs
    if no state is named.
    """
    text = request.scope.get("query_string", b"").decode("latin-1")
    if text and _JOBS_PARAMETERS.issuperset(request.query_params):
        text += f"&state={JobState.RUNNING}"
    where = url(request, "jobs.index")
    return RedirectResponse(f"{where}?{text}" if text else where, status_code=307)


async def settings(request: Request) -> Response:
    """Redirect to the preferences on the page About; to the help without the right to see it."""
    where = "about" if access(request).may("about.read") else "help"
    return RedirectResponse(url(request, where), status_code=302)


async def periodic_jobs(request: Request) -> Response:
    """Redirect to the jobs that periodic jobs inserted."""
    return _redirect(
        request,
        jobs_url(request, (query.contains(Field.METADATA, "periodic", True),)),
        "These are the jobs that periodic jobs inserted.",
    )


def _redirect(request: Request, where: str, title: str, *details: str) -> Response:
    response = RedirectResponse(where, status_code=302)
    cookies.keep_notice(request, response, Notice(level="info", title=title, details=details))
    return response
