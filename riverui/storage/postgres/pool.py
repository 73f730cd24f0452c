"""Connections for pages and actions: a small pool of our own, or the host app's.

Ours dials in the caller's own task instead of a background worker, so a database that is down or refuses the
password is told at once, in its own words, and is back with the first request after it is up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.failures import refused

Connection = AsyncConnection[Any]

_FAILURE_LASTS = 1.0
"""Seconds for which one failed dial answers everyone: nobody queues up behind a dead host."""
_LIFETIME = 1800.0
"""Seconds after which a connection is not used again: poolers, DNS and secrets move on."""


class Pool(Protocol):
    """Lends autocommit connections."""

    @property
    def size(self) -> int:
        """How many connections it may hold."""
        ...

    def connection(self) -> Any:
        """Context manager: a connection in autocommit mode, outside any transaction."""
        ...

    async def dial(self) -> Connection:
        """A connection that stays outside the pool; the caller closes it."""
        ...

    async def close(self) -> None:
        """Ends what the pool opened itself."""
        ...


class OwnPool:
    """At most `size` connections, opened when needed, the last used first."""

    def __init__(self, open: Callable[[], Awaitable[Connection]], *, size: int, timeout: float) -> None:
        self._open = open
        self.size = size
        self._timeout = timeout
        self._slots = asyncio.Semaphore(size)
        self._idle: deque[tuple[Connection, float]] = deque()
        self._failure: tuple[float, DatabaseUnavailable] | None = None
        self._generation = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lends a connection; DatabaseUnavailable when none can be opened or becomes free in time."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise DatabaseUnavailable("No database connection became free in time.") from None
        try:
            generation = self._generation
            connection, born = self._idle.pop() if self._idle else (await self.dial(), time.monotonic())
            try:
                yield connection
            finally:
                usable = (
                    not connection.closed
                    and connection.info.transaction_status == TransactionStatus.IDLE
                    and generation == self._generation
                    and time.monotonic() - born < _LIFETIME
                )
                if usable:
                    self._idle.append((connection, born))
                else:
                    await connection.close()
        finally:
            self._slots.release()

    async def dial(self) -> Connection:
        """Opens a connection; LoginRefused, DatabaseMissing or DatabaseUnavailable."""
        if self._failure and time.monotonic() < self._failure[0]:
            raise self._failure[1]
        try:
            connection = await self._open()
        except (psycopg.Error, OSError) as error:
            failure = refused(error)
            self._failure = (time.monotonic() + _FAILURE_LASTS, failure)
            raise failure from error
        self._failure = None
        return connection

    async def close(self) -> None:
        """Closes idle connections now and lent ones when they come back; the pool can be used again."""
        self._generation += 1
        while self._idle:
            connection, _ = self._idle.pop()
            await connection.close()


class HostPool:
    """The host app's pool: its connections are given back as they were, and it is never closed from here."""

    def __init__(self, pool: AsyncConnectionPool[Any], *, timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout

    @property
    def size(self) -> int:
        """How many connections it may hold."""
        return self._pool.max_size

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lends a connection in autocommit mode; the pool's own errors are raised as they are."""
        async with self._pool.connection(timeout=self._timeout) as connection:
            autocommit = connection.autocommit
            if not autocommit:
                await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                if not autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
                    await connection.set_autocommit(False)

    async def dial(self) -> Connection:
        """A connection to the same database, outside the pool."""
        conninfo, kwargs = self._pool.conninfo, self._pool.kwargs
        if callable(conninfo):
            conninfo = await _value(conninfo())
        if callable(kwargs):
            kwargs = await _value(kwargs())
        try:
            return await AsyncConnection.connect(conninfo, **{**(kwargs or {}), "autocommit": True})
        except (psycopg.Error, OSError) as error:
            raise refused(error) from error

    async def close(self) -> None:
        """Nothing: the pool is the host's."""


async def _value(given: Any) -> Any:
    return await given if isinstance(given, Awaitable) else given
