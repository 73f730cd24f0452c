"""Who keeps the demo shop busy: customers that order, campaigns, and the periodic jobs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
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
"""Seconds between two rounds of orders: the dashboard looks every few seconds."""
_NEW_PER_SECOND = 1.5
"""New jobs in the mean: as many as the shop's workers get done."""
_BURST = 40
"""Push notifications of one campaign: enough for a queue that one sees grow and shrink."""
_HELD_EVERY = timedelta(seconds=12)
"""Between two payments that are put on hold."""
_HELD_AT_ONCE = 4
"""Payments on hold, so that there are always some pending jobs to try the buttons on."""


class Customers:
    """Inserts jobs through a client for as long as `run` runs."""

    def __init__(
        self,
        client: Client,
        rng: Random,
        *,
        per_second: float = _NEW_PER_SECOND,
        also: Mapping[str, float] | None = None,
    ) -> None:
        """Make customers that order so much; `also` are jobs of a kind that come every second, and
        then there are neither campaigns nor orders on hold.
        """
        self._per_second = per_second
        self._also = also
        self._client = client
        self._due: dict[str, datetime] = {}
        self._rng = rng

    async def run(self) -> None:
        """Insert jobs until cancelled; wait for a database that is away."""
        while True:
            with contextlib.suppress(DatabaseError):
                await self._order(datetime.now(UTC))
            await asyncio.sleep(_TICK)

    async def _order(self, now: datetime) -> None:
        kinds = [any_kind(self._rng) for _ in range(self._arrivals())]
        if self._also is not None:
            for name, rate in self._also.items():
                kinds += [BY_NAME[name]] * round(rate * _TICK)
        elif self._is_due("campaign", now, timedelta(seconds=self._rng.uniform(100, 260))):
            kinds += [BY_NAME["push_notification"]] * _BURST
        if kinds:
            await self._client.insert_many([new_job(kind, now, self._rng) for kind in kinds])
        if self._also is None and self._is_due("order on hold", now, _HELD_EVERY):
            await self._hold(now)

    async def _hold(self, now: datetime) -> None:
        """Put one payment on hold, which a person has to release, and let the oldest through."""
        await self._client.insert_many(
            [new_job(BY_NAME["payment_capture"], now, self._rng, pending=True)]
        )
        held = await self._client.job_list(
            JobListParams(kinds=("payment_capture",), states=(JobState.PENDING,))
        )
        for job in held.jobs[:-_HELD_AT_ONCE]:
            await self._client.job_retry(job.id)

    def _arrivals(self) -> int:
        """Return how many jobs arrive within a tick: a Poisson process."""
        count, waited = 0, self._rng.expovariate(self._per_second)
        while waited < _TICK:
            count, waited = count + 1, waited + self._rng.expovariate(self._per_second)
        return count

    def _is_due(self, what: str, now: datetime, interval: timedelta) -> bool:
        """Return whether it is time; the first time is now."""
        if now < self._due.get(what, now):
            return False
        self._due[what] = now + interval
        return True


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
    """Return what the shop does at regular intervals, whichever of its clients leads."""
    return [_periodic(kind, kind.periodic, rng) for kind in KINDS if kind.periodic]


def _periodic(kind: Kind, interval: timedelta, rng: Random) -> PeriodicJob:
    return PeriodicJob(
        PeriodicInterval(interval),
        lambda: new_job(kind, datetime.now(UTC), rng),
        id=kind.name,
        run_on_start=True,
    )
