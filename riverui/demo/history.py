"""The demo shop's jobs of the last day, worked in Go and in Python, and their insert."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import dict_row

from riverui.demo.attempts import log_text, plan
from riverui.demo.restore import FIRST_ID, restore
from riverui.demo.shop import BY_NAME, KINDS, LANGUAGE, QUEUES, Kind, client_ids
from riverui.domain.jobs import FINALIZED, JobState
from riverui.storage.interface.sql_blocks import number, read_blocks

Row = dict[str, Any]
"""Names and values of columns, ready for `encode`."""

DEPLOYED = timedelta(hours=7)
"""How long ago the workers were last replaced."""

_DAY = timedelta(hours=24)
"""Length of the history: as long as River keeps completed jobs."""

_GROWTH = timedelta(minutes=138)
"""How long ago a third as many jobs came as now: a morning, after which the rate stays."""

_HELD = 5
"""Payments that are pending: some to try the buttons on."""

_MARK = "\ue000"
"""Prefix of numbers that are temporarily written as strings; no text of the shop contains it."""

_MARKED = re.compile(f'"{_MARK}([^"]*)"')

_UNIQUE_STATES = "11110101"
"""River's default: unique in every state but cancelled and discarded."""


def encode(value: object) -> str:
    """Return JSON text in which decimals keep all digits, unlike in the standard encoder."""
    return _MARKED.sub(r"\1", json.dumps(value, default=_plain, ensure_ascii=False))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC).isoformat()[:-6]}Z"
    return f"{_MARK}{value}"


def any_kind(rng: Random) -> Kind:
    """Return a random kind, weighted by its share."""
    return rng.choices(KINDS, [kind.share for kind in KINDS])[0]


def origin(rng: Random) -> dict[str, Any]:
    """Return the metadata of a new job; its outcome follows from its random trace id."""
    return {
        "trace_id": f"{rng.getrandbits(128):032x}",
        "tenant": rng.choice(("eu-1", "eu-1", "us-2")),
    }


def tags(kind: Kind, rng: Random) -> list[str]:
    """Return a job's tags; one customer in twenty is important."""
    return [*kind.tags, *(["vip"] if rng.random() < 0.05 else [])]


def delay(kind: Kind, rng: Random) -> timedelta | None:
    """Return the delay of a scheduled job; None for most jobs."""
    if rng.random() >= kind.later:
        return None
    return timedelta(
        seconds=rng.uniform(20, 240) if rng.random() < 0.8 else rng.uniform(3_600, 80_000)
    )


def new_job(kind: Kind, now: datetime, rng: Random) -> Row:
    """Return a job as a client inserted it at that time."""
    args = kind.args(rng)
    row: Row = {
        "args": args,
        "created_at": now,
        "kind": kind.name,
        "max_attempts": kind.max_attempts,
        "metadata": origin(rng),
        "priority": kind.priority,
        "queue": kind.queue,
        "scheduled_at": now,
        "state": JobState.AVAILABLE,
        "tags": tags(kind, rng),
    }
    if wait := delay(kind, rng):
        row |= {"state": JobState.SCHEDULED, "scheduled_at": now + wait}
    if kind.unique:
        key = f"&kind={kind.name}&args={encode(dict(sorted(args.items())))}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        row |= {"unique_key": f"\\x{digest}", "unique_states": _UNIQUE_STATES}
    return row


def history(
    now: datetime, rng: Random, *, jobs: int, since: datetime | None = None
) -> Iterator[Row]:
    """Yield the jobs of the shop's last day, oldest first: most are completed, some wait.

    `since` limits it to jobs that do not exist yet.
    """
    ages = sorted((_age(rng) for _ in range(jobs)), reverse=True)
    for age in ages:
        if since is None or now - age > since:
            row = new_job(any_kind(rng), now - age, rng)
            live(row, now, rng)
            yield row
    if since is not None:
        return
    for place in range(_HELD):
        yield new_job(BY_NAME["payment_capture"], now - timedelta(seconds=11 * place), rng) | {
            "state": JobState.PENDING
        }


def _age(rng: Random) -> timedelta:
    """Return a random age within the last day: fewer jobs came, the longer ago that is."""
    while (age := rng.expovariate(1) * _GROWTH) > _DAY:
        pass
    return age


def live(row: Row, now: datetime, rng: Random, *, worked_until: datetime | None = None) -> None:
    """Simulate the job until now; no worker has fetched it since `worked_until`."""
    kind = BY_NAME[row["kind"]]
    row |= {"attempt": 0, "attempted_by": [], "errors": []}
    while row["state"] not in FINALIZED:
        started_at = row["scheduled_at"] + timedelta(seconds=rng.expovariate(2))
        if row["scheduled_at"] > now:
            return
        row["state"] = JobState.AVAILABLE
        if started_at > (worked_until or now):
            return
        _attempt(row, kind, started_at, now, rng)
        if row["state"] is JobState.AVAILABLE:
            # It would still run now, but no worker of the past goes on: it is left to those who
            # start now.
            return


