"""An end to waiting for a server that has fallen silent, which no timeout of the server's own can give."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import BaseConnection

if TYPE_CHECKING:
    from riverui.storage.postgres.pool import Connection

GRACE_SECONDS = 3.0
"""How long an answer may take to reach us; a statement has its time limit on top."""


@contextmanager
def patience(connection: Connection, limit: float | None, *, stop: bool = False) -> Iterator[None]:
    """Hangs up where the server says nothing for `limit` seconds and the grace; None waits for ever.

    A frozen host, or a network that swallows packets, would otherwise keep a connection, and the page that
    waits for it, until the operating system gives up: a quarter of an hour and more. `stop` is for where the
    server has no limit of its own: it is asked to stop the statement before that, which then fails.
    """
    if limit is None:
        yield
        return
    loop = asyncio.get_running_loop()
    asking: list[asyncio.Task[None]] = []
    alarms = [loop.call_later(limit + GRACE_SECONDS, hang_up, connection)]
    if stop:
        alarms.append(
            loop.call_later(limit, lambda: asking.append(loop.create_task(_ask_to_stop(connection))))
        )
    try:
        yield
    finally:
        for alarm in alarms:
            alarm.cancel()
        for task in asking:
            task.cancel()


async def _ask_to_stop(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error):
        await connection.cancel_safe(timeout=GRACE_SECONDS)


def hang_up(connection: BaseConnection[Any]) -> None:
    """Ends the connection under whoever waits for it."""
    # Shut down, not closed: whoever waits for the socket sees its end, and psycopg reports a lost connection.
    with (
        suppress(OSError, psycopg.Error),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
