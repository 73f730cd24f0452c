"""What is found of a database's jobs as a whole: what riverui.domain.health_verdict is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from riverui.domain.figures import Figures, Tally
from riverui.domain.job_facts import Unread
from riverui.domain.queues import LeaderRow, QueueListRow
from riverui.features.marks.domain import Mark


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningJob:
    """A job that is running, without what came with it."""

    id: int
    queue: str
    kind: str
    client: str
    """Empty where the row does not name one."""
    attempted_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningJobs:
    """The jobs that are running, all of them if there are fewer than `cap`."""

    jobs: Sequence[RunningJob]
    cap: int

    @property
    def full(self) -> bool:
        """Return whether there may be more."""
        return len(self.jobs) >= self.cap


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingKind:
    """Jobs of one kind among those that come next in a queue."""

    jobs: int
    retries: int
    """Those among them that have been tried before."""
    since: datetime | None = None
    """Since when the first of them has been due; None where that is not known."""
    taken_at: datetime | None = None
    """When a job of the kind was taken last, among the newest of the queue."""
    overtaken: int = 0
    """Jobs of other kinds that come after the first of them and were taken before it, later than
    the last job of the kind; among the newest of the queue.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueWaiting:
    """The due jobs that come next in one queue, and who took jobs of it lately."""

    jobs: int
    """How many are due; exact below `cap`."""
    cap: int
    kinds: Mapping[str, WaitingKind]
    """By kind, of those that come next; a few hundred were looked at."""
    takers: Mapping[str, datetime]
    """When each client took a job of this queue last; the newest few."""

    @property
    def looked_at(self) -> int:
        """Return how many of the due jobs were looked at."""
        return sum(kind.jobs for kind in self.kinds.values())

    @property
    def taken_at(self) -> datetime | None:
        """Return when a job of this queue was taken last; None where that is not known."""
        return max(self.takers.values(), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportingClient:
    """A client that gives signs of life."""

    seen_at: datetime
    """When it gave the newest one."""
    lost: bool
    """Whether it has been silent for so long that it counts as dead."""
    slots: Mapping[str, tuple[int, int]]
    """Queue → the most jobs at once, and how many of these slots are taken."""
    kinds: frozenset[str] | None = None
    """The kinds that it works; None where it does not report them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverdueJobs:
    """Scheduled and retryable jobs that are due, and have not been made available."""

    jobs: int
    """Exact below `cap`."""
    cap: int
    oldest_at: datetime | None
    """Since when the first of them has been due; None without any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostJob:
    """A job that was rescued from a lost worker again and again, and is not done."""

    id: int
    queue: str
    kind: str
    rescues: int
    attempted_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LostJobs:
    """Those that a bounded look found."""

    jobs: Sequence[LostJob]
    whole: bool
    """Whether all jobs that may be tried again were looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTransaction:
    """A transaction of somebody else in the same database."""

    pid: int | None
    """None of a prepared transaction, which no process holds."""
    client: str
    """The session's application name or user; empty where it is not told."""
    state: str
    """Such as `idle in transaction`."""
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseState:
    """What Postgres tells of itself that matters to a queue."""

    oldest: OpenTransaction | None
    """The transaction that has been open longest, of those that keep Postgres from cleaning up."""
    hidden: int
    """Sessions of which the role may see nothing."""
    blocked: int
    """Sessions that wait for a lock with a statement on River's tables."""
    blocked_since: datetime | None
    """When the first of those statements began."""
    blocker: OpenTransaction | None
    """Who holds the lock that the first of them waits for, where it can be told."""
    notifications: float
    """How full the queue of notifications is, from 0 to 1."""
    standby: bool
    """Whether it is a standby, which may lag behind."""
    dead_rows: int
    """Rows of river_job that are dead and not cleaned up yet, as Postgres estimates it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSample:
    """The newest error of one failed job."""

    kind: str
    error: str
    """At most 300 characters of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualHour:
    """What was done in this hour of the day, on the days before."""

    tally: Tally
    days: int
    """On how many of the last seven days something is known of that hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthFacts:
    """What was found at one time; what could not be read is `Unread`."""

    now: datetime
    queues: Sequence[QueueListRow] | Unread
    queue_cap: int = 1_000
    """Up to which jobs of a queue were counted."""
    queue_limit: int = 200
    """Up to how many queues were read."""
    leader: LeaderRow | Unread | None
    running: RunningJobs | Unread
    overdue: OverdueJobs | Unread
    lost: LostJobs | Unread
    database: DatabaseState | Unread
    hour: Figures | Unread
    """Of everything, in minutes."""
    week: UsualHour | None = None
    """Of everything; None where figures are not stored."""
    marks: Sequence[Mark] | Unread = ()
    """Those of the last hours."""

    # Only of what looks as if something was wrong with it.
    waiting: Mapping[str, QueueWaiting | Unread] = field(default_factory=dict)
    """By queue."""
    queue_hours: Mapping[str, Figures] = field(default_factory=dict)
    queue_weeks: Mapping[str, UsualHour] = field(default_factory=dict)
    kind_hours: Mapping[str, Figures] = field(default_factory=dict)
    kind_weeks: Mapping[str, UsualHour] = field(default_factory=dict)
    reporting: Mapping[str, ReportingClient] = field(default_factory=dict)
    """Clients that give signs of life, by id."""
    errors: Sequence[ErrorSample] | Unread = ()
    """The newest errors of the kind that fails most."""

    @property
    def fresh(self) -> timedelta | None:
        """Return how old the figures are; None where there are none."""
        if isinstance(self.hour, Unread) or self.hour.read_at is None:
            return None
        return max(self.now - self.hour.read_at, timedelta(0))
