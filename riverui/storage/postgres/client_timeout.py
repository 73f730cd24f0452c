"""Ends the wait for a server that does not answer, which no timeout of the server can do."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import BaseConnection

from riverui.storage.postgres.limits import LIMITS

if TYPE_CHECKING:
    from riverui.storage.postgres.conninfo import Connection


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
