"""The facts from which a job's explanation is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from riverui.domain.findings import Finding, Unread
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.queues import BatchTerms, LeaderRow, QueueRow, QueueTerms

LATE_AFTER = timedelta(seconds=15)
"""How long a job may be due before it is late: the leader looks every 5 seconds by default."""
REPORTED_WITHIN = timedelta(minutes=12)
"""How old the last report of a queue's clients may be: River's clients report their queues every 10
minutes, and a report may be slow.
"""
SILENT_AFTER = timedelta(minutes=25)
"""How long a queue may go unreported before the worker of its running job counts as lost: two
missed reports, and a little.
"""
RESCUED_AFTER = timedelta(hours=1)
"""River's default of RescueStuckJobsAfter: jobs that run longer count as lost to the leader."""
CANCEL_UNHEARD_AFTER = timedelta(minutes=1)
"""How long a worker may take to end a job that it was asked to cancel: it hears of the request
within seconds, and the job may have to clean up.
"""
STARVED_AFTER = timedelta(minutes=1)
"""How long only more urgent jobs may be started before a job that is due counts as starved: some
rounds of polling.
"""
_NOT_READ = Unread(why="It does not matter in this state.")


class JobHolder(NamedTuple):
    """A running job that takes a slot of a limit."""

    id: int
    client: str
    """The client that works it; empty if the row names none."""


class ShareLine(NamedTuple):
    """The keys of the waiting jobs of a queue with fair shares, as far as they were read."""

    job_key: str | None
    """The key of the job; None if the job was deleted."""
    before: int
    """Jobs of the same key that come before it."""
    reached: bool
    """Whether the job itself was among those read."""
    keys: int
    """Other keys with waiting jobs."""
    others: Mapping[str, int]
    """Those with most jobs → how many."""
    looked_at: int
    window: int

    @property
    def whole(self) -> bool:
        """Return whether all waiting jobs were read and their keys are named."""
        return self.looked_at < self.window and len(self.others) == self.keys


class JobLine(Struct, frozen=True, kw_only=True):
    """The due jobs that River takes before this one; both numbers are exact below `cap`."""

    before: int
    more_urgent: int
    """Those of them with a lower priority number."""
    cap: int


class QueueWork(Struct, frozen=True, kw_only=True):
    """The work of a queue's clients, as seen from its running and newest attempted jobs."""

    running: int
    """Exact below `cap`."""
    cap: int
    clients: Mapping[str, datetime]
    """When each client last took a job of this queue; the newest few."""
    started: Mapping[int, datetime]
    """When a job of each priority was last taken."""
    kind_at: datetime | None
    """When a job of the kind in question was last taken by a client with a worker for it."""
    unknown_at: datetime | None
    """When a job of the kind was last taken by a client without a worker for it, and failed."""
    kind_running: Sequence[str]
    """Clients that run a job of the kind."""
    ends: Sequence[datetime]
    """When jobs completed, in any order: all since `ends_since`."""
    ends_since: datetime


class Overtaking(Struct, frozen=True, kw_only=True):
    """Jobs of other kinds that come after a job in its queue but were taken before it, since it was
    due and since a job of its own kind was taken.
    """

    jobs: int
    """Exact below `cap`."""
    cap: int
    kind_at: datetime | None
    """When a job of its own kind was last taken, among more jobs than `QueueWork` reads."""
    kind_by: str | None
    """The client that took it."""


class KindReports(Struct, frozen=True, kw_only=True):
    """What the clients of a queue report about a kind with their heartbeats."""

    working: Sequence[str]
    """Live clients that work it."""
    others: frozenset[str]
    """Live clients that do not work it."""
    stopped: frozenset[str]
    """Clients whose heartbeats stopped."""
    complete: bool
    """Whether all live clients report their kinds."""


class JobLock(Struct, frozen=True, kw_only=True):
    """Postgres's data about the lock on a job's row."""

    transaction: int
    """The last one that locked or changed the row, as far as Postgres remembers it; 0 for none."""
    pid: int | None
    """The server process of that transaction, while it runs."""
    client: str | None
    """The session's application name; None if unknown."""
    state: str | None
    """Such as `idle in transaction`; None if the role may not see it."""
    since: datetime | None
    """When the transaction began; None if the role may not see it."""


class QueueSlots(Struct, frozen=True, kw_only=True):
    """A queue's slots, as its clients reported them some seconds ago."""

    clients: frozenset[str]
    """Their ids."""
    most: int
    """Jobs of the queue that they work at once."""
    taken: int
    """How many of these slots are taken."""


_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Hold(Generic[_Found]):
    """A feature's reason why a job is not running: the check that its explanation has for it."""

    name: str
    """The name of the check."""
    label: str
    """What is true if the check passes."""
    after: str
    """The check that it comes after: `state` if it holds pending jobs, `lock` if waiting ones."""
    check: Callable[[JobFacts, _Found], Finding | None]
    """Return the finding of the feature's fact; None if there is nothing to say."""
    pending: str = ""
    """What makes a pending job available, in words that follow “It is pending: ”."""
    reorders: bool = False
    """Whether it gives the queue another order than River's."""


class JobFacts(Struct, kw_only=True):
    """A job and the facts read about it, filled in one by one."""

    job: JobShowRow
    now: datetime
    queue: QueueRow | Unread | None = None
    leader: LeaderRow | Unread | None = None
    line: JobLine | Unread = _NOT_READ
    work: QueueWork | Unread = _NOT_READ
    lock: JobLock | Unread = _NOT_READ
    slots: QueueSlots | None = None
    """None if no client reports them."""
    overtaking: Overtaking | Unread | None = None
    """Jobs that overtook it; None if it was not due for long, or a client reports its kind."""
    kind_reports: KindReports | None = None
    """None if no client of its queue sends heartbeats."""
    terms: QueueTerms = field(default_factory=QueueTerms)
    """The rules by which most clients work its queue, as far as they report them."""
    holds: dict[Hold[Any], Any] = field(default_factory=dict)
    """The facts that features found about it, or Unread; features that found nothing are left out.
    """
    batch: BatchTerms | None = None
    """How jobs of its kind are batched; None if they are worked one by one, as far as known."""

    @property
    def reordered(self) -> bool:
        """Return whether its queue has another order than River's."""
        return any(hold.reorders for hold in self.holds)

    @property
    def in_line(self) -> bool:
        """Return whether the job may be taken as soon as its turn comes."""
        return self.job.state is JobState.AVAILABLE and self.job.scheduled_at <= self.now
