"""A way to the test server over TCP, which can be shut, held up or made silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class TcpProxy:
    """A way to the server behind a URL.

    A new connection waits for `begin`, and is closed where `let_in` says no. While `passing` is not
    set, all that is sent is swallowed; while `answering` is not, what the server sends.
    """

    def __init__(
        self,
        url: str,
        *,
        let_in: Callable[[], bool] = lambda: True,
        passing: asyncio.Event | None = None,
        answering: asyncio.Event | None = None,
        begin: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        parts = conninfo_to_dict(url)
        self.passed = 0
        """Connections so far."""
        self._answering = answering or passing
        self._begin = begin
        self._let_in = let_in
        self._listening: asyncio.Server | None = None
        self._passing = passing
        self._port = 0
        self._server = str(parts.get("host") or "localhost"), int(parts.get("port") or 5432)
        self._url = url
        self._ways: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """Return where the proxy is, from the first `open` on."""
        return make_conninfo(self._url, host="127.0.0.1", port=self._port, sslmode="disable")

    async def open(self) -> None:
        """Let connections in; where it was shut, at the same port again."""
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """End every connection and take no more, like a server that is killed."""
        assert self._listening is not None
        self._listening.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        if task := asyncio.current_task():
            self._ways.add(task)
        self.passed += 1
        host, port = self._server
        try:
            if self._begin is not None:
                await self._begin()
            if self._let_in():
                there = await (
                    asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
                    if host.startswith("/")
                    else asyncio.open_connection(host, port)
                )
                writers.append(there[1])
                with suppress(OSError, asyncio.CancelledError):
                    await asyncio.gather(
                        self._copy(reader, there[1], self._passing),
                        self._copy(there[0], writer, self._answering),
                    )
        finally:
            for each in writers:
                each.close()
                with suppress(OSError):
                    await each.wait_closed()

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passing: asyncio.Event | None,
    ) -> None:
        while data := await reader.read(65536):
            if passing is None or passing.is_set():
                writer.write(data)
        writer.write_eof()


@asynccontextmanager
async def tcp_proxy(url: str, **how: Any) -> AsyncIterator[str]:
    """Yield the URL by which the server behind `url` is reached through a TcpProxy."""
    proxy = TcpProxy(url, **how)
    await proxy.open()
    try:
        yield proxy.url
    finally:
        await proxy.shut()
