"""All operations on one connection, put together as the interface groups them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from riverui.storage.interface import (
    CAPABILITIES,
    LISTENING,
    MIGRATIONS,
    WORKING,
    Capability,
)
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.admin.job_actions import JobActions
from riverui.storage.postgres.browse.job_json import JobJson
from riverui.storage.postgres.browse.job_select import JobSelect
from riverui.storage.postgres.browse.job_texts import JobTexts
from riverui.storage.postgres.browse.jobs import JobReads
from riverui.storage.postgres.browse.queues import PostgresQueues
from riverui.storage.postgres.engine.job_insert import JobInsert
from riverui.storage.postgres.engine.job_upkeep import JobUpkeep
from riverui.storage.postgres.engine.job_work import JobWork
from riverui.storage.postgres.engine.leader import PostgresLeader
from riverui.storage.postgres.statements import Statements

if TYPE_CHECKING:
    from riverui.storage import interface

EXECUTOR_CAPABILITIES: frozenset[Capability[Any]] = frozenset(CAPABILITIES) - {
    LISTENING,
    MIGRATIONS,
    WORKING,
}
"""The capabilities of an executor: all except those of the driver itself."""


class PostgresJobs(JobInsert, JobReads, JobTexts, JobJson, JobSelect, JobActions):
    """Jobs as programs and pages see them."""

    __slots__ = ()


class PostgresWork(JobWork, JobUpkeep):
    """Jobs as the engine works them."""

    __slots__ = ()


class PostgresExecutor(Statements):
    """All operations, on one connection, in whatever transaction it is in.

    The parts are made when they are used: kept, they and the executor would wait for the garbage
    collector, with the connection.
    """

    @property
    def jobs(self) -> PostgresJobs:
        """Return the operations on jobs: insert, read, count, change."""
        return PostgresJobs(self)

    @property
    def work(self) -> PostgresWork:
        """Return the engine's operations on jobs: fetch, end, schedule, rescue, clean."""
        return PostgresWork(self)

    @property
    def queues(self) -> PostgresQueues:
        """Return the operations on queues."""
        return PostgresQueues(self)

    @property
    def leader(self) -> PostgresLeader:
        """Return the operations on the row of the leader."""
        return PostgresLeader(self)

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """See EXECUTOR_CAPABILITIES."""
        return EXECUTOR_CAPABILITIES

    async def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Send each payload on the schema's channel of that topic."""
        if payloads:
            values = {
                "schema": self.schema,
                "topic": topic,
                "payloads": array_literals.texts(payloads),
            }
            await self.rows("notify_many", values)

    @property
    def sql(self) -> Statements:
        """Statements on the same connection, for the stores of features."""
        return self


class PostgresTransaction(PostgresExecutor):
    """All operations, kept or lost as one."""

    _savepoints = 0

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Begin a part that can fail alone: an exception leaving it undoes it and is raised on."""
        self._savepoints += 1
        name = f"riverui_{self._savepoints}"
        await self.run(f"savepoint {name}")
        try:
            yield
        except Exception:
            # Not for a cancelled task, which ends the whole transaction.
            await self.run(f"rollback to savepoint {name}; release savepoint {name}")
            raise
        await self.run(f"release savepoint {name}")


if TYPE_CHECKING:

    def _complete(executor: PostgresExecutor) -> interface.Executor:
        """Let type checkers verify that the executor has all operations."""
        return executor
