"""Slots of limited queues, which clients borrow for as long as they give signs of life.

What a client has borrowed is named by its life (`ClientLife`): slots of a client that was declared
dead are freed, and nobody borrows for a life that is over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import Partition
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.clients import ClientLife
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.interface.own_tables import OwnTable

LIMIT_TABLE = OwnTable("riverui_limit", 11)
"""Where they are kept."""


class LimitRow(NamedTuple):
    """One partition of a limited queue."""

    queue: str
    key: str
    """See riverui.domain.partitions; empty for all of the queue."""
    taken: int
    """Slots that clients have borrowed: the jobs at work, and up to a second's more."""
    clients: Mapping[str, int]
    """Client → its slots; of many, those with most."""
    wanted: bool
    """Whether a client got fewer than it asked for."""
    updated_at: datetime


class LimitedProducer(NamedTuple):
    """One client's fetching from one limited queue."""

    id: int
    client_id: str
    queue: str
    max_workers: int
    concurrency: str
    """The limits that it keeps to: JSON of an object."""
    running: str
    """Key → jobs at work, a few seconds ago: JSON of an object."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseParams:
    """How many slots a client wants to have of some keys of a queue."""

    life: ClientLife
    queue: str
    most: int
    """Slots of each key that all clients may have together."""
    wanted: Mapping[str, int]
    """Key → slots that it wants to have from now on: fewer than before are always given back, more
    are had as far as there are any.
    """
    forced: bool = False
    """Whether it gets them in any case, as its jobs are at work already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitedFetchParams:
    """How a client fetches jobs of a limited queue, and borrows their slots at once."""

    life: ClientLife
    partition: Partition
    most: int
    """Slots of each key that all clients may have together."""
    most_here: int
    """Slots of each key that this client may have."""
    used: Mapping[str, int]
    """Key → slots in use here."""
    full: Collection[str]
    """Keys of which no job is looked at."""
    window: int
    """Waiting jobs that are looked at."""
    looked_at: int
    """Those of other keys among them that are looked at."""


class LimitedFetch(NamedTuple):
    """Jobs that were made running, and what was borrowed for them."""

    rows: Sequence[JobRow]
    keys: Sequence[str]
    """Their keys, in the same order."""
    slots: Mapping[str, int]
    """Key → slots that the client has now, where that was changed."""
    seen: int
    """Jobs that were looked at, those of full keys left out."""


class LimitExecutor(Protocol):
    """Lends slots. Without the tables, all raise SchemaMissing."""

    async def limit_lease(self, params: LeaseParams) -> Mapping[str, int] | None:
        """Return how many slots of each key the client has now; None where its life is over.

        Workers of the queue are told where slots become free that somebody wanted.
        """
        ...

    async def limit_held_list(self, life: ClientLife, queue: str) -> Mapping[str, int]:
        """Return the slots that a client has of a queue's keys, as far as it has any."""
        ...

    async def job_fetch_limited(
        self, params: JobFetchParams, limited: LimitedFetchParams
    ) -> LimitedFetch | None:
        """Make up to `params.limit` jobs running for which there are slots, and borrow these where
        the client has none that are not in use. None where the client's life is over: no job was
        taken then.

        Jobs and slots that somebody else is taking at this moment are passed over.
        """
        ...

    async def limit_dead_at(self) -> datetime | None:
        """Return when the last client was declared dead, as far as it is remembered."""
        ...

    async def limit_free_dead(self) -> Collection[str]:
        """Free the slots of clients that were declared dead, or are not known any more; return
        their queues, whose workers are told.
        """
        ...

    async def limit_delete_idle(self, *, before: datetime, limit: int) -> int:
        """Forget keys that nobody has used since then; return how many."""
        ...

    async def limit_list(self, queue: str, *, cap: int, limit: int) -> Sequence[LimitRow]:
        """Return the keys of a queue of which slots are taken, those with most first; up to `cap`
        rows are looked at.
        """
        ...

    async def limit_get(self, queue: str, key: str) -> LimitRow | None:
        """Return one key of a queue; None where nobody has borrowed a slot of it lately."""
        ...

    async def limited_producer_upsert(
        self, *, client_id: str, queue: str, max_workers: int, concurrency: str, running: str
    ) -> None:
        """Tell how a client works a limited queue."""
        ...

    async def limited_producer_delete(self, *, client_id: str, queue: str) -> None:
        """Forget that a client works a queue, or that the queue is limited."""
        ...

    async def limited_producer_list(
        self, queue: str, *, updated_after: datetime, limit: int
    ) -> Sequence[LimitedProducer]:
        """Return the clients that work a limited queue and have told so since then, by id."""
        ...

    async def job_key_list(self, ids: Sequence[int], partition: Partition) -> Mapping[int, str]:
        """Return the keys of jobs by id, missing ones left out."""
        ...


LIMITS: Capability[LimitExecutor] = Capability(
    "limits",
    "How many jobs run at once cannot be limited for all clients together on this database.",
)
