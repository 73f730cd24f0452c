"""Runs the dashboard, an ASGI app, where the server speaks WSGI, as with Flask.

The app lives in an event loop in a thread of its own, one a process: its connections belong to that
loop. A request's own thread waits for what it answers.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

T = TypeVar("T")

_CHUNK = 64 * 1024
"""Bytes of a request's body that are read at once."""
_WAITING = 8
"""Pieces of an answer that wait for a slow reader, before the dashboard waits too."""

App = Callable[..., Any]
Begun = tuple[int, list[tuple[bytes, bytes]], bytes, bool]
"""Status, headers and first piece of an answer, and whether more comes."""


class Exchange:
    """One request on its way through the app. `begun` is for any thread, the rest for the loop."""

    def __init__(self, scope: dict[str, Any], read: Callable[[int], bytes]) -> None:
        self._scope = scope
        self._read = read
        self._gone = asyncio.Event()
        self._pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_WAITING)
        self._received = False
        self.begun: Future[Begun] = Future()

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


class AppThread:
    """An app in a thread of its own, one a process. Methods are for any thread."""

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

    def begin(self, exchange: Exchange) -> Begun:
        """Have the app answer, and return how its answer begins."""
        running = self.submit(exchange.run(self._app))
        try:
            return exchange.begun.result()
        except BaseException:
            running.cancel()
            raise

    def close(self, closing: Callable[[App], Coroutine[Any, Any, None]]) -> None:
        """End the app by what `closing` does, and the thread."""
        self.call(closing(self._app))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Pieces:
    """An answer as an iterator; closing it, read or not, tells the app that nobody reads on."""

    def __init__(self, thread: AppThread, exchange: Exchange, first: bytes) -> None:
        self._thread = thread
        self._exchange = exchange
        self._first = first

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        piece, self._first = self._first, b""
        if piece := piece or self._thread.call(self._exchange.piece()):
            return piece
        raise StopIteration

    def close(self) -> None:
        """Stop reading."""
        self._thread.submit(self._exchange.leave())


def wsgi(app: App) -> Mounted:
    """Return an ASGI app, such as the dashboard of `create_app`, as one of WSGI.

    It takes the path behind its mount, as `DispatcherMiddleware` of Werkzeug and others pass it on.
    """
    return Mounted(app)


class Mounted:
    """An ASGI app as a WSGI app, made by `wsgi`. It may be made before a server forks, not used."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._thread: AppThread | None = None
        self._making = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        with self._making:
            if self._thread is None or not self._thread.here:
                self._thread = AppThread(self._app)
            thread = self._thread
        exchange = Exchange(_scope(environ), _Body(environ).read)
        status, headers, first, more = thread.begin(exchange)
        start_response(
            f"{status} {HTTPStatus(status).phrase}",
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
        )
        return Pieces(thread, exchange, first) if more else [first]


class _Input(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Body:
    """A request's body, which ends where its length says: the connection itself may go on."""

    def __init__(self, environ: WSGIEnvironment) -> None:
        self._input: _Input = environ["wsgi.input"]
        length = environ.get("CONTENT_LENGTH", "")
        # Without a length there is an end only where the server has put one.
        self._left = int(length) if length.isdecimal() else 0
        self._endless = not length and bool(environ.get("wsgi.input_terminated"))

    def read(self, size: int) -> bytes:
        """Return so many bytes; fewer at the end."""
        parts: list[bytes] = []
        while size > 0 and (wanted := size if self._endless else min(size, self._left)):
            part = self._input.read(wanted)
            if not part:
                break
            parts.append(part)
            size -= len(part)
            self._left -= len(part)
        return b"".join(parts)


def _scope(environ: WSGIEnvironment) -> dict[str, Any]:
    """Return a request of WSGI as ASGI has it."""
    headers = [
        (name[5:].replace("_", "-").lower(), value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    ]
    headers += [
        (name.replace("_", "-").lower(), environ[name])
        for name in ("CONTENT_LENGTH", "CONTENT_TYPE")
        if environ.get(name)
    ]
    mount = _text(environ.get("SCRIPT_NAME", "")).rstrip("/")
    path = mount + _text(environ.get("PATH_INFO", ""))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": environ["REQUEST_METHOD"],
        "scheme": environ["wsgi.url_scheme"],
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": mount,
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": (environ.get("REMOTE_ADDR") or "", 0),
        "server": (environ["SERVER_NAME"], int(environ["SERVER_PORT"])),
        "state": {},
        "wsgi.environ": environ,
    }


def _text(told: str) -> str:
    """Return a path as it is meant: WSGI has its bytes as Latin-1."""
    return told.encode("latin-1").decode(errors="replace")
