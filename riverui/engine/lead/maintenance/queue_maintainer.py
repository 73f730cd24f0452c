"""What a leader does for as long as it leads: all of River's maintenance."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook
from riverui.engine.lead.elector import Term, steady_clock
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler, NotifyInserts
from riverui.engine.lead.maintenance.periodic_job_enqueuer import (
    InsertRequests,
    PeriodicEnqueuer,
    Prepare,
)
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.engine.lead.maintenance.reindexer import Reindexer
from riverui.engine.lead.maintenance.service import Means, Pace, Rounds, keep_doing
from riverui.engine.lead.periodic import PeriodicJobs
from riverui.engine.waiting import backoff
from riverui.storage.interface import Driver

_STARTS = 3


class Maintainer:
    """The services of a leader. They stay the same over all of a client's terms."""

    _elected_at: datetime | None = None
    """When the last term began."""

    def __init__(
        self,
        means: Means,
        *,
        rounds: Sequence[Rounds],
        enqueuer: PeriodicEnqueuer,
        reindexer: Reindexer,
    ) -> None:
        self._means = means
        self.rounds = rounds
        self.enqueuer = enqueuer
        self.reindexer = reindexer

    async def lead(self, term: Term) -> None:
        """Runs every service until cancelled; raises when they cannot be started, so that others
        may lead.
        """
        await self._start(goes_on=term.elected_at == self._elected_at)
        self._elected_at = term.elected_at
        async with asyncio.TaskGroup() as group:
            for rounds in self.rounds:
                group.create_task(keep_doing(rounds, term, self._means))
            group.create_task(self.enqueuer.run(term))
            group.create_task(self.reindexer.run(term))

    async def _start(self, *, goes_on: bool) -> None:
        for attempt in range(1, _STARTS + 1):
            try:
                await self.enqueuer.start(goes_on=goes_on)
                return
            except Exception as error:
                self._means.logger.warning(
                    "maintenance could not be started (%d of %d): %r", attempt, _STARTS, error
                )
                if attempt == _STARTS:
                    raise
                await self._means.pace.sleep(backoff(attempt))


def maintainer(
    driver: Driver,
    config: ClientConfig,
    *,
    clock: Callable[[], datetime],
    periodic_jobs: PeriodicJobs,
    request: Prepare,
    insert_requests: InsertRequests,
    notify_inserts: NotifyInserts,
    logger: logging.Logger,
    hooks: Sequence[Hook] = (),
    now: Callable[[], float] = steady_clock,
    pace: Pace | None = None,
) -> Maintainer:
    """River's services, for one client; `hooks` are those with a `periodic_jobs_start`."""
    means = Means(
        driver=driver, config=config, clock=clock, logger=logger, now=now, pace=pace or Pace()
    )
    return Maintainer(
        means,
        rounds=[
            JobScheduler(means, notify_inserts=notify_inserts),
            JobRescuer(means),
            JobCleaner(means),
            QueueCleaner(means),
        ],
        enqueuer=PeriodicEnqueuer(
            means, periodic_jobs, prepare=request, insert_requests=insert_requests, hooks=hooks
        ),
        reindexer=Reindexer(means),
    )
