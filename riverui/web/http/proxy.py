"""Support for a proxy in front of a standalone riverui: the path prefix, and the client's
address.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from riverui.web.http.gate import HEADERS

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


class Prefix:
    """Middleware that serves the app below a path which the proxy keeps; other paths answer with
    its address.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request below the path; answer others with the app's address."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        if path == self._prefix or path.startswith(f"{self._prefix}/"):
            await self._app({**scope, "root_path": root + self._prefix}, receive, send)
            return
        home = f"{root}{self._prefix}/"
        response: Response = PlainTextResponse(f"This dashboard lives below {home}\n", 404, HEADERS)
        if path == "/" and scope["method"] in ("GET", "HEAD"):
            response = RedirectResponse(home, 302, HEADERS)
        await response(scope, receive, send)


class TrustedProxy:
    """Middleware that trusts X-Forwarded-For, -Host, -Prefix and -Proto. Only for servers that are
    reached through the proxy alone.

    Of several values the last one counts, as the nearest proxy wrote it. uvicorn's own middleware
    supports neither Host nor Prefix, and when it trusts every proxy takes the first address of
    X-Forwarded-For, which anyone can write.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the client, host, prefix and scheme that the proxy reports."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            proto = _last(headers, "x-forwarded-proto").lower()
            client = _last(headers, "x-forwarded-for")
            host = _last(headers, "x-forwarded-host")
            prefix = _last(headers, "x-forwarded-prefix").rstrip("/")
            scope = dict(scope)
            if proto in ("http", "https"):
                scope["scheme"] = proto
            if client:
                scope["client"] = (client[:64], 0)
            if _HOST.fullmatch(host):
                changed = MutableHeaders(raw=list(scope["headers"]))
                changed["host"] = host
                scope["headers"] = changed.raw
            if _PREFIX.fullmatch(prefix) and not {".", ".."} & set(prefix.split("/")):
                # Links include the path that the proxy stripped.
                scope["root_path"] = prefix + scope.get("root_path", "")
                scope["path"] = prefix + scope["path"]
        await self._app(scope, receive, send)


def _last(headers: Headers, name: str) -> str:
    values = headers.getlist(name)
    return values[-1].rpartition(",")[2].strip() if values else ""
