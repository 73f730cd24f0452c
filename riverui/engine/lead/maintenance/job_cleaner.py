"""Removes jobs that have been finished for long enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from riverui.engine.lead.maintenance.service import ASIDE, BatchSize, Means, in_batches
from riverui.engine.work.set_aside import SetAside, passing_over
from riverui.storage.interface.params import JobDeleteBeforeParams


class JobCleaner:
    """Each finished state has its own retention; NO_LIMIT keeps its jobs for ever."""

    name = "job cleaner"
    interval = timedelta(seconds=30)

    def __init__(
        self, means: Means, *, queues_excluded: Sequence[str] = (), size: BatchSize | None = None
    ) -> None:
        self._means = means
        self._aside = SetAside(self.name, means.logger, seconds=ASIDE)
        self._queues_excluded = tuple(queues_excluded)
        self._size = size or BatchSize()

    async def run_once(self) -> int:
        """Removes all that is past its retention; how many jobs."""
        removed = await in_batches(self._size, self._remove, self._means.pace)
        if removed:
            self._means.logger.info("%s: %d jobs removed", self.name, removed)
        return removed

    async def _remove(self, limit: int) -> int:
        return await passing_over(limit, self._remove_some, self._first, self._aside)

    async def _remove_some(self, limit: int) -> int:
        params = self._params(limit)
        if params.cancelled_before is params.completed_before is params.discarded_before is None:
            return 0
        async with self._means.executor(self._means.config.job_cleaner_timeout) as executor:
            return await executor.job_delete_before(params)

    async def _first(self) -> int | None:
        async with self._means.executor(self._means.config.job_cleaner_timeout) as executor:
            return await executor.job_first_old(self._params(1))

    def _params(self, limit: int) -> JobDeleteBeforeParams:
        config, now = self._means.config, self._means.clock()
        return JobDeleteBeforeParams(
            cancelled_before=_horizon(now, config.cancelled_job_retention_period),
            completed_before=_horizon(now, config.completed_job_retention_period),
            discarded_before=_horizon(now, config.discarded_job_retention_period),
            limit=limit,
            queues_excluded=self._queues_excluded,
            except_ids=self._aside.ids,
        )


def _horizon(now: datetime, retention: timedelta) -> datetime | None:
    if retention < timedelta(0):
        return None
    try:
        return now - retention
    except OverflowError:
        return None
