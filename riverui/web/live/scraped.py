"""What the metrics tell: what was read of the database, and durations counted in buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueListRow

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets in seconds, up to what an action may take; a last bucket has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScrapedStandby:
    """Where pages were read from, where there is a standby for it."""

    used: bool
    """Whether it was the standby; else it was the primary."""
    lag: float | None
    """Seconds that the standby was behind; None where that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scraped:
    """What was read of the database."""

    at: float
    """Seconds of the monotonic clock."""
    up: bool
    standby: ScrapedStandby | None = None
    queues: Sequence[QueueListRow] | None = None
    finished: Sequence[tuple[JobState, int]] | None = None
    led: bool | None = None
    unread: tuple[str, ...] = ()
    """Why what is None could not be read."""


@dataclass(slots=True)
class Histogram:
    """What took its time under the same labels."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """How many took longer than the bound before and no longer than this one."""
    total: float = 0.0
    """Seconds that all took together."""


class Durations:
    """Histograms by the values of their labels."""

    def __init__(self, *labels: str) -> None:
        self.labels = labels
        self.histograms: dict[tuple[str, ...], Histogram] = {}

    def add(self, seconds: float, *values: str) -> None:
        """Count one more under these values of the labels."""
        if (histogram := self.histograms.get(values)) is None:
            histogram = self.histograms[values] = Histogram()
        histogram.buckets[bisect_left(BOUNDS, seconds)] += 1
        histogram.total += seconds
