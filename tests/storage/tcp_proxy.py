"""A way to the test server over TCP, which can be shut, held up or made silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo


@asynccontextmanager
async def tcp_proxy(
    url: str,
    *,
    let_in: Callable[[], bool] = lambda: True,
    passing: asyncio.Event | None = None,
    begin: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[str]:
    """Yield the URL by which the server behind `url` is reached through the proxy.

    A new connection waits for `begin`, and is closed where `let_in` says no. While `passing` is not
    set, all that is sent is swallowed.
    """
    parts = conninfo_to_dict(url)
    host, port = str(parts.get("host") or "localhost"), int(parts.get("port") or 5432)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if passing is None or passing.is_set():
                writer.write(data)
        writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        if task := asyncio.current_task():
            served.add(task)
        try:
            if begin is not None:
                await begin()
            if let_in():
                there = await (
                    asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
                    if host.startswith("/")
                    else asyncio.open_connection(host, port)
                )
                writers.append(there[1])
                with suppress(OSError, asyncio.CancelledError):
                    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))
        finally:
            for each in writers:
                each.close()
                with suppress(OSError):
                    await each.wait_closed()

    served: set[asyncio.Task[Any]] = set()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    there = server.sockets[0].getsockname()[1]
    try:
        yield make_conninfo(url, host="127.0.0.1", port=there, sslmode="disable")
    finally:
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)
