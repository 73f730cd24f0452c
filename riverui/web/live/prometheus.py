"""The metrics as text for Prometheus. Nothing else of riverui loads its client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from riverui import __version__
from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueListRow
from riverui.web.live.counts import Snapshot
from riverui.web.live.figures import BOUNDS, Durations, Figures

_BUCKETS = (*map(str, BOUNDS), "+Inf")


def text(
    figures: Figures, snapshot: Snapshot, *, requests: Durations, transactions: Durations
) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Collected(figures, snapshot, requests, transactions))
    return generate_latest(registry)


class _Collected:
    """A collector of what was read and counted; all that is not known is left out."""

    def __init__(
        self, figures: Figures, snapshot: Snapshot, requests: Durations, transactions: Durations
    ) -> None:
        self._figures = figures
        self._requests = requests
        self._snapshot = snapshot
        self._transactions = transactions

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
        yield _family("riverui_info", "Always 1.", ["version"], [([__version__], 1)])
        yield _histograms("riverui_request_seconds", "Time to answer requests.", self._requests)
        yield _histograms(
            "riverui_database_seconds",
            "Time that transactions took, including the wait for a connection.",
            self._transactions,
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


def _family(
    name: str, told: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    family = GaugeMetricFamily(name, told, labels=labels)
    for values, number in samples:
        family.add_metric(values, float(number))
    return family


def _histograms(name: str, told: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(name, told, labels=durations.labels)
    for values, histogram in durations.histograms.items():
        counted = zip(_BUCKETS, accumulate(histogram.buckets), strict=True)
        family.add_metric(values, list(counted), histogram.total)
    return family


def _queue_counts(row: QueueListRow) -> Iterator[tuple[Sequence[str], float]]:
    for state in (JobState.AVAILABLE, JobState.RUNNING, JobState.SCHEDULED, JobState.RETRYABLE):
        yield [row.queue.name, state.value], getattr(row, state.value)


def _age(at: datetime | None, now: datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
