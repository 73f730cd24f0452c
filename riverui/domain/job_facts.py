"""What is found around a job that does not run: what riverui.domain.explain is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.domain.job_holds import LimitHold, RateHold, ShareHold
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.queues import BatchTerms, LeaderRow, QueueRow
from riverui.features.sequences.domain import SequencePlace
from riverui.features.workflows.domain.pages import TaskPlace


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """Stands for a fact that could not be read."""

    why: str
    """A sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLine:
    """The due jobs that River takes before this one; both numbers are exact below `cap`."""

    before: int
    more_urgent: int
    """Those among them with a lower priority number."""
    cap: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueWork:
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
    """When a job of the kind was taken last by a client that has none: it failed for that."""
    kind_running: Sequence[str]
    """Clients that run a job of the kind."""
    ends: Sequence[datetime]
    """When jobs completed, in any order; all that did since `ends_since`."""
    ends_since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Overtaking:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class KindReports:
    """What the clients of a queue report of a kind with their signs of life."""

    working: Sequence[str]
    """Live clients that work it."""
    others: frozenset[str]
    """Live clients that do not."""
    gone: frozenset[str]
    """Clients that stopped giving signs of life."""
    complete: bool
    """Whether all live clients that give signs of life report their kinds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLock:
    """What Postgres knows of the lock on a job's row."""

    transaction: int
    """The last that locked or changed it and has not been forgotten; 0 for none."""
    pid: int | None
    """The server process of that transaction, while it runs."""
    client: str | None
    """The session's application name; None where it is not told."""
    state: str | None
    """Such as `idle in transaction`; None where the role may not see it."""
    since: datetime | None
    """When the transaction began; None where the role may not see it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSlots:
    """What clients that give signs of life tell of a queue's slots, some seconds ago."""

    clients: frozenset[str]
    """Their ids."""
    most: int
    """Jobs of the queue that they work at once."""
    taken: int
    """How many of these slots are taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """A job and what was found around it."""

    job: JobShowRow
    now: datetime
    queue: QueueRow | Unread | None
    leader: LeaderRow | Unread | None
    line: JobLine | Unread
    work: QueueWork | Unread
    lock: JobLock | Unread
    slots: QueueSlots | None = None
    """None where no client tells."""
    overtaking: Overtaking | Unread | None = None
    """Who overtook it; None where it has not been due for long, or a client reports its kind."""
    kind_reports: KindReports | None = None
    """None where no client of its queue gives signs of life."""
    workflow: TaskPlace | Unread | None = None
    """Its place in a workflow of riverui's own; None for a job that is in none."""
    sequence: SequencePlace | Unread | None = None
    """Where it stands in its sequence; None for a job that is in none."""

    limit: LimitHold | Unread | None = None
    """How its queue's limits of jobs at once stand; None where there are none."""
    rate: RateHold | Unread | None = None
    """How its queue's rate limit stands; None where none is known."""
    share: ShareHold | Unread | None = None
    """Whose turn comes before its own; None where its queue is not dealt in turn."""
    batch: BatchTerms | None = None
    """How jobs of its kind are gathered; None where they are worked one by one, as far as known."""

    @property
    def in_line(self) -> bool:
        """Return whether the job may be taken as soon as its turn comes."""
        return self.job.state is JobState.AVAILABLE and self.job.scheduled_at <= self.now
