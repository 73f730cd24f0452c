"""Drivers on a SQLAlchemy engine, for clients that insert: each call is a transaction of the
engine.

This module does not import SQLAlchemy: a caller that passes an engine has imported it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from typing import Any, cast

from riverui.errors import RiveruiError
from riverui.storage.interface import (
    LISTENING,
    MIGRATIONS,
    WORKING,
    Capability,
    Executor,
    Transaction,
)
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.errors import refused, translate_foreign
from riverui.storage.postgres.sync_driver import PostgresSyncDriver


class EngineDriver:
    """A Driver on a SQLAlchemy AsyncEngine, or AsyncConnection, for everything except working,
    listening and migrating.

    The only time limits are those of the engine.
    """

    library = PostgresDriver.library

    def __init__(self, engine: Any, driver: PostgresDriver) -> None:
        self._engine = engine
        self._driver = driver

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """The driver's capabilities, without those that need connections of riverui."""
        needs_own = {LISTENING, MIGRATIONS, WORKING}
        return frozenset(self._driver.capabilities) - needs_own

    @property
    def product(self) -> str:
        """The product's name, as far as it is known."""
        return self._driver.product

    def __repr__(self) -> str:
        return f"<EngineDriver {self.database}, schema {self.schema_in_use or '?'}>"

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        return self._driver.schema

    @property
    def database(self) -> str:
        """The database's name, as the engine's URL has it."""
        return str(self._engine.engine.url.database or "")

    @property
    def read_only(self) -> str:
        """Empty: it is not known before the engine is used."""
        return ""

    @property
    def schema_in_use(self) -> str:
        """The schema; empty if the search path decides."""
        return self._driver.schema_in_use

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin a transaction of the engine; the limit is ignored."""
        return self._begun()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction of the engine; the limit is ignored."""
        return cast("AbstractAsyncContextManager[Transaction]", self._begun())

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Begin a transaction of the engine; the limit is ignored."""
        return self._begun()

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction; see Driver."""
        return await self._driver.adopt(transaction)

    async def ping(self) -> None:
        """Run a trivial query; raises as any call does."""
        async with self._begun() as executor:
            await executor.queues.row_get("default")

    async def close(self) -> None:
        """Do nothing: the program closes its engine."""

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[Executor]:
        if hasattr(self._engine, "exec_driver_sql"):
            # A connection, whose owner commits the transaction, as in River's own Python client.
            yield await self.adopt(self._engine)
            return
        connection = self._engine.connect()
        try:
            await connection.start()
        except Exception as error:
            raise refused(getattr(error, "orig", None) or error) from error
        try:
            with _translated():
                async with connection.begin():
                    yield await self.adopt(connection)
        finally:
            await connection.close()


class SyncEngineDriver:
    """A SyncDriver on a SQLAlchemy Engine, or Connection."""

    is_synchronous = True

    def __init__(self, engine: Any, driver: PostgresSyncDriver) -> None:
        self._engine = engine
        self._driver = driver

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """The driver's capabilities, as far as known."""
        return self._driver.capabilities

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        return self._driver.schema

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction of the engine; the limit is ignored."""
        return self._begun()

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """Begin a transaction of the engine; the limit is ignored."""
        return self._begun()

    async def adopt(self, transaction: object) -> Transaction:
        """Return the operations inside the caller's own transaction; see SyncDriver."""
        return await self._driver.adopt(transaction)

    def close(self) -> None:
        """Do nothing: the program closes its engine."""

    @asynccontextmanager
    async def _begun(self) -> AsyncIterator[Transaction]:
        if hasattr(self._engine, "exec_driver_sql"):
            # A connection, whose owner commits the transaction.
            yield await self.adopt(self._engine)
            return
        try:
            connection = self._engine.connect()
        except Exception as error:
            raise refused(getattr(error, "orig", None) or error) from error
        with connection, _translated(), connection.begin():
            yield await self.adopt(connection)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RiveruiError:
        raise
    except Exception as error:
        raise translate_foreign(error) from error
