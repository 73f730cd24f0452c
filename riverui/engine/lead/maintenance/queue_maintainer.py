"""What a leader runs: all of River's maintenance, and that of features."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook
from riverui.engine.insert.insert_opts import InsertOpts, InsertRequest
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.job_cleaner import Cleaning, JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.periodic_job_enqueuer import PeriodicJobEnqueuer
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.engine.lead.maintenance.reindexer import Reindexer
from riverui.engine.lead.maintenance.service import (
    MaintenanceService,
    ServiceContext,
    run_periodically,
)
from riverui.engine.lead.periodic import PeriodicJobs
from riverui.engine.pilot import Pilot
from riverui.engine.waiting import backoff
from riverui.storage.interface import Executor

_STARTS = 3
"""Tries to start before another client may lead: River's figure."""


class Inserts(Protocol):
    """Inserts jobs and notifies workers for the leader, as its client does."""

    def prepare_insert(self, args: object, insert_opts: InsertOpts | None = None) -> InsertRequest:
        """Return the validated request for one job."""
        ...

    def insert_requests(
        self,
        requests: Sequence[InsertRequest],
        *,
        numbered: Callable[[int], None] | None = None,
        beside: Callable[[Executor], Awaitable[None]] | None = None,
    ) -> Awaitable[object]:
        """Insert jobs in one transaction, and run `beside` in it; `numbered` is called with the
        transaction's number before the commit.
        """
        ...

    def notify_inserts(self, executor: Executor, queues: Iterable[str]) -> Awaitable[None]:
        """Notify the workers of those queues."""
        ...


class QueueMaintainer:
    """The services of a leader. They are the same in all of a client's terms, and while it does
    riverui's own part, `features`, under a leader of another kind.
    """

    def __init__(
        self,
        context: ServiceContext,
        services: Sequence[MaintenanceService],
        *,
        features: Sequence[MaintenanceService] = (),
        enqueuer: PeriodicJobEnqueuer,
        reindexer: Reindexer,
    ) -> None:
        self._context = context
        self._goes_on_from: object = None
        """The election time of the last term, from the database."""
        self._turn = asyncio.Lock()
        """Held while the services run; a stand-in that is elected releases it soon."""
        self.services = (*services, *features)
        self.features = features
        self.enqueuer = enqueuer
        self.reindexer = reindexer

    async def lead(self, term: LeaderTerm) -> None:
        """Run every service until cancelled; raise if they cannot start, so that another client may
        lead.
        """
        async with self._turn:
            await self._start(goes_on=term.elected_at == self._goes_on_from)
            self._goes_on_from = term.elected_at
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    group.create_task(run_periodically(service, term, self._context))
                group.create_task(self.enqueuer.run(term))
                group.create_task(self.reindexer.run(term))

    async def stand_in(self, term: LeaderTerm) -> None:
        """Run what a leader of another kind lacks, until cancelled: services of features, and
        durable periodic jobs.
        """
        async with self._turn, asyncio.TaskGroup() as group:
            for service in self.features:
                group.create_task(run_periodically(service, term, self._context))
            if self.enqueuer.durable:
                await self.enqueuer.start(durable_only=True)
                group.create_task(self.enqueuer.run(term))

    async def _start(self, *, goes_on: bool) -> None:
        for attempt in range(1, _STARTS + 1):
            try:
                await self.enqueuer.start(goes_on=goes_on)
                return
            except Exception as error:
                self._context.logger.warning(
                    "maintenance could not be started (%d of %d): %r", attempt, _STARTS, error
                )
                if attempt == _STARTS:
                    raise
                await self._context.timing.sleep(backoff(attempt))


def queue_maintainer(
    context: ServiceContext,
    config: ClientConfig,
    periodic_jobs: PeriodicJobs,
    inserts: Inserts,
    *,
    hooks: Sequence[Hook] = (),
    pilot: Pilot,
) -> QueueMaintainer:
    """Return the services of one client; `hooks` are those with a `periodic_jobs_start`."""
    cleaning = Cleaning(
        queues_excluded=pilot.queues_excluded_from_cleaning, timeout=config.job_cleaner_timeout
    )
    return QueueMaintainer(
        context,
        [
            JobScheduler(context, notify_inserts=inserts.notify_inserts),
            JobRescuer(context, config, pilot=pilot),
            JobCleaner(context, cleaning),
            QueueCleaner(context),
        ],
        features=pilot.services(context),
        enqueuer=PeriodicJobEnqueuer(
            context,
            periodic_jobs,
            prepare=inserts.prepare_insert,
            insert_requests=inserts.insert_requests,
            hooks=hooks,
            next_runs=pilot.next_runs(context),
        ),
        reindexer=Reindexer(context, config),
    )
