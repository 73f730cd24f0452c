"""Ends the wait for a server that has fallen silent, which no timeout of the server's can do."""

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
    """Closes the connection if what runs inside takes `grace` seconds more than `limit`, and raises
    ServerSilent; None waits for ever.

    A frozen host, or a network that swallows packets, would otherwise keep a connection, and the
    page that waits for it, until the operating system gives up: a quarter of an hour and more.
    `stop` is for where the server has no limit of its own: it is asked to stop the statement before
    that, which then fails.
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
            # The request comes on a connection of its own: what is late would stop the next
            # statement.
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
        # Nobody knows whether it still comes.
        hang_up(connection)


def hang_up(connection: BaseConnection[Any]) -> None:
    """Close the socket under whoever waits for it, who then gets psycopg's OperationalError."""
    # Shut down, not closed: whoever waits for the socket sees its end, and psycopg reports a lost
    # connection.
    with (
        suppress(OSError, psycopg.Error),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as connected,
    ):
        connected.shutdown(socket.SHUT_RDWR)
