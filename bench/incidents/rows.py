"""Writes a played world to River's tables, as they are at one time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from bench.incidents.background import PAST, RECENT, Background, Client
from bench.incidents.world import Attempt, Job, World
from riverui.features.figures.domain import begin

_COLUMNS = (
    "id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, args,"
    " attempted_by, errors, kind, queue, metadata"
)
_NULL = r"\N"
_HEARTBEAT = 20.0
"""Seconds between two heartbeats, as riverui's clients send them."""

Connection = psycopg.AsyncConnection[Any]

CLOCK = Path(__file__).with_name("clock.sql")
"""Makes a clock that can be put forward, and hides riverui's tables in a schema of their own."""


def line(job: Job, at: float, start: datetime) -> str | None:
    """Return a job's row for COPY as it is at that time; None if it is not inserted yet."""
    if job.created > at:
        return None
    done = [attempt for attempt in job.attempts if attempt.start <= at]
    last = done[-1] if done else None
    due, finalized = job.due, inf
    if len(done) < len(job.attempts):
        due = job.attempts[len(done)].due
    if last is not None and last.end > at:
        state, due = "running", last.due
    elif last is not None and last.state != "retryable":
        state, due, finalized = last.state, last.due, last.end
    elif job.cancelled <= at:
        state, finalized = "cancelled", job.cancelled
    elif job.moved <= at or (len(done) < len(job.attempts) and _moved(job, len(done)) <= at):
        state = "available"
    else:
        state = "retryable" if done else "scheduled"
    by = "{" + ",".join(f'"{attempt.client}"' for attempt in done) + "}" if done else _NULL
    return "\t".join(
        (
            str(job.id),
            state,
            str(len(done)),
            "25",
            _time(last.start, start) if last else _NULL,
            _time(job.created, start),
            _NULL if finalized == inf else _time(finalized, start),
            _time(due, start),
            "{}",
            by,
            _errors(job, at, start),
            job.kind.name,
            job.kind.queue,
            f'{{"river:rescue_count": {len(done) - (state == "running")}}}'
            if job.rescued
            else "{}",
        )
    )


def _moved(job: Job, number: int) -> float:
    """Return when a job became available for its attempt of this number, from 0."""
    attempt = job.attempts[number]
    return min(attempt.start, max(attempt.due, job.created))


def _errors(job: Job, at: float, start: datetime) -> str:
    """Return a job's errors for COPY."""
    found = [
        json.dumps(
            json.dumps(
                {
                    "at": (start + timedelta(seconds=attempt.start)).isoformat(),
                    "attempt": number,
                    "error": attempt.error,
                    "trace": "",
                }
            )
        )
        for number, attempt in enumerate(job.attempts, 1)
        if attempt.error and attempt.end <= at
    ]
    return ("{" + ",".join(found) + "}").replace("\\", "\\\\") if found else _NULL


def _time(seconds: float, start: datetime) -> str:
    return (start + timedelta(seconds=seconds)).isoformat()


def past(background: Background) -> list[Job]:
    """Return the jobs of a background's hours before what is played, with ids from 1 on."""
    rng, jobs = Random(f"past {background.seed}"), []
    clients = [client.id for client in background.clients]
    for kind in background.kinds:
        for at in background.arrivals(kind, -PAST, -RECENT, rng):
            job, begun = Job(kind, at, at), at + rng.expovariate(4)
            failed = rng.random() < kind.failing
            for error in ("Timeout: read timed out", "") if failed else ("",):
                attempt = Attempt(begun, begun, rng.choice(clients))
                attempt.error, attempt.state = error, "retryable" if error else "completed"
                attempt.end = min(begun + kind.run_seconds(rng), -1.0)
                begun = attempt.end + 1
                job.attempts.append(attempt)
            job.attempts[0].due = at
            jobs.append(job)
    jobs.sort(key=lambda job: job.created)
    for number, job in enumerate(jobs, 1):
        job.id = number
    return jobs


async def copy(connection: Connection, lines: Iterable[str]) -> None:
    """Insert rows of jobs."""
    text = "".join(f"{line}\n" for line in lines)
    async with connection.cursor().copy(
        f"copy public.river_job ({_COLUMNS}) from stdin".encode()
    ) as copying:
        await copying.write(text)


