"""What a queue did minute by minute, and how long until it is empty, where that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

LOOKED_AT = 15
"""Minutes that a forecast is made of: long enough to be steady, short enough to be of now."""
_FEWEST_ENDS = 20
"""Ends from which a pace can be told: with fewer, chance makes half of it."""
_STEADY = 2.0
"""How many times as fast a queue may empty in one half of the time as in the other."""
_FURTHEST = timedelta(days=2)
"""Beyond this nobody can tell: nights and weekends are not like the last quarter of an hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueMinute:
    """What one queue did in one minute, as far as is known."""

    ended: int
    came: int
    """Jobs that were inserted."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""
    wait: timedelta | None = None
    """95 of 100 jobs that ended had waited no longer; None where none tells."""
    waiting: int | None = None
    """Available jobs, at most within the minute; None where it was not looked at."""
    waiting_capped: bool = False
    """Whether there were at least that many."""


def time_to_empty(minutes: Sequence[QueueMinute | None], waiting: int) -> timedelta | None:
    """Return in how long no job of a queue waits any more, at the pace of the last 15 minutes.

    `minutes` are over, the oldest first, None where nothing is known; `waiting` jobs wait now.
    None where none waits, where a minute is not known, where as many come as go, and where the pace
    is not steady or is not what the depths of the queue show.
    """
    known = [minute for minute in minutes[-LOOKED_AT:] if minute is not None]
    if not waiting or len(known) < LOOKED_AT:
        return None
    if sum(minute.ended / minute.sampled for minute in known) < _FEWEST_ENDS:
        return None
    middle = len(known) // 2
    slow, fast = sorted((_pace(known[:middle]), _pace(known[middle:])))
    if slow <= 0 or fast > _STEADY * slow or _grew(known):
        return None
    needed = timedelta(minutes=waiting / _pace(known))
    return needed if needed <= _FURTHEST else None


def _pace(minutes: Sequence[QueueMinute]) -> float:
    """Return how many more jobs ended than came, on average in a minute."""
    return sum(minute.ended - minute.came for minute in minutes) / len(minutes)


def _grew(minutes: Sequence[QueueMinute]) -> bool:
    """Return whether more waits than before, whatever the numbers of jobs say: jobs that come back
    for another attempt, or whose time has come, were inserted long ago.
    """
    depths = [minute.waiting for minute in minutes if minute.waiting is not None]
    return len(depths) > 1 and depths[-1] > depths[0]
