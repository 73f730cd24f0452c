"""What is read around a job that does not run: the facts of its explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from msgspec import Struct

from riverui.domain.findings import Unread
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.queues import BatchTerms, LeaderRow, QueueRow
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import TaskPlace

LATE_AFTER = timedelta(seconds=15)
"""How long a job may be due before it is late: the leader looks every 5 seconds by default."""
REPORTED_WITHIN = timedelta(minutes=12)
"""How old the last report of a queue's clients may be: River's clients report their queues every 10
minutes, and a report may be slow.
"""
SILENT_AFTER = timedelta(minutes=25)
"""How long nobody has reported a queue before a running job's worker is taken for lost: two reports
missed, and a little.
"""
RESCUED_AFTER = timedelta(hours=1)
"""River's default of RescueStuckJobsAfter: the leader takes jobs that run longer for lost."""
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
    """Who works it; empty if the row names nobody."""


class LimitHold(Struct, frozen=True, kw_only=True):
    """How the limits of jobs at once stand for the job's partition."""

    limits: ConcurrencyConfig
    override: bool
    """Whether they were set in the database, in place of what clients are configured with."""
    key: str
    taken: int
    """Slots of the key that clients have borrowed under a global limit."""
    clients: Mapping[str, int]
    """Client → its slots, those with most."""
    here: Mapping[str, int]
    """Client that works the queue → jobs of the key that it ran some seconds ago."""
    jobs: Sequence[JobHolder]
    """The first of the jobs that run."""
    missing: str
    """Which migration is missing for global limits, as part of a sentence; empty if none is."""


class RateHold(Struct, frozen=True, kw_only=True):
    """How the bucket stands that the job takes tokens from."""

    limit: RateLimit
    """As it counts now."""
    override: bool
    """Whether its numbers were set in the database."""
    key: str
    tokens: float
    """What is in the bucket."""
    weight: float | None
    """Tokens that the job takes; None if unknown."""


class ShareLine(NamedTuple):
    """The keys of the jobs that wait in a queue with fair shares, as far as they were read."""

    key: str | None
    """The job's own; None if the job was deleted."""
    before: int
    """Jobs of the same key that come before it."""
    reached: bool
    """Whether the job itself was among those looked at."""
    keys: int
    """Other keys with waiting jobs."""
    others: Mapping[str, int]
    """Those with most jobs → how many."""
    looked_at: int
    window: int

    @property
    def whole(self) -> bool:
        """Return whether all that wait were looked at, and are named."""
        return self.looked_at < self.window and len(self.others) == self.keys


class ShareHold(Struct, frozen=True, kw_only=True):
    """Whose turn comes before the job's, in a queue with fair shares."""

    share: FairShare
    known: bool
    """Whether the weights are known."""
    line: ShareLine
    indexed: bool
    """Whether the partition has its index, so that clients see all keys."""

    @property
    def before(self) -> int:
        """Return about how many of the jobs that wait now begin before this one."""
        rounds = ceil((self.line.before + 1) / self._weight(self.line.key or ""))
        return self.line.before + sum(
            min(jobs, ceil(rounds * self._weight(key))) for key, jobs in self.line.others.items()
        )

    def _weight(self, key: str) -> float:
        """Return how many jobs a key gets in a round: at least one."""
        share = self.share
        return share.weight_of(key) / min([*share.weights.values(), share.default_weight])


class JobLine(Struct, frozen=True, kw_only=True):
    """The due jobs that River takes before this one; both numbers are exact below `cap`."""

    before: int
    more_urgent: int
    """Those among them with a lower priority number."""
    cap: int


class QueueWork(Struct, frozen=True, kw_only=True):
    """What a queue's clients were seen to do, among its running and newest attempted jobs."""

    running: int
    """Exact below `cap`."""
    cap: int
    clients: Mapping[str, datetime]
    """When each client took a job of this queue last; the newest few."""
    started: Mapping[int, datetime]
    """When a job of each priority was taken last."""
    kind_at: datetime | None
    """When a job of the kind in question was taken last, by a client that has a worker for it."""
    unknown_at: datetime | None
    """When a job of the kind was last taken by a client without a worker for it, and failed."""
    kind_running: Sequence[str]
    """Clients that run a job of the kind."""
    ends: Sequence[datetime]
    """When jobs completed, in any order; all that did since `ends_since`."""
    ends_since: datetime


class Overtaking(Struct, frozen=True, kw_only=True):
    """Jobs of other kinds that come after a job in its queue and were taken before it, since it was
    due and since a job of its own kind was taken.
    """

    jobs: int
    """Exact below `cap`."""
    cap: int
    kind_at: datetime | None
    """When a job of its own kind was taken last, among more jobs than `QueueWork` looks at."""
    kind_by: str | None
    """Which client took that."""


class KindReports(Struct, frozen=True, kw_only=True):
    """What the clients of a queue report of a kind with their signs of life."""

    working: Sequence[str]
    """Live clients that work it."""
    others: frozenset[str]
    """Live clients that do not."""
    gone: frozenset[str]
    """Clients that stopped giving signs of life."""
    complete: bool
    """Whether all live clients that give signs of life report their kinds."""


class JobLock(Struct, frozen=True, kw_only=True):
    """What Postgres knows of the lock on a job's row."""

    transaction: int
    """The last that locked or changed it and has not been forgotten; 0 for none."""
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


class JobFacts(Struct, kw_only=True):
    """A job and what was read around it, filled as it is read."""

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
    """Who overtook it; None if it has not been due for long, or a client reports its kind."""
    kind_reports: KindReports | None = None
    """None if no client of its queue gives signs of life."""
    workflow: TaskPlace | Unread | None = None
    """Its place in a workflow of riverui's own; None for a job that is in none."""
    sequence: SequencePlace | Unread | None = None
    """Where it stands in its sequence; None for a job that is in none."""

    limit: LimitHold | Unread | None = None
    """How its queue's limits of jobs at once stand; None if there are none."""
    rate: RateHold | Unread | None = None
    """How its queue's rate limit stands; None if none is known."""
    share: ShareHold | Unread | None = None
    """Whose turn comes before its own; None if its queue has no fair shares."""
    batch: BatchTerms | None = None
    """How jobs of its kind are batched; None if they are worked one by one, as far as is known."""

    @property
    def in_line(self) -> bool:
        """Return whether the job may be taken as soon as its turn comes."""
        return self.job.state is JobState.AVAILABLE and self.job.scheduled_at <= self.now
