"""What the leader does for workflows: it finds tasks that have ended unnoticed, and forgets
workflows that ended long ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.text import counted
from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext, in_batches
from riverui.features.workflows.store import EndedWorkflow, WorkflowStore
from riverui.features.workflows.verbs import jobs as workflow_jobs, workflows
from riverui.features.workflows.waits.store import WaitStore
from riverui.storage.interface import Executor
from riverui.storage.tables import installed

MOST_TASKS = 10_000
"""Tasks that one round looks at: a tenth of a second. The next goes on behind them."""

_INTERVAL = timedelta(seconds=10)
"""From one look at tasks to the next."""
_INTERVAL_WITHOUT_TABLE = timedelta(seconds=30)
"""Until it is asked again whether the table is there."""


class _Finder:
    """Looks at workflows again and again, once their tables are there."""

    def __init__(self, context: ServiceContext, *, most: int = MOST_TASKS) -> None:
        self._context = context
        self._most = most
        self._there = False

    @property
    def interval(self) -> timedelta:
        """Return how long after this round the next begins."""
        return _INTERVAL if self._there else _INTERVAL_WITHOUT_TABLE

    async def _ready(self, executor: Executor) -> bool:
        self._there = await installed(executor)
        return self._there


class StrayTaskFinder(_Finder):
    """Takes in how tasks have ended whose ends no client of workflows has written: Go's clients
    have worked them, jobs were deleted by hand, or cancelled in River UI.
    """

    name = "workflow strays"

    def __init__(self, context: ServiceContext, *, most: int = MOST_TASKS) -> None:
        super().__init__(context, most=most)
        self._after = 0

    async def run_once(self) -> int:
        """Look at the next tasks that can be worked, and return how many had ended."""
        async with self._context.executor() as executor:
            if not await self._ready(executor):
                return 0
            part = WorkflowStore(executor)
            found = await part.workflow_task_stray_list(after=self._after, limit=self._most)
        self._after = found[-1].job_id if len(found) == self._most else 0
        ended = [task.job_id for task in found if task.ended is not None]
        settled = 0
        for start in range(0, len(ended), _AT_ONCE):
            async with self._context.transaction() as transaction:
                settled += await workflow_jobs.settle(transaction, ended[start : start + _AT_ONCE])
        if settled:
            self._context.logger.info("%s: %s had ended", self.name, counted(settled, "task"))
        return settled


class ForsakenWorkflowFinder(_Finder):
    """Cancels workflows whose parents were cancelled by those who did not do it: by themselves, by
    Go's clients, or many levels above.
    """

    name = "forsaken workflows"

    def __init__(self, context: ServiceContext, *, most: int = MOST_TASKS) -> None:
        super().__init__(context, most=most)
        self._after = ""

    async def run_once(self) -> int:
        """Look at the next open workflows, and return how many were cancelled."""
        async with self._context.executor() as executor:
            if not await self._ready(executor):
                return 0
            part = WorkflowStore(executor)
            ids, last = await part.workflow_forsaken_list(after=self._after, limit=self._most)
        self._after = last or ""
        for each in ids:
            async with self._context.transaction() as transaction:
                await workflows.cancel_tx(transaction, each)
        if ids:
            self._context.logger.info("%s: %s cancelled", self.name, counted(len(ids), "workflow"))
        return len(ids)


class WorkflowCleaner:
    """Forgets workflows whose last job is gone, and, should jobs be kept for longer, those for
    which nothing has happened for long enough.
    """

    name = "workflow cleaner"
    interval = timedelta(minutes=5)

    def __init__(
        self, context: ServiceContext, *, after: timedelta | None, most: int = 1_000
    ) -> None:
        self._context = context
        self._kept = after
        self._looked: EndedWorkflow | None = None
        self._most = most
        self._size = BatchSize(full=1_000, reduced=100)

    async def run_once(self) -> int:
        """Forget all that is past its time, and return how many workflows that were."""
        async with self._context.executor() as executor:
            if not await installed(executor):
                return 0
        removed = await self._remove_gone()
        if self._kept is not None:
            removed += await in_batches(self._size, self._remove, self._context.timing)
        if removed:
            self._context.logger.info("%s: %s forgotten", self.name, counted(removed, "workflow"))
        return removed

    async def _remove_gone(self) -> int:
        """Forget workflows without jobs; look at some of those that have ended, going on from where
        the last round came to.
        """
        removed = 0
        for _ in range(_MOST_PAGES):
            async with self._context.executor() as executor:
                gone, self._looked = await WorkflowStore(executor).workflow_gone_list(
                    after=self._looked, limit=self._most
                )
            if gone:
                removed += await self._forget(len(gone), gone)
            if self._looked is None:
                break
            await self._context.timing.pause()
        return removed

    async def _remove(self, limit: int) -> int:
        return await self._forget(limit)

    async def _forget(self, limit: int, gone: Sequence[str] | None = None) -> int:
        before = self._context.clock() - (self._kept or timedelta())
        async with self._context.transaction() as transaction:
            part = WorkflowStore(transaction)
            ids = await part.workflow_delete_before(before, ids=gone, limit=limit)
            if ids:
                waits = WaitStore(transaction)
                while await waits.workflow_signal_delete_many(ids, limit=_SIGNALS) == _SIGNALS:
                    pass
            return len(ids)


_MOST_PAGES = 10
"""Pages of ended workflows that one round looks at; the next goes on behind them."""
_SIGNALS = 10_000
"""Signals that one statement deletes."""
_AT_ONCE = 500
"""Tasks in one transaction, so that their workflows are not held for long."""
