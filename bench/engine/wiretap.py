"""Counts the statements that a program sends to Postgres, as a proxy of its connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from bench.engine.databases import with_parts


class Wiretap:
    """Passes everything on, and counts what was executed."""

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        """How often each was executed."""

    @property
    def total(self) -> int:
        """Statements executed since `clear`."""
        return self.statements.total()

    def clear(self) -> None:
        """Start anew."""
        self.statements.clear()

    async def listen(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """Read the client's messages (Postgres protocol 3) until it disconnects."""
        prepared: dict[bytes, str] = {}
        bound: dict[bytes, str] = {}
        # The first message has no type, only its length.
        message = await _body(client)
        server.write(len(message + bytes(4)).to_bytes(4) + message)
        while True:
            kind = await client.readexactly(1)
            message = await _body(client)
            server.write(kind + len(message + bytes(4)).to_bytes(4) + message)
            await server.drain()
            if kind == b"Q":
                self.statements[message.rstrip(b"\0").decode()] += 1
            elif kind == b"P":
                name, query, _ = message.split(b"\0", 2)
                prepared[name] = query.decode()
            elif kind == b"B":
                portal, name, _ = message.split(b"\0", 2)
                bound[portal] = prepared.get(name, "?")
            elif kind == b"E":
                self.statements[bound.get(message.split(b"\0", 1)[0], "?")] += 1


@contextlib.asynccontextmanager
async def wiretap(url: str) -> AsyncIterator[tuple[str, Wiretap]]:
    """Yield a URL that leads to the same database through the tap. It does not encrypt."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        host, port = connection.info.host, connection.info.port
    tap = Wiretap()
    pipes: set[asyncio.Task[None]] = set()

    async def connected(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        if host.startswith("/"):
            server, requests = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server, requests = await asyncio.open_connection(host, port)
        directions = (tap.listen(client, requests), _pass_on(server, answers))
        tasks = [asyncio.ensure_future(_until_gone(direction)) for direction in directions]
        pipes.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        requests.close()
        answers.close()

    with TemporaryDirectory(prefix="riverui-") as folder:
        listening = await asyncio.start_unix_server(connected, Path(folder) / f".s.PGSQL.{port}")
        try:
            yield with_parts(url, host=folder, port=str(port), sslmode="disable"), tap
        finally:
            listening.close()
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)


async def _body(client: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await client.readexactly(4))
    return await client.readexactly(length - 4)


async def _pass_on(server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    while part := await server.read(65536):
        answers.write(part)
        await answers.drain()


async def _until_gone(direction: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await direction
