"""Spans of time in logarithmic bins: small, mergeable, and within 5.2 % at any percentile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import ceil, log, sqrt

GAMMA = 1.105
"""The ratio of the ends of neighbouring bins: a bin's middle is within 5.2 % of all its spans."""
FIRST_BIN = 70
"""The bin of everything up to 1.08 milliseconds (GAMMA ** 70 microseconds), below which no wait
matters.
"""
LAST_BIN = 287
"""The bin of everything from 32 days (GAMMA ** 287 microseconds) on."""
_FIRST_BIN_END = int(GAMMA**FIRST_BIN)
"""Microseconds up to which a span is in the first bin for certain."""
_LOG_GAMMA = log(GAMMA)
_MIDDLE = sqrt(1 / GAMMA)
"""What the end of a bin is multiplied by for its geometric middle."""


class Sketch:
    """How many spans fell into each bin, their sum and the longest. Times are microseconds."""

    __slots__ = ("counts", "max_us", "sum_us")

    def __init__(
        self, counts: Mapping[int, int] | None = None, *, sum_us: int = 0, max_us: int = 0
    ) -> None:
        self.counts: dict[int, int] = dict(counts or {})
        self.sum_us = sum_us
        self.max_us = max_us

    @classmethod
    def from_spans(cls, spans: Iterable[timedelta]) -> Sketch:
        """Return a sketch of these spans."""
        sketch = cls()
        for span in spans:
            sketch.add(span)
        return sketch

    @property
    def n(self) -> int:
        """Return how many spans there are."""
        return sum(self.counts.values())

    @property
    def longest(self) -> timedelta | None:
        """Return the longest; None without any."""
        return timedelta(microseconds=self.max_us) if self.counts else None

    def add(self, span: timedelta, n: int = 1) -> None:
        """Count a span, `n` times; a negative one counts as zero."""
        self.add_microseconds(max(0, span // timedelta(microseconds=1)), n)

    def add_microseconds(self, microseconds: int, n: int = 1) -> None:
        """Count a span that is not negative, `n` times, in the bin that Postgres computes too."""
        # Called for each job that a client works, so it has to be quick.
        found = FIRST_BIN
        if microseconds > _FIRST_BIN_END:
            found = min(ceil(log(microseconds) / _LOG_GAMMA), LAST_BIN)
        counts = self.counts
        counts[found] = counts.get(found, 0) + n
        self.sum_us += microseconds * n
        if microseconds > self.max_us:
            self.max_us = microseconds

    def copy(self) -> Sketch:
        """Return a copy that can be changed."""
        return Sketch(self.counts, sum_us=self.sum_us, max_us=self.max_us)

    def scaled(self, times: int) -> Sketch:
        """Return a sketch with all counts multiplied."""
        counts = {found: n * times for found, n in self.counts.items()}
        return Sketch(counts, sum_us=self.sum_us * times, max_us=self.max_us)

    def merge(self, other: Sketch) -> None:
        """Add the spans of another sketch."""
        counts = self.counts
        if counts:
            for found, n in other.counts.items():
                counts[found] = counts.get(found, 0) + n
        else:
            counts.update(other.counts)
        self.sum_us += other.sum_us
        self.max_us = max(self.max_us, other.max_us)

    def above(self, span: timedelta) -> int:
        """Return how many spans are longer than this one, within 5 %."""
        middle = span / timedelta(microseconds=1) / _MIDDLE
        return sum(n for found, n in self.counts.items() if GAMMA**found > middle)

    def quantile(self, q: float) -> timedelta | None:
        """Return a quantile (0.95 for p95), within 5.2 %; None without any span. Spans in the first
        and the last bin count as the middle of that bin.
        """
        n = self.n
        if not n:
            return None
        rank, seen = max(1, ceil(q * n)), 0
        for found in sorted(self.counts):
            seen += self.counts[found]
            if seen >= rank:
                break
        middle = GAMMA**found * _MIDDLE
        return timedelta(microseconds=min(middle, self.max_us) if self.max_us else 0)
