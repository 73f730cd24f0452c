"""Jobs that ended since the process started, as Prometheus counts them: never fewer than before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from math import log

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import GAMMA, Sketch
from riverui.features.figures.domain import Pair

BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0)
"""Upper bounds of the buckets of runs and waits in seconds, from a quick job to one of a quarter of
a day; a last bucket has none.
"""
PAIRS = 100
"""Pairs of queue and kind that have counters of their own: each has some 40 lines a scrape."""
_ENDS = [log(bound * 1e6) / log(GAMMA) + 0.5 for bound in BOUNDS]
"""The bins whose middles are at the bounds."""


class EndedTotals:
    """Totals by queue and kind: of the first pairs, and of all others together, as a counter must
    not vanish.
    """

    def __init__(self, pairs: int = PAIRS) -> None:
        self._pairs = pairs
        self.totals: dict[Pair, Tally] = {}

    def add(self, pairs: Mapping[Pair, Tally]) -> None:
        """Count the jobs that ended in another minute."""
        for pair, tally in sorted(pairs.items(), key=lambda item: -item[1].ended):
            self._total(pair).merge(tally)

    def add_failed(self, pair: Pair, attempts: int) -> None:
        """Count failed attempts."""
        self._total(pair).failed += attempts

    def _total(self, pair: Pair) -> Tally:
        if pair not in self.totals and len(self.totals) >= self._pairs:
            pair = (OTHER, OTHER)
        return self.totals.setdefault(pair, Tally())


def up_to_bounds(sketch: Sketch) -> list[int]:
    """Return how many spans are no longer than each bound, and how many there are. Each bin counts
    by its middle.
    """
    buckets = [0] * (len(BOUNDS) + 1)
    for found, n in sketch.counts.items():
        buckets[bisect_left(_ENDS, found)] += n
    return list(accumulate(buckets))
