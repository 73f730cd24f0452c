"""Connections in autocommit mode: their settings, and their state without a round trip."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncRawCursor, BaseConnection
from psycopg.rows import tuple_row

from riverui.errors import ServerTooOld
from riverui.storage.postgres.client_timeout import ClientTimeout

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