class Table:
    """A world's jobs in a table, which are brought forward from one time to the next."""

    def __init__(self, connection: Connection, start: datetime, jobs: Sequence[Job]) -> None:
        self._connection = connection
        self._start = start
        self._open = list(jobs)
        self._written: dict[int, str] = {}

    async def show(self, at: float) -> None:
        """Make the rows what they are at that time."""
        rows, still, old = [], [], []
        for job in self._open:
            found = line(job, at, self._start)
            if found is not None and found != self._written.get(job.id):
                if job.id in self._written:
                    old.append(job.id)
                self._written[job.id] = found
                rows.append(found)
            if found is None or found.split("\t", 7)[6] == _NULL:
                still.append(job)
        self._open = still
        async with self._connection.transaction():
            if old:
                await self._connection.execute(
                    "delete from public.river_job where id = any(%s)", [old]
                )
            await copy(self._connection, rows)


async def show_others(
    connection: Connection, world: World, at: float, start: datetime, rng: Random
) -> None:
    """Make the rows of queues, leader, clients and marks what they are at that time."""
    background = world.background

    def time(seconds: float | None) -> datetime | None:
        return None if seconds is None else start + timedelta(seconds=seconds)

    rows: list[tuple[str, dict[str, Any]]] = []
    for queue in background.queues:
        seen, paused = time(at - 600 * rng.random()), time(world.paused.get(queue))
        rows.append(("river_queue", {"name": queue, "updated_at": seen, "paused_at": paused}))
    if world.leader is not None:
        lost = min(world.gone.get(world.leader, inf), world.leaderless)
        term = {"elected_at": time(-9e4), "expires_at": time(min(at, lost) + 10)}
        rows.append(("river_leader", {"name": "default", "leader_id": world.leader, **term}))
    for marked, label in world.marks:
        minute = begin(start + timedelta(seconds=marked), timedelta(minutes=1))
        rows.append(("riverui_mark", {"at": minute, "label": label, "release": label}))
    reports = {client.id for client in background.clients if background.reporting}
    for client in background.clients:
        began = world.started.get(client.id, -9e4)
        silent = client.id not in (reports if world.reports is None else world.reports)
        if silent or not began <= at < world.ended.get(client.id, inf):
            continue
        last = min(at, world.gone.get(client.id, inf)) - rng.random() * _HEARTBEAT
        columns = {"id": client.id, "registered_at": time(began), "started_at": time(began)}
        columns |= {"heartbeat_at": time(last), "heartbeat_interval": f"{_HEARTBEAT} seconds"}
        columns |= {"host": client.id.split("_")[0], "queues": _slots(world, client, at)}
        rows.append(("riverui_client", columns))
    async with connection.transaction():
        for table in ("river_queue", "river_leader", "riverui_client", "riverui_mark"):
            await connection.execute(f"delete from {table}".encode())
        for table, columns in rows:
            places = ", ".join(["%s"] * len(columns))
            await connection.execute(
                f"insert into {table} ({', '.join(columns)}) values ({places})".encode(),
                list(columns.values()),
            )


def _slots(world: World, client: Client, at: float) -> str:
    """Return the queues and kinds that a client reports."""
    unserved = world.unserved if at >= 0 else ()
    untaken = {kind for kind, since in world.untaken.items() if since <= at}
    kinds = {kind.name for kind in world.background.kinds if kind.queue in client.slots}
    queues = {name: [slots, 0] for name, slots in client.slots.items() if name not in unserved}
    return json.dumps({**queues, "": {"kinds": sorted(kinds - untaken)}})


async def set_clock(connection: Connection, now: datetime, *, behind: timedelta) -> None:
    """Let the database's clock stand at this time, however long a report takes on this machine, and
    shift the times of its sessions.
    """
    for name, returns, value in (
        ("now", "timestamptz", now.isoformat()),
        ("behind", "interval", f"{behind.total_seconds():.6f} seconds"),
    ):
        await connection.execute(
            sql.SQL(
                "create or replace function public.{}() returns {} language sql {} as {}"
            ).format(
                sql.Identifier(name),
                sql.SQL(returns),
                sql.SQL("stable" if name == "now" else "immutable"),
                sql.Literal(f"select {returns} '{value}'"),
            )
        )