def _attempt(row: Row, kind: Kind, started_at: datetime, now: datetime, rng: Random) -> None:
    """Change the row as River does at the end of an attempt, if that end is not after now."""
    metadata, number = row["metadata"], row["attempt"] + 1
    made = plan(kind, row["args"], metadata["trace_id"], number, metadata.get("snoozes", 0))
    ended_at = started_at + timedelta(seconds=made.seconds)
    if ended_at > now:
        return
    deployed = DEPLOYED if now - started_at < DEPLOYED else _DAY * 3
    row["attempted_by"].append(rng.choice(client_ids(LANGUAGE[kind.queue], now - deployed)))
    row |= {"attempt": number, "attempted_at": started_at}
    if log := log_text(kind, made, started_at, ended_at):
        metadata.setdefault("river:log", []).append({"attempt": number, "log": log})
    if made.snooze is not None:
        metadata["snoozes"] = metadata.get("snoozes", 0) + 1
        row |= {"state": JobState.SCHEDULED, "attempt": number - 1}
        row["scheduled_at"] = ended_at + made.snooze
        return
    row |= {"state": JobState.COMPLETED, "finalized_at": ended_at}
    if made.output is not None:
        metadata["output"] = made.output
    if made.error:
        error = f"JobCancelError: {made.error}" if made.cancels else made.error
        # River's `at` is when the failed attempt started.
        row["errors"].append(
            {"at": started_at, "attempt": number, "error": error, "trace": made.trace}
        )
        row["state"] = JobState.CANCELLED if made.cancels else JobState.DISCARDED
        if not made.cancels and number < kind.max_attempts:
            # River's own retry policy.
            wait = timedelta(seconds=len(row["errors"]) ** 4 * rng.uniform(0.9, 1.1))
            row |= {"state": JobState.RETRYABLE, "scheduled_at": ended_at + wait}
            del row["finalized_at"]


_INSERTED_AT_ONCE = 1_000
"""Rows of one statement: some megabytes of JSON."""

Connection = AsyncConnection[dict[str, Any]]


async def seed(url: str, rng: Random, *, jobs: int) -> None:
    """Insert a history of so many jobs a day until now."""
    now = datetime.now(UTC)
    if url.startswith("sqlite:"):
        await restore(url, lambda since: list(history(now, rng, jobs=jobs, since=since)), encode)
        return
    async with _writing(url) as (connection, sql):
        (newest,) = await _run(connection, sql["job_get_newest"])
        since = newest["created_at"]
        if since is None:
            await _begin(connection, sql, {})
        await _insert(connection, sql, list(history(now, rng, jobs=jobs, since=since)))


async def write(
    url: str,
    *,
    rows: Sequence[Row],
    paused_at: Mapping[str, datetime] | None = None,
    marks: Sequence[tuple[datetime, str]] = (),
) -> None:
    """Insert jobs and marks; with `paused_at` into an empty database, which gets the shop's queues,
    some of them paused.
    """
    if url.startswith("sqlite:"):
        await restore(url, lambda _: rows, encode, paused_at=paused_at, marks=marks)
        return
    async with _writing(url) as (connection, sql):
        if paused_at is not None:
            await _begin(connection, sql, paused_at)
        await _insert(connection, sql, rows)
        for at, label in marks:
            await _run(connection, sql["mark_insert"], at=at, label=label)


@asynccontextmanager
async def _writing(url: str) -> AsyncIterator[tuple[Connection, Mapping[str, str]]]:
    """Yield a connection in a transaction and the statements; analyze the tables afterwards."""
    sql = read_blocks(Path(__file__).with_name("seed.sql").read_text(encoding="utf-8"))
    async with await AsyncConnection.connect(
        url, autocommit=True, cursor_factory=AsyncRawCursor, row_factory=dict_row
    ) as connection:
        async with connection.transaction():
            yield connection, sql
        await connection.execute("analyze")


async def _begin(
    connection: Connection, sql: Mapping[str, str], paused_at: Mapping[str, datetime]
) -> None:
    """Create the queues in an empty database, and set the first job id."""
    now = datetime.now(UTC)
    times = {"created_at": now - timedelta(days=41), "updated_at": now}
    queues = [
        {"name": queue.name, "paused_at": paused_at.get(queue.name), **times} for queue in QUEUES
    ]
    await _run(connection, sql["sequence_start"], id=FIRST_ID)
    await _run(connection, sql["queue_create"], queues=encode(queues))


async def _insert(connection: Connection, sql: Mapping[str, str], rows: Sequence[Row]) -> None:
    for first in range(0, len(rows), _INSERTED_AT_ONCE):
        part = encode(rows[first : first + _INSERTED_AT_ONCE])
        await _run(connection, sql["job_insert"], jobs=part)


async def _run(connection: Connection, block: str, **values: Any) -> list[dict[str, Any]]:
    text, names = number(block)
    cursor = await connection.execute(text.encode(), [values[name] for name in names])
    return await cursor.fetchall() if cursor.description else []
