"""The facts from which the health report is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.figures import Figures, PastColumn, Tally
from riverui.domain.findings import Unread
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.slo import ObjectiveFigures
from riverui.domain.marks import Mark
from riverui.domain.queues import LeaderRow, QueueListRow


class RunningJob(Struct, frozen=True, kw_only=True):
    """A running job, without its texts."""

    id: int
    queue: str
    kind: str
    client: str
    """Empty if the row names none."""
    attempted_at: datetime | None


class RunningJobs(Struct, frozen=True, kw_only=True):
    """The running jobs: all of them if there are fewer than `cap`."""

    jobs: Sequence[RunningJob]
    cap: int

    @property
    def full(self) -> bool:
        """Return whether there may be more."""
        return len(self.jobs) >= self.cap


class WaitingKind(Struct, frozen=True, kw_only=True):
    """Jobs of one kind among the next jobs of a queue."""

    jobs: int
    retries: int
    """Those of them that have been tried before."""
    since: datetime | None = None
    """Since when the first of them has been due; None if unknown."""
    taken_at: datetime | None = None
    """When a job of the kind was last taken, among the newest of the queue."""
    overtaken: int = 0
    """Jobs of other kinds that come after the first of them but were taken before it, and later
    than the last job of the kind; among the newest of the queue.
    """


FIRST = 300
"""Most jobs of a queue that come first, which are half of those that wait: what delays others."""


class QueueWaiting(Struct, frozen=True, kw_only=True):
    """The next due jobs of one queue, and the clients that took jobs of it recently."""

    cap: int
    """The most that were read."""
    first: int = 0
    """How many of those that come first were tried before."""
    kinds: Mapping[str, WaitingKind]
    """The next jobs by kind."""
    takers: Mapping[str, datetime]
    """When each client last took a job of this queue; the newest few."""

    @property
    def jobs(self) -> int:
        """Return how many are due; exact below `cap`."""
        return sum(kind.jobs for kind in self.kinds.values())

    @property
    def taken_at(self) -> datetime | None:
        """Return when a job of this queue was last taken; None if unknown."""
        return max(self.takers.values(), default=None)


class ReportingClient(Struct, frozen=True, kw_only=True):
    """A client that sends heartbeats."""

    seen_at: datetime
    """When it sent the last one."""
    lost: bool
    """Whether it has been silent for so long that it counts as dead."""
    slots: Mapping[str, tuple[int, int]]
    """Queue → the most jobs at once, and how many of these slots are taken."""
    kinds: frozenset[str] | None = None
    """The kinds that it works; None if it does not report them."""


class OverdueJobs(Struct, frozen=True, kw_only=True):
    """Scheduled and retryable jobs that are due, and have not been made available."""

    jobs: int
    """Exact below `cap`."""
    cap: int
    oldest_at: datetime | None
    """Since when the first of them has been due; None without any."""


class LostJob(Struct, frozen=True, kw_only=True):
    """An unfinished job that was rescued from a lost worker several times."""

    id: int
    queue: str
    kind: str
    rescues: int
    attempted_at: datetime | None


class LostJobs(Struct, frozen=True, kw_only=True):
    """The lost jobs among those that were read."""

    jobs: Sequence[LostJob]
    whole: bool
    """Whether all jobs that may be retried were read."""


class Rhythm(Struct, frozen=True, kw_only=True):
    """At what intervals jobs of a kind were inserted."""

    kind: str
    first_at: datetime
    last_at: datetime
    gaps: int
    short: timedelta
    """A tenth of the intervals are shorter."""
    usual: timedelta
    """The median interval."""
    long: timedelta
    """A tenth of the intervals are longer."""
    longest: timedelta
    since: datetime
    """When the oldest of all jobs that were read was inserted."""


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """Another session's transaction in the same database."""

    pid: int | None
    """None for a prepared transaction, which belongs to no process."""
    client: str
    """The session's application name or user; empty if unknown."""
    state: str
    """Such as `idle in transaction`."""
    since: datetime


