"""The metrics as Prometheus's text. No other module imports its client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from riverui import __version__
from riverui.domain.figures import Tally
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueListRow
from riverui.features.figures.domain import Pair
from riverui.features.figures.reader import totals
from riverui.features.slo.reader import Standing
from riverui.web.http.counts import Snapshot
from riverui.web.http.metrics import BOUNDS, Durations, Metrics, Scraped, ScrapedStandby

_BUCKETS = (*map(str, BOUNDS), "+Inf")
_SPAN_BUCKETS = (*map(str, totals.BOUNDS), "+Inf")


async def text(
    metrics: Metrics, incidents: Mapping[str, int], standings: Sequence[Standing] = ()
) -> bytes:
    """Return all metrics as text, with the open incidents by cause; those of the database are at
    most five seconds old.
    """
    scraped, snapshot = await metrics.read()
    registry = CollectorRegistry()
    registry.register(_Collected(metrics, scraped, snapshot, incidents))
    registry.register(_Objectives(standings))
    return generate_latest(registry)


class _Collected:
    """A collector of the values read and counted; metrics without a value are left out."""

    def __init__(
        self,
        metrics: Metrics,
        scraped: Scraped,
        snapshot: Snapshot,
        incidents: Mapping[str, int],
    ) -> None:
        self._incidents = incidents
        self._metrics = metrics
        self._scraped = scraped
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        scraped, counts = self._scraped, self._snapshot.counts or {}
        yield _family(
            "riverui_database_up", "Whether the database answered.", [], [([], scraped.up)]
        )
        yield from _standby_families(scraped.standby)
        yield _family(
            "river_jobs",
            "Jobs by state; big states as last counted.",
            ["state"],
            [([state.value], count.value) for state, count in counts.items()],
        )
        if scraped.led is not None:
            yield _family("river_leader", "Whether there is a leader.", [], [([], scraped.led)])
        if scraped.finished is not None:
            yield _family(
                "river_jobs_finished_last_minute",
                "Jobs that ended in the last minute and are still there.",
                ["state"],
                [([state.value], number) for state, number in scraped.finished],
            )
        if scraped.queues is not None:
            yield from _queue_families(scraped.queues)
        yield from _ended_families(self._metrics.ended.totals)
        yield _family(
            "riverui_incidents_open",
            "Open incidents by cause; 0 for causes without any.",
            ["cause"],
            [([cause.value], self._incidents.get(cause, 0)) for cause in Cause if cause],
        )
        yield _family("riverui_info", "Always 1.", ["version"], [([__version__], 1)])
        yield _histograms(
            "riverui_request_seconds", "Time to answer requests.", self._metrics.requests
        )
        yield _histograms(
            "riverui_database_seconds",
            "Time that transactions took, including the wait for a connection.",
            self._metrics.transactions,
        )


class _Objectives:
    """A collector of the objectives of queues."""

    def __init__(self, standings: Sequence[Standing]) -> None:
        self._standings = standings

    def collect(self) -> Iterator[Metric]:
        found = [(each.objective.queue, each) for each in self._standings]
        if not found:
            return
        yield _family(
            "riverui_slo_target",
            "The share of the queue's jobs that has to start in time.",
            ["queue"],
            [([queue], each.objective.target) for queue, each in found],
        )
        for name, words, spans in (
            ("good", "The share that started in time", [(q, each.good) for q, each in found]),
            ("burn_rate", "Late jobs by those that may be", [(q, each.burns) for q, each in found]),
        ):
            yield _family(
                f"riverui_slo_{name}",
                f"{words}; left out where not measured.",
                ["queue", "window"],
                [
                    ([queue, span], value)
                    for queue, values in spans
                    for span, value in values.items()
                    if value is not None
                ],
            )


def _standby_families(standby: ScrapedStandby | None) -> Iterator[Metric]:
    used = [] if standby is None else [standby.used]
    yield _family(
        "riverui_standby_used",
        "Whether pages are read from the standby.",
        [],
        [([], each) for each in used],
    )
    behind = [] if standby is None or standby.lag is None else [standby.lag]
    yield _family(
        "riverui_standby_lag_seconds",
        "How far the standby that pages are read from is behind.",
        [],
        [([], each) for each in behind],
    )


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


def _ended_families(ended: Mapping[Pair, Tally]) -> Iterator[Metric]:
    jobs = CounterMetricFamily(
        "river_jobs_ended", "Jobs that ended.", labels=["queue", "kind", "state"]
    )
    failed = CounterMetricFamily(
        "river_attempts_failed", "Attempts that ended with an error.", labels=["queue", "kind"]
    )
    run = HistogramMetricFamily(
        "river_job_run_seconds", "How long completed jobs ran.", labels=["queue", "kind"]
    )
    wait = HistogramMetricFamily(
        "river_job_wait_seconds",
        "How long ended jobs had been due when their last attempt began.",
        labels=["queue", "kind"],
    )
    for pair, total in ended.items():
        for state in ("completed", "cancelled", "discarded"):
            jobs.add_metric([*pair, state], getattr(total, state))
        failed.add_metric(pair, total.failed)
        for family, sketch in ((run, total.run), (wait, total.wait)):
            counted = zip(_SPAN_BUCKETS, totals.up_to_bounds(sketch), strict=True)
            family.add_metric(pair, list(counted), sketch.sum_us / 1e6)
    yield from (jobs, failed, run, wait)


def _family(
    name: str,
    documentation: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for values, number in samples:
        family.add_metric(values, float(number))
    return family


def _histograms(name: str, documentation: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(name, documentation, labels=durations.labels)
    for values, histogram in durations.histograms.items():
        counted = zip(_BUCKETS, accumulate(histogram.buckets), strict=True)
        family.add_metric(values, list(counted), histogram.total)
    return family


def _queue_counts(row: QueueListRow) -> Iterator[tuple[Sequence[str], float]]:
    for state in (JobState.AVAILABLE, JobState.RUNNING, JobState.SCHEDULED, JobState.RETRYABLE):
        yield [row.queue.name, state.value], getattr(row, state.value)


def _age(at: datetime | None, now: datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
