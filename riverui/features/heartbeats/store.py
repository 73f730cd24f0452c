"""Running clients in `riverui_client`, and the jobs that they hold."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from riverui.domain.jobs import JobRow
from riverui.domain.json import read_object
from riverui.domain.queues import QueueTerms
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.engine.job_rows import JOB_COLUMNS, job_rows
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

SILENT_AFTER = 1.5
"""Heartbeat intervals without a heartbeat after which a client counts as silent: one was missed,
and did not come late either.
"""
DEAD_AFTER = 3.5
"""Heartbeat intervals without a heartbeat after which a client is declared dead: three were missed,
and half an interval is left for the third to come late, and for a client that is cut off to end its
jobs before others start them.
"""


class ClientLife(Struct, frozen=True, kw_only=True):
    """One client from its start, or from when it was last declared dead, to its end."""

    id: str
    """As in `attempted_by`."""
    registered_at: datetime
    """By the database's clock; every job that it took is newer."""


class ClientParams(Struct, frozen=True, kw_only=True):
    """What does not change while a client lives."""

    id: str
    started_at: datetime
    heartbeat_interval: timedelta
    host: str
    pid: int
    language: str
    """Such as `Python 3.13.1`."""
    version: str
    """The version of riverui."""
    release: str
    """The program's release; empty if it gave none."""
    periodic: Mapping[str, str] = field(default_factory=dict)
    """Id of each periodic job that has one → its schedule as a cron expression."""


class ClientStatus(Struct, frozen=True, kw_only=True):
    """A client's status, sent with each heartbeat."""

    queues: Mapping[str, tuple[int, int]]
    """Queue → maximum number of jobs at once, and how many of these slots are taken."""
    terms: Mapping[str, QueueTerms] = field(default_factory=dict)
    """Queue → the rules by which it is worked, if any."""
    kinds: Collection[str] | None = None
    """The kinds that it works, including aliases; None if they are not reported."""
    running: int = 0
    """Running jobs."""
    loop_lag: float | None = None
    """Seconds that its event loop needed to answer."""
    memory: int | None = None
    """Bytes of the process (resident)."""


class Heartbeat(Struct, frozen=True, kw_only=True):
    """What a heartbeat returns to its client."""

    alive: bool
    """Whether the heartbeat was in time; if not, the client has been declared dead."""
    due_in: float | None
    """Seconds until another client is declared dead unless it sends a heartbeat, negative if
    overdue; None without other clients.
    """


class DeadClient(Struct, frozen=True, kw_only=True):
    """A client that was declared dead, and the jobs it left."""

    life: ClientLife
    host: str
    pid: int
    silent_since: datetime
    attempted_before: datetime
    """Jobs that were attempted later by the same id belong to a later life."""


class ClientRow(Struct, frozen=True, kw_only=True):
    """A client's row."""

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
    """Queue → maximum number of jobs at once, and how many of these slots are taken."""
    running: int
    loop_lag: float | None
    memory: int | None
    declared_dead_at: datetime | None
    declared_dead_by: str | None
    """The client, or the dashboard's user, that declared it dead."""
    rescued_at: datetime | None
    """When all its jobs had been rescued."""
    rescued: int
    now: datetime
    """When this was read, by the database's clock."""
    terms: Mapping[str, QueueTerms] = field(default_factory=dict)
    """Queue → the rules by which the client works it, if any."""
    kinds: frozenset[str] | None = None
    """The kinds that it works; None if it does not report them."""

    @property
    def silence(self) -> timedelta:
        """The time since its last heartbeat."""
        return max(self.now - self.heartbeat_at, timedelta(0))

    @property
    def silent(self) -> bool:
        """Return whether it has missed a heartbeat and is not declared dead yet."""
        return self.declared_dead_at is None and self.silence > (
            SILENT_AFTER * self.heartbeat_interval
        )

    @property
    def dead_at(self) -> datetime:
        """When it is declared dead unless it sends a heartbeat."""
        return self.heartbeat_at + DEAD_AFTER * self.heartbeat_interval


class HeldJob(Struct, frozen=True, kw_only=True):
    """A running job."""

    id: int
    kind: str
    queue: str
    attempted_at: datetime | None


class SeenClient(Struct, frozen=True, kw_only=True):
    """A client as known from `attempted_by`: the jobs it holds, and the newest of those
    it worked.
    """

    id: str
    running: int = 0
    """Jobs that it holds, among those that were read."""
    held: Sequence[HeldJob] = field(default=())
    """The longest running of these."""
    held_kinds: Mapping[str, int] = field(default_factory=dict)
    """The commonest kinds of these, with their numbers."""
    seen_at: datetime | None = None
    """When it last took a job, as far as is known."""
    queues: Sequence[str] = ()
    """Queues of the jobs that were read, by name, the first few."""


