"""Receives River's notifications on its own connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import psycopg
from psycopg import AsyncRawCursor, sql
from psycopg.pq import PGnotify
from psycopg.rows import tuple_row

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.conninfo import Connection
from riverui.storage.postgres.errors import translate
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.sessions import ClientTimeout

MAX_KEPT = 10_000
"""Notifications kept for a slow reader, some megabytes; the oldest are dropped first."""


class PostgresListener:
    """Receives `<schema>.<topic>` channels by LISTEN, which needs its own server process."""

    def __init__(
        self,
        connection: Connection,
        schema: str | None,
        limits: PostgresLimits = LIMITS,
        *,
        whole_names: bool = False,
    ) -> None:
        """Make a listener; with `whole_names` topics are full channel names with the schema."""
        self._connection = connection
        self._schema = schema
        self._limits = limits
        self._closing = False
        self._heard: deque[tuple[str, str]] = deque(maxlen=MAX_KEPT)
        self._listening: set[str] = set()
        self._lost: psycopg.Error | None = None
        self._handling = False
        self._prefix: str | None = "" if whole_names else None
        """Prefix of each topic in the names of channels."""
        self._asking = asyncio.Lock()
        self._wake = asyncio.Event()
        self._watched: int | None = None

    async def listen(self, *topics: str) -> None:
        """Return once the server sends new notifications; DatabaseUnavailable when the
        connection is lost.
        """
        try:
            async with self._asking:
                if self._closing:
                    return
                if not self._handling:
                    self._connection.add_notify_handler(self._keep)
                    self._handling = True
                if self._prefix is None:
                    self._prefix = f"{await self._current_schema()}."
                for topic in topics:
                    if topic not in self._listening:
                        channel = sql.Identifier(self._prefix + topic).as_string(self._connection)
                        await self._ask(f"listen {channel}")
                        self._listening.add(topic)
            # A running reader has to watch the socket again.
            self._wake.set()
        except psycopg.Error as error:
            if not self._closing:
                raise self._failure(error) from error

    async def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield topic and payload until closed; DatabaseUnavailable when the connection is lost.

        Listens to the topics first, unless `listen` has done so.
        """
        await self.listen(*topics)
        loop = asyncio.get_running_loop()
        try:
            while not self._closing:
                self._watch(loop)
                while self._heard:
                    yield self._heard.popleft()
                if self._closing:
                    return
                if self._lost is not None:
                    raise self._lost
                if self._connection.closed:
                    raise psycopg.OperationalError
                self._wake.clear()
                if self._heard:
                    continue
                try:
                    async with asyncio.timeout(self._limits.listener_ping_seconds):
                        await self._wake.wait()
                except TimeoutError:
                    async with self._asking:
                        await self._ask("select 1")
        except psycopg.Error as error:
            if not self._closing:
                raise self._failure(error) from error
        finally:
            self._unwatch(loop)

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._closing = True
        self._wake.set()
        if not self._connection.closed:
            self._unwatch(asyncio.get_running_loop())
            # Wake a waiting `notifications`.
            await asyncio.sleep(0)
            await self._connection.close()

    async def current_schema(self) -> str:
        """Return the schema of the channels; DatabaseUnavailable when the connection is lost."""
        try:
            async with self._asking:
                found = await self._current_schema()
        except psycopg.Error as error:
            raise self._failure(error) from error
        self._wake.set()
        return found

    async def _current_schema(self) -> str:
        if self._schema is not None:
            return self._schema
        rows = await self._ask("select coalesce(current_schema(), '')")
        return str(rows[0][0])

    async def _ask(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement that has to be answered soon; return its rows."""
        # psycopg waits for the socket itself meanwhile, and hands notifications to `_keep`.
        self._unwatch(asyncio.get_running_loop())
        cursor = AsyncRawCursor(self._connection, row_factory=tuple_row)
        async with ClientTimeout(self._connection, 0, grace=self._limits.listener_answer_seconds):
            await cursor.execute(statement.encode(), prepare=False)
        return await cursor.fetchall() if cursor.description else []

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read notifications as they arrive, without a task that waits for each."""
        if self._lost is None and not self._connection.closed and not self._asking.locked():
            self._read()
            self._watched = self._connection.fileno()
            loop.add_reader(self._watched, self._read)

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        # By its number, which a lost connection no longer has.
        if self._watched is not None:
            loop.remove_reader(self._watched)
            self._watched = None

    def _read(self) -> None:
        pgconn = self._connection.pgconn
        try:
            pgconn.consume_input()
            while (notify := pgconn.notifies()) is not None:
                self._hear(notify)
        except psycopg.Error as error:
            self._lost = error
            self._unwatch(asyncio.get_running_loop())
            self._wake.set()

    def _hear(self, notify: PGnotify) -> None:
        encoding = self._connection.info.encoding
        self._keep(
            psycopg.Notify(
                notify.relname.decode(encoding), notify.extra.decode(encoding), notify.be_pid
            )
        )

    def _keep(self, notify: psycopg.Notify) -> None:
        assert self._prefix is not None
        self._heard.append((notify.channel.removeprefix(self._prefix), notify.payload))
        self._wake.set()

    def _failure(self, error: psycopg.Error) -> Exception:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseUnavailable("The connection to the database was lost.")
        return translate(error)
