"""One entry of the route table: an address, the right that it needs, and its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from riverui.errors import NotFound, SignInNeeded
from riverui.web.http.context import PUBLIC, SIGNED_IN, need
from riverui.web.http.request_context import CONTEXT, PATH_SAFE, RequestContext, base_path, own_path

Handler = Callable[[Request], Awaitable[Response]]


class GuardedRoute(Route):
    """A route that checks the right it needs.

    Paths name their parameters as Starlette's do, `{id}`; `{id:river_bigint}`, `{name:river_queue}`
    and `{path:river_rest}` are defined in request_context.py.
    """

    def __init__(self, method: str, path: str, name: str, right: str, handler: Handler) -> None:
        super().__init__(path, handler, methods=[method], name=name)
        self.method = method
        self.right = right
        # The gate handles a handler's exceptions; Starlette's own wrapper is not needed.
        self.app = _answering(handler)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as Starlette's Route does, but reject a trailing newline except in a name: the `$`
        of its pattern accepts one.
        """
        if scope["path"].endswith("\n") and not self.path_regex.fullmatch(own_path(scope)[1]):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check method and right, then answer. Raise SignInNeeded, HTTPException (405),
        or Forbidden.
        """
        assert self.methods is not None
        context: RequestContext = scope[CONTEXT]
        context.route = self.name
        if self.right != PUBLIC and context.access is None:
            raise SignInNeeded
        if scope["method"] not in self.methods:
            raise HTTPException(405, headers={"Allow": ", ".join(_allowed(scope))})
        need(Request(scope), self.right)
        await self.app(scope, receive, send)


def _answering(handler: Handler) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer = await handler(Request(scope, receive, send))
        await answer(scope, receive, send)

    return app


class RouteTable:
    """Finds a request's route among those that share the beginning of its path, instead of trying
    all, in the order of the table as Starlette's router does.
    """

    def __init__(self, routes: Sequence[GuardedRoute]) -> None:
        self._routes = routes
        self._exact: dict[tuple[str, str], GuardedRoute] = {}
        """The first route of each address without parameters, by method and path."""
        beginnings = [route.path.partition("{")[0] for route in routes]
        begun = [(route, text, _head(text)) for route, text in zip(routes, beginnings, strict=True)]
        self._near = {
            head: tuple(
                route
                for route, beginning, own in begun
                if own == head or f"{head}/".startswith(beginning)
            )
            for head in {own for _, _, own in begun}
        }
        for route in routes:
            for method in () if route.param_convertors else route.methods or ():
                asked = {"type": "http", "method": method, "path": route.path, "root_path": ""}
                found = self._search(asked, route.path)
                if found is not None and not found[0].param_convertors:
                    self._exact[method, route.path] = found[0]

    def near(self, path: str) -> tuple[GuardedRoute, ...]:
        """Return all routes that may match a path; none if its beginning does not identify them."""
        return self._near.get(_head(path), ())

    def find(self, scope: Scope, path: str) -> tuple[GuardedRoute, Scope] | None:
        """Return the first route that matches a request fully, and its additions to the scope; None
        if none does. `path` is that of the scope without its root path.
        """
        if (exact := self._exact.get((scope["method"], path))) is not None:
            given = dict(scope.get("path_params", {}))
            return exact, {"endpoint": exact.endpoint, "path_params": given, "route": exact}
        return self._search(scope, path)

    def _search(self, scope: Scope, path: str) -> tuple[GuardedRoute, Scope] | None:
        for route in self.near(path) or self._routes:
            # This excludes nearly all routes that do not match.
            if scope["method"] in (route.methods or ()) and route.path_regex.match(path):
                match, found = route.matches(scope)
                if match is Match.FULL:
                    return route, {**found, "route": route}
        return None


class GuardedRouter(Router):
    """Starlette's router with a RouteTable."""

    def __init__(self, routes: Sequence[GuardedRoute], **options: Any) -> None:
        super().__init__(routes, **options)
        self.table = RouteTable(routes)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the first route that matches fully; leave all else to Starlette."""
        if scope["type"] == "http":
            # The gate ensures that the path begins with the root path.
            found = self.table.find(scope, scope["path"][len(scope["root_path"]) :])
            if found is not None:
                route, added = found
                scope.update(added)
                await route.handle(scope, receive, send)
                return
        await super().app(scope, receive, send)


def _head(path: str) -> str:
    """Return the first two parts of a path, as `/api/jobs`."""
    return "/".join(path.split("/", 3)[:3])


def guarded(routes: Iterable[Route], rights: Collection[str]) -> tuple[GuardedRoute, ...]:
    """Return the routes. Raise ValueError for one without an access rule, or with a right that does
    not exist and so admits no one.
    """
    found = []
    for route in routes:
        if not isinstance(route, GuardedRoute):
            raise ValueError(f"route {route.name} is not a GuardedRoute")
        if route.right not in rights and route.right not in (SIGNED_IN, PUBLIC):
            raise ValueError(f"route {route.name} names no right: {route.right!r}")
        found.append(route)
    return tuple(found)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer if no route matches: redirect to the path without its last slash if that matches, else
    raise NotFound.
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
    """Return the methods that this path supports."""
    fits = [route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE]
    return sorted({method for route in fits for method in getattr(route, "methods", None) or ()})
