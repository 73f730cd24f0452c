"""Keeps discarded jobs as dead letters, instead of removing them after their retention."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.text import counted
from riverui.engine.lead.maintenance.service import BatchSize, ServiceContext, in_batches
from riverui.engine.pilot import Feature, Inner, ProducerStatus
from riverui.engine.spans import NO_LIMIT
from riverui.errors import ConfigError
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage import tables
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobDeleteBeforeParams


class DeadLetters(Feature):
    """Moves discarded jobs to their own table in the statement that removes them.

    It is the innermost feature: everything that removes finished jobs uses its statement.
    """

    lost_without = "discarded jobs are removed and do not become dead letters"

    def __init__(self, config: DeadLetterConfig) -> None:
        self._config = config

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Raise ConfigError if the table of dead letters is missing."""
        if not await DeadLetterStore.installed(executor):
            raise ConfigError(tables.message("dead_letter needs"))

    async def delete_before(
        self,
        executor: Executor,
        params: JobDeleteBeforeParams,
        do_inner: Inner[JobDeleteBeforeParams, int],
    ) -> int:
        """Remove finished jobs, and keep the discarded ones."""
        return await DeadLetterStore(executor).dead_job_move_before(params)

    def services(self, context: ServiceContext) -> Sequence[DeadLetterCleaner]:
        """Return the service that removes dead letters, unless they are kept without limit."""
        period = self._config.retention_period
        return [] if period == NO_LIMIT else [DeadLetterCleaner(context, period)]


class DeadLetterCleaner:
    """Removes dead letters that are past their retention."""

    name = "dead letter cleaner"
    interval = timedelta(seconds=30)

    def __init__(self, context: ServiceContext, period: timedelta) -> None:
        self._context = context
        self._period = period
        self._size = BatchSize()

    async def run_once(self) -> int:
        """Remove all dead letters that are past their retention; return how many."""
        removed = await in_batches(self._size, self._remove, self._context.timing)
        if removed:
            self._context.logger.info("%s: %s removed", self.name, counted(removed, "dead letter"))
        return removed

    async def _remove(self, limit: int) -> int:
        try:
            before = self._context.clock() - self._period
        except OverflowError:
            # The period reaches back before the first date that Python can represent.
            return 0
        async with self._context.executor() as executor:
            return await DeadLetterStore(executor).dead_job_delete_before(before, limit=limit)
