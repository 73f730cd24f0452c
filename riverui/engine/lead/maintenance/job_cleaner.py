"""Removes finished jobs after their retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from riverui.domain.text import counted
from riverui.engine.lead.maintenance.service import (
    SET_ASIDE_SECONDS,
    TIMEOUT,
    BatchSize,
    ServiceContext,
    in_batches,
)
from riverui.engine.retention import Retention
from riverui.engine.work.set_aside import SetAside, passing_over
from riverui.storage.interface.engine_params import JobDeleteBeforeParams


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """Which finished jobs are removed, and when."""

    retention: Retention = field(default_factory=Retention)
    """Periods that are None are the client's."""
    name: str = "job cleaner"
    """The service's name in logs."""
    queues_excluded: Sequence[str] = ()
    queues_included: Sequence[str] = ()
    """Only these queues; empty for all."""
    timeout: timedelta = TIMEOUT
    """Time limit of one statement."""


class JobCleaner:
    """Removes the jobs of each finished state after its retention."""

    interval = timedelta(seconds=30)

    def __init__(
        self,
        context: ServiceContext,
        cleaning: Cleaning | None = None,
        *,
        size: BatchSize | None = None,
    ) -> None:
        self._cleaning = cleaning = cleaning or Cleaning()
        self.name = cleaning.name
        self._aside = SetAside(self.name, context.logger, seconds=SET_ASIDE_SECONDS)
        self._context = context
        self._retention = cleaning.retention.or_else(context.retention)
        self._size = size or BatchSize()

    async def run_once(self) -> int:
        """Remove all jobs past their retention, and return how many."""
        removed = await in_batches(self._size, self._remove, self._context.timing)
        if removed:
            self._context.logger.info("%s: %s removed", self.name, counted(removed, "job"))
        return removed

    async def _remove(self, limit: int) -> int:
        return await passing_over(limit, self._remove_some, self._first, self._aside)

    async def _remove_some(self, limit: int) -> int:
        params = self._params(limit)
        if params.cancelled_before is params.completed_before is params.discarded_before is None:
            return 0
        if (delete_before := self._context.delete_before) is not None:
            async with self._context.transaction(self._cleaning.timeout) as transaction:
                return await delete_before(transaction, params)
        async with self._context.executor(self._cleaning.timeout) as executor:
            return await executor.work.delete_before(params)

    async def _first(self) -> int | None:
        async with self._context.executor(self._cleaning.timeout) as executor:
            return await executor.work.first_old(self._params(1))

    def _params(self, limit: int) -> JobDeleteBeforeParams:
        cleaning, now = self._cleaning, self._context.clock()
        return JobDeleteBeforeParams(
            cancelled_before=_horizon(now, self._retention.cancelled),
            completed_before=_horizon(now, self._retention.completed),
            discarded_before=_horizon(now, self._retention.discarded),
            limit=limit,
            queues_excluded=tuple(cleaning.queues_excluded),
            queues_included=tuple(cleaning.queues_included),
            except_ids=self._aside.ids,
        )


def _horizon(now: datetime, period: timedelta | None) -> datetime | None:
    if period is None or period < timedelta(0):
        return None
    try:
        return now - period
    except OverflowError:
        # Longer ago than datetime can represent.
        return None
