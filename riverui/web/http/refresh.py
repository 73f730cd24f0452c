"""Refreshes of live regions: rendered once for all viewers of the same view, and not sent again
while nothing has changed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.errors import TooBusy
from riverui.web.http import problems
from riverui.web.http.admission import Admission, retry_after
from riverui.web.http.context import dashboard
from riverui.web.http.cookies import preferences
from riverui.web.http.refreshes import Headers, Refreshes, RefreshKey, Rendering
from riverui.web.http.request_context import (
    CONTEXT,
    LIVE_HEADER,
    VARY,
    RequestContext,
    Viewer,
    htmx,
    request_context,
)
from riverui.web.view.preferences import LIVE_SECONDS

_LONGEST = max(LIVE_SECONDS)
_VARY = (b"vary", f"{VARY}, Accept-Encoding".encode())
_OWN = frozenset({b"content-length", b"retry-after", b"vary"})
"""Headers that each response sets for itself, whatever the page set."""


async def answer(
    request: Request, app: ASGIApp, refreshes: Refreshes, admission: Admission
) -> ASGIApp | None:
    """Return the response to a refresh of a live region; None for other requests, or if the
    response is specific to one viewer.

    The client must be authenticated; `app` checks rights. Under overload, the response is 503 with
    Retry-After.
    """
    seconds, asked = _seconds(request), request_context(request)
    if seconds is None or asked.access is None:
        return None
    asked.by_itself = True
    try:
        slow = admission.check()
        key, make = _shared(request, app, admission, asked.access)
        rendering = await refreshes.answer(key, make, seconds, slow=slow)
    except TooBusy as error:
        slow, rendering = True, await _refusal(request, refreshes, error)
    if rendering is None:
        return None
    asked.route = rendering.route
    return _Refreshed(rendering, request, slow=slow)


def _shared(
    request: Request, app: ASGIApp, admission: Admission, viewer: Viewer
) -> tuple[RefreshKey, Callable[[], Awaitable[Rendering | None]]]:
    """Return the key of a rendering, and the function that makes it."""
    scope, asked = request.scope, request_context(request)
    key = RefreshKey(
        base=scope["root_path"],
        path=scope["path"],
        query=scope.get("query_string", b""),
        target=request.headers.get("hx-target", "").encode("latin-1"),
        rights=viewer.rights,
        read_only=dashboard(request).driver.read_only,
        preferences=preferences(request),
    )

    async def make() -> Rendering | None:
        place = await admission.enter(refresh=True)
        try:
            return await _render(app, scope, key, asked)
        finally:
            place.leave()

    return key, make


async def _refusal(request: Request, refreshes: Refreshes, error: TooBusy) -> Rendering:
    """Return the response for rejected refreshes, rendered once for all of them."""
    if refreshes.refusal is None:
        response = await problems.answer(request, error)
        refreshes.refusal = Rendering(
            response.status_code, _kept(response.raw_headers), bytes(response.body), route=""
        )
    return refreshes.refusal


def _kept(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple(pair for pair in headers if pair[0] not in _OWN)


def _seconds(request: Request) -> float | None:
    """Return a live region's interval in seconds; None if the header is missing or invalid."""
    said = request.headers.get(LIVE_HEADER)
    if said is None or request.method != "GET" or not said.isascii() or not said.isdecimal():
        return None
    if len(said) > 2 or not htmx(request).target:
        return None
    return float(min(int(said), _LONGEST))


async def _render(
    app: ASGIApp, scope: Scope, key: RefreshKey, asked: RequestContext
) -> Rendering | None:
    """Render the page for a request that holds nothing but the key."""
    context = RequestContext(
        id=secrets.token_hex(6),
        access=Viewer(rights=key.rights),
        base=asked.base,
        preferences=key.preferences,
        shared=True,
        urls=asked.urls,
    )
    plain: Scope = {
        "type": "http",
        "app": scope["app"],
        "asgi": scope.get("asgi", {}),
        "headers": [(b"hx-request", b"true"), (b"hx-target", key.target)],
        "http_version": "1.1",
        "method": "GET",
        "path": key.path,
        "query_string": key.query,
        "root_path": key.base,
        "scheme": "http",
        "server": None,
        CONTEXT: context,
    }
    status, headers, body, asking = 500, [], bytearray(), True

    async def receive() -> Message:
        nonlocal asking
        if not asking:
            await asyncio.get_running_loop().create_future()
        asking = False
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        else:
            body.extend(message.get("body", b""))

    try:
        await app(plain, receive, send)
    except Exception as error:
        failed = await problems.answer(Request(plain), error)
        await failed(plain, receive, send)
    if not context.shared or any(name == b"set-cookie" for name, _ in headers):
        return None
    return Rendering(status, _kept(headers), bytes(body), route=context.route)


class _Refreshed:
    """A rendering as sent to one viewer: plain, compressed, or 304."""

    def __init__(self, rendering: Rendering, request: Request, *, slow: bool) -> None:
        self._rendering = rendering
        self._slow = slow
        self._known = request.headers.get("if-none-match", "")
        self._unzips = "gzip" in request.headers.get("accept-encoding", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rendering = self._rendering
        status, body, headers = rendering.status, rendering.body, [*rendering.headers, _VARY]
        if status == 200:
            headers.append((b"etag", rendering.etag))
            if rendering.etag.decode() in self._known:
                status, body = 304, b""
        if body and self._unzips:
            body = rendering.zipped
            headers.append((b"content-encoding", b"gzip"))
        if self._slow or status == 503:
            headers.append((b"retry-after", retry_after().encode()))
        if status != 304:
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
