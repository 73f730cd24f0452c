"""What was done, minute by minute: jobs that ended, failed attempts, runs and waits, by queue and
kind. Charts, the health report and the pages of kinds are made of it, wherever it was gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from riverui.domain.sketch import Sketch

OTHER = "*"
"""Stands for the kinds (with the queue "*": the queues too) that are too many to be told apart. No
kind or queue of River's can be named so.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """A span of time up to now, and the columns that it is divided into."""

    name: str
    """As in an address: 1h."""
    label: str
    """In words: last hour."""
    span: timedelta
    step: timedelta
    """Of one column. Columns begin at whole multiples of it since 1970, in UTC."""

    @property
    def columns(self) -> int:
        """Return how many columns there are, the unfinished one included."""
        return self.span // self.step


WINDOWS: Mapping[str, Window] = {
    window.name: window
    for window in (
        Window(name="1h", label="last hour", span=timedelta(hours=1), step=timedelta(minutes=1)),
        Window(
            name="6h", label="last 6 hours", span=timedelta(hours=6), step=timedelta(minutes=10)
        ),
        Window(
            name="24h", label="last 24 hours", span=timedelta(days=1), step=timedelta(minutes=20)
        ),
        Window(name="7d", label="last 7 days", span=timedelta(days=7), step=timedelta(hours=2)),
        Window(name="90d", label="last 90 days", span=timedelta(days=90), step=timedelta(days=1)),
    )
}
"""By name, the shortest first; none has more than 120 columns."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """What was done to some jobs in some span of time."""

    completed: int = 0
    cancelled: int = 0
    discarded: int = 0
    failed: int = 0
    """Attempts that ended with an error, whether or not the job is tried again: the last one of a
    discarded job is among them.
    """
    snoozed: int = 0
    """Attempts that ended by asking for a later one. Known only of riverui's workers."""
    interrupted: int = 0
    """Attempts that the stop of their client ended. Known only of riverui's workers."""
    inserted: int = 0
    """Jobs that came. Known of queues and kinds only where rows tell."""
    run: Sketch = field(default_factory=Sketch)
    """How long completed jobs ran, in their last attempt."""
    failed_run: Sketch = field(default_factory=Sketch)
    """How long failed attempts ran: those of discarded jobs where rows tell, all of them where
    workers do.
    """
    wait: Sketch = field(default_factory=Sketch)
    """How long ended jobs had been due when their last attempt began."""

    @property
    def ended(self) -> int:
        """Return how many jobs reached a final state."""
        return self.completed + self.cancelled + self.discarded

    @property
    def attempts(self) -> int:
        """Return how many attempts ended as completed or failed."""
        return self.completed + self.failed

    @property
    def spent(self) -> timedelta:
        """Return how long the attempts that rows tell of ran together."""
        return timedelta(microseconds=self.run.sum_us + self.failed_run.sum_us)

    @property
    def failing(self) -> float | None:
        """Return the share of attempts that failed, from 0 to 1; None without any."""
        return self.failed / self.attempts if self.attempts else None

    def copy(self) -> Tally:
        """Return a tally of the same, to be changed by itself."""
        return replace(
            self, run=self.run.copy(), failed_run=self.failed_run.copy(), wait=self.wait.copy()
        )

    def merge(self, other: Tally) -> None:
        """Count all that another has counted."""
        self.completed += other.completed
        self.cancelled += other.cancelled
        self.discarded += other.discarded
        self.failed += other.failed
        self.snoozed += other.snoozed
        self.interrupted += other.interrupted
        self.inserted += other.inserted
        self.run.merge(other.run)
        self.failed_run.merge(other.failed_run)
        self.wait.merge(other.wait)


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureColumn:
    """One column of a window."""

    at: datetime
    """When it begins."""
    tally: Tally | None
    """None where nothing is known of this time: before the figures begin, or not read yet."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""
    oldest_waiting: timedelta | None = None
    """How long the job that had waited longest had been due, at most within the column; None where
    it was not looked at.
    """
    waiting: int | None = None
    """Available jobs, at most within the column; None where it was not looked at."""
    waiting_capped: bool = False
    """Whether there were at least that many."""
    finished: bool = True
    """False for the newest column, whose time is not over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """A window of figures of everything, of one queue, of one kind, or of a kind in a queue."""

    window: Window
    columns: Sequence[FigureColumn]
    """The oldest first; the last one is unfinished."""
    pairs: Mapping[tuple[str, str], Tally]
    """The same by queue and kind, over the whole window; 200 at most, the rest as `OTHER`."""
    read_at: datetime | None
    """Up to when rows have been read; None before the first time."""
    since: datetime | None
    """From when on something is known."""
    complete: bool
    """Whether the whole window has been read as far back as rows go; else it is going on."""
    source: str
    """Where the figures come from, in words: from the rows, or from stored figures."""
    trouble: str = ""
    """Why they could not be read lately, as a sentence; empty where they could."""

    @property
    def total(self) -> Tally:
        """Return all columns together."""
        total = Tally()
        for column in self.columns:
            if column.tally is not None:
                total.merge(column.tally)
        return total

    @property
    def by_kind(self) -> Mapping[str, Tally]:
        """Return what was done of each kind, over the whole window."""
        return self._by(lambda queue, kind: kind)

    @property
    def by_queue(self) -> Mapping[str, Tally]:
        """Return what was done in each queue, over the whole window."""
        return self._by(lambda queue, kind: queue)

    def _by(self, key: Callable[[str, str], str]) -> Mapping[str, Tally]:
        found: dict[str, Tally] = {}
        for pair, tally in self.pairs.items():
            found.setdefault(key(*pair), Tally()).merge(tally)
        return found

    @property
    def sampled(self) -> int:
        """Return the coarsest sampling of any column."""
        return max((column.sampled for column in self.columns), default=1)
