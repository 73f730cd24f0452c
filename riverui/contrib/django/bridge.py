"""Runs the dashboard, an ASGI app, behind a view of Django's, whichever server Django has.

The app lives in an event loop in a thread of its own, one a process: its connections belong to that
loop, while Django's loops come and go.
"""

from __future__ import annotations

import asyncio
import os
import threading
from asyncio import wrap_future
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from riverui.web.auth.rights import Decision

T = TypeVar("T")

ACCESS = "riverui.contrib.django.access"
"""The key of the scope under which the dashboard finds what the view has decided."""
_CHUNK = 64 * 1024
"""Bytes of a request's body that are read at once."""
_WAITING = 8
"""Pieces of an answer that wait for a slow reader, before the dashboard waits too."""

App = Callable[..., Any]


class Exchange:
    """One request on its way through the app. `__call__` is for the loop, the rest for any
    thread.
    """

    def __init__(self, scope: dict[str, Any], read: Callable[[int], bytes]) -> None:
        self._scope = scope
        self._read = read
        self._gone = asyncio.Event()
        self._pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_WAITING)
        self._received = False
        self.begun: Future[tuple[int, list[tuple[bytes, bytes]], bytes, bool]] = Future()
        """Status, headers and first piece of the answer, and whether more comes."""

    async def run(self, app: App) -> None:
        """Have the app answer."""
        started: dict[str, Any] = {}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
                return
            if self._gone.is_set():
                raise OSError("nobody reads this answer any more")
            piece, more = bytes(message.get("body", b"")), message.get("more_body", False)
            if not self.begun.done():
                if piece or not more:
                    headers = list(started.get("headers", ()))
                    self.begun.set_result((started["status"], headers, piece, more))
            else:
                if piece:
                    await self._put(piece)
                if not more:
                    await self._put(None)

        try:
            await app(self._scope, self._receive, send)
            if not self.begun.done():
                raise RuntimeError("the dashboard gave no answer")
        except BaseException as error:
            if not self.begun.done():
                self.begun.set_exception(error)
            else:
                await self._put(error)

    async def piece(self) -> bytes:
        """Return the next piece of the answer; empty at its end."""
        found = await self._pieces.get()
        if isinstance(found, BaseException):
            raise found
        return found or b""

    async def leave(self) -> None:
        """Tell the app that nobody reads on."""
        self._gone.set()

    async def _put(self, piece: bytes | BaseException | None) -> None:
        """Wait until there is room for a piece, or nobody reads on."""
        putting = asyncio.ensure_future(self._pieces.put(piece))
        leaving = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait([putting, leaving], return_when=asyncio.FIRST_COMPLETED)
        putting.cancel()
        leaving.cancel()

    async def _receive(self) -> dict[str, Any]:
        if not self._received:
            # Not in the loop: a slow sender would hold up everybody.
            body = await asyncio.to_thread(self._read, _CHUNK)
            self._received = len(body) < _CHUNK
            return {"type": "http.request", "body": body, "more_body": not self._received}
        await self._gone.wait()
        return {"type": "http.disconnect"}


class Bridge:
    """A process's dashboard in its thread. Methods are for any thread."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="riverui dashboard", daemon=True
        )
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether its thread runs in this process: none outlives a fork."""
        return self._pid == os.getpid()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have the thread do something."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the thread do something, and wait for it."""
        return self.submit(work).result()

    def answer(
        self, request: HttpRequest, path: str, decision: Decision, *, whole: bool = False
    ) -> Any:
        """Return the dashboard's answer to the request; `path` is what stands behind its mount.

        A long answer is a stream, unless it is wanted as a whole.
        """
        exchange = Exchange(_scope(request, path, decision), request.read)
        running = self.submit(exchange.run(self._app))
        try:
            status, headers, piece, more = exchange.begun.result()
        except BaseException:
            running.cancel()
            raise
        if more and whole:
            response = HttpResponse(b"".join(_Pieces(self, exchange, piece)), status=status)
        elif more:
            pieces = _AsyncPieces if isinstance(request, ASGIRequest) else _Pieces
            response = StreamingHttpResponse(pieces(self, exchange, piece), status=status)
        else:
            response = HttpResponse(piece, status=status)
        _set_headers(response, headers)
        return response

    def close(self, closing: Callable[[App], Coroutine[Any, Any, None]]) -> None:
        """End the app by what `closing` does, and the thread."""
        self.call(closing(self._app))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Pieces:
    """An answer as an iterator; closing it, read or not, tells the app that nobody reads on."""

    def __init__(self, bridge: Bridge, exchange: Exchange, first: bytes) -> None:
        self._bridge = bridge
        self._exchange = exchange
        self._first = first

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece, self._first = self._first, b""
        if piece := piece or self._bridge.call(self._exchange.piece()):
            return piece
        raise StopIteration

    def close(self) -> None:
        """Stop reading."""
        self._bridge.submit(self._exchange.leave())


class _AsyncPieces:
    """The same for servers of ASGI."""

    def __init__(self, bridge: Bridge, exchange: Exchange, first: bytes) -> None:
        self._bridge = bridge
        self._exchange = exchange
        self._first = first

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece, self._first = self._first, b""
        if piece := piece or await wrap_future(self._bridge.submit(self._exchange.piece())):
            return piece
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop reading."""
        self._bridge.submit(self._exchange.leave())


def _scope(request: HttpRequest, path: str, decision: Decision) -> dict[str, Any]:
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
