"""Spikes: moments at which far more happened than usual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from riverui.domain.figures import FigureColumn, Tally

_TIMES = 4
"""How many times the usual number makes a spike; the health report shows smaller rises."""
_LEAST = 20
"""Smallest count in one column that makes a spike."""
_FEWEST = 10
"""Fewest columns from which the usual number is computed."""


class Spike(Struct, frozen=True, kw_only=True):
    """A run of columns with far more than usual."""

    at: datetime
    """When the first of them begins."""
    until: datetime
    """When the last of them ends."""
    most: int
    """The highest count of a column."""
    usual: int
    """The median count of the window's columns."""


def spikes(columns: Sequence[FigureColumn], count: Callable[[Tally], int]) -> Iterator[Spike]:
    """Yield the spikes of a window, oldest first; none if there are too few figures."""
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
