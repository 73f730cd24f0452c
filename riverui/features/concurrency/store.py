"""Slots of limited queues in `riverui_limit`, and the clients that work such queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import Struct

from riverui.domain.jobs import JobRow
from riverui.domain.json import read_object
from riverui.domain.partitions import Partition
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_fetch import in_order, which
from riverui.storage.postgres.engine.job_rows import fetched_rows
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store
from riverui.storage.stores.candidates import key_of


class LimitRow(NamedTuple):
    """One partition of a limited queue."""

    queue: str
    key: str
    """See riverui.domain.partitions; empty for all of the queue."""
    taken: int
    """Slots that clients have borrowed: the running jobs, and up to a second's more."""
    clients: Mapping[str, int]
    """Client → its slots; of many clients, those with the most."""
    wanted: bool
    """Whether a client got fewer than it asked for."""
    updated_at: datetime


class LimitedProducer(NamedTuple):
    """How one client fetches from one limited queue."""

    id: int
    client_id: str
    queue: str
    max_workers: int
    concurrency: str
    """The limits it applies: JSON of an object."""
    running: str
    """Key → running jobs, a few seconds ago: JSON of an object."""
    created_at: datetime
    updated_at: datetime


class LeaseParams(Struct, frozen=True, kw_only=True):
    """How many slots a client wants of some keys of a queue."""

    life: ClientLife
    queue: str
    most: int
    """Slots of each key for all clients together."""
    wanted: Mapping[str, int]
    """Key → slots wanted from now on: a smaller number is always returned, a larger one granted as
    far as slots are free.
    """
    forced: bool = False
    """Whether the slots are granted in any case, because its jobs are running already."""


class LimitedFetchParams(Struct, frozen=True, kw_only=True):
    """How a client fetches jobs of a limited queue and borrows their slots in the same
    statement.
    """

    life: ClientLife
    partition: Partition
    most: int
    """Slots of each key for all clients together."""
    most_here: int
    """Slots of each key for this client."""
    used: Mapping[str, int]
    """Key → slots in use by this client."""
    full: Collection[str]
    """Keys whose jobs are skipped."""
    window: int
    """Waiting jobs that are read."""
    looked_at: int
    """Jobs of other keys among them that are considered."""


class LimitedFetch(NamedTuple):
    """Jobs that were made running, and the slots borrowed for them."""

    rows: Sequence[JobRow]
    keys: Sequence[str]
    """Their keys, in the same order."""
    slots: Mapping[str, int]
    """Key → slots that the client has now, where changed."""
    seen: int
    """Jobs considered, without those of full keys."""


_ATTEMPTED_BY = Fragment("job_attempted_by")
_MAX_DEAD_CLIENTS = 1_000
"""Clients whose slots one statement frees: more than die together."""
_FIRST = Fragment("limit_first")
_MAX_CLIENTS = 50
"""Clients of one key that are named: those with the most slots."""
_SLOTS = Fragment("limit_slots")
_UNKNOWN_SECONDS = 600.0
"""Seconds after a client's registration; from then on every transaction sees its row, unless it was
deleted.
"""


