"""The checks that every request passes first: base path, security headers, authentication, the
cross-origin check of changes, and the deadline of an answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.errors import BadRequest, DatabaseUnavailable, Forbidden
from riverui.web.auth.rights import Authenticate, decide
from riverui.web.auth.tokens import is_token
from riverui.web.http import problems, refresh
from riverui.web.http.admission import Admission
from riverui.web.http.context import PUBLIC, AppOptions, Dashboard, Service
from riverui.web.http.refreshes import Refreshes
from riverui.web.http.request_context import (
    CONTEXT,
    PATH_SAFE,
    RequestContext,
    Urls,
    asks_by_itself,
    is_api,
    own_path,
)
from riverui.web.http.routes import GuardedRoute, RouteTable

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src"
        " 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}
"""Headers of every response, unless it sets them itself (hashed static files may be cached)."""

_SHOWN = 200
"""Characters of a header that a message repeats."""
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_NAMES = frozenset(name for name, _ in _RAW_HEADERS)
_REQUEST_ID = b"x-request-id"


ADMISSION = Service(make=lambda board: Admission(board.limits.admission))
REFRESHES = Service(
    make=lambda board: Refreshes(board.limits.refreshes, clock=board.clock), close=Refreshes.close
)


class Deadline:
    """Cancel the app inside, and answer in its place, if no response has begun by the deadline in
    the request's context.

    Each statement has a time limit of its own, but a page runs several. The answer is sent at once,
    while the cancelled code may take its time to end: psycopg first asks the server to cancel,
    which may hang.
    """

    def __init__(
        self,
        context: RequestContext,
        *,
        begun: Callable[[], bool],
        answer: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._answer = answer
        self._answering: asyncio.Task[None] | None = None
        self._begun = begun
        self._context = context

    @property
    def passed(self) -> bool:
        """Whether the deadline's own answer is being sent."""
        return self._answering is not None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._inside, self._before = task, task.cancelling()
        self._schedule()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._alarm.cancel()
        if self._answering is None:
            return False
        # As asyncio.timeout does: another cancellation may have come as well.
        ours = self._inside.uncancel() <= self._before
        if kind is asyncio.CancelledError and not ours:
            return False
        await self._answering
        return True

    def _schedule(self) -> None:
        rest = self._context.answer_by - time.monotonic()
        self._alarm = asyncio.get_running_loop().call_later(rest, self._look)

    def _look(self) -> None:
        if self._begun():
            return
        if self._context.answer_by > time.monotonic():
            # The handler has extended the deadline.
            self._schedule()
            return
        self._answering = asyncio.create_task(self._answer())
        self._inside.cancel()


