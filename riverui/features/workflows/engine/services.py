"""The leader's services for workflows: they find tasks that ended unnoticed, and delete workflows
that ended long ago.
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

MAX_TASKS = 10_000
"""Tasks that one round reads, within a tenth of a second. The next round continues after them."""

_INTERVAL = timedelta(seconds=10)
"""Time between two looks at tasks."""
_INTERVAL_WITHOUT_TABLE = timedelta(seconds=60)
"""Time between two checks for a missing table."""


class _Finder:
    """Looks at workflows repeatedly, once their tables exist."""

    def __init__(self, context: ServiceContext, *, most: int = MAX_TASKS) -> None:
        self._context = context
        self._most = most
        self._there = False

    @property
    def interval(self) -> timedelta:
        """Return the time from this round to the next."""
        return _INTERVAL if self._there else _INTERVAL_WITHOUT_TABLE

    async def _ready(self, executor: Executor) -> bool:
        self._there = await WorkflowStore.installed(executor)
        return self._there


class StrayTaskFinder(_Finder):
    """Records the ends of tasks that no client with workflows has written: worked by Go's clients,
    deleted by hand, or cancelled in River UI.
    """

    name = "workflow strays"

    def __init__(self, context: ServiceContext, *, most: int = MAX_TASKS) -> None:
        super().__init__(context, most=most)
        self._after = 0

    async def run_once(self) -> int:
        """Look at the next staged tasks; return how many had ended."""
        async with self._context.executor() as executor:
            if not await self._ready(executor):
                return 0
            part = WorkflowStore(executor)
            found = await part.workflow_task_stray_list(after=self._after, limit=self._most)
        self._after = found[-1].job_id if len(found) == self._most else 0
        ended = [task.job_id for task in found if task.ended is not None]
        settled = 0
        for start in range(0, len(ended), _CHUNK):
            async with self._context.transaction() as transaction:
                settled += await workflow_jobs.settle(transaction, ended[start : start + _CHUNK])
        if settled:
            self._context.logger.info("%s: %s had ended", self.name, counted(settled, "task"))
        return settled


class ForsakenWorkflowFinder(_Finder):
    """Cancels workflows whose parents were cancelled without them: by hand, by Go's clients, or
    many levels above.
    """

    name = "forsaken workflows"

    def __init__(self, context: ServiceContext, *, most: int = MAX_TASKS) -> None:
        super().__init__(context, most=most)
        self._after = ""

    async def run_once(self) -> int:
        """Look at the next open workflows; return how many were cancelled."""
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
    """Deletes workflows whose jobs are all deleted, and those without activity for long enough, in
    case their jobs are kept longer.
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
        """Delete all expired workflows; return how many."""
        async with self._context.executor() as executor:
            if not await WorkflowStore.installed(executor):
                return 0
        removed = await self._remove_empty()
        if self._kept is not None:
            removed += await in_batches(self._size, self._remove, self._context.timing)
        if removed:
            self._context.logger.info("%s: %s deleted", self.name, counted(removed, "workflow"))
        return removed

    async def _remove_empty(self) -> int:
        """Delete workflows without jobs; look at some of those that have ended, continuing where
        the last round stopped.
        """
        removed = 0
        for _ in range(_MAX_PAGES):
            async with self._context.executor() as executor:
                ids, self._looked = await WorkflowStore(executor).workflow_jobless_list(
                    after=self._looked, limit=self._most
                )
            if ids:
                removed += await self._delete(len(ids), ids)
            if self._looked is None:
                break
            await self._context.timing.pause()
        return removed

    async def _remove(self, limit: int) -> int:
        return await self._delete(limit)

    async def _delete(self, limit: int, among: Sequence[str] | None = None) -> int:
        before = self._context.clock() - (self._kept or timedelta())
        async with self._context.transaction() as transaction:
            part = WorkflowStore(transaction)
            ids = await part.workflow_delete_before(before, ids=among, limit=limit)
            if ids:
                waits = WaitStore(transaction)
                while await waits.workflow_signal_delete_many(ids, limit=_SIGNALS) == _SIGNALS:
                    pass
            return len(ids)


_MAX_PAGES = 10
"""Pages of ended workflows that one round reads; the next continues after them."""
_SIGNALS = 10_000
"""Signals that one statement deletes."""
_CHUNK = 500
"""Tasks in one transaction, so that their workflows are not locked for long."""
