"""The customers and campaigns that keep the demo shop busy, and its periodic jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random

from riverui.demo.history import any_kind, delay, origin, tags
from riverui.demo.shop import BY_NAME, KINDS, Kind
from riverui.demo.workers import args_type
from riverui.domain.jobs import JobState
from riverui.domain.schedules import PeriodicInterval
from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.job_lists import JobListParams
from riverui.engine.lead.periodic import PeriodicJob
from riverui.errors import DatabaseError

_TICK = 0.5
"""Seconds between two rounds: the dashboard refreshes every few seconds."""
_PER_SECOND = 0.9
"""Average new jobs a second: with those of campaigns and fulfilment as many as in the history."""
_BURST = 10
"""Push notifications of one campaign: enough to see a queue grow and shrink."""
_HELD_EVERY = timedelta(seconds=12)
"""Time between two payments that are put on hold."""
_HELD_AT_ONCE = 4
"""Payments on hold, so that there are always some pending jobs to try the buttons on."""


class Timetable:
    """Remembers when each activity is due again."""

    def __init__(self) -> None:
        self._due: dict[str, datetime] = {}

    def is_due(self, name: str, now: datetime, interval: timedelta) -> bool:
        """Return whether it is due; the first time is now."""
        if now < self._due.get(name, now):
            return False
        self._due[name] = now + interval
        return True


async def repeat(insert: Callable[[datetime], Awaitable[None]]) -> None:
    """Insert jobs until cancelled; continue after database errors."""
    while True:
        with contextlib.suppress(DatabaseError):
            await insert(datetime.now(UTC))
        await asyncio.sleep(_TICK)


class Customers:
    """Inserts the shop's usual jobs."""

    def __init__(self, client: Client, rng: Random, *, campaigns: bool) -> None:
        """Insert through this client; without campaigns also without payments on hold."""
        self._client = client
        self._campaigns = campaigns
        self._rng = rng
        self._timetable = Timetable()

    async def insert(self, now: datetime) -> None:
        """Insert the orders since the last call."""
        rng, due = self._rng, self._timetable.is_due
        kinds = [any_kind(rng) for _ in range(self._arrivals())]
        pause = timedelta(seconds=rng.uniform(100, 260))
        if self._campaigns and due("campaign", now, pause):
            kinds += [BY_NAME["push_notification"]] * _BURST
        if kinds:
            await self._client.insert_many([new_job(kind, now, rng) for kind in kinds])
        if self._campaigns and due("payment on hold", now, _HELD_EVERY):
            await self._hold(now)

    async def _hold(self, now: datetime) -> None:
        """Put one payment on hold until a person releases it, and release the oldest."""
        payment = BY_NAME["payment_capture"]
        await self._client.insert_many([new_job(payment, now, self._rng, pending=True)])
        held = await self._client.job_list(
            JobListParams(kinds=(payment.name,), states=(JobState.PENDING,))
        )
        for job in held.jobs[:-_HELD_AT_ONCE]:
            await self._client.job_retry(job.id)

    def _arrivals(self) -> int:
        """Return how many jobs arrive within a tick: a Poisson process."""
        count, waited = 0, self._rng.expovariate(_PER_SECOND)
        while waited < _TICK:
            count, waited = count + 1, waited + self._rng.expovariate(_PER_SECOND)
        return count


def new_job(kind: Kind, now: datetime, rng: Random, *, pending: bool = False) -> InsertManyParams:
    """Return a new job of that kind."""
    wait = delay(kind, rng)
    return InsertManyParams(
        args=args_type(kind)(kind.args(rng)),
        insert_opts=InsertOpts(
            max_attempts=kind.max_attempts,
            metadata=origin(rng),
            pending=pending,
            priority=kind.priority,
            queue=kind.queue,
            scheduled_at=now + wait if wait else None,
            tags=tags(kind, rng),
            unique_opts=UniqueOpts(by_args=True) if kind.unique else None,
        ),
    )


def periodic_jobs(rng: Random) -> list[PeriodicJob]:
    """Return the shop's periodic jobs."""
    return [_periodic(kind, kind.periodic, rng) for kind in KINDS if kind.periodic]


def _periodic(kind: Kind, interval: timedelta, rng: Random) -> PeriodicJob:
    return PeriodicJob(
        PeriodicInterval(interval),
        lambda: new_job(kind, datetime.now(UTC), rng),
        id=kind.name,
        run_on_start=True,
    )
