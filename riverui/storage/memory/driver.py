"""A database in memory, as clients and dashboards see it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from riverui.storage.interface import LISTENING, WORKING, Capability
from riverui.storage.memory.executor import (
    MemoryExecutor,
    MemoryTransaction,
    adopted,
    autocommit,
    committed,
    transaction,
)
from riverui.storage.memory.listener import MemoryListener
from riverui.storage.memory.statements import Clock
from riverui.storage.memory.sync_driver import MemorySyncDriver, blocking_sleep
from riverui.storage.memory.tables import Changes, Tables
from riverui.storage.options import ConnectOptions

if TYPE_CHECKING:
    from riverui.storage import interface


_LOCK_TIMEOUT = ConnectOptions().lock_timeout
"""Default time to wait for a row that another transaction holds: as on Postgres."""


class MemoryDatabase:
    """River's tables in the memory of this process: for tests that need no Postgres.

    A Client, a SyncClient or a dashboard takes it in place of a URL; several may share it. Jobs,
    queues and the leader behave as they do on Postgres, and so do transactions, which
    `transaction()` begins, `sync_transaction()` for a SyncClient. It has no SQL, and none of the
    features that need riverui's own tables.
    """

    capabilities: Collection[Capability[Any]] = frozenset({LISTENING, WORKING})
    product = "memory"
    library = ("riverui.testing", "memory")
    read_only = ""
    schema_in_use = "memory"

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        lock_timeout: timedelta = _LOCK_TIMEOUT,
        schema: str | None = None,
    ) -> None:
        """Make an empty database. `clock` is its time, unless a client gives its own;
        `lock_timeout` is how long a statement waits for a row that another transaction holds;
        `schema` must equal `ClientConfig.schema` and is otherwise ignored.
        """
        self.database = ""
        self.schema = schema
        self._clock: Clock = clock or partial(datetime.now, UTC)
        self._tables = Tables(lock_timeout)

    def __repr__(self) -> str:
        return f"<MemoryDatabase: {len(self._tables.jobs.rows)} jobs>"

    def reading(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[MemoryExecutor]:
        """Begin a transaction that only reads."""
        self.database = self.product
        changes = Changes(self._tables, read_only=True)
        return nullcontext(MemoryExecutor(changes, self._clock, asyncio.sleep))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[MemoryTransaction]:
        """Begin a transaction; it commits unless an exception leaves it."""
        self.database = self.product
        return transaction(self._tables, self._clock, asyncio.sleep)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[MemoryExecutor]:
        """Lend the operations, each its own transaction."""
        self.database = self.product
        return autocommit(self._tables, self._clock, asyncio.sleep)

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[MemoryExecutor]:
        """Lend the same as `autocommit`."""
        return self.autocommit()

    async def adopt(self, transaction: object) -> MemoryTransaction:
        """Return a transaction of this database itself; TypeError for anything else."""
        return adopted(self._tables, transaction)

    async def listener(self) -> MemoryListener:
        """Return a new listener in the running event loop."""
        return MemoryListener(self._tables)

    async def shared_listener(self) -> MemoryListener:
        """Return the same as `listener`, as there are no connections."""
        return MemoryListener(self._tables)

    def apart(self) -> MemoryDatabase:
        """Return the database itself, which every thread and event loop may use."""
        return self

    @property
    def sync_driver(self) -> MemorySyncDriver:
        """The same database for a SyncClient."""
        return MemorySyncDriver(self._tables, self._clock, self.schema)

    @contextmanager
    def sync_transaction(self) -> Iterator[MemoryTransaction]:
        """Begin a transaction for a SyncClient; it commits unless an exception leaves it."""
        with committed(self._tables) as changes:
            yield MemoryTransaction(changes, self._clock, blocking_sleep)

    async def ping(self) -> None:
        """Do nothing: the database is always there."""
        self.database = self.product

    async def close(self) -> None:
        """Do nothing: the rows live as long as the object."""


if TYPE_CHECKING:

    def _offered(
        database: MemoryDatabase, executor: MemoryExecutor, transaction: MemoryTransaction
    ) -> tuple[
        interface.WorkingDriver,
        interface.ListeningDriver,
        interface.TwoSidedDriver,
        interface.Executor,
        interface.Transaction,
    ]:
        """Let type checkers verify that the database has what its capabilities promise."""
        return database, database, database, executor, transaction
