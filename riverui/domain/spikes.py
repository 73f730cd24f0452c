"""Moments at which much more happened than usual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from riverui.domain.figures import FigureColumn, Tally

_TIMES = 4
"""As many times the usual number make a spike: what doubles is told by the health report."""
_LEAST = 20
"""Of less in one column nobody needs to be told."""
_FEWEST = 10
"""Columns from which a usual number is told."""


class Spike(Struct, frozen=True, kw_only=True):
    """A run of columns with far more than usual."""

    at: datetime
    """When the first of them begins."""
    until: datetime
    """When the last of them ends."""
    most: int
    """In one column, at most."""
    usual: int
    """In a column of the window, as the median."""


def spikes(columns: Sequence[FigureColumn], count: Callable[[Tally], int]) -> Iterator[Spike]:
    """Yield the spikes of a window, the oldest first; none where too little is known."""
    numbers = [(column.at, count(column.tally)) for column in columns if column.tally is not None]
    if len(numbers) < _FEWEST:
        return
    usual = sorted(number for _, number in numbers)[(len(numbers) - 1) // 2]
    step = columns[1].at - columns[0].at
    high = max(_LEAST, _TIMES * usual)
    for over, run in groupby(numbers, lambda pair: pair[1] >= high):
        if over:
            found = list(run)
            yield Spike(
                at=found[0][0],
                until=found[-1][0] + step,
                most=max(number for _, number in found),
                usual=usual,
            )
