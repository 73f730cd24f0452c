"""Makes the leader store the next runs of periodic jobs."""

from __future__ import annotations

from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.pilot import Feature, ProducerStatus
from riverui.errors import ConfigError
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.durable_periodic.engine.plan import DurablePlan
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage import tables
from riverui.storage.interface import Executor


class DurablePeriodicJobs(Feature):
    """Stores the next run of each periodic job that has an id, so that it survives the leader."""

    def __init__(self, config: DurablePeriodicJobsConfig) -> None:
        self._config = config

    def next_runs(self, context: ServiceContext) -> DurablePlan:
        """Return the stored next runs, for one client's terms as leader."""
        return DurablePlan(self._config, context)

    async def producer_start(self, executor: Executor, producer: ProducerStatus) -> None:
        """Raise ConfigError if the table of periodic jobs is missing."""
        if not await DurablePeriodicStore.installed(executor):
            raise ConfigError(tables.message("durable_periodic_jobs needs"))
