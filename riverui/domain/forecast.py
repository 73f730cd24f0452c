"""How long until a queue is empty, where that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.figures import FigureColumn, Tally

_LOOKED_AT = timedelta(minutes=15)
"""What of the past a forecast is made of: long enough to be steady, short enough to be of today."""
_FEWEST_ENDS = 20
"""Ends from which a pace can be told: with fewer, chance makes half of it."""
_STEADY = 2.0
"""How many times as fast a queue may empty in one half of the time as in the other."""
_FURTHEST = timedelta(days=2)
"""Beyond this nobody can tell: nights and weekends are not like the last quarter of an hour."""


def time_to_empty(columns: Sequence[FigureColumn], waiting: int) -> timedelta | None:
    """Return in how long no job of a queue waits any more, at the pace of the last 15 minutes.

    `columns` are minutes of that queue, the oldest first, `waiting` is how many jobs wait now. None
    where none waits, where something is not known, where as many come as go, and where the pace is
    not steady or is not what the depths of the queue show.
    """
    finished = [column for column in columns if column.finished]
    if not waiting or len(finished) < 2:
        return None
    step = finished[1].at - finished[0].at
    newest = finished[-(_LOOKED_AT // step) :]
    known = [column.tally for column in newest if column.tally is not None]
    read = sum(column.tally.ended / column.sampled for column in newest if column.tally)
    if len(known) < _LOOKED_AT // step or read < _FEWEST_ENDS:
        return None
    middle = len(known) // 2
    halves = (known[:middle], known[middle:])
    slow, fast = sorted(_pace(half) for half in halves)
    if slow <= 0 or fast > _STEADY * slow or _grew(newest):
        return None
    needed = waiting / _pace(known) * step
    return needed if needed <= _FURTHEST else None


def _pace(tallies: Sequence[Tally]) -> float:
    """Return how many more jobs ended than came, on average in a column."""
    return sum(tally.ended - tally.inserted for tally in tallies) / len(tallies)


def _grew(columns: Sequence[FigureColumn]) -> bool:
    """Return whether more waits than before, whatever the numbers of jobs say: jobs that come back
    for another attempt, or whose time has come, were inserted long ago.
    """
    depths = [column.waiting for column in columns if column.waiting is not None]
    return len(depths) > 1 and depths[-1] > depths[0]
