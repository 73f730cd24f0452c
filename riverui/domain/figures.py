"""Figures over time: ended jobs, failed attempts, runs and waits, by queue and kind. They are for
charts, the health report and the pages of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from riverui.domain.sketch import Sketch

OTHER = "*"
"""The sum of all other kinds, and as a queue of all other queues. No kind or queue can have this
name.
"""


class Window(Struct, frozen=True, kw_only=True):
    """A span of time up to now, and the columns that it is divided into."""

    name: str
    """Its name in an address, such as 1h."""
    label: str
    """In words, such as "last hour"."""
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


COUNTS = ("completed", "cancelled", "discarded", "failed", "snoozed", "interrupted", "inserted")
"""The counts of a tally, by name."""


class Tally(Struct, kw_only=True):
    """Counts of what happened to a group of jobs in a span of time."""

    completed: int = 0
    cancelled: int = 0
    discarded: int = 0
    failed: int = 0
    """Attempts that ended with an error, whether or not the job is retried: also the last one of a
    discarded job.
    """
    snoozed: int = 0
    """Attempts that were snoozed. Only riverui's workers count them."""
    interrupted: int = 0
    """Attempts that a stop of their client ended. Only riverui's workers count them."""
    inserted: int = 0
    """New jobs. Their queues and kinds are known only if rows were read."""
    cpu_us: int = 0
    """Microseconds of processor time of `cpu_attempts`."""
    cpu_attempts: int = 0
    """Attempts whose processor time is known. Only riverui's workers measure it."""
    run: Sketch = field(default_factory=Sketch)
    """How long completed jobs ran, in their last attempt."""
    failed_run: Sketch = field(default_factory=Sketch)
    """How long failed attempts ran: by rows only the last one of each discarded job, by workers all
    of them.
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
    def weight(self) -> int:
        """Return how many events it counts."""
        return sum(getattr(self, name) for name in COUNTS)

    @property
    def spent(self) -> timedelta:
        """Return how long completed and failed attempts ran in total, as far as that is known."""
        return timedelta(microseconds=self.run.sum_us + self.failed_run.sum_us)

    @property
    def failing(self) -> float | None:
        """Return the share of attempts that failed, from 0 to 1; None without any."""
        return self.failed / self.attempts if self.attempts else None

    def copy(self) -> Tally:
        """Return a copy that can be changed."""
        return replace(
            self, run=self.run.copy(), failed_run=self.failed_run.copy(), wait=self.wait.copy()
        )

    def scaled(self, times: int) -> Tally:
        """Return a tally with all counts multiplied."""
        return Tally(
            **{name: times * getattr(self, name) for name in COUNTS},
            cpu_us=times * self.cpu_us,
            cpu_attempts=times * self.cpu_attempts,
            run=self.run.scaled(times),
            failed_run=self.failed_run.scaled(times),
            wait=self.wait.scaled(times),
        )

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.completed += other.completed
        self.cancelled += other.cancelled
        self.discarded += other.discarded
        self.failed += other.failed
        self.snoozed += other.snoozed
        self.interrupted += other.interrupted
        self.inserted += other.inserted
        self.cpu_us += other.cpu_us
        self.cpu_attempts += other.cpu_attempts
        self.run.merge(other.run)
        self.failed_run.merge(other.failed_run)
        self.wait.merge(other.wait)


class FigureColumn(Struct, frozen=True, kw_only=True):
    """One column of a window."""

    at: datetime
    """When it begins."""
    tally: Tally | None
    """None if nothing is known of this time: before the first figures, or not read yet."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""
    oldest_waiting: timedelta | None = None
    """How long the oldest available job had been due, the maximum of the column; None if that was
    not read.
    """
    waiting: int | None = None
    """Available jobs, the maximum of the column; None if that was not read."""
    waiting_capped: bool = False
    """Whether counting stopped at that number."""
    finished: bool = True
    """False for the newest column, which is not over."""


class PastColumn(Struct, frozen=True, kw_only=True):
    """Figures of some minutes before the last hour."""

    at: datetime
    """When they begin."""
    span: timedelta
    """How much of that time was read."""
    tally: Tally


class Figures(Struct, frozen=True, kw_only=True):
    """A window of figures of everything, of one queue, of one kind, or of a kind in a queue."""

    window: Window
    columns: Sequence[FigureColumn]
    """The oldest first; the last one is unfinished."""
    pairs: Mapping[tuple[str, str], Tally]
    """Tallies of the whole window by queue and kind; 200 at most, the rest as `OTHER`."""
    read_at: datetime | None
    """Up to when rows have been read; None before the first reading."""
    since: datetime | None
    """When the first figures begin."""
    complete: bool
    """Whether the whole window has been read, as far back as there are rows."""
    source: str
    """Where the figures come from, in words."""
    trouble: str = ""
    """Why the last reading failed, as a sentence; empty if it did not."""

    @property
    def total(self) -> Tally:
        """Return the sum of all columns."""
        total = Tally()
        for column in self.columns:
            if column.tally is not None:
                total.merge(column.tally)
        return total

    @property
    def by_kind(self) -> Mapping[str, Tally]:
        """Return the tally of each kind over the whole window."""
        return self._by(lambda queue, kind: kind)

    @property
    def by_queue(self) -> Mapping[str, Tally]:
        """Return the tally of each queue over the whole window."""
        return self._by(lambda queue, kind: queue)

    def _by(self, key: Callable[[str, str], str]) -> Mapping[str, Tally]:
        found: dict[str, Tally] = {}
        for pair, tally in self.pairs.items():
            found.setdefault(key(*pair), Tally()).merge(tally)
        return found

    @property
    def unnamed(self) -> bool:
        """Return whether some inserted jobs were counted without their kind or queue."""
        return any(OTHER in pair and tally.inserted for pair, tally in self.pairs.items())

    @property
    def sampled(self) -> int:
        """Return the coarsest sampling of any column."""
        return max((column.sampled for column in self.columns), default=1)
