"""The API of a dashboard in this process, which does not listen on a port."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.types import Message

from riverui.actions.new_jobs import LateInserter
from riverui.actions.pilot import LatePilot
from riverui.cli.api.client import Answer
from riverui.cli.serve.dashboard import inserter, plain_pilot
from riverui.storage.connect import connect
from riverui.web.app import build_app
from riverui.web.auth.rights import Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions

T = TypeVar("T")

_CONNECTIONS = 3
"""Connections to the database: one for a request, an operation and reading figures each."""


class LocalApi:
    """A dashboard that answers only requests from this process.

    Commands get the same answers, from the same code, as from a running dashboard.
    """

    def __init__(self, url: str | None, *, schema: str | None, user: str) -> None:
        """Connect; raise DatabaseError if the database does not answer."""
        # Rejected requests are reported by the response: log only riverui's own errors.
        self._log = logging.getLogger("riverui")
        self._level = self._log.level
        self._log.setLevel(logging.ERROR)
        self._driver = connect(url, schema=schema, max_size=_CONNECTIONS)
        self._app = build_app(
            self._driver,
            SignIn(authenticate=lambda connection: Access(user=user)),
            DashboardConfig(),
            pilot=LatePilot(plain_pilot),
            options=AppOptions(inserter=LateInserter(lambda: inserter(self._driver))),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api", daemon=True)
        self._thread.start()
        try:
            self._wait(self._driver.ping())
        except BaseException:
            self.close()
            raise

    def send(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return the dashboard's response."""
        return self._wait(self._send(method, path, body or b""))

    def read_figures(self, seconds: float) -> None:
        """Read the figures of the last hour, for at most `seconds`."""
        self._wait(self._read_figures(time.monotonic() + seconds))

    async def _read_figures(self, until: float) -> None:
        collector = self._app.state.dashboard.figures.collector
        while time.monotonic() < until and not collector.complete:
            await collector.tick()
            while time.monotonic() < until and await collector.fill():
                pass

    def close(self) -> None:
        """Stop the dashboard and close its connections."""
        if self._loop.is_closed():
            return
        self._wait(self._end())
        self._log.setLevel(self._level)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._app.state.dashboard.close()
        await self._driver.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except (KeyboardInterrupt, CancelledError):
            future.cancel()
            raise

    async def _send(self, method: str, path: str, body: bytes) -> Answer:
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())],
            "client": ("127.0.0.1", 0),
            "server": ("localhost", 80),
        }
        posted, answered = [body], asyncio.Event()
        status, headers, parts = 0, {}, []

        async def receive() -> Message:
            if posted:
                return {"type": "http.request", "body": posted.pop(), "more_body": False}
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {
                    name.decode("latin-1"): value.decode("latin-1")
                    for name, value in message.get("headers", ())
                }
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        answered.set()
        return Answer(status=status, body=b"".join(parts), headers=headers)
