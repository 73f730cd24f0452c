"""Runs the dashboard, an ASGI app, behind a view of Django's, whichever server Django has."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator
from typing import Any, Self

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from riverui.contrib.wsgi import AppThread
from riverui.errors import Forbidden
from riverui.web.auth.rights import Decision

ACCESS = "riverui.contrib.django.access"
"""The key of the environ under which the dashboard finds what the view has decided."""


def answer(
    thread: AppThread,
    request: HttpRequest,
    path: str,
    decision: Decision | Forbidden,
    *,
    whole: bool = False,
) -> Any:
    """Return the dashboard's answer to the request; `path` is what stands behind its mount.

    An answer that does not come in one piece is a stream, unless it is wanted as a whole.
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
    """An answer that has begun; closing it, read or not, cancels the dashboard's work."""

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
    """Pieces for servers of WSGI."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece = self.next()
        if piece is None:
            raise StopIteration
        return piece


class _AsyncPieces(_Stream):
    """Pieces for servers of ASGI."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await to_thread(self.next)
        if piece is None:
            raise StopAsyncIteration
        return piece


def _environ(request: HttpRequest, path: str, decision: Decision | Forbidden) -> dict[str, Any]:
    """Return the request as WSGI has it. Host and scheme are what Django has made of them: see
    ALLOWED_HOSTS, USE_X_FORWARDED_HOST and SECURE_PROXY_SSL_HEADER.
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
