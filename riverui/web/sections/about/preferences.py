"""The viewer's preferences, kept in a cookie."""

from __future__ import annotations

import re
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.web.http import cookies
from riverui.web.http.forms import form
from riverui.web.http.request_context import htmx, local_path, url
from riverui.web.search import columns
from riverui.web.view.preferences import choose

_BOOLEANS = {"1": True, "0": False}
"""Posted values of `show_args`; any other value means the server's default."""


async def update(request: Request) -> Response:
    """Save the preferences that the form names; the others stay."""
    posted = await form(request)
    old = cookies.preferences(request)
    chosen: dict[str, object] = asdict(old)
    chosen |= {name: posted[name] for name in ("theme", "time") if name in posted}
    numbers = {name: posted.get(name, "") for name in ("live", "limit")}
    chosen |= {
        name: int(text) for name, text in numbers.items() if re.fullmatch(r"[0-9]{1,3}", text)
    }
    if "show_args" in posted:
        chosen["show_args"] = _BOOLEANS.get(posted["show_args"])
    if "columns" in posted:
        chosen["columns"] = columns.read(posted.getlist("columns"))
    new = choose(chosen)
    if htmx(request).request:
        response = Response(status_code=204)
        # The server renders these; the browser has already applied the others.
        if (new.limit, new.show_args) != (old.limit, old.show_args):
            response.headers["HX-Refresh"] = "true"
    else:
        next_url = local_path(request, posted.get("next"), default=url(request, "about"))
        response = RedirectResponse(next_url, status_code=303)
    cookies.write_preferences(request, response, new)
    return response
