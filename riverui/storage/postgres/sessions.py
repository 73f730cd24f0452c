"""Connections in autocommit mode: their settings, their state without a round trip, and the end of
the wait for a server that does not answer.
"""

from __future__ import annotations

import asyncio
import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncRawCursor, BaseConnection
from psycopg.rows import tuple_row

from riverui.errors import ServerTooOld
from riverui.storage.postgres.limits import LIMITS

if TYPE_CHECKING:
    from riverui.storage.postgres.conninfo import Connection


_SETTINGS = (
    "set statement_timeout = {statement}; set timezone = 'UTC'; set datestyle = 'ISO'; set jit ="
    " off; set enable_seqscan = off; set enable_bitmapscan = off"
)
"""The same settings as in a transaction; see riverui.storage.postgres.driver."""


def is_closed_by_server(connection: BaseConnection[Any]) -> bool:
    """Return whether the server has closed an idle connection, without a round trip.

    On an idle connection a server sends little but its last error; changed settings and notices
    are read as well, and ignored.
    """
    if connection.closed:
        return True
    try:
        while _readable(connection.fileno()):
            # After the last error, reading the end of the stream fails.
            connection.pgconn.consume_input()
    except (psycopg.Error, OSError):
        return True
    return False


def check_version(connection: BaseConnection[Any], oldest: int) -> None:
    """Raise ServerTooOld if the server is below the `oldest` major version."""
    if connection.info.server_version // 10_000 < oldest:
        version = (connection.pgconn.parameter_status(b"server_version") or b"").decode()
        raise ServerTooOld(f"This is PostgreSQL {version}: riverui needs {oldest} or newer.")


def read_only(connection: BaseConnection[Any]) -> str:
    """Return why transactions may not write, as a sentence; empty if they may.

    The server reports it on each connection, and again when it changes. Servers before 14 and
    poolers do not: there a write fails when it is made.
    """
    status = connection.pgconn.parameter_status
    if status(b"in_hot_standby") == b"on":
        return "This database is read-only: it is a standby, and changes are made on its primary."
    if status(b"default_transaction_read_only") == b"on":
        return "This database is read-only for its user: default_transaction_read_only is on."
    return ""


def _readable(number: int) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([number], [], [], 0)[0])


async def let_prepare(connection: Connection, limit: float) -> bool:
    """Let the connection prepare statements unless there is a pooler in transaction mode; return
    whether it may.

    Behind such a pooler each transaction may run in another server process, and prepared statements
    and settings would stay in other clients' sessions.
    """
    if not await is_direct(connection, limit):
        return False
    connection.prepare_threshold = 0
    return True


async def is_direct(connection: Connection, limit: float) -> bool:
    """Return whether the connection leads to Postgres itself, not to a pooler in front of it."""
    async with ClientTimeout(connection, limit):
        cursor = AsyncRawCursor(connection, row_factory=tuple_row)
        await cursor.execute(b"select pg_backend_pid()", prepare=False)
        row = await cursor.fetchone()
    return row is not None and row[0] == connection.info.backend_pid


async def set_clock(connection: Connection, limit: float) -> None:
    """Give a session times in UTC and in ISO's form, whatever the server's settings: psycopg reads
    these faster than others.
    """
    async with ClientTimeout(connection, limit):
        statement = b"set timezone = 'UTC'; set datestyle = 'ISO'"
        await AsyncRawCursor(connection).execute(statement, prepare=False)


async def configure(connection: Connection, limit: float) -> bool:
    """Give the connection a session's settings; return whether it took them and may prepare
    statements.
    """
    if not await let_prepare(connection, limit):
        return False
    settings = _SETTINGS.format(statement=max(1, round(limit * 1000)))
    async with ClientTimeout(connection, limit):
        await AsyncRawCursor(connection).execute(settings.encode(), prepare=False)
    return True


class ServerSilent(psycopg.OperationalError):
    """The server has not answered in time, so the connection was closed."""


class ClientTimeout:
    """Closes the connection if the block takes `grace` seconds more than `limit`, and raises
    ServerSilent; None waits forever.

    A frozen host, or a network that swallows packets, would otherwise keep a connection, and the
    page that waits for it, until the operating system gives up: a quarter of an hour and more.
    With `stop`, for servers without their own limit, it first asks the server to cancel the
    statement, which then fails.
    """

    __slots__ = ("_alarm", "_asking", "_connection", "_grace", "_hung_up", "_limit", "_stop")

    def __init__(
        self,
        connection: Connection,
        limit: float | None,
        *,
        stop: bool = False,
        grace: float = LIMITS.grace_seconds,
    ) -> None:
        self._alarm: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._connection = connection
        self._grace = grace
        self._hung_up = False
        self._limit = limit
        self._stop = stop

    async def __aenter__(self) -> None:
        if self._limit is not None:
            if self._stop:
                self._alarm = asyncio.get_running_loop().call_later(self._limit, self._ask)
            else:
                self._hang_up_after(self._limit + self._grace)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._asking is not None:
            # The request uses another connection: a late one would cancel the next statement.
            await asyncio.wait([self._asking])
        if self._hung_up and isinstance(error, psycopg.OperationalError):
            raise ServerSilent from error

    def _hang_up_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        self._hung_up = True
        hang_up(self._connection)

    def _ask(self) -> None:
        self._hang_up_after(self._grace)
        self._asking = asyncio.create_task(_ask_to_stop(self._connection, self._grace))


async def _ask_to_stop(connection: Connection, seconds: float) -> None:
    try:
        await connection.cancel_safe(timeout=seconds)
    except (OSError, psycopg.Error):
        # It may still arrive.
        hang_up(connection)


def hang_up(connection: BaseConnection[Any]) -> None:
    """Shut down the socket, so that a task that waits for it gets psycopg's OperationalError."""
    # Not closed: a waiting task then reads the end of the stream, and psycopg reports a lost
    # connection.
    with (
        suppress(OSError, psycopg.Error),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as connected,
    ):
        connected.shutdown(socket.SHUT_RDWR)
