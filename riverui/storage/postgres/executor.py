"""All operations on one connection, put together as the interface groups them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from riverui.storage.interface import (
    CAPABILITIES,
    LISTENING,
    MIGRATIONS,
    WORKING,
    Capability,
)
from riverui.storage.postgres.admin.job_actions import JobActionStatements
from riverui.storage.postgres.browse.job_json import JobJson
from riverui.storage.postgres.browse.job_texts import JobTexts
from riverui.storage.postgres.browse.jobs import JobStatements
from riverui.storage.postgres.browse.names import NameStatements
from riverui.storage.postgres.browse.progress import ProgressStatements
from riverui.storage.postgres.browse.queues import QueueStatements
from riverui.storage.postgres.engine.job_upkeep import JobUpkeep
from riverui.storage.postgres.engine.job_work import JobWork
from riverui.storage.postgres.engine.leader import Leader
from riverui.storage.postgres.job_list.select import JobSelect
from riverui.storage.postgres.statements import Statements

if TYPE_CHECKING:
    from riverui.storage import interface

EXECUTOR_CAPABILITIES: frozenset[Capability[Any]] = frozenset(CAPABILITIES) - {
    LISTENING,
    MIGRATIONS,
    WORKING,
}
"""What an executor offers: all but what the driver does by itself."""


class EngineOperations(JobWork, JobSelect, JobUpkeep, Leader):
    """What the engine needs: EngineExecutor."""


class PageOperations(
    JobStatements,
    JobActionStatements,
    JobJson,
    JobTexts,
    QueueStatements,
    NameStatements,
    ProgressStatements,
):
    """What pages and programs read and do: BrowseExecutor and AdminExecutor."""


class PostgresExecutor(PageOperations, EngineOperations):
    """All operations, on one connection, in whatever transaction it is in."""

    @property
    def capabilities(self) -> Collection[Capability[Any]]:
        """See EXECUTOR_CAPABILITIES."""
        return EXECUTOR_CAPABILITIES

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
            # Not for a cancelled task, which leaves the transaction as well.
            await self.run(f"rollback to savepoint {name}; release savepoint {name}")
            raise
        await self.run(f"release savepoint {name}")


if TYPE_CHECKING:

    def _complete(executor: PostgresExecutor) -> interface.Executor:
        """Type checkers see here that the executor has all operations."""
        return executor
