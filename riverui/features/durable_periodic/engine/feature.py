"""Refuses to work without the table that durable periodic jobs need."""

from __future__ import annotations

from riverui.engine.pilot import Feature, ProducerStatus
from riverui.errors import ConfigError
from riverui.features.durable_periodic.store import PERIODIC_JOB_TABLE
from riverui.storage.interface import Executor


class DurablePeriodicJobs(Feature):
    """Says plainly at the start what is missing; the jobs themselves are planned by the leader."""

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Raise ConfigError where the table of periodic jobs is missing."""
        if not await PERIODIC_JOB_TABLE.exists(executor):
            raise ConfigError(
                f"durable_periodic_jobs needs {PERIODIC_JOB_TABLE.missing}: run"
                f" `{PERIODIC_JOB_TABLE.remedy}`."
            )
