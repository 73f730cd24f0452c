"""Prometheus metrics of a dashboard: jobs, queues, and durations of requests and transactions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import FINALIZED, JobState
from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.features.figures.reader.totals import EndedTotals
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.params import Field, JobFilter, Op, Term
from riverui.web.config import DashboardConfig
from riverui.web.live.counts import Counts
from riverui.web.live.read_replica import ReadReplica
from riverui.web.live.scraped import Durations, Scraped, ScrapedStandby
from riverui.web.view.facts import fact

log = logging.getLogger("riverui.metrics")

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of Prometheus's text format."""

_FRESH = 5.0
"""Seconds for which the values read from the database are reused for every scraper."""
_QUEUES = 200
"""Most queues with samples of their own: as many as the list of queues shows."""
_FINISHED = 100_000
"""Most finished jobs counted per minute and state."""


class Metrics:
    """The metrics of one dashboard."""

    def __init__(
        self,
        driver: Driver,
        counts: Counts,
        config: DashboardConfig,
        ended: EndedTotals,
        look: Callable[[], object],
        replica: ReadReplica | None = None,
    ) -> None:
        self._driver = driver
        self._counts = counts
        self.ended = ended
        """Jobs that ended since the start."""
        self._look = look
        """Notes that someone reads the finished jobs."""
        self._config = config
        self._replica = replica
        self._scraped: Scraped | None = None
        self._reading = asyncio.Lock()
        self._requests = Durations("method", "route", "status")
        self._transactions = Durations("access")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Unknown methods share one label, so that clients cannot fill
        the memory.
        """
        known = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS") else "other"
        self._requests.add(seconds, known, route or "none", str(status))

    def transacted(self, access: str, seconds: float) -> None:
        """Count one transaction; `access` is read or write."""
        self._transactions.add(seconds, access)

    async def text(self) -> bytes:
        """Return all metrics as text; those of the database are at most five seconds old."""
        self._look()
        async with self._reading:
            if self._scraped is None or time.monotonic() - self._scraped.at > _FRESH:
                self._scraped = await self._read()
        snapshot = await self._counts.thorough()
        # Imported on first use: most dashboards have no scraper.
        from riverui.web.live import prometheus

        return prometheus.text(
            self._scraped,
            snapshot,
            ended=self.ended.totals,
            requests=self._requests,
            transactions=self._transactions,
        )

    async def _read(self) -> Scraped:
        queues = await fact(
            self._driver,
            lambda executor: executor.queues.list(cap=self._config.count_cap, limit=_QUEUES),
        )
        finished = await fact(self._driver, _finished)
        leader = await fact(self._driver, lambda executor: executor.leader.get())
        errors = [found for found in (queues, finished, leader) if isinstance(found, DatabaseError)]
        scraped = Scraped(
            at=time.monotonic(),
            standby=self._standby(),
            up=not any(isinstance(error, DatabaseUnavailable) for error in errors),
            queues=None if isinstance(queues, DatabaseError) else queues,
            finished=None if isinstance(finished, DatabaseError) else finished,
            led=None if isinstance(leader, DatabaseError) else leader is not None,
            unread=tuple(dict.fromkeys(map(str, errors))),
        )
        # Once per change: on a standby the leader stays unknown.
        if scraped.unread and (self._scraped is None or scraped.unread != self._scraped.unread):
            log.info("could not read all metrics: %s", " ".join(scraped.unread))
        return scraped

    def _standby(self) -> ScrapedStandby | None:
        replica = self._replica
        if replica is None:
            return None
        used = not replica.problem
        lag = replica.lag if used else None
        return ScrapedStandby(used=used, lag=None if lag is None else lag.total_seconds())


async def _finished(executor: Executor) -> Sequence[tuple[JobState, int]]:
    since = datetime.now(UTC) - timedelta(minutes=1)
    ended = Term(field=Field.FINISHED, op=Op.GE, values=(since,))
    return [
        (state, (await executor.jobs.count(_ended_filter(state, ended), cap=_FINISHED)).value)
        for state in JobState
        if state in FINALIZED
    ]


def _ended_filter(state: JobState, term: Term) -> JobFilter:
    return JobFilter(states=(state,), terms=(term,))
