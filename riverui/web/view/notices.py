"""Answers with a notice: to a change that was made, and to a request that failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from riverui.web.http import cookies
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.error_pages import ErrorShow
from riverui.web.http.request_context import VARY, htmx
from riverui.web.view.render import TEMPLATES, respond

_OWN_EVENTS = ("", "incidents", "operations", "queues")
"""Kinds of changes that are no deeds: their sections add them to the timeline, or nothing is
changed.
"""


def done(request: Request, notice: Notice, *, next: str, changed: str = "") -> Response:
    """Answer a POST that did its work.

    htmx gets the notice and `HX-Trigger: <changed>-changed`, so that live regions refresh. A plain
    form is redirected to `next` (checked by the caller), which shows the notice; so is htmx if
    `next` is not the current page.
    """
    if changed not in _OWN_EVENTS and notice.level == "success":
        deed = datetime.now(UTC), access(request).user, notice.title
        dashboard(request).deeds.append(deed)
    asked = htmx(request)
    if asked.request and asked.current_path == urlsplit(next).path:
        return _notice_response(
            request, notice, headers={"HX-Trigger": f"{changed}-changed"} if changed else {}
        )
    headers = {"Vary": VARY}
    if asked.request:
        response: Response = Response(status_code=200, headers={"HX-Redirect": next, **headers})
    else:
        response = RedirectResponse(next, status_code=303, headers=headers)
    cookies.keep_notice(request, response, notice)
    return response


def fail(
    request: Request, page: ErrorShow, *, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer a failed request with an error page, or for htmx with a notice, which keeps the
    current page.
    """
    if not htmx(request).request:
        return respond(request, page, status=status, headers=headers)
    details = tuple(text for text in (page.detail, page.command and f"Run {page.command}") if text)
    if status == 404:
        # htmx requests come from a page that was rendered while the row existed.
        notice = Notice(level="warning", title="No longer exists", details=details, link=page.back)
    else:
        notice = Notice(level="error", title=page.title, details=details)
    return _notice_response(request, notice, status=status, headers=headers or {})


def _notice_response(
    request: Request, notice: Notice, *, headers: Mapping[str, str], status: int = 200
) -> Response:
    template = dashboard(request).get(TEMPLATES).environment.get_template("_notice.html")
    html = template.render(notice=notice)
    # The notice goes into the shell, whatever target the form named. Only errors of a form in a
    # dialog are shown in the form, because the dialog covers the shell.
    inside = status >= 400 and htmx(request).target == "ask-problem"
    place = {
        "HX-Retarget": "#ask-problem" if inside else "#notices",
        "HX-Reswap": "innerHTML" if inside else "beforeend",
        "HX-Push-Url": "false",
        "Vary": VARY,
    }
    return HTMLResponse(html, status_code=status, headers={**place, **headers})
