"""Metrics of a client's workers for Prometheus, through prometheus_client.

All names begin with `riverui_worker_`: those with `river_` are the dashboard's, which counts the
work of all clients in the database.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from riverui.domain.jobs import JobState
from riverui.engine.events import Event, EventKind
from riverui.engine.hooks import Metric, Plugin, WorkingClient
from riverui.engine.process_memory import resident_bytes
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

SPANS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0)
"""Upper bounds of the buckets of runs and waits in seconds: the dashboard's, and one for instant
jobs.
"""
_FETCHES = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the durations of fetches, in seconds."""
_LAGS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the event loop's delay, in seconds."""
_REFRESH_SECONDS = 1.0
"""Seconds between two updates of gauges: scrapes are ten times as far apart."""
OTHER = "*"
"""The label for kinds without a worker, as on the dashboard: jobs may have any kind."""
_OUTCOMES = {
    EventKind.JOB_CANCELLED: "cancelled",
    EventKind.JOB_COMPLETED: "completed",
    EventKind.JOB_FAILED: "failed",
    EventKind.JOB_INTERRUPTED: "interrupted",
    EventKind.JOB_SNOOZED: "snoozed",
}


class PrometheusPlugin(Plugin):
    """Counts attempts by queue, kind and outcome, and measures runs, waits, used slots, fetches and
    the process.

    Its metrics are in `registry`, by default prometheus_client's. A registry can have one plugin,
    which several clients of a process share; a second one raises ConfigError. `buckets` are the
    upper bounds, in seconds, of the histograms of runs and waits. It supports prometheus_client's
    multiprocess mode.
    """

    def __init__(
        self, *, registry: CollectorRegistry = REGISTRY, buckets: tuple[float, ...] = SPANS
    ) -> None:
        self.registry = registry
        self._clients: dict[WorkingClient, asyncio.Task[None]] = {}
        self._seen: set[str] = set()
        """Queues that had slots."""
        self._series: dict[tuple[str, str], _Series] = {}
        try:
            self._attempts = Counter(
                "riverui_worker_attempts",
                "Attempts that this process worked, by how they ended.",
                ["queue", "kind", "outcome"],
                registry=registry,
            )
        except ValueError:
            raise ConfigError(
                "this registry has the metrics of a PrometheusPlugin already: give all clients of a"
                " process the same plugin, or each a registry of its own"
            ) from None
        self._run = Histogram(
            "riverui_worker_run_seconds",
            "How long attempts ran, however they ended.",
            ["queue", "kind"],
            buckets=buckets,
            registry=registry,
        )
        self._wait = Histogram(
            "riverui_worker_wait_seconds",
            "How long jobs had been due when an attempt began.",
            ["queue", "kind"],
            buckets=buckets,
            registry=registry,
        )
        self._fetch = Histogram(
            "riverui_worker_fetch_seconds",
            "How long statements took that fetched jobs, or found none.",
            ["queue"],
            buckets=_FETCHES,
            registry=registry,
        )
        self._fetched = Counter(
            "riverui_worker_fetched_jobs", "Jobs fetched.", ["queue"], registry=registry
        )
        self._lag = Histogram(
            "riverui_worker_loop_lag_seconds",
            "How late the event loop was, looked at every second.",
            buckets=_LAGS,
            registry=registry,
        )
        self._running = Gauge(
            "riverui_worker_running_jobs",
            "Jobs at work.",
            ["queue"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._slots = Gauge(
            "riverui_worker_slots",
            "Jobs that may be at work at once.",
            ["queue"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._leader = Gauge(
            "riverui_worker_leader",
            "1 while a client of this process leads.",
            multiprocess_mode="livemax",
            registry=registry,
        )
        self._memory = Gauge(
            "riverui_worker_memory_bytes",
            "Resident memory of this process.",
            multiprocess_mode="liveall",
            registry=registry,
        )

    def client_start(self, client: WorkingClient) -> None:
        """Start counting the client's attempts."""
        known = frozenset(client.kinds)
        client.events.listen(_OUTCOMES, lambda event: self._ended(event, known))
        self._clients[client] = asyncio.create_task(self._watch(), name="riverui prometheus")

    async def client_stop(self, client: WorkingClient) -> None:
        """Stop counting."""
        if watching := self._clients.pop(client, None):
            watching.cancel()
            await asyncio.wait([watching])
        self.refresh()

    def metric_emit(self, metric: Metric) -> None:
        """Count a fetch."""
        if metric.name == "job_get_available_duration":
            self._fetch.labels(metric.queue).observe(metric.value)
        elif metric.name == "job_get_available_count" and metric.value:
            self._fetched.labels(metric.queue).inc(metric.value)

    def refresh(self) -> None:
        """Update the gauges; called every second, and preferably before a scrape."""
        running: Tally[str] = Tally()
        slots: Tally[str] = Tally()
        leads = False
        for client in tuple(self._clients):
            leads |= client.is_leader
            running.update(client.running_by_queue)
            slots.update(client.slots_by_queue)
        self._tell(self._running, running)
        self._tell(self._slots, slots)
        self._seen.update(slots)
        self._leader.set(leads)
        with suppress(OSError):
            self._memory.set(resident_bytes())

    def _tell(self, gauge: Gauge, counts: Mapping[str, int]) -> None:
        for queue in self._seen.union(counts):
            gauge.labels(queue).set(counts.get(queue, 0))

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.refresh()
            due = loop.time() + _REFRESH_SECONDS
            await asyncio.sleep(_REFRESH_SECONDS)
            self._lag.observe(max(0.0, loop.time() - due))

    def _ended(self, event: Event, known: frozenset[str]) -> None:
        """Count an attempt; called for each one, so it has to be fast."""
        row, stats = event.job, event.stats
        if row is None or stats is None:
            return
        kind = row.kind
        series = self._series.get((row.queue, kind))
        if series is None:
            series = self._new_series(row.queue, kind if kind in known else OTHER)
            if kind in known:
                self._series[row.queue, kind] = series
        if event.kind is EventKind.JOB_COMPLETED:
            series.completed.inc()
        else:
            outcome = "discarded" if row.state is JobState.DISCARDED else _OUTCOMES[event.kind]
            self._attempts.labels(row.queue, series.kind, outcome).inc()
        series.run.observe(stats.run_duration.total_seconds())
        series.wait.observe(max(0.0, stats.queue_wait_duration.total_seconds()))

    def _new_series(self, queue: str, kind: str) -> _Series:
        return _Series(
            kind,
            self._attempts.labels(queue, kind, "completed"),
            self._run.labels(queue, kind),
            self._wait.labels(queue, kind),
        )


class _Series:
    """The metrics of one queue and kind, looked up once."""

    __slots__ = ("completed", "kind", "run", "wait")

    def __init__(self, kind: str, completed: Counter, run: Histogram, wait: Histogram) -> None:
        self.kind = kind
        self.completed = completed
        self.run = run
        self.wait = wait
