"""A database in memory, as a SyncClient sees it."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from riverui.storage.interface import Capability
from riverui.storage.memory.executor import (
    MemoryExecutor,
    MemoryTransaction,
    adopted,
    autocommit,
    transaction,
)
from riverui.storage.memory.statements import Clock
from riverui.storage.memory.tables import Tables


class MemorySyncDriver:
    """The database for a SyncClient; safe to share between threads. Its operations never wait for
    an event loop.
    """

    capabilities: Collection[Capability[Any]] = frozenset()
    is_synchronous = True

    def __init__(self, tables: Tables, clock: Clock, schema: str | None) -> None:
        self.schema = schema
        self._clock = clock
        self._tables = tables

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[MemoryTransaction]:
        """Begin a transaction; it commits unless an exception leaves it."""
        return transaction(self._tables, self._clock, blocking_sleep)

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[MemoryExecutor]:
        """Lend the operations, each its own transaction."""
        return autocommit(self._tables, self._clock, blocking_sleep)

    async def adopt(self, transaction: object) -> MemoryTransaction:
        """Return a transaction of this database itself; TypeError for anything else."""
        return adopted(self._tables, transaction)

    def close(self) -> None:
        """Do nothing: the rows live as long as the database object."""


async def blocking_sleep(seconds: float) -> None:
    """Sleep without an event loop: there may be none."""
    if seconds:
        time.sleep(seconds)  # noqa: ASYNC251
