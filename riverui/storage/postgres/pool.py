"""Connections for pages and actions, out of psycopg's pool: a small one of our own, or the host app's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

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
# No prepared statements: through a pooler in transaction mode they would land on another server.
_KEYWORDS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}


class OwnPool:
    """A psycopg pool of at most `size` connections, made at first use and again after `close`."""

    def __init__(self, conninfo: str, *, size: int, timeout: float) -> None:
        self.size = size
        self._conninfo = conninfo
        self._failure: tuple[float, DatabaseUnavailable] | None = None
        self._opening = asyncio.Lock()
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._timeout = timeout

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lends a connection; PoolTimeout when none is free in time, DatabaseUnavailable without database."""
        pool = self._pool
        if pool is None or not _size(pool):
            pool = await self._open()
        async with pool.connection(timeout=self._timeout) as connection:
            yield connection

    async def dial(self) -> Connection:
        """A connection outside the pool; LoginRefused, DatabaseMissing or DatabaseUnavailable."""
        if self._failure and time.monotonic() < self._failure[0]:
            raise self._failure[1]
        try:
            connection: Connection = await AsyncConnection.connect(self._conninfo, **_KEYWORDS)
        except (psycopg.Error, OSError) as error:
            failure = refused(error)
            self._failure = (time.monotonic() + _FAILURE_LASTS, failure)
            raise failure from error
        self._failure = None
        return connection

    async def close(self) -> None:
        """Closes idle connections now and lent ones when they come back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _open(self) -> AsyncConnectionPool[Connection]:
        """The pool with a connection in it; why it gets none it would keep to itself, so we dial first."""
        async with self._opening:
            if self._pool is None:
                self._pool = AsyncConnectionPool(
                    self._conninfo,
                    kwargs=_KEYWORDS,
                    max_lifetime=_LIFETIME,
                    max_size=self.size,
                    min_size=0,
                    name="riverui",
                    open=False,
                    # Give up at once: the next request asks again, and is answered once the database is up.
                    reconnect_timeout=0,
                )
                await self._pool.open()
            pool = self._pool
            if not _size(pool):
                await (await self.dial()).close()
                async with pool.connection(timeout=self._timeout):
                    pass
            return pool


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
            async with asyncio.timeout(self._timeout):
                return await AsyncConnection.connect(conninfo, **{**(kwargs or {}), "autocommit": True})
        except (psycopg.Error, OSError) as error:
            raise refused(error) from error

    async def close(self) -> None:
        """Nothing: the pool is the host's."""


def _size(pool: AsyncConnectionPool[Any]) -> int:
    return pool.get_stats().get("pool_size", 0)


async def _value(given: Any) -> Any:
    return await given if isinstance(given, Awaitable) else given
