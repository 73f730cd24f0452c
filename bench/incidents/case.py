"""What a case is: an incident and its truth, stated independently of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from bench.incidents.world import Job


class Truth(Struct, kw_only=True):
    """What is true of one played incident."""

    causes: Sequence[str] = ()
    """The names of causes that are right; none if all is healthy."""
    names: Sequence[str] = ()
    """What it is about, any of which must be named: a queue, kind, client or job; none if nothing
    needs to be named."""
    alone: Sequence[str] = ()
    """The same as `causes` on River's tables alone; empty if it makes no difference."""
    job: Job | None = None
    """The job that it is about."""
    also: Sequence[str] = ()
    """Causes that are true as well: consequences."""
    shown: Callable[[float], bool] = field(default=lambda minutes: True)
    """Whether the rows show it after so many minutes."""
    ends: float = 1e9
    """After how many minutes it is over."""
