"""Prometheus metrics of a dashboard: jobs, queues, and durations of requests and transactions."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar

from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.queues import QueueListRow
from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.features.figures.reader.totals import EndedTotals
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.params import Field, JobFilter, Op, Term
from riverui.web.config import DashboardConfig
from riverui.web.http.counts import Counts, Snapshot
from riverui.web.http.read_replica import ReadReplica
from riverui.web.view.facts import fact

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets in seconds, up to what an action may take; the last bucket
has none.
"""

log = logging.getLogger("riverui.metrics")

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of Prometheus's text format."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FRESH = 5.0
"""Seconds for which the values read from the database are reused for every scraper."""
_QUEUES = 200
"""Most queues with samples of their own: as many as the list of queues shows."""
_FINISHED = 100_000
"""Most finished jobs counted per minute and state."""

_Executor = TypeVar("_Executor", bound=Executor)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScrapedStandby:
    """Which server pages were read from, if there is a standby."""

    used: bool
    """Whether it was the standby; else it was the primary."""
    lag: float | None
    """The standby's lag in seconds; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scraped:
    """Values read from the database."""

    at: float
    """Seconds of the monotonic clock."""
    up: bool
    standby: ScrapedStandby | None = None
    queues: Sequence[QueueListRow] | None = None
    finished: Sequence[tuple[JobState, int]] | None = None
    led: bool | None = None
    unread: tuple[str, ...] = ()
    """Why the fields that are None could not be read."""


@dataclass(slots=True)
class Histogram:
    """Durations with the same labels."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Number of durations per bucket, not cumulative."""
    total: float = 0.0
    """Sum of the durations in seconds."""


class Durations:
    """Histograms by the values of their labels."""

    def __init__(self, *labels: str) -> None:
        self.labels = labels
        self.histograms: dict[tuple[str, ...], Histogram] = {}

    def add(self, seconds: float, *values: str) -> None:
        """Count one duration with these label values."""
        if (histogram := self.histograms.get(values)) is None:
            histogram = self.histograms[values] = Histogram()
        histogram.buckets[bisect_left(BOUNDS, seconds)] += 1
        histogram.total += seconds


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
        self.requests = Durations("method", "route", "status")
        self.transactions = Durations("access")

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Unknown methods share one label, so that clients cannot fill
        the memory.
        """
        known = method if method in _METHODS else "other"
        self.requests.add(seconds, known, route or "none", str(status))

    def transacted(self, access: str, seconds: float) -> None:
        """Count one transaction; `access` is read or write."""
        self.transactions.add(seconds, access)

    async def read(self) -> tuple[Scraped, Snapshot]:
        """Return what the database says, at most five seconds old, and the counts of jobs."""
        self._look()
        async with self._reading:
            if self._scraped is None or time.monotonic() - self._scraped.at > _FRESH:
                self._scraped = await self._read()
        return self._scraped, await self._counts.thorough()

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


class MeasuredDriver:
    """Wraps a driver and measures its transactions from the wait for a connection to their end.

    `note` is called with "read" or "write", and the seconds.
    """

    def __init__(self, driver: Driver, note: Callable[[str, float], None]) -> None:
        self._driver = driver
        self._note = note

    def __getattr__(self, name: str) -> Any:
        # Drivers may have more methods than the interface; pass them through.
        return getattr(self._driver, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Return the driver's own read-only transaction, measured."""
        return self._measured("read", self._driver.reading(timeout=timeout))

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """Return the driver's own transaction, measured."""
        return self._measured("write", self._driver.transaction(timeout=timeout))

    def _measured(
        self, access: str, transaction: AbstractAsyncContextManager[_Executor]
    ) -> AbstractAsyncContextManager[_Executor]:
        return _Measured(transaction, access, self._note)


class _Measured(AbstractAsyncContextManager[_Executor]):
    """One transaction that is measured."""

    __slots__ = ("_access", "_note", "_started", "_transaction")

    def __init__(
        self,
        transaction: AbstractAsyncContextManager[_Executor],
        access: str,
        note: Callable[[str, float], None],
    ) -> None:
        self._transaction = transaction
        self._access = access
        self._note = note

    async def __aenter__(self) -> _Executor:
        self._started = time.monotonic()
        try:
            return await self._transaction.__aenter__()
        except BaseException:
            self._note(self._access, time.monotonic() - self._started)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._transaction.__aexit__(kind, error, trace)
        finally:
            self._note(self._access, time.monotonic() - self._started)
