"""Refuses to work without the table that durable periodic jobs need."""

from __future__ import annotations

from riverui.engine.pilot import Feature, ProducerStatus
from riverui.errors import ConfigError
from riverui.storage.interface import Executor
from riverui.storage.tables import MISSING, REMEDY, installed


class DurablePeriodicJobs(Feature):
    """Says plainly at the start what is missing; the jobs themselves are planned by the leader."""

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Raise ConfigError where the table of periodic jobs is missing."""
        if not await installed(executor):
            raise ConfigError(f"durable_periodic_jobs needs {MISSING}: run `{REMEDY}`.")
