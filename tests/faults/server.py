"""A Postgres to be mistreated: it can be stopped, crashed and started again under the same
address.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.parse import quote

import psycopg

from riverui.demo.postgres import EmbeddedPostgres
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate

CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where pid <> pg_backend_pid() and datname = 'faults'"
)
"""Cuts every other connection."""


class Server:
    """A running server with River's tables in database `faults`."""

    def __init__(self, home: Path, binaries: Path | None) -> None:
        self._home = home
        self._binaries = binaries
        self._postgres = self._make()

    @classmethod
    @contextmanager
    def started(cls, binaries: Path | None) -> Iterator[Self]:
        """Yield a new server, gone afterwards."""
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        with TemporaryDirectory(prefix="riverui-faults-", dir=place) as folder:
            server = cls(Path(folder), binaries)
            server.start()
            try:
                server._create()
                yield server
            finally:
                server.stop()

    @property
    def socket(self) -> Path:
        """The socket's folder, the same after each start."""
        return self._home / "socket"

    @property
    def url(self) -> str:
        """The database's address."""
        return self._url("faults")

    @property
    def admin_url(self) -> str:
        """The address of a database next to it."""
        return self._url("postgres")

    def start(self) -> None:
        """Start it; return when it takes connections."""
        self._postgres = self._make()
        self._postgres.__enter__()

    def stop(self) -> None:
        """End every connection and stop, as an administrator does (`pg_ctl stop -m fast`)."""
        self._postgres.__exit__(None, None, None)

    def crash(self) -> None:
        """End without a farewell and without a checkpoint (`pg_ctl stop -m immediate`)."""
        note, pid = self._postmaster()
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + 30
        while note.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.stop()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server and all its processes stand still inside; what it is sent meanwhile it
        does afterwards.
        """
        _, pid = self._postmaster()
        # The postmaster first, so that it makes no more processes.
        os.kill(pid, signal.SIGSTOP)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pids = [pid, *map(int, children)]
        try:
            for child in pids[1:]:
                os.kill(child, signal.SIGSTOP)
            yield
        finally:
            for each in pids:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def log_tells(self, words: str) -> bool:
        """Return whether the server's log, since its start, has these words."""
        return words in (self._home / "postgres.log").read_text(errors="replace")

    def _postmaster(self) -> tuple[Path, int]:
        """Return the file that a running server keeps, and the number of its first process."""
        (note,) = self._home.glob("pg*/postmaster.pid")
        return note, int(note.read_text().split("\n", 1)[0])

    def _make(self) -> EmbeddedPostgres:
        return EmbeddedPostgres(self._home, durable=False, binaries=self._binaries)

    def _url(self, database: str) -> str:
        return f"postgresql://riverui@/{database}?host={quote(str(self.socket), safe='')}&port=5432"

    def _create(self) -> None:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute("create database faults")
            # What was committed must outlive a crash of the server; one of the machine is not at
            # issue here.
            connection.execute("alter database faults set synchronous_commit = on")

        async def fill() -> None:
            driver = connect(self.url)
            await migrate(driver, "up")
            await driver.close()

        asyncio.run(fill())


class Proxy:
    """Passes TCP connections on to the server's socket, until it is told to leave some in
    silence.
    """

    def __init__(self, socket: Path, database: str) -> None:
        self._path = socket / ".s.PGSQL.5432"
        self._database = database
        self._listening: set[int] = set()
        self._number = count()
        self._open: set[int] = set()
        self._silent: set[int] = set()
        self.listens = 0
        """How many connections have said LISTEN so far."""
        self.port = 0

    @property
    def url(self) -> str:
        """The database's address by way of this proxy."""
        return f"postgresql://riverui@127.0.0.1:{self.port}/{self._database}?sslmode=disable"

    def silence_listeners(self) -> None:
        """Let nothing pass any more on the connections that listen, and tell nobody."""
        self._silent |= self._listening

    def silence_all(self) -> None:
        """Let nothing pass any more on the connections that there are; new ones work."""
        self._silent |= self._open

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        number = next(self._number)
        self._open.add(number)
        behind_reader, behind_writer = await asyncio.open_unix_connection(str(self._path))
        try:
            await asyncio.gather(
                self._pass(number, reader, behind_writer, asking=True),
                self._pass(number, behind_reader, writer, asking=False),
            )
        finally:
            self._open.discard(number)
            writer.close()
            behind_writer.close()

    async def _pass(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        asking: bool,
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(1 << 16):
                if asking and b"listen " in chunk.lower() and number not in self._listening:
                    self._listening.add(number)
                    self.listens += 1
                if number not in self._silent:
                    writer.write(chunk)
                    await writer.drain()
            writer.close()


@asynccontextmanager
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    """Yield a proxy before the server, until the end of the block."""
    made = Proxy(server.socket, "faults")
    serving: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.accept(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listening.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
