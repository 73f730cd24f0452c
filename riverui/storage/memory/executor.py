"""All operations on a memory database, put together as the interface groups them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, cast

from riverui.errors import NotSupported
from riverui.storage import interface
from riverui.storage.interface import SQL, Capability
from riverui.storage.interface.sql import Sql
from riverui.storage.memory.browse import Browse
from riverui.storage.memory.job_actions import JobActions
from riverui.storage.memory.job_select import JobSelect
from riverui.storage.memory.job_upkeep import JobUpkeep
from riverui.storage.memory.job_work import JobWork
from riverui.storage.memory.leader import Leader
from riverui.storage.memory.statements import Clock, Pause
from riverui.storage.memory.tables import Changes, Tables


class _Part:
    """The operations whose names begin alike: `jobs.get` is `job_get`."""

    def __init__(self, operations: object, prefix: str) -> None:
        self._operations = operations
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, f"{self._prefix}_{name}")


class MemoryExecutor(JobWork, JobSelect, JobUpkeep, JobActions, Leader, Browse):
    """All operations."""

    capabilities: Collection[Capability[Any]] = frozenset()

    @property
    def jobs(self) -> interface.Jobs:
        """Return the operations on jobs: insert, read, count, change."""
        return cast("interface.Jobs", _Part(self, "job"))

    @property
    def work(self) -> interface.Work:
        """Return the engine's operations on jobs: fetch, end, schedule, rescue, clean."""
        return cast("interface.Work", _Part(self, "job"))

    @property
    def queues(self) -> interface.Queues:
        """Return the operations on queues."""
        return cast("interface.Queues", _Part(self, "queue"))

    @property
    def leader(self) -> interface.Leader:
        """Return the operations on the row of the leader."""
        return cast("interface.Leader", _Part(self, "leader"))

    @property
    def sql(self) -> Sql:
        """Raise NotSupported: a memory database has no tables of riverui."""
        raise NotSupported(SQL.missing)


class MemoryTransaction(MemoryExecutor):
    """All operations, kept or lost as one."""

    def is_of(self, tables: Tables) -> bool:
        """Return whether it is a transaction of the database with these tables."""
        return self._changes.tables is tables

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Begin a part that can fail alone: an exception leaving it undoes it and is raised on."""
        with self._changes.savepoint():
            yield


@contextmanager
def committed(tables: Tables) -> Iterator[Changes]:
    """Begin changes that are kept, or dropped if an exception leaves them."""
    changes = Changes(tables)
    try:
        yield changes
    except BaseException:
        changes.roll_back()
        raise
    changes.commit()


@asynccontextmanager
async def transaction(
    tables: Tables, clock: Clock, pause: Pause
) -> AsyncIterator[MemoryTransaction]:
    """Begin a transaction; it commits unless an exception leaves it."""
    with committed(tables) as changes:
        yield MemoryTransaction(changes, clock, pause)


def autocommit(
    tables: Tables, clock: Clock, pause: Pause
) -> AbstractAsyncContextManager[MemoryExecutor]:
    """Lend the operations, each its own transaction."""
    return nullcontext(MemoryExecutor(Changes(tables, commits_each=True), clock, pause))


def adopted(tables: Tables, transaction: object) -> MemoryTransaction:
    """Return a transaction of that database itself; TypeError for anything else."""
    if isinstance(transaction, MemoryTransaction) and transaction.is_of(tables):
        return transaction
    raise TypeError(
        f"{type(transaction).__name__} cannot be used: a memory database takes part in no other's"
        " transactions. Begin one of its own (`async with database.transaction() as tx`, or `with"
        " database.sync_transaction() as tx`), or test on Postgres."
    )
