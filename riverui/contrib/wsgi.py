"""Run the dashboard, an ASGI app, as a WSGI app, with a2wsgi.

This adds what a2wsgi does not do: one event loop for each process, which the first request starts,
as connections belong to a loop and threads do not survive a fork (`gunicorn --preload`); cancelling
the app when the client disconnects, as it would wait forever with its database connection; and
requests on which a2wsgi fails or that it reads forever.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from string import printable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from a2wsgi import ASGIMiddleware

if TYPE_CHECKING:
    from wsgiref.types import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

App = Callable[..., Any]
"""An ASGI app."""
Environ = dict[str, Any]
_TASK = "riverui.contrib.wsgi.task"
"""The key of the environ with the app's task."""


def wsgi(app: App) -> WSGIApplication:
    """Return an ASGI app, such as the dashboard of `create_app`, as a WSGI app.

    It takes the path below its mount, as Werkzeug's `DispatcherMiddleware` and others pass it. It
    may be created before a server forks.
    """
    process = PerProcess(lambda: app)

    def mounted(environ: WSGIEnvironment, start_response: StartResponse) -> Iterator[bytes]:
        return process.thread().answer(environ, start_response)

    return mounted


class AppThread:
    """An app and its event loop in a thread of their own; methods are thread-safe."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._middleware = ASGIMiddleware(self._run, loop=self._loop)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="riverui dashboard", daemon=True
        )
        self._thread.start()

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        """Yield the response piece by piece; closing the iterator cancels the app."""
        if "HTTP_TRANSFER_ENCODING" in environ and not environ.get("CONTENT_LENGTH"):
            # WSGI does not define the end of such a body.
            start_response("411 Length Required", [("Content-Type", "text/plain")])
            yield b"A request with a body needs a Content-Length."
            return
        environ = _readable(environ)
        try:
            yield from self._middleware(environ, start_response)  # type: ignore[arg-type]
        finally:
            task: asyncio.Task[None] | None = environ.get(_TASK)
            if task is not None:
                self._loop.call_soon_threadsafe(task.cancel)

    def close(self, closing: Callable[[App], Coroutine[Any, Any, None]]) -> None:
        """Run `closing` on the app, and end the thread."""
        asyncio.run_coroutine_threadsafe(closing(self._app), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        scope["wsgi_environ"][_TASK] = asyncio.current_task()
        await self._app(scope, receive, send)


class PerProcess:
    """An AppThread for each process, created at its first use."""

    def __init__(self, make: Callable[[], App]) -> None:
        self._make = make
        self._made: tuple[int, AppThread] | None = None
        self._lock = threading.Lock()

    def thread(self) -> AppThread:
        """Return the thread of this process."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = os.getpid(), AppThread(self._make())
            return self._made[1]


class _Body:
    """A request body that raises if it ends too early: a2wsgi would read forever."""

    def __init__(self, stream: InputStream) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Return up to so many bytes."""
        data = self._stream.read(size)
        if not data:
            raise OSError("the client hung up before the end of its request")
        return data


def _readable(environ: Environ) -> Environ:
    """Return a request that a2wsgi can read: without empty headers (uWSGI), with the query in ASCII
    and the path in UTF-8.
    """
    headers = ("CONTENT_LENGTH", "CONTENT_TYPE")
    found = {name: value for name, value in environ.items() if value or name not in headers}
    query = found.get("QUERY_STRING", "")
    found["QUERY_STRING"] = quote(query, safe=printable, encoding="latin-1", errors="replace")
    for name in ("SCRIPT_NAME", "PATH_INFO"):
        path = found.get(name, "").encode("latin-1").decode(errors="replace")
        found[name] = path.encode().decode("latin-1")
    found["wsgi.input"] = _Body(found["wsgi.input"])
    return found