class DatabaseState(Struct, frozen=True, kw_only=True):
    """Postgres's state, as far as it matters to a queue."""

    oldest: OpenTransaction | None
    """The longest open transaction of those that keep Postgres from cleaning up."""
    hidden: int
    """Sessions that the role may not see."""
    blocked: int
    """Sessions that wait for a lock with a statement on River's tables."""
    blocked_since: datetime | None
    """When the first of those statements began."""
    blocker: OpenTransaction | None
    """The transaction that holds the lock the first of them waits for; None if unknown."""
    notifications: float
    """How full the queue of notifications is, from 0 to 1."""
    standby: bool
    """Whether it is a standby, which may lag behind."""
    dead_rows: int
    """Rows of river_job that are dead and not cleaned up yet, as Postgres estimates it."""


class UsualHour(Struct, frozen=True, kw_only=True):
    """The figures of this hour of the day, on the days before."""

    tally: Tally
    days: int
    """The number of the last seven days with figures of that hour."""


class Sum(Struct, frozen=True, kw_only=True):
    """The sum of some figures."""

    of: Sequence[object]
    """What was read: it is of no use once more is."""
    tally: Tally
    span: timedelta


class HealthFacts(Struct, kw_only=True):
    """The facts at one time, filled in one by one; those that could not be read are `Unread`."""

    now: datetime
    queues: Sequence[QueueListRow] | Unread
    queue_cap: int = 1_000
    """The number up to which jobs of a queue were counted."""
    queue_limit: int = 200
    """The most queues that were read."""
    leader: LeaderRow | Unread | None
    running: RunningJobs | Unread
    overdue: OverdueJobs | Unread
    lost: LostJobs | Unread
    database: DatabaseState | Unread | None
    """None for a file, which has no server."""
    rhythms: Sequence[Rhythm] | Unread
    hour: Figures | Unread
    """The figures of all jobs, by minute."""
    week: UsualHour | None = None
    """Of all jobs; None if figures are not stored."""
    marks: Sequence[Mark] | Unread = ()
    """Those of the last hours."""
    arrivals: Mapping[str, Sequence[int]] = {}
    """Jobs of each kind that were inserted in each minute of the last hour, the oldest first and
    the newest not over yet.
    """
    failed_jobs: Mapping[str, Sequence[datetime]] = {}
    """By kind, the minutes in which its jobs that failed in the last hour failed last."""
    planned: Mapping[str, datetime] = {}
    """The next runs of durable periodic jobs that are not paused, by id."""
    baselines: Mapping[tuple[Cause, Subject], Baseline] = {}
    """What was usual before problems that go on, by cause and subject."""
    objectives: Sequence[ObjectiveFigures] = ()

    # Read only for queues and kinds that look wrong.
    waiting: dict[str, QueueWaiting | Unread] = {}
    """By queue."""
    queue_hours: dict[str, Figures] = {}
    queue_weeks: dict[str, UsualHour] = {}
    kind_hours: dict[str, Figures] = {}
    kind_weeks: dict[str, UsualHour] = {}
    past: dict[Subject, Sequence[PastColumn]] = {}
    """The hours before the last one."""
    sums: dict[tuple[Subject, datetime | None, datetime | None], Sum] = {}
    """Sums by subject, beginning and end, so that none is added up twice."""
    reporting: Mapping[str, ReportingClient] = {}
    """Clients that send heartbeats, by id."""
    errors: Sequence[str] | Unread = ()
    """The newest errors of the kind that fails most, at most 300 characters of each."""

    def waiting_in(self, queue: str) -> QueueWaiting | Unread:
        """Return the jobs that come next in a queue."""
        return self.waiting.get(queue, Unread(why="What waits there was not read."))

    @property
    def leads(self) -> str:
        """Return the client that is the leader now; empty if none is known."""
        leader = self.leader
        return (
            leader.leader_id
            if isinstance(leader, LeaderRow) and leader.expires_at > self.now
            else ""
        )

    @property
    def looking(self) -> str:
        """Return how much of the last hour has been read, as a sentence; empty if it is whole, or
        if figures are not collected.
        """
        hour = self.hour
        if isinstance(hour, Unread) or hour.complete:
            return ""
        read = sum(column.tally is not None for column in hour.columns)
        if read == len(hour.columns):
            return "Looking: the last hour is still being read."
        return f"Looking: {read:,} of the last {len(hour.columns):,} min are read."

    @property
    def fresh(self) -> timedelta | None:
        """Return how old the figures are; None if there are none."""
        if isinstance(self.hour, Unread) or self.hour.read_at is None:
            return None
        return max(self.now - self.hour.read_at, timedelta(0))
