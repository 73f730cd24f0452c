"""An end to waiting for a server that has fallen silent, which no timeout of the server's own can give."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from riverui.storage.postgres.pool import Connection

GRACE_SECONDS = 3.0
"""How long an answer may take to reach us; a statement has its time limit on top."""


@contextmanager
def patience(connection: Connection, limit: float | None) -> Iterator[None]:
    """Hangs up where the server says nothing for `limit` seconds and the grace; None waits for ever.

    A frozen host, or a network that swallows packets, would otherwise keep a connection, and the page that
    waits for it, until the operating system gives up: a quarter of an hour and more.
    """
    if limit is None:
        yield
        return
    alarm = asyncio.get_running_loop().call_later(limit + GRACE_SECONDS, _hang_up, connection)
    try:
        yield
    finally:
        alarm.cancel()


def _hang_up(connection: Connection) -> None:
    # Shut down, not closed: whoever waits for the socket sees its end, and psycopg reports a lost connection.
    with (
        suppress(OSError, psycopg.Error),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