class OtherLeader(Struct, frozen=True, kw_only=True):
    """A leader without a row in the table of clients."""

    leader_id: str
    claimed: bool
    """Whether this transaction may do riverui's part of the maintenance until it ends."""


_FIRST_HELD = Fragment("job_first_held")
_MAX_QUEUES = 100
"""Queues written to a row: their names are up to 128 characters long, and a row is written with
every heartbeat.
"""
_MAX_TERMS = 30_000
"""Characters of the rules of queues that are written: a row is written with every heartbeat."""
_MAX_KINDS = 20_000
"""Characters of the kinds that a client reports, for some 500 of them; if it works more, none are
reported, since a part would be misleading.
"""
_OF_CLIENT = ""
"""The key, beside the names of queues, for what applies to all of them: no queue can have it."""
_MAX_SCHEDULES = 200
"""Periodic jobs that are written: as many as the page of periodic jobs shows."""
_SCHEDULE = 200
"""Characters of a schedule, far more than any cron expression has."""
_UNRESCUED = 30.0
"""Seconds after which another client rescues the jobs of a dead client, if the one that declared it
dead has not.
"""


class ClientStore(Store):
    """Operations on riverui_client, and on the jobs of its clients in river_job."""

    async def client_register(self, params: ClientParams, status: ClientStatus) -> ClientLife:
        """Begin a client's life by writing its row."""
        row = await self._sql.row(
            "client_register",
            {
                "id": params.id,
                "started_at": instant(params.started_at),
                "heartbeat_interval": params.heartbeat_interval.total_seconds(),
                "host": params.host[:255],
                "pid": params.pid,
                "language": params.language[:100],
                "version": params.version[:100],
                "release": params.release[:200],
                "periodic": _schedules(params.periodic),
                **_status(status),
            },
        )
        return ClientLife(id=params.id, registered_at=row.registered_at)

    async def client_heartbeat(self, life: ClientLife, status: ClientStatus) -> Heartbeat:
        """Record a heartbeat of a client."""
        values = {
            "dead_after": DEAD_AFTER,
            "unrescued": _UNRESCUED,
            **_identity(life),
            **_status(status),
        }
        row = await self._sql.row("client_heartbeat", values)
        return Heartbeat(alive=row.alive, due_in=row.due_in)

    async def client_delete(self, life: ClientLife) -> None:
        """Delete the row of a client that has stopped and left no jobs."""
        await self._sql.rows("client_delete", _identity(life))

    async def client_declare_dead(
        self, *, by: str, after: float = DEAD_AFTER, id: str | None = None
    ) -> DeadClient | None:
        """Declare a client dead that has been silent for `after` heartbeats, the longest silent
        first, and return it; None if there is none.

        A client declared dead whose jobs are still not rescued is returned again. With `id`, only
        that client. Rows locked by other transactions are skipped.
        """
        slots = {}
        if id is not None:
            slots["terms"] = Fragment("client_of_id", {"of_id": id})
        values = {"by": by, "after": after, "unrescued": _UNRESCUED}
        row = await self._sql.row("client_declare_dead", values, **slots)
        if row is None:
            return None
        return DeadClient(
            life=ClientLife(id=row.id, registered_at=row.registered_at),
            host=row.host,
            pid=row.pid,
            silent_since=row.heartbeat_at,
            attempted_before=row.attempted_before,
        )

    async def client_rescued(self, life: ClientLife, jobs: int) -> None:
        """Record that so many jobs of a dead client were rescued, and that none are left."""
        await self._sql.rows("client_rescued", {**_identity(life), "jobs": jobs})

    async def client_delete_dead_before(self, before: datetime, *, limit: int) -> int:
        """Delete clients that were declared dead before then; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("client_delete_dead_before", values))

    async def client_list(self, *, limit: int) -> Sequence[ClientRow]:
        """Return clients: those silent longest first, and then the dead, the latest first."""
        rows = await self._sql.rows("client_list", {"limit": limit})
        return [_client(row._asdict()) for row in rows.records()]

    async def client_schedule_list(self) -> Mapping[str, str]:
        """Return the periodic jobs of clients that send heartbeats: the id of each, and its
        schedule as a cron expression. If clients differ, the one started last counts.
        """
        values = {"silent_after": SILENT_AFTER, "limit": _MAX_SCHEDULES}
        rows = (await self._sql.rows("client_schedule_list", values)).records()
        return {row.name: row.schedule for row in rows}

    async def client_other_leader(self, *, claim: bool = False) -> OtherLeader | None:
        """Return the leader if it has no row in the table of clients; None if there is no leader,
        or it has one.

        With `claim`, one transaction at a time may do the maintenance that such a leader does not
        do.
        """
        slots = (
            {"claimed": Fragment("client_stand_in", {"schema": self._sql.schema})} if claim else {}
        )
        row = await self._sql.row("client_other_leader", **slots)
        return row and OtherLeader(leader_id=row.leader_id, claimed=row.claimed)

    async def client_seen_list(
        self, *, cap: int, newest: int, held: int, limit: int
    ) -> Sequence[SeenClient]:
        """Return the clients known from `attempted_by`, by id.

        Up to `cap` running jobs and the `newest` completed ones are read; up to `held` jobs of each
        client are named.
        """
        values = {"cap": cap, "newest": newest, "held": held, "limit": limit}
        return [_seen(row) for row in (await self._sql.rows("client_seen_list", values)).records()]

    async def job_get_held(
        self, dead: DeadClient, *, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return the running jobs that a dead client left, by id."""
        values = {**_held_by(dead), "after_id": after_id, "limit": limit}
        return job_rows(await self._sql.rows("job_get_held", values, columns=JOB_COLUMNS))

    async def job_first_held(self, dead: DeadClient, *, after_id: int) -> int | None:
        """Return the id of the job that job_get_held would read first; None if there is none."""
        values = {**_held_by(dead), "after_id": after_id, "limit": 1}
        first: int | None = (await self._sql.rows("job_get_held", values, rows=_FIRST_HELD)).value()
        return first


