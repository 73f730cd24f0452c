"""Removes jobs that have been finished for long enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from riverui.engine.maintenance.rounds import BatchSize, Means, in_batches
from riverui.storage.params import JobDeleteBeforeParams


class JobCleaner:
    """Each finished state has its own retention; NO_LIMIT keeps its jobs for ever."""

    name = "job cleaner"
    interval = timedelta(seconds=30)

    def __init__(
        self, means: Means, *, queues_excluded: Sequence[str] = (), size: BatchSize | None = None
    ) -> None:
        self._means = means
        self._queues_excluded = tuple(queues_excluded)
        self._size = size or BatchSize()

    async def run_once(self) -> int:
        """Removes all that is past its retention; how many jobs."""
        removed = await in_batches(self._size, self._remove, self._means.pace)
        if removed:
            self._means.logger.info("%s: %d jobs removed", self.name, removed)
        return removed

    async def _remove(self, limit: int) -> int:
        config, now = self._means.config, self._means.clock()
        params = JobDeleteBeforeParams(
            cancelled_before=_horizon(now, config.cancelled_job_retention_period),
            completed_before=_horizon(now, config.completed_job_retention_period),
            discarded_before=_horizon(now, config.discarded_job_retention_period),
            limit=limit,
            queues_excluded=self._queues_excluded,
        )
        if params.cancelled_before is params.completed_before is params.discarded_before is None:
            return 0
        async with self._means.executor(config.job_cleaner_timeout) as executor:
            return await executor.job_delete_before(params)


def _horizon(now: datetime, retention: timedelta) -> datetime | None:
    if retention < timedelta(0):
        return None
    try:
        return now - retention
    except OverflowError:
        return None
