"""All operations on a SQLite file, put together as the interface groups them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

from riverui.storage import interface
from riverui.storage.interface import Capability
from riverui.storage.sqlite.browse import Browse
from riverui.storage.sqlite.job_actions import JobActions
from riverui.storage.sqlite.job_select import JobSelect
from riverui.storage.sqlite.job_upkeep import JobUpkeep
from riverui.storage.sqlite.job_work import JobWork
from riverui.storage.sqlite.leader import Leader
from riverui.storage.sqlite.other_tables import OtherTables
from riverui.storage.sqlite.scopes import CallersTransaction, OneTransaction, savepoint, translated
from riverui.storage.sqlite.statements import reads


class _Part:
    """The operations whose names begin alike: `jobs.get` is `job_get`."""

    def __init__(self, operations: object, prefix: str) -> None:
        self._operations = operations
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, f"{self._prefix}_{name}")


class SqliteExecutor(JobWork, JobSelect, JobUpkeep, JobActions, Leader, Browse, OtherTables):
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

    @reads
    def ping(self) -> None:
        """Run a trivial query."""
        self._rows("select 1 from sqlite_master limit 1")


class SqliteTransaction(SqliteExecutor):
    """All operations, kept or lost as one."""

    def __init__(self, scope: OneTransaction | CallersTransaction) -> None:
        super().__init__(scope)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Begin a part that can fail alone: an exception leaving it undoes it and is raised on."""
        await self.ping()
        with translated(), savepoint(self._scope.connection):
            yield

    def is_of(self, file: object) -> bool:
        """Return whether it is a transaction of that file's driver."""
        return isinstance(self._scope, OneTransaction) and self._scope.file is file


@asynccontextmanager
async def committed(scope: OneTransaction) -> AsyncIterator[SqliteTransaction]:
    """Lend the operations of a transaction, and commit it unless an exception leaves it."""
    try:
        yield SqliteTransaction(scope)
    except BaseException:
        await scope.end(commit=False)
        raise
    await scope.end(commit=True)
