"""Clients at work in `riverui_client`, and the jobs that they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.domain.queue_terms import QueueTerms
from riverui.domain.stored_json import read_object
from riverui.storage.interface.clients import (
    DEAD_AFTER,
    SILENT_AFTER,
    ClientLife,
    ClientParams,
    ClientRow,
    ClientStatus,
    DeadClient,
    Heartbeat,
    HeldJob,
    OtherLeader,
    SeenClient,
)
from riverui.storage.postgres.engine.job_rows import JOB_COLUMNS, job_rows
from riverui.storage.postgres.statements import Statements, instant
from riverui.storage.sql import Fragment

_FIRST_HELD = Fragment("job_first_held")
_MOST_QUEUES = 100
"""Queues that a row tells of: their names are up to 128 characters long, and a row is written with
every sign of life.
"""
_MOST_TERMS = 30_000
"""Characters of the rules of queues that are told: a row is written with every sign of life."""
_MOST_KINDS = 20_000
"""Characters of the kinds that a client reports, for some 500 of them; where it works more, none
are reported, since a part of them would be misleading.
"""
_OF_CLIENT = ""
"""The key beside the names of queues for what holds for all of them: no queue can have it."""
_MOST_SCHEDULES = 200
"""Periodic jobs that are told of: as many as the page of periodic jobs shows."""
_SCHEDULE = 200
"""Characters of a schedule, far more than any cron expression has."""
_UNRESCUED = 30.0
"""Seconds after which the jobs of a dead client are rescued by another one, where who declared it
dead has not done so.
"""


class Clients(Statements):
    """Operations on riverui_client, and on river_job for its sake."""

    async def client_register(self, params: ClientParams, status: ClientStatus) -> ClientLife:
        """Begin a client's life: make its row."""
        row = await self._row(
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
                **_told(status),
            },
        )
        return ClientLife(id=params.id, registered_at=row.registered_at)

    async def client_heartbeat(self, life: ClientLife, status: ClientStatus) -> Heartbeat:
        """Take a sign of life of a client."""
        values = {"dead_after": DEAD_AFTER, "unrescued": _UNRESCUED, **_of(life), **_told(status)}
        row = await self._row("client_heartbeat", values)
        return Heartbeat(alive=row.alive, due_in=row.due_in)

    async def client_delete(self, life: ClientLife) -> None:
        """Forget a client that has stopped and left no jobs."""
        await self._rows("client_delete", _of(life))

    async def client_declare_dead(
        self, *, by: str, after: float = DEAD_AFTER, id: str | None = None
    ) -> DeadClient | None:
        """Declare a client dead that has been silent for so long; see ClientExecutor."""
        slots = {}
        if id is not None:
            slots["terms"] = Fragment("client_of_id", {"of_id": id})
        values = {"by": by, "after": after, "unrescued": _UNRESCUED}
        row = await self._row("client_declare_dead", values, **slots)
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
        """Take note that so many jobs of a dead client were rescued."""
        await self._rows("client_rescued", {**_of(life), "jobs": jobs})

    async def client_delete_dead_before(self, before: datetime, *, limit: int) -> int:
        """Forget clients that were declared dead before then; return how many."""
        values = {"before": instant(before), "limit": limit}
        return len(await self._rows("client_delete_dead_before", values))

    async def client_list(self, *, limit: int) -> Sequence[ClientRow]:
        """Return clients: those silent longest first, and then the dead, the latest first."""
        rows = await self._rows("client_list", {"limit": limit})
        return [_client(row._asdict()) for row in rows.records()]

    async def client_schedule_list(self) -> Mapping[str, str]:
        """Return the periodic jobs of clients that give signs of life, and their schedules."""
        values = {"silent_after": SILENT_AFTER, "limit": _MOST_SCHEDULES}
        rows = (await self._rows("client_schedule_list", values)).records()
        return {row.name: row.schedule for row in rows}

    async def client_other_leader(self, *, claim: bool = False) -> OtherLeader | None:
        """Return who leads where that is no client of the table."""
        slots = {"claimed": Fragment("client_stand_in", {"schema": self._schema})} if claim else {}
        row = await self._row("client_other_leader", **slots)
        return row and OtherLeader(leader_id=row.leader_id, claimed=row.claimed)

    async def client_seen_list(
        self, *, cap: int, newest: int, held: int, limit: int
    ) -> Sequence[SeenClient]:
        """Return the clients that jobs tell of, by id."""
        values = {"cap": cap, "newest": newest, "held": held, "limit": limit}
        return [_seen(row) for row in (await self._rows("client_seen_list", values)).records()]

    async def job_get_held(
        self, dead: DeadClient, *, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return the running jobs that a dead client left, by id."""
        values = {**_held_by(dead), "after_id": after_id, "limit": limit}
        return job_rows(await self._rows("job_get_held", values, columns=JOB_COLUMNS))

    async def job_first_held(self, dead: DeadClient, *, after_id: int) -> int | None:
        """Return the id of the job that job_get_held would read first; None where there is
        none.
        """
        values = {**_held_by(dead), "after_id": after_id, "limit": 1}
        first: int | None = (await self._rows("job_get_held", values, rows=_FIRST_HELD)).value()
        return first


def _schedules(periodic: Mapping[str, str]) -> str:
    told = {name: periodic[name][:_SCHEDULE] for name in sorted(periodic)[:_MOST_SCHEDULES]}
    return json.dumps(told)


def _of(life: ClientLife) -> dict[str, Any]:
    return {"id": life.id, "registered_at": instant(life.registered_at)}


def _held_by(dead: DeadClient) -> dict[str, Any]:
    return {
        "client_id": dead.life.id,
        "registered_at": instant(dead.life.registered_at),
        "attempted_before": instant(dead.attempted_before),
    }


def _told(status: ClientStatus) -> dict[str, Any]:
    names = sorted(status.queues)[:_MOST_QUEUES]
    told: dict[str, Any] = {name: [*status.queues[name]] for name in names}
    room = _MOST_TERMS
    for name in names:
        if (terms := status.terms.get(name)) is None:
            continue
        found = terms.as_object()
        room -= len(json.dumps(found))
        if room >= 0:
            told[name].append(found)
    kinds = json.dumps(sorted(status.kinds or ()))
    if status.kinds is not None and len(kinds) <= _MOST_KINDS:
        told[_OF_CLIENT] = {"kinds": json.loads(kinds)}
    return {
        "queues": json.dumps(told),
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


def _queues(told: Mapping[str, Any]) -> Mapping[str, tuple[int, int]]:
    """Return the slots by queue; what somebody else may have written there is left out."""
    return {
        name: (slots[0], slots[1])
        for name, slots in told.items()
        if isinstance(slots, list)
        and len(slots) in (2, 3)
        and all(type(n) is int for n in slots[:2])
    }


def _terms(told: Mapping[str, Any]) -> Mapping[str, QueueTerms]:
    """Return the rules by queue, of those that have any."""
    return {
        name: QueueTerms.read(slots[2])
        for name, slots in told.items()
        if isinstance(slots, list) and len(slots) == 3
    }


def _kinds(told: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the kinds that the client works; None where it does not report them."""
    own = told.get(_OF_CLIENT)
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
        seen_at=row.seen_at,
        queues=row.queues,
    )
