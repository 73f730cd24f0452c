"""The dashboard as Django views, on WSGI and ASGI servers."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, logout
from django.core import mail
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseForbidden,
    HttpResponseNotAllowed,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.http import urlencode
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse

import riverui
from riverui.contrib.django.config import river_settings
from riverui.contrib.wsgi import AppThread, PerProcess
from riverui.engine.client import Client
from riverui.errors import ConfigError, Forbidden
from riverui.web.auth.rights import Access, Decision
from riverui.web.http.gate import same_origin

_DJANGO_LOGIN = "/accounts/login/"
"""LOGIN_URL where the project sets none."""


def dashboard(request: HttpRequest, path: str = "") -> Any:
    """Return the dashboard's page at this path, if DASHBOARD_ACCESS allows it, or the message of
    the Forbidden that it raises.

    Users who are not signed in are redirected to LOGIN_URL and back.
    """
    # Styles and scripts are public: do not read a session for them.
    decision = None if path.startswith("static/") else _decision(request, path)
    if isinstance(decision, HttpResponseBase):
        return decision
    if hasattr(mail, "outbox"):
        # In tests, which drop the database when they end.
        return _answer_once(request, path, decision)
    return answer(_process.thread(), request, path, decision)


def sign_out(request: HttpRequest) -> HttpResponse:
    """End the user's session, and go to LOGOUT_REDIRECT_URL or to the sign-in page."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    if not _from_own_page(request):
        return HttpResponseForbidden("A page of another site asked for this, so it was not done.")
    logout(request)
    after = settings.LOGOUT_REDIRECT_URL
    return HttpResponseRedirect(resolve_url(after) if after else _login_url())


def _decision(request: HttpRequest, path: str) -> Any:
    try:
        found = river_settings().access()(request)
    except Forbidden as refused:
        return refused
    if isinstance(found, Access):
        return _with_sign_out(found)
    if found is not None:
        # A Django response; the gate rejects anything else.
        return found
    if request.user.is_authenticated or path.startswith("api/"):
        return None
    back = request.get_full_path() if request.method == "GET" else reverse("riverui:dashboard")
    query = urlencode({REDIRECT_FIELD_NAME: back})
    return RedirectResponse(f"{_login_url()}?{query}", 302)


def _login_url() -> str:
    """Return LOGIN_URL, or the admin's sign-in page if Django's default does not exist."""
    url: str = resolve_url(settings.LOGIN_URL)
    if url == _DJANGO_LOGIN:
        try:
            resolve(url)
        except Resolver404:
            with suppress(NoReverseMatch):
                url = reverse("admin:login")
    return url


def _with_sign_out(access: Access) -> Access:
    return access if access.sign_out else replace(access, sign_out=reverse("riverui:sign_out"))


def _from_own_page(request: HttpRequest) -> bool:
    """Return whether the form is from this site; see the gate's `check_origin`."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    headers = Headers({"host": request.get_host()})
    return origin is None or same_origin(origin, request.scheme, headers)


def _app() -> Any:
    found = river_settings()
    connection = connections[found.database]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        raise ConfigError(
            f"The dashboard cannot read a database in memory: give {found.database!r} a file, in"
            ' tests as "TEST": {"NAME": …}.'
        )
    return riverui.create_app(
        Client(found.url, found.client_config()),
        authenticate=_decided,
        config=found.dashboard_config(),
        api_tokens=found.api_tokens,
    )


def _decided(connection: HTTPConnection) -> Decision:
    decision: Decision | Forbidden = connection.scope["wsgi_environ"][ACCESS]
    if isinstance(decision, Forbidden):
        raise decision
    return decision


def _answer_once(request: HttpRequest, path: str, decision: Decision | Forbidden) -> Any:
    """Return the response of a dashboard that is closed before this returns."""
    thread = AppThread(_app())
    try:
        return answer(thread, request, path, decision, whole=True)
    finally:
        thread.close(_close)


async def _close(app: Any) -> None:
    board = app.state.dashboard
    await board.close()
    await board.driver.close()


_process = PerProcess(_app)

ACCESS = "riverui.contrib.django.access"
"""The key of the environ with the view's decision for the dashboard."""


def answer(
    thread: AppThread,
    request: HttpRequest,
    path: str,
    decision: Decision | Forbidden,
    *,
    whole: bool = False,
) -> Any:
    """Return the dashboard's response to the request; `path` is relative to its mount.

    A response in several pieces is streamed, unless `whole`.
    """
    begun: list[Any] = []
    pieces = thread.answer(
        _environ(request, path, decision),
        lambda status, headers, *_: begun.extend((status, headers)),  # type: ignore[arg-type]
    )
    first = next(pieces)
    status, headers = int(begun[0][:3]), begun[1]
    if whole or status in (204, 304) or ("content-length", str(len(first))) in headers:
        response = HttpResponse(b"".join((first, *pieces)), status=status)
    else:
        kind = _AsyncPieces if isinstance(request, ASGIRequest) else _Pieces
        response = StreamingHttpResponse(kind(first, pieces), status=status)
    _set_headers(response, headers)
    return response


class _Stream:
    """A response that has begun; closing it cancels the dashboard's work."""

    def __init__(self, first: bytes, pieces: Iterator[bytes]) -> None:
        self._first: bytes | None = first
        self._pieces = pieces

    def next(self) -> bytes | None:
        """Return the next piece; None at the end."""
        piece, self._first = self._first, None
        return next(self._pieces, None) if piece is None else piece

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()  # type: ignore[attr-defined]  # it is a generator


class _Pieces(_Stream):
    """Pieces for WSGI servers."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece = self.next()
        if piece is None:
            raise StopIteration
        return piece


class _AsyncPieces(_Stream):
    """Pieces for ASGI servers."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await to_thread(self.next)
        if piece is None:
            raise StopAsyncIteration
        return piece


def _environ(request: HttpRequest, path: str, decision: Decision | Forbidden) -> dict[str, Any]:
    """Return the request's WSGI environ. Host and scheme are Django's: see ALLOWED_HOSTS,
    USE_X_FORWARDED_HOST and SECURE_PROXY_SSL_HEADER.
    """
    mount = request.path[: len(request.path) - len(path)].rstrip("/")
    return {
        "SERVER_NAME": "",
        **request.META,
        "SERVER_PORT": request.META.get("SERVER_PORT") or 0,
        "HTTP_HOST": request.get_host(),
        "SCRIPT_NAME": mount.encode().decode("latin-1"),
        "PATH_INFO": f"/{path}".encode().decode("latin-1"),
        "wsgi.input": request,
        "wsgi.url_scheme": request.scheme,
        ACCESS: decision,
    }


def _set_headers(response: HttpResponse, headers: list[tuple[str, str]]) -> None:
    if "content-type" not in {name for name, _ in headers}:
        del response.headers["Content-Type"]
    for name, text in headers:
        if name == "set-cookie":
            response.cookies.load(text)
        elif name in response.headers and name == "vary":
            response.headers[name] += f", {text}"
        else:
            response.headers[name] = text
