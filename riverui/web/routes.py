"""One entry of the route table: an address, the right that it needs, and its handler."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from riverui.errors import SignInNeeded
from riverui.web.access import PUBLIC, RIGHTS, SIGNED_IN, need
from riverui.web.dashboard import VISIT

Handler = Callable[[Request], Awaitable[Response]]


class Entry(Route):
    """A route that lets through only those who hold its right."""

    def __init__(self, method: str, path: str, name: str, right: str, handler: Handler) -> None:
        if right not in RIGHTS and right not in (SIGNED_IN, PUBLIC):
            raise ValueError(f"route {name} names no right: {right!r}")
        super().__init__(path, handler, methods=[method], name=name)
        # Starlette's pattern stops at a newline, and a queue's name may hold one.
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
        self.right = right

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks method and right, then answers."""
        assert self.methods is not None
        scope[VISIT].route = self.name
        if self.right != PUBLIC and scope[VISIT].access is None:
            raise SignInNeeded
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.methods))})
        need(Request(scope), self.right)
        await self.app(scope, receive, send)
