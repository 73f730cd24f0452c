"""Writes a played world to River's tables, as they are at one time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from bench.incidents.background import PAST, RECENT, Background
from bench.incidents.world import Attempt, Job, World

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


def past(background: Background, start: datetime) -> Iterator[str]:
    """Yield the rows of a background's hours before what is played, with ids from 1 on."""
    rng = Random(f"past {background.seed}")
    clients = [client.id for client in background.clients]
    made: list[tuple[float, str]] = []
    for kind in background.kinds:
        for at in background.arrivals(kind, -PAST, -RECENT, rng):
            begun = at + rng.expovariate(4)
            errors, attempt = _NULL, 1
            if rng.random() < kind.failing:
                job = Job(kind, at, at)
                found = _failed_before(job, begun, rng.choice(clients))
                errors, attempt, begun = _errors(found, 0, start), 2, begun + 2
            ended = begun + kind.run_seconds(rng)
            due = _time(at if attempt == 1 else begun - 0.5, start)
            created = _time(at, start)
            made.append(
                (
                    at,
                    f"completed\t{attempt}\t25\t{_time(begun, start)}\t{created}\t"
                    f"{_time(min(ended, -1.0), start)}\t{due}\t{{}}\t"
                    f'{{"{rng.choice(clients)}"}}\t{errors}\t{kind.name}\t{kind.queue}\t{{}}',
                )
            )
    made.sort()
    for number, (_, row) in enumerate(made, 1):
        yield f"{number}\t{row}"


def _failed_before(job: Job, begun: float, client: str) -> Job:
    attempt = Attempt(job.due, begun, client)
    attempt.end, attempt.error, attempt.state = begun + 0.5, "Timeout: read timed out", "retryable"
    job.attempts.append(attempt)
    return job


async def copy(connection: Connection, lines: Iterable[str]) -> int:
    """Insert rows of jobs; return how many."""
    chosen = list(lines)
    if chosen:
        async with connection.cursor().copy(
            f"copy public.river_job ({_COLUMNS}) from stdin".encode()
        ) as copying:
            await copying.write("\n".join(chosen) + "\n")
    return len(chosen)


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
    live, background = world.live, world.background

    def ago(seconds: float) -> datetime:
        return start + timedelta(seconds=at - seconds)

    def since(seconds: float | None) -> datetime | None:
        return None if seconds is None else start + timedelta(seconds=seconds)

    statements: list[tuple[str, Sequence[Any]]] = [
        ("truncate public.river_queue, public.river_leader, ours.riverui_client", ()),
    ]
    for queue in background.queues:
        paused = live.paused.get(queue)
        statements.append(
            (
                "insert into public.river_queue (name, created_at, updated_at, paused_at)"
                " values (%s, %s, %s, %s)",
                (queue, ago(9e6), ago(600 * rng.random()), since(paused)),
            )
        )
    if live.leader is not None:
        lost = min(world.gone.get(live.leader, inf), world.leaderless)
        term = ago(-10) if lost > at else since(lost + 10)
        statements.append(
            (
                "insert into public.river_leader (name, leader_id, elected_at, expires_at)"
                " values ('default', %s, %s, %s)",
                (live.leader, ago(9e4), term),
            )
        )
    for at_mark, label in live.marks:
        statements.append(
            (
                "insert into ours.riverui_mark (at, label, release)"
                " values (date_trunc('minute', %s::timestamptz), %s, %s) on conflict do nothing",
                (since(at_mark), label, label),
            )
        )
    reports = {client.id for client in background.clients if background.reporting}
    if world.reports is not None:
        reports = world.reports
    for client in background.clients:
        gone = world.gone.get(client.id, inf)
        if client.id not in reports or live.ended.get(client.id, inf) <= at:
            continue
        if world.started.get(client.id, -inf) > at:
            continue
        unserved = world.unserved if at >= 0 else ()
        queues: dict[str, Any] = {
            name: [slots, 0] for name, slots in client.slots.items() if name not in unserved
        }
        untaken = {kind for kind, when in world.untaken.items() if when <= at}
        kinds = sorted({k.name for k in background.kinds if k.queue in client.slots} - untaken)
        queues[""] = {"kinds": kinds}
        seen = min(at, gone) - rng.random() * _HEARTBEAT
        began = world.started.get(client.id, -9e4)
        statements.append(
            (
                "insert into ours.riverui_client (id, registered_at, started_at, heartbeat_at,"
                " heartbeat_interval, host, pid, language, version, queues)"
                " values (%s, %s, %s, %s, %s, %s, 7, 'Python 3.13', '1.0', %s)",
                (
                    client.id,
                    since(began),
                    since(began),
                    since(seen),
                    timedelta(seconds=_HEARTBEAT),
                    client.id.split("_")[0],
                    json.dumps(queues),
                ),
            )
        )
    async with connection.transaction():
        for statement, values in statements:
            await connection.execute(statement.encode(), values)


async def set_clock(connection: Connection, *, ahead: timedelta, behind: timedelta) -> None:
    """Put the database's clock forward, and the times of its sessions."""
    for name, by in (("ahead", ahead), ("behind", behind)):
        await connection.execute(
            sql.SQL(
                "create or replace function public.{}() returns interval language sql immutable"
                " as {}"
            ).format(
                sql.Identifier(name),
                sql.Literal(f"select interval '{by.total_seconds():.6f} seconds'"),
            )
        )


def utc() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)
