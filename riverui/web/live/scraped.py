"""The data of the metrics: values read from the database, and histograms of durations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueListRow

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets in seconds, up to what an action may take; the last bucket
has none.
"""


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