class LimitStore(Store):
    """Operations on riverui_limit and riverui_producer."""

    async def limit_lease(self, params: LeaseParams) -> Mapping[str, int] | None:
        """Return how many slots of each key the client has now; None if its life is over.

        Notifies the queue's workers when slots become free that another client wanted.
        """
        keys = sorted(params.wanted)
        values = {
            "client_id": params.life.id,
            "registered_at": instant(params.life.registered_at),
            "holder": _holder(params.life),
            "queue": params.queue,
            "most": params.most,
            "keys": array_literals.texts(keys),
            "slots": array_literals.numbers([params.wanted[key] for key in keys]),
            "schema": self._sql.schema,
        }
        slots = {} if params.forced else {"first": _FIRST, "slots": _SLOTS}
        rows = (await self._sql.prepared("limit_lease", values, **slots)).records()
        if not rows:
            return None
        granted = {row.key: row.slots for row in rows if row.key is not None}
        return {key: granted.get(key, 0) for key in keys}

    async def limit_held_list(self, life: ClientLife, queue: str) -> Mapping[str, int]:
        """Return the slots that a client has borrowed of a queue's keys."""
        values = {"holder": _holder(life), "queue": queue}
        rows = await self._sql.rows("limit_held_list", values)
        return {row.key: row.slots for row in rows.records()}

    async def job_fetch_limited(
        self, params: JobFetchParams, limited: LimitedFetchParams
    ) -> LimitedFetch | None:
        """Make up to `params.limit` jobs running that have slots, borrowing the slots that the
        client lacks. Return None, without taking jobs, if the client's life is over.

        Jobs and slots locked by other transactions are skipped.
        """
        values = {
            **which(params),
            "limit": params.limit,
            "max_attempted_by": params.max_attempted_by,
            "client_id": params.client_id,
            "registered_at": instant(limited.life.registered_at),
            "holder": _holder(limited.life),
            "most": limited.most,
            "most_here": limited.most_here,
            "used_keys": array_literals.texts(list(limited.used)),
            "used_slots": array_literals.numbers(list(limited.used.values())),
            "full_keys": array_literals.texts(list(limited.full)),
            "window": limited.window,
            "looked_at": limited.looked_at,
        }
        slots = in_order(params)
        if params.after is not None:
            # They come in order: a sort would read all of the window.
            slots["order"] = EMPTY
        found = await self._sql.prepared(
            "job_fetch_limited",
            values,
            key=key_of(limited.partition),
            attempted_by=_ATTEMPTED_BY,
            **slots,
        )
        slots_now = {
            key: count
            for key, count in zip(found.column("slots_key"), found.column("slots"), strict=True)
            if count is not None
        }
        if None not in slots_now:
            return None
        seen = slots_now.pop(None)
        place = found.names.index("id")
        claimed = Rows((row for row in found if row[place] is not None), found.names)
        keys = dict(zip(claimed.column("id"), claimed.column("key"), strict=True))
        rows = fetched_rows(claimed, params.client_id, params.queue)
        rows.sort(key=lambda row: (row.priority, row.scheduled_at, row.id))
        return LimitedFetch(rows, [keys[row.id] for row in rows], slots_now, seen)

    async def limit_dead_at(self) -> datetime | None:
        """Return when the last client was declared dead, as far as rows are kept."""
        dead_at: datetime | None = (await self._sql.rows("limit_dead_at")).value()
        return dead_at

    async def limit_free_dead(self) -> Collection[str]:
        """Free the slots of clients that were declared dead or have no row; notify the workers of
        their queues, and return these.
        """
        dead = {"unknown_seconds": _UNKNOWN_SECONDS, "limit": _MAX_DEAD_CLIENTS}
        holders = (await self._sql.rows("limit_dead_list", dead)).values()
        if not holders:
            return ()
        # A separate statement sees what a client borrowed until its death.
        values = {"holders": array_literals.texts(holders), "schema": self._sql.schema}
        return [row.queue for row in (await self._sql.rows("limit_free", values)).records()]

    async def limit_delete_idle(self, *, before: datetime, limit: int) -> int:
        """Delete keys and clients without an update since then; return how many keys."""
        values: dict[str, Any] = {"before": instant(before)}
        await self._sql.rows("limited_producer_delete_before", values)
        return len(await self._sql.rows("limit_delete_idle", {**values, "limit": limit}))

    async def limit_list(self, queue: str, *, cap: int, limit: int) -> Sequence[LimitRow]:
        """Return a queue's keys with slots taken, the fullest first; up to `cap` rows are read."""
        values = {"queue": queue, "cap": cap, "limit": limit}
        return [
            LimitRow(
                queue=row.queue,
                key=row.key,
                taken=row.taken,
                clients=_clients(row.leases),
                wanted=row.wanted,
                updated_at=row.updated_at,
            )
            for row in (await self._sql.rows("limit_list", values)).records()
        ]

    async def limit_get(self, queue: str, key: str) -> LimitRow | None:
        """Return one key of a queue; None if its slots are unused."""
        row = await self._sql.row("limit_get", {"queue": queue, "key": key})
        if row is None:
            return None
        return LimitRow(**(row._asdict() | {"clients": _clients(row.clients)}))

    async def limited_producer_upsert(
        self, *, client_id: str, queue: str, max_workers: int, concurrency: str, running: str
    ) -> None:
        """Report how a client works a limited queue."""
        await self._sql.rows(
            "limited_producer_upsert",
            {
                "client_id": client_id,
                "queue": queue,
                "max_workers": max_workers,
                "concurrency": concurrency,
                "running": running,
            },
        )

    async def limited_producer_delete(self, *, client_id: str, queue: str) -> None:
        """Delete the report: the client no longer works the queue, or the queue is no longer
        limited.
        """
        await self._sql.rows("limited_producer_delete", {"client_id": client_id, "queue": queue})

    async def limited_producer_list(
        self, queue: str, *, updated_after: datetime, limit: int
    ) -> Sequence[LimitedProducer]:
        """Return the clients that work a limited queue and have reported since then, by id."""
        values = {"queue": queue, "updated_after": instant(updated_after), "limit": limit}
        rows = (await self._sql.rows("limited_producer_list", values)).records()
        return [LimitedProducer(**row._asdict()) for row in rows]


def _holder(life: ClientLife) -> str:
    """Return the text that identifies a client's life in a row, as written by `limit_dead_list`."""
    return f"{life.id}@{life.registered_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"


def _clients(leases: str) -> Mapping[str, int]:
    """Return slots by client, ignoring invalid entries."""
    slots = [
        (holder.rpartition("@")[0] or holder, count)
        for holder, count in read_object(leases).items()
        if type(count) is int
    ]
    return dict(sorted(slots, key=lambda item: (-item[1], item[0]))[:_MAX_CLIENTS])