def _schedules(periodic: Mapping[str, str]) -> str:
    schedules = {name: periodic[name][:_SCHEDULE] for name in sorted(periodic)[:_MAX_SCHEDULES]}
    return json.dumps(schedules)


def _identity(life: ClientLife) -> dict[str, Any]:
    return {"id": life.id, "registered_at": instant(life.registered_at)}


def _held_by(dead: DeadClient) -> dict[str, Any]:
    return {
        "client_id": dead.life.id,
        "registered_at": instant(dead.life.registered_at),
        "attempted_before": instant(dead.attempted_before),
    }


def _status(status: ClientStatus) -> dict[str, Any]:
    names = sorted(status.queues)[:_MAX_QUEUES]
    queues: dict[str, Any] = {name: [*status.queues[name]] for name in names}
    room = _MAX_TERMS
    for name in names:
        if (terms := status.terms.get(name)) is None:
            continue
        found = terms.as_object()
        room -= len(json.dumps(found))
        if room >= 0:
            queues[name].append(found)
    kinds = json.dumps(sorted(status.kinds or ()))
    if status.kinds is not None and len(kinds) <= _MAX_KINDS:
        queues[_OF_CLIENT] = {"kinds": json.loads(kinds)}
    return {
        "queues": json.dumps(queues),
        "running": status.running,
        "loop_lag": status.loop_lag,
        "memory": status.memory,
    }


def _client(columns: dict[str, Any]) -> ClientRow:
    queues = read_object(columns.pop("queues"))
    seconds = columns.pop("heartbeat_interval")
    return ClientRow(
        heartbeat_interval=timedelta(seconds=seconds),
        queues=_queues(queues),
        terms=_terms(queues),
        kinds=_kinds(queues),
        **columns,
    )


def _queues(queues: Mapping[str, Any]) -> Mapping[str, tuple[int, int]]:
    """Return the slots by queue, ignoring invalid entries."""
    return {
        name: (slots[0], slots[1])
        for name, slots in queues.items()
        if isinstance(slots, list)
        and len(slots) in (2, 3)
        and all(type(n) is int for n in slots[:2])
    }


def _terms(queues: Mapping[str, Any]) -> Mapping[str, QueueTerms]:
    """Return the rules by queue, if any."""
    return {
        name: QueueTerms.read(slots[2])
        for name, slots in queues.items()
        if isinstance(slots, list) and len(slots) == 3
    }


def _kinds(queues: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the kinds that the client works; None if it does not report them."""
    own = queues.get(_OF_CLIENT)
    kinds = own.get("kinds") if isinstance(own, dict) else None
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        return None
    return frozenset(kinds)


def _seen(row: Any) -> SeenClient:
    held = zip(row.job_ids, row.kinds, row.job_queues, row.attempted_at, strict=True)
    return SeenClient(
        id=row.id,
        running=row.running,
        held=[
            HeldJob(id=job_id, kind=kind, queue=queue, attempted_at=at)
            for job_id, kind, queue, at in held
        ],
        held_kinds=dict(zip(row.held_kinds, row.held_numbers, strict=True)),
        seen_at=row.seen_at,
        queues=row.queues,
    )
