"""Makes scheduled and retryable jobs available when they are due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta

from riverui.domain.text import counted
from riverui.engine.lead.maintenance.service import (
    SET_ASIDE_SECONDS,
    BatchSize,
    ServiceContext,
    in_batches,
)
from riverui.engine.spans import SCHEDULER_INTERVAL
from riverui.engine.work.set_aside import SetAside, passing_over
from riverui.storage.interface import Executor

NotifyInserts = Callable[[Executor, Iterable[str]], Awaitable[None]]
"""Notifies the workers of those queues."""

_SOON = timedelta(milliseconds=5)
"""Jobs that are due within this time are fetchable by the time the notification arrives."""


class JobScheduler:
    """Makes scheduled and retryable jobs available, at most one interval before they are due."""

    name = "job scheduler"
    interval = SCHEDULER_INTERVAL

    def __init__(
        self,
        context: ServiceContext,
        *,
        notify_inserts: NotifyInserts,
        size: BatchSize | None = None,
    ) -> None:
        self._context = context
        self._notify_inserts = notify_inserts
        self._aside = SetAside(self.name, context.logger, seconds=SET_ASIDE_SECONDS)
        self._size = size or BatchSize()

    async def run_once(self) -> int:
        """Move all due jobs and notify the workers of those that can be fetched now; return how
        many jobs.
        """
        moved = await in_batches(self._size, self._move, self._context.timing)
        if moved:
            self._context.logger.info("%s: %s moved", self.name, counted(moved, "job"))
        return moved

    async def _move(self, limit: int) -> int:
        return await passing_over(limit, self._move_some, self._first, self._aside)

    async def _first(self) -> int | None:
        async with self._context.executor() as executor:
            return await executor.work.first_due(
                now=self._context.clock() + self.interval, except_ids=self._aside.ids
            )

    async def _move_some(self, limit: int) -> int:
        async with self._context.executor() as executor:
            jobs = await executor.work.schedule(
                now=self._context.clock() + self.interval, limit=limit, except_ids=self._aside.ids
            )
            soon = self._context.clock() + _SOON
            queues = {
                job.queue for job in jobs if job.scheduled_at <= soon and not job.conflict_discarded
            }
            # The jobs are committed by now, so that notified workers find them.
            if queues:
                await self._notify_inserts(executor, sorted(queues))
            return len(jobs)
