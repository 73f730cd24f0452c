"""Jobs that ended since the process started, as Prometheus counts them: always more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import GAMMA, Sketch
from riverui.storage.interface.figures import FailedAttempt
from riverui.web.live.figure_cells import Pair
from riverui.web.live.figure_sink import SettledMinute

BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0)
"""Upper bounds of the buckets of runs and waits in seconds, from a quick job to one of a quarter of
a day; a last bucket has none.
"""
PAIRS = 100
"""Of queue and kind that have counters of their own: each has some 40 lines at every scrape."""


@dataclass(slots=True)
class Spans:
    """Spans in buckets, as a histogram of Prometheus has them."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """How many took longer than the bound before and no longer than this one."""
    total: float = 0.0
    """Seconds of all together."""

    def add(self, sketch: Sketch) -> None:
        """Count all of a sketch, each bin by its middle."""
        for found, n in sketch.counts.items():
            self.buckets[_bucket(found)] += n
        self.total += sketch.sum_us / 1e6


@dataclass(slots=True)
class EndedTotal:
    """What ended of one queue and kind."""

    completed: int = 0
    cancelled: int = 0
    discarded: int = 0
    failed: int = 0
    run: Spans = field(default_factory=Spans)
    """Of completed jobs."""
    wait: Spans = field(default_factory=Spans)

    def add(self, tally: Tally) -> None:
        """Count what ended in another minute."""
        self.completed += tally.completed
        self.cancelled += tally.cancelled
        self.discarded += tally.discarded
        self.run.add(tally.run)
        self.wait.add(tally.wait)


class EndedTotals:
    """Totals by queue and kind: of those that came first, and of all others together, as a counter
    that is there must not go away again.
    """

    def __init__(self, pairs: int = PAIRS) -> None:
        self._pairs = pairs
        self.totals: dict[Pair, EndedTotal] = {}

    def settled(self, minute: SettledMinute) -> None:
        """Count a minute that will not change; one that was over before the process looked at the
        database for the first time does not count.
        """
        if not minute.early:
            for pair, tally in sorted(minute.cells.items(), key=lambda item: -item[1].ended):
                self._of(pair).add(tally)

    def failed(self, attempts: Sequence[FailedAttempt], *, times: int) -> None:
        """Count failed attempts."""
        for attempt in attempts:
            self._of((attempt.queue, attempt.kind)).failed += times

    def _of(self, pair: Pair) -> EndedTotal:
        if pair not in self.totals and len(self.totals) >= self._pairs:
            pair = (OTHER, OTHER)
        return self.totals.setdefault(pair, EndedTotal())


_ENDS = [log(bound * 1e6) / log(GAMMA) + 0.5 for bound in BOUNDS]
"""The bins whose middles are at the bounds."""


def _bucket(found: int) -> int:
    return next((n for n, end in enumerate(_ENDS) if found <= end), len(BOUNDS))
