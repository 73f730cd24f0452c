"""Clients at work: their signs of life in a table, the jobs they hold, and those of the dead.

A client's row is written for one working life: `ClientLife` names it. Silence is measured by the
database's clock alone. A life that was declared dead stays so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.queue_terms import QueueTerms
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

CLIENT_TABLE = OwnTable("riverui_client", 5)
"""Where they are kept."""

SILENT_AFTER = 1.5
"""Heartbeats (intervals of one) without a sign of life after which a client counts as silent: one
was missed, and did not come late either.
"""
DEAD_AFTER = 3.5
"""Heartbeats without a sign of life after which a client is declared dead: three were missed, and
half of one more is left for the third to come late, and for a client that is cut off to end its
jobs before others begin them.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientLife:
    """One client from its start, or from when it was declared dead before, to its end."""

    id: str
    """As in `attempted_by`."""
    registered_at: datetime
    """By the database's clock; no job that it took is older."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientParams:
    """What stays as it is while a client lives."""

    id: str
    started_at: datetime
    heartbeat_interval: timedelta
    host: str
    pid: int
    language: str
    """Such as `Python 3.13.1`."""
    version: str
    """Of riverui."""
    release: str
    """Of the program; empty where it told none."""
    periodic: Mapping[str, str] = field(default_factory=dict)
    """Id of each periodic job that has one → its schedule as a cron expression."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientStatus:
    """What a client has in hand, with each sign of life."""

    queues: Mapping[str, tuple[int, int]]
    """Queue → the most jobs at once, and how many of these slots are taken."""
    terms: Mapping[str, QueueTerms] = field(default_factory=dict)
    """Queue → by which rules it is worked, where there are any."""
    kinds: Collection[str] | None = None
    """The kinds that it works, aliases among them; None where they are not reported."""
    running: int = 0
    """Jobs at work."""
    loop_lag: float | None = None
    """Seconds that its event loop needed to answer."""
    memory: int | None = None
    """Bytes of the process (resident)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """What a client learns with a sign of life."""

    alive: bool
    """Whether it was in time; if not, the client has been declared dead."""
    due_in: float | None
    """Seconds until another client is to be declared dead, if nothing is heard of it, negative
    where that is overdue; None without other clients.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadClient:
    """A client that was declared dead, and which jobs it left."""

    life: ClientLife
    host: str
    pid: int
    silent_since: datetime
    attempted_before: datetime
    """Jobs that were attempted later by the same id belong to a later life."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientRow:
    """A client as its row tells."""

    id: str
    registered_at: datetime
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_interval: timedelta
    host: str
    pid: int
    language: str
    version: str
    release: str
    queues: Mapping[str, tuple[int, int]]
    """Queue → the most jobs at once, and how many of these slots are taken."""
    running: int
    loop_lag: float | None
    memory: int | None
    declared_dead_at: datetime | None
    declared_dead_by: str | None
    """The client, or the dashboard's user, that did so."""
    rescued_at: datetime | None
    """When all its jobs had been rescued."""
    rescued: int
    now: datetime
    """When this was read, by the database's clock."""
    terms: Mapping[str, QueueTerms] = field(default_factory=dict)
    """Queue → by which rules the client works it, where there are any."""
    kinds: frozenset[str] | None = None
    """The kinds that it works; None where it does not report them."""

    @property
    def silence(self) -> timedelta:
        """How long nothing was heard of it."""
        return max(self.now - self.heartbeat_at, timedelta(0))

    @property
    def silent(self) -> bool:
        """Return whether it has missed a sign of life, and was not declared dead yet."""
        return self.declared_dead_at is None and self.silence > (
            SILENT_AFTER * self.heartbeat_interval
        )

    @property
    def dead_at(self) -> datetime:
        """When it is to be declared dead, unless it is heard of before."""
        return self.heartbeat_at + DEAD_AFTER * self.heartbeat_interval


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldJob:
    """A running job."""

    id: int
    kind: str
    queue: str
    attempted_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenClient:
    """What jobs tell of a client: those that it holds, and the newest of those that it worked."""

    id: str
    running: int = 0
    """Jobs that it holds, as far as they were looked at."""
    held: Sequence[HeldJob] = field(default=())
    """The longest running of these."""
    seen_at: datetime | None = None
    """When it took a job last, as far as is known."""
    queues: Sequence[str] = ()
    """Queues of the jobs that were looked at, by name, the first few."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherLeader:
    """A leader that is no client of riverui's, as far as the table of clients tells."""

    leader_id: str
    claimed: bool
    """Whether this transaction may do riverui's part of the maintenance until its end."""


class ClientExecutor(Protocol):
    """Tells of clients and their jobs.

    Without the table, all raise SchemaMissing but `client_seen_list`, `job_get_held` and
    `job_first_held`, which look at jobs alone.
    """

    async def client_register(self, params: ClientParams, status: ClientStatus) -> ClientLife:
        """Begin a client's life: make its row."""
        ...

    async def client_heartbeat(self, life: ClientLife, status: ClientStatus) -> Heartbeat:
        """Take a sign of life of a client."""
        ...

    async def client_delete(self, life: ClientLife) -> None:
        """Forget a client that has stopped and left no jobs."""
        ...

    async def client_declare_dead(
        self, *, by: str, after: float = DEAD_AFTER, id: str | None = None
    ) -> DeadClient | None:
        """Declare a client dead that has been silent for `after` heartbeats, the longest silent
        first, and return it; None where there is none.

        So is one again that was declared dead and whose jobs nobody has rescued since. With `id`
        only that client. One that another transaction holds is left to that.
        """
        ...

    async def client_rescued(self, life: ClientLife, jobs: int) -> None:
        """Take note that so many jobs of a dead client were rescued, and that no more are left."""
        ...

    async def client_delete_dead_before(self, before: datetime, *, limit: int) -> int:
        """Forget clients that were declared dead before then; return how many."""
        ...

    async def client_list(self, *, limit: int) -> Sequence[ClientRow]:
        """Return clients: those silent longest first, and then the dead, the latest first."""
        ...

    async def client_schedule_list(self) -> Mapping[str, str]:
        """Return the periodic jobs of clients that give signs of life: the id of each, and its
        schedule as a cron expression. Of clients that differ, the one started last tells.
        """
        ...

    async def client_other_leader(self, *, claim: bool = False) -> OtherLeader | None:
        """Return who leads where that is no client of the table; None where nobody leads, or one
        of these.

        With `claim`, one transaction at a time is told that it may do what such a leader does not.
        """
        ...

    async def client_seen_list(
        self, *, cap: int, newest: int, held: int, limit: int
    ) -> Sequence[SeenClient]:
        """Return the clients that jobs tell of, by id.

        Up to `cap` running jobs are looked at, and the `newest` of those completed; up to `held`
        jobs of each client are named.
        """
        ...

    async def job_get_held(
        self, dead: DeadClient, *, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return the running jobs that a dead client left, by id."""
        ...

    async def job_first_held(self, dead: DeadClient, *, after_id: int) -> int | None:
        """Return the id of the job that job_get_held would read first; None where there is
        none.
        """
        ...


CLIENTS: Capability[ClientExecutor] = Capability(
    "clients",
    "Clients are known only by the jobs they took, and jobs of one that died wait until they count"
    " as stuck.",
)
