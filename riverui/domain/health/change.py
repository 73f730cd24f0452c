"""Finds since when something has been unusual, from figures alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from math import log
from typing import NamedTuple

from riverui.domain.figures import PastColumn
from riverui.domain.sketch import Sketch

_EVIDENCE = 10.0
"""How much better a change must explain the counts than chance (log-likelihood): of a hundred calm
hours, one has such a change by chance.
"""
_END_EVIDENCE = 7.0
"""The same for its end, which is looked for only after a beginning."""
_NEWEST = 5
"""Columns that show how many events are bad now."""
_USUAL_SHARE = 0.25
"""The share of time (0 to 1) that is taken as calm to begin with: a problem may be older than half
of what is known.
"""


class Counts(NamedTuple):
    """How many events of a column are bad."""

    at: datetime
    bad: float
    all: float


def rise(counts: Sequence[Counts]) -> datetime | None:
    """Return since when a larger share of all events has been bad; None if chance explains it, or
    if it is over.

    The split into before and after that explains the counts best gives the usual and the new share,
    unless the newest one is larger. The problem begins where the sum of bad events beyond the
    middle of both, up to now, is largest: single columns jump, and earlier problems that ended do
    not count.
    """
    split = _split(counts, _EVIDENCE)
    if split is None:
        return None
    before, after = split
    newest = counts[-_NEWEST:]
    share = sum(each.bad for each in newest) / max(1.0, sum(each.all for each in newest))
    middle, total, most = (before + max(after, share)) / 2, 0.0, 0.5
    began: datetime | None = None
    for at, bad, all_ in reversed(counts):
        total += bad - middle * all_
        if total > most:
            most, began = total, at
    # If it seems to have been so from the start, nothing is known of the time before.
    return None if counts and began == counts[0].at else began


def over(counts: Sequence[Counts], began: datetime) -> bool:
    """Return whether what began then is over: far fewer of the newest events are bad."""
    found = _split([each for each in reversed(counts) if each.at >= began], _END_EVIDENCE)
    return found is not None and found[0] * 2 < found[1]


def _split(counts: Sequence[Counts], evidence: float) -> tuple[float, float] | None:
    """Return the shares before and after the likeliest rise; None without so much evidence."""
    bad, all_ = sum(each.bad for each in counts), sum(each.all for each in counts)
    found, best, whole = None, evidence, _likelihood(bad, all_)
    bad_before = all_before = 0.0
    for each in counts:
        bad_before += each.bad
        all_before += each.all
        bad_after, all_after = bad - bad_before, all_ - all_before
        if not all_before or all_after <= 0:
            continue
        before, after = bad_before / all_before, bad_after / all_after
        gain = _likelihood(bad_before, all_before) + _likelihood(bad_after, all_after) - whole
        if after > before and gain > best:
            found, best = (before, after), gain
    return found


def _likelihood(bad: float, all_: float) -> float:
    """Return the logarithm of the likelihood of so many bad events, with the share they have."""
    return sum(n * log(n / all_) for n in (bad, all_ - bad) if n > 0)


def long_ones(
    columns: Iterable[PastColumn], of: Callable[[PastColumn], Sketch], limit: timedelta
) -> list[Counts]:
    """Return for how many minutes of each column spans were longer than the limit: a crowd of them
    in a minute counts no more than a few.
    """
    found = []
    for column in columns:
        sketch, minutes = of(column), column.span / timedelta(minutes=1)
        if n := sketch.n:
            found.append(Counts(column.at, minutes * sketch.above(limit) / n, minutes))
    return found


def calm(columns: Iterable[PastColumn], of: Callable[[PastColumn], Sketch]) -> timedelta | None:
    """Return the median span of a calm time: a quarter of all columns have a smaller one; None
    without any.
    """
    medians = sorted(
        (median, column.span)
        for column in columns
        if (median := of(column).quantile(0.5)) is not None
    )
    left = sum((span for _, span in medians), timedelta(0)) * _USUAL_SHARE
    for median, span in medians:
        left -= span
        if left <= timedelta(0):
            return median
    return None