class GateMiddleware:
    """The middleware in front of the routes: only public routes are reached without
    authentication.
    """

    def __init__(
        self,
        app: ASGIApp,
        board: Dashboard,
        routes: tuple[GuardedRoute, ...],
        *,
        authenticate: Authenticate,
        options: AppOptions,
    ) -> None:
        self._admission = board.get(ADMISSION)
        self._answer_seconds = max(
            board.limits.answer_seconds, 2 * board.config.page_timeout.total_seconds()
        )
        self._app = app
        self._authenticate = authenticate
        self._config = board.config
        self._first_request = options.first_request
        self._hosts = options.hosts
        self._metrics = board.metrics
        self._refreshes = board.get(REFRESHES)
        self._standalone = options.standalone
        self._urls = Urls(routes)
        self._table = RouteTable(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._first_request is not None:
            self._first_request()
            self._first_request = None
        root, path = own_path(scope)
        context = scope.get(CONTEXT) or RequestContext(id=secrets.token_hex(6))
        context.access, context.route = None, ""
        context.base, context.urls = quote(root, safe=PATH_SAFE) if root else "", self._urls
        # From here on `path` begins with `root_path`, as Starlette's router expects, whatever the
        # host app set.
        scope = {**scope, CONTEXT: context, "path": root + path, "root_path": root}
        route, app = None, self._app
        if found := self._table.find(scope, path):
            route, added = found
            scope.update(added)
            app = route.handle
        request = Request(scope, receive, send)
        cors = self._cors_headers(request, path)
        status, began, place = 0, time.monotonic(), None

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if place is not None:
                    # From here on, streaming costs little and takes as long as the client reads.
                    place.leave()
                if status < 400 and request.method not in SAFE_METHODS:
                    self._refreshes.expire()
                message["headers"] = self._headers(message.get("headers", ()), context.id, cors)
            await send(message)

        async def send_in_time(message: Message) -> None:
            if deadline.passed:
                raise ClientDisconnect
            await send_with_headers(message)

        async def answer_late() -> None:
            late = DatabaseUnavailable("The database did not answer in time.")
            answer = await problems.answer(request, late)
            await answer(scope, receive, send_with_headers)

        deadline = Deadline(context, begun=lambda: bool(status), answer=answer_late)
        try:
            preflight = bool(cors) and request.method == "OPTIONS"
            answer = await self._instead(request, scope, route, preflight=preflight)
            if answer is None and context.access is not None and request.method in SAFE_METHODS:
                context.answer_by = began + self._answer_seconds
                async with deadline:
                    if asks_by_itself(scope):
                        answer = await refresh.answer(
                            request, self._app, self._refreshes, self._admission
                        )
                    if answer is None:
                        place = await self._admission.enter()
                    await (answer or app)(scope, receive, send_in_time)
            else:
                # Changes are rare, have their own limits, and their bodies may arrive slowly.
                await (answer or app)(scope, receive, send_with_headers)
        except Exception as error:
            if status:
                raise
            answer = await problems.answer(request, error)
            await answer(scope, receive, send_with_headers)
        finally:
            if place is not None:
                place.leave()
            self._metrics.answered(request.method, context.route, status, time.monotonic() - began)

    async def _instead(
        self, request: Request, scope: Scope, route: GuardedRoute | None, *, preflight: bool
    ) -> ASGIApp | None:
        """Return an answer in place of the route's own, or None when the request may go on."""
        check_address(scope)
        if preflight:
            return Response(status_code=204)
        if route is not None and route.right == PUBLIC:
            return None
        check_host(request, self._hosts, standalone=self._standalone)
        changes = request.method not in SAFE_METHODS
        token = changes and is_token(request)
        if changes and not token:
            self._check_origin(request)
        decision = await decide(self._authenticate, request, read_only=self._config.read_only)
        if isinstance(decision, Response):
            return problems.elsewhere(request, decision)
        if changes and token and not decision.token:
            # No tokens are configured, so the request was let in for another reason.
            self._check_origin(request)
        scope[CONTEXT].access = decision
        return None

    def _check_origin(self, request: Request) -> None:
        check_origin(request, self._config.cors_origins, standalone=self._standalone)

    def _headers(
        self, given: Iterable[tuple[bytes, bytes]], id: str, cors: Mapping[str, str]
    ) -> list[tuple[bytes, bytes]]:
        """Return a response's headers with those that every response has."""
        raw = list(given)
        present = {name for name, _ in raw}
        if present.isdisjoint(_NAMES):
            raw += _RAW_HEADERS
        else:
            raw += [pair for pair in _RAW_HEADERS if pair[0] not in present]
        if _REQUEST_ID in present:
            raw = [pair for pair in raw if pair[0] != _REQUEST_ID]
        raw.append((_REQUEST_ID, id.encode("latin-1")))
        if cors:
            headers = MutableHeaders(raw=raw)
            headers.update(cors)
            headers.append("Vary", "Origin")
        return raw

    def _cors_headers(self, request: HTTPConnection, path: str) -> dict[str, str]:
        """Return the headers that let the configured origins read the API (and nothing else)."""
        origins = self._config.cors_origins
        if not origins or not path.startswith("/api/"):
            return {}
        origin = request.headers.get("origin")
        if origin is None or origin not in origins:
            return {}
        return {
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Max-Age": "600",
        }


def check_address(scope: Scope) -> None:
    """Raise BadRequest for an address with text that Postgres cannot store. Some servers decode
    bytes that are not UTF-8 to halves of surrogate pairs, which no answer can repeat either.
    """
    if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
        raise BadRequest("The address holds a NUL character, which Postgres cannot store.")
    try:
        scope["path"].encode()
    except UnicodeEncodeError:
        raise BadRequest("The address is not valid UTF-8.") from None


def check_host(request: HTTPConnection, hosts: frozenset[str] | None, *, standalone: bool) -> None:
    """Raise Forbidden if the request's host name is not allowed (DNS rebinding); None
    allows any name.
    """
    if hosts is None:
        return
    try:
        name = urlsplit("//" + request.headers.get("host", "")).hostname
    except ValueError:
        name = None
    if name not in hosts:
        raise Forbidden(
            "Without authentication this dashboard answers only to its own host name: set up"
            " authentication, or start it with --no-auth."
            if standalone
            else "This dashboard answers only to the host names that create_app was given (hosts)."
        )


def check_origin(request: HTTPConnection, origins: tuple[str, ...], *, standalone: bool) -> None:
    """Raise Forbidden for a change that a page of another origin sent. `standalone` is for `riverui
    serve`, which has a setting to trust a proxy; a host app's server has its own settings.

    Browsers send Sec-Fetch-Site, older ones (and those on plain http) Origin. A request with
    neither does not come from a browser, so it carries no one's cookies or remembered password.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin in origins and is_api(request):
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise Forbidden(
                "This change was requested by a page of another site, so it was not made."
            )
        return
    if origin is not None and not same_origin(origin, request.url.scheme, request.headers):
        asked, shown = (text[:_SHOWN] for text in (request.headers.get("host", ""), origin))
        other_way = (
            ", or have it send X-Forwarded-Host and start riverui with --trust-proxy"
            " (RIVERUI_TRUST_PROXY=1)"
            if standalone
            else ""
        )
        raise Forbidden(
            f"This change was requested by a page of another origin ({shown}) while this server was"
            f" addressed as {asked or 'no host'}, so it was not made. If the two are the same to"
            f" you, a proxy in between rewrites the Host header: have it pass Host on{other_way}."
        )


def same_origin(origin: str, scheme: str, headers: Headers) -> bool:
    """Return whether an Origin header names the requested host.

    Behind a proxy that ends TLS this process sees http where the browser saw https: that is
    accepted, the reverse is not. A missing port is the default port of the origin's scheme.
    """
    try:
        theirs, ours = urlsplit(origin), urlsplit("//" + headers.get("host", ""))
        default = {"http": 80, "https": 443}[theirs.scheme]
        if scheme == "https" and theirs.scheme != "https":
            return False
        return (theirs.hostname, theirs.port or default) == (ours.hostname, ours.port or default)
    except (KeyError, ValueError):
        return False
