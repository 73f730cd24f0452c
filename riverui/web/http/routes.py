"""One entry of the route table: an address, the right that it needs, and its handler."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from riverui.errors import NotFound, SignInNeeded
from riverui.web.auth.access import PUBLIC, RIGHTS, SIGNED_IN, need
from riverui.web.http.context import VISIT
from riverui.web.http.urls import PATH_SAFE, base_path, own_path

Handler = Callable[[Request], Awaitable[Response]]


async def lost(scope: Scope, receive: Receive, send: Send) -> None:
    """Where no route fits: the address without its last slash, where that is one; NotFound
    otherwise.
    """
    if scope["type"] != "http":
        await WebSocketClose()(scope, receive, send)
        return
    request = Request(scope)
    path = scope["path"].rstrip("/")
    if path != scope["path"] and request.method in ("GET", "HEAD"):
        shorter = {**scope, "path": path}
        if any(route.matches(shorter)[0] is Match.FULL for route in request.app.routes):
            query = scope.get("query_string", b"").decode("latin-1")
            where = base_path(request) + quote(own_path(shorter)[1], safe=PATH_SAFE)
            await RedirectResponse(f"{where}?{query}" if query else where, status_code=307)(
                scope, receive, send
            )
            return
    raise NotFound


def _allowed(scope: Scope) -> list[str]:
    """The methods that this address takes."""
    fits = [route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE]
    return sorted({method for route in fits for method in getattr(route, "methods", None) or ()})


class Entry(Route):
    """A route that lets through only those who hold its right."""

    def __init__(self, method: str, path: str, name: str, right: str, handler: Handler) -> None:
        if right not in RIGHTS and right not in (SIGNED_IN, PUBLIC):
            raise ValueError(f"route {name} names no right: {right!r}")
        super().__init__(path, handler, methods=[method], name=name)
        # Starlette's pattern stops at a newline, which a queue's name may hold, and takes an empty
        # path and numbers with more digits than Python reads.
        pattern = self.path_regex.pattern.removesuffix("$").replace(".*", ".+") + r"\Z"
        # A bigint may be negative: such an id is as good as any other that no job has.
        pattern = pattern.replace("[0-9]+", "-?[0-9]{1,19}")
        self.path_regex = re.compile(pattern, re.DOTALL)
        self.right = right

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks method and right, then answers."""
        assert self.methods is not None
        scope[VISIT].route = self.name
        if self.right != PUBLIC and scope[VISIT].access is None:
            raise SignInNeeded
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(_allowed(scope))})
        need(Request(scope), self.right)
        await self.app(scope, receive, send)
