"""Figures for Prometheus, in a registry of each dashboard's own: jobs, queues, and how long
requests and transactions take.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from riverui import __version__
from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.queues import QueueListRow
from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.params import Field, JobFilter, Op, Term
from riverui.web.config import DashboardConfig
from riverui.web.live.counts import Counts, Snapshot
from riverui.web.view.facts import fact

log = logging.getLogger("riverui.metrics")

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of Prometheus's text format."""

_FRESH = 5.0
"""Seconds for which what was read of the queues answers every scraper."""
_QUEUES = 200
"""Queues that are told of, by name: as many as the list of queues shows."""
_FINISHED = 100_000
"""Jobs finished in a minute that are counted at most, of each state."""
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histograms in seconds, up to what an action may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Figures:
    """What was read of the database."""

    at: float
    """Seconds of the monotonic clock."""
    up: bool
    queues: Sequence[QueueListRow] | None = None
    finished: Sequence[tuple[JobState, int]] | None = None
    led: bool | None = None
    unread: tuple[str, ...] = ()
    """Why what is None could not be read."""


class Metrics:
    """The figures of one dashboard."""

    def __init__(self, driver: Driver, counts: Counts, config: DashboardConfig) -> None:
        self._driver = driver
        self._counts = counts
        self._config = config
        self._figures: _Figures | None = None
        self._reading = asyncio.Lock()
        self._registry = CollectorRegistry()
        info = Gauge("riverui_info", "Always 1.", ["version"], registry=self._registry)
        info.labels(__version__).set(1)
        self._requests = Histogram(
            "riverui_request_seconds",
            "Time to answer requests.",
            ["method", "route", "status"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._transactions = Histogram(
            "riverui_database_seconds",
            "Time that transactions took, including the wait for a connection.",
            ["access"],
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. Methods that nobody knows are one, so that they cannot fill the
        memory.
        """
        known = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS") else "other"
        self._requests.labels(known, route or "none", str(status)).observe(seconds)

    def transacted(self, access: str, seconds: float) -> None:
        """Count one transaction; `access` is read or write."""
        self._transactions.labels(access).observe(seconds)

    async def text(self) -> bytes:
        """Return all figures as text; those of the database are five seconds old at most."""
        async with self._reading:
            if self._figures is None or time.monotonic() - self._figures.at > _FRESH:
                self._figures = await self._read()
        snapshot = await self._counts.thorough()
        registry = CollectorRegistry()
        registry.register(_Collected(self._figures, snapshot))
        return generate_latest(registry) + generate_latest(self._registry)

    async def _read(self) -> _Figures:
        queues = await fact(
            self._driver,
            lambda executor: executor.queue_list(cap=self._config.count_cap, limit=_QUEUES),
        )
        finished = await fact(self._driver, _finished)
        leader = await fact(self._driver, lambda executor: executor.leader_get())
        errors = [found for found in (queues, finished, leader) if isinstance(found, DatabaseError)]
        figures = _Figures(
            at=time.monotonic(),
            up=not any(isinstance(error, DatabaseUnavailable) for error in errors),
            queues=None if isinstance(queues, DatabaseError) else queues,
            finished=None if isinstance(finished, DatabaseError) else finished,
            led=None if isinstance(leader, DatabaseError) else leader is not None,
            unread=tuple(dict.fromkeys(map(str, errors))),
        )
        # Once for each change: on a standby the leader stays unknown for good.
        if figures.unread and (self._figures is None or figures.unread != self._figures.unread):
            log.info("could not read all metrics: %s", " ".join(figures.unread))
        return figures


class _Collected:
    """A collector of what was read; all that is not known is left out."""

    def __init__(self, figures: _Figures, snapshot: Snapshot) -> None:
        self._figures = figures
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        figures, counts = self._figures, self._snapshot.counts or {}
        yield _family(
            "riverui_database_up", "Whether the database answered.", [], [([], figures.up)]
        )
        yield _family(
            "river_jobs",
            "Jobs by state; big states as last counted.",
            ["state"],
            [([state.value], count.value) for state, count in counts.items()],
        )
        if figures.led is not None:
            yield _family("river_leader", "Whether there is a leader.", [], [([], figures.led)])
        if figures.finished is not None:
            yield _family(
                "river_jobs_finished_last_minute",
                "Jobs that ended in the last minute and are still there.",
                ["state"],
                [([state.value], number) for state, number in figures.finished],
            )
        if figures.queues is not None:
            yield from _queue_families(figures.queues)


def _queue_families(queues: Sequence[QueueListRow]) -> Iterator[Metric]:
    yield _family(
        "river_queue_jobs",
        "Unfinished jobs by queue, counted up to the same cap as on the pages.",
        ["queue", "state"],
        [sample for row in queues for sample in _queue_counts(row)],
    )
    yield _family(
        "river_queue_paused",
        "Whether the queue is paused.",
        ["queue"],
        [([row.queue.name], row.queue.paused_at is not None) for row in queues],
    )
    now = datetime.now(UTC)
    yield _family(
        "river_queue_oldest_waiting_seconds",
        "How long the queue's oldest available job has been due; 0 if none is waiting.",
        ["queue"],
        [([row.queue.name], _age(row.oldest_waiting_at, now)) for row in queues],
    )


def _family(
    name: str, told: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(name, told, labels=labels)
    for values, number in samples:
        family.add_metric(values, float(number))
    return family


async def _finished(executor: Executor) -> Sequence[tuple[JobState, int]]:
    since = datetime.now(UTC) - timedelta(minutes=1)
    ended = Term(field=Field.FINISHED, op=Op.GE, values=(since,))
    return [
        (state, (await executor.job_count(_of(state, ended), cap=_FINISHED)).value)
        for state in JobState
        if state in FINALIZED
    ]


def _of(state: JobState, term: Term) -> JobFilter:
    return JobFilter(states=(state,), terms=(term,))


def _queue_counts(row: QueueListRow) -> Iterator[tuple[Sequence[str], float]]:
    for state in (JobState.AVAILABLE, JobState.RUNNING, JobState.SCHEDULED, JobState.RETRYABLE):
        yield [row.queue.name, state.value], getattr(row, state.value)


def _age(at: datetime | None, now: datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
