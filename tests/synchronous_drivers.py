"""The drivers without asyncio, in the shape of those that the contract is held against."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta

import psycopg
import psycopg2

from riverui.storage.interface import WORKING, Executor, SyncDriver, Transaction
from tests.drivers import connect_sync


class SynchronousDriver:
    """A SyncDriver's operations under the names of a WorkingDriver."""

    library = ("psycopg", "3")
    product = "PostgreSQL"
    read_only = ""
    schema = None
    schema_in_use = "public"

    def __init__(self, url: str) -> None:
        self.database = ""
        self._url = url
        self._driver: SyncDriver = connect_sync(url)
        self.capabilities = frozenset({*self._driver.capabilities, WORKING})

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction."""
        return self._driver.transaction(timeout=timeout)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Lend a connection on which each call is a transaction of its own."""
        return self._driver.autocommit(timeout=timeout)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Adopt a transaction that only reads."""
        return self._reading()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[Executor]:
        with psycopg.connect(self._url) as connection:
            connection.read_only = True
            yield await self._driver.adopt(connection)

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """Lend a connection on which each call is a transaction of its own."""
        return self.autocommit(timeout=timeout)

    def apart(self) -> SynchronousDriver:
        """Return another one."""
        return type(self)(self._url)

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction."""
        return await self._driver.adopt(transaction)

    async def ping(self) -> None:
        """Ask something."""
        async with self.autocommit() as executor:
            await executor.queues.row_get("default")
        self.database = "some"

    async def close(self) -> None:
        """Close what was opened."""
        self._driver.close()


class Psycopg2Driver(SynchronousDriver):
    """The same in transactions of psycopg2."""

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction."""
        return self._adopted(autocommit=False)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Lend a connection on which each call is a transaction of its own."""
        return self._adopted(autocommit=True)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Adopt a transaction that only reads."""
        return self._adopted(readonly=True)

    @asynccontextmanager
    async def _adopted(self, **session: bool) -> AsyncIterator[Transaction]:
        connection = psycopg2.connect(self._url)
        connection.set_session(**session)
        try:
            yield await self._driver.adopt(connection)
            connection.commit()
        finally:
            connection.close()


DRIVERS = {"synchronous": SynchronousDriver, "psycopg2": Psycopg2Driver}
