"""The three workers that have nothing to do with the memory."""

from __future__ import annotations

import logging
from datetime import timedelta

from examples.orchestrator.deps import Deps
from examples.orchestrator.jobs import MessageCleanup, PricingRefresh, UsageEvent
from riverui import Job, Worker, record_output

log = logging.getLogger(__name__)


class MessageCleanupWorker(Worker[MessageCleanup]):
    """Lets no message hang in an app for ever."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[MessageCleanup]) -> None:
        if failed := await self.deps.messages.fail_stale_pending(older_than=timedelta(minutes=5)):
            log.warning("%s messages were never answered", failed)


class PricingRefreshWorker(Worker[PricingRefresh]):
    """Daily: what the models cost from now on."""

    timeout = timedelta(seconds=30)

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[PricingRefresh]) -> None:
        if self.deps.price_list is None:
            return
        prices = await self.deps.price_list.prices()
        await self.deps.pricing.add(prices)
        record_output({"models": sorted(prices)})


class UsageWriteWorker(Worker[UsageEvent]):
    """One row in ClickHouse for each answer of a model."""

    timeout = timedelta(seconds=10)

    def __init__(self, deps: Deps) -> None:
        self.deps = deps

    async def work(self, job: Job[UsageEvent]) -> None:
        if self.deps.usage is not None:
            await self.deps.usage.insert(job.args)
