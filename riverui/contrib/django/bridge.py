"""Runs the dashboard, an ASGI app, behind a view of Django's, whichever server Django has."""

from __future__ import annotations

from asyncio import wrap_future
from typing import Any, Self

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from riverui.contrib.wsgi import AppThread, Exchange, Pieces
from riverui.errors import Forbidden
from riverui.web.auth.rights import Decision

ACCESS = "riverui.contrib.django.access"
"""The key of the scope under which the dashboard finds what the view has decided."""


class Bridge(AppThread):
    """A process's dashboard in its thread, for Django's requests."""

    def answer(
        self,
        request: HttpRequest,
        path: str,
        decision: Decision | Forbidden,
        *,
        whole: bool = False,
    ) -> Any:
        """Return the dashboard's answer to the request; `path` is what stands behind its mount.

        A long answer is a stream, unless it is wanted as a whole.
        """
        exchange = Exchange(_scope(request, path, decision), request.read)
        status, headers, piece, more = self.begin(exchange)
        if more and whole:
            response = HttpResponse(b"".join(Pieces(self, exchange, piece)), status=status)
        elif more:
            pieces = _AsyncPieces if isinstance(request, ASGIRequest) else Pieces
            response = StreamingHttpResponse(pieces(self, exchange, piece), status=status)
        else:
            response = HttpResponse(piece, status=status)
        _set_headers(response, headers)
        return response


class _AsyncPieces:
    """Pieces for servers of ASGI."""

    def __init__(self, thread: AppThread, exchange: Exchange, first: bytes) -> None:
        self._thread = thread
        self._exchange = exchange
        self._first = first

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece, self._first = self._first, b""
        if piece := piece or await wrap_future(self._thread.submit(self._exchange.piece())):
            return piece
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop reading."""
        self._thread.submit(self._exchange.leave())


def _scope(request: HttpRequest, path: str, decision: Decision | Forbidden) -> dict[str, Any]:
    """Return the request as ASGI has it. The host is what Django has made of it: see
    ALLOWED_HOSTS and USE_X_FORWARDED_HOST; and so is the scheme.
    """
    meta = request.META
    headers = [
        (name[5:].replace("_", "-").lower(), value)
        for name, value in meta.items()
        if name.startswith("HTTP_") and name != "HTTP_HOST"
    ]
    headers += [
        (name.replace("_", "-").lower(), meta[name])
        for name in ("CONTENT_LENGTH", "CONTENT_TYPE")
        if meta.get(name)
    ]
    headers.append(("host", request.get_host()))
    mount = request.path[: len(request.path) - len(path)].rstrip("/")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": f"{mount}/{path}",
        "raw_path": request.path.encode(),
        "root_path": mount,
        "query_string": meta.get("QUERY_STRING", "").encode("latin-1", "replace"),
        "headers": [
            (name.encode("latin-1"), str(value).encode("latin-1", "replace"))
            for name, value in headers
        ],
        "client": (meta.get("REMOTE_ADDR") or "", 0),
        "server": (meta.get("SERVER_NAME", ""), int(meta.get("SERVER_PORT") or 0)),
        "state": {},
        ACCESS: decision,
    }


def _set_headers(response: HttpResponse, headers: list[tuple[bytes, bytes]]) -> None:
    if b"content-type" not in {name for name, _ in headers}:
        del response.headers["Content-Type"]
    for raw, value in headers:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        if name == "set-cookie":
            response.cookies.load(text)
        elif name in response.headers and name == "vary":
            response.headers[name] += f", {text}"
        else:
            response.headers[name] = text
