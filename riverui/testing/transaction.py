"""Clients in one transaction, so that tests leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.storage import interface
from riverui.storage.interface import (
    LISTENING,
    MIGRATIONS,
    WORKING,
    Capability,
    Driver,
    Transaction,
)

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

Database: TypeAlias = "Client | Driver | AsyncConnectionPool[Any] | str | None"
"""A client, a Driver, a pool, a URL, or None for libpq's `PG*` variables."""


def client_of(
    database: Database, config: ClientConfig | None = None
) -> AbstractAsyncContextManager[Client]:
    """Provide the given client, or one of that database that is closed afterwards."""
    return nullcontext(database) if isinstance(database, Client) else Client(database, config)


LONGEST = timedelta(minutes=10)
"""Time limit of a test's transaction: long enough for a pause in a debugger."""


@asynccontextmanager
async def rolled_back(
    database: Database = None, config: ClientConfig | None = None
) -> AsyncIterator[Client]:
    """Yield a client in a transaction that is rolled back: it inserts and administers, but cannot
    start.
    """
    async with client_of(database, config) as client:
        try:
            async with client.driver.transaction(timeout=LONGEST) as tx:
                yield Client(
                    TransactionDriver(client.driver, tx),
                    replace(config or client.config, queues={}),
                )
                raise _RollBack
        except _RollBack:
            return


class TransactionDriver:
    """A Driver of one transaction, whose transactions are savepoints."""

    def __init__(self, driver: Driver, executor: interface.Executor) -> None:
        self._driver = driver
        self._executor = executor
        self._lock = asyncio.Lock()
        self._speaker: asyncio.Task[object] | None = None

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """Return the driver's, without those that need a connection of their own, and WORKING."""
        return frozenset(self._driver.capabilities) - {LISTENING, MIGRATIONS} | {WORKING}

    @property
    def product(self) -> str:
        """Return the name of the database product as people write it."""
        return self._driver.product

    @property
    def library(self) -> tuple[str, str]:
        """Return name and version of the package by which the database is reached."""
        return self._driver.library

    @property
    def schema(self) -> str | None:
        """Return the schema that holds River's tables; None for the search path's."""
        return self._driver.schema

    @property
    def database(self) -> str:
        """Return the database's name."""
        return self._driver.database

    @property
    def read_only(self) -> str:
        """Return why the database takes no changes; empty if it does."""
        return self._driver.read_only

    @property
    def schema_in_use(self) -> str:
        """Return the schema, or else the first of the search path."""
        return self._driver.schema_in_use

    def reading(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[interface.Executor]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[interface.Executor]:
        """Begin a savepoint in the transaction."""
        return self._turn()

    def apart(self) -> Driver:
        """Raise NotImplementedError: another connection would not see the transaction."""
        raise NotImplementedError("a client inside a transaction has no other connection")

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[interface.Executor]:
        """Provide the transaction, which others use at the same time."""
        return nullcontext(self._executor)

    async def adopt(self, transaction: object) -> Transaction:
        """Return operations inside the caller's transaction, or inside this one."""
        if transaction is self._executor:
            return cast(Transaction, self._executor)
        return await self._driver.adopt(transaction)

    async def ping(self) -> None:
        """Check that the database answers."""
        await self._driver.ping()

    async def close(self) -> None:
        """Do nothing: the caller ends the transaction."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Transaction]:
        """Begin a savepoint for the current task; others wait, as savepoints must be nested."""
        if self._speaker is (task := asyncio.current_task()):
            async with self._savepoint() as tx:
                yield tx
            return
        async with self._lock:
            self._speaker = task
            try:
                async with self._savepoint() as tx:
                    yield tx
            finally:
                self._speaker = None

    @asynccontextmanager
    async def _savepoint(self) -> AsyncIterator[Transaction]:
        # The caller's transaction has none: a database error aborts it.
        tx = cast(Transaction, self._executor)
        if not hasattr(tx, "savepoint"):
            yield tx
            return
        try:
            async with tx.savepoint():
                try:
                    yield tx
                except asyncio.CancelledError as cancelled:
                    raise _Interrupted from cancelled
        except _Interrupted as interrupted:
            raise asyncio.CancelledError from interrupted


class _Interrupted(Exception):
    """Raised through a savepoint in place of a cancellation, which would end the transaction."""


class _RollBack(Exception):
    """Raised to roll a transaction back on purpose."""
