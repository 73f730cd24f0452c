"""Rows for tests, written as River would have left them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from riverui.domain.jobs import JobRow, JobState
from riverui.features.heartbeats.store import ClientLife, ClientParams, ClientStatus, ClientStore
from riverui.storage.interface import Driver

_FINALIZED = {"cancelled", "completed", "discarded"}
_ATTEMPTED = {"completed", "discarded", "retryable", "running"}
WORKER = "test_host_2026_11_21T09_00_00_000000"


def attempt_error(attempt: int = 1, error: str = "it broke", **keys: Any) -> dict[str, Any]:
    """Return one element of `errors`."""
    return {
        "at": "2026-11-21T09:00:00.123456789Z",
        "attempt": attempt,
        "error": error,
        "trace": "",
        **keys,
    }


class Jobs(Protocol):
    """What inserts jobs elsewhere."""

    async def job(self, state: str = "available", **columns: Any) -> int:
        """Insert a job and return its id."""
        ...


async def job(
    connection: AsyncConnection[Any] | Jobs, state: str = "available", **columns: Any
) -> int:
    """Insert a job and return its id; columns not named are derived from the state, Python values
    become JSON.
    """
    if not isinstance(connection, AsyncConnection):
        return await connection.job(state, **columns)
    row = job_columns(state, **columns)
    return int(await _insert(connection, "river_job", row, returning="id"))


def job_columns(state: str = "available", **columns: Any) -> dict[str, Any]:
    """Return the columns of a job to insert."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {"kind": "test_kind", "args": {}, "state": state}
    if state in _ATTEMPTED:
        row |= {"attempt": 1, "attempted_at": now - timedelta(seconds=10), "attempted_by": [WORKER]}
    if state in ("discarded", "retryable"):
        row["errors"] = [attempt_error()]
    if state == "discarded":
        row |= {"attempt": 25, "errors": [attempt_error(attempt=n + 1) for n in range(25)]}
    if state in _FINALIZED:
        row["finalized_at"] = now - timedelta(seconds=5)
    if state in ("retryable", "scheduled"):
        row["scheduled_at"] = now + timedelta(hours=1)
    else:
        row["scheduled_at"] = now - timedelta(seconds=20)
    row["created_at"] = now - timedelta(seconds=30)
    return row | columns


async def queue(connection: AsyncConnection[Any], name: str = "default", **columns: Any) -> str:
    """Insert a queue's row as a client does that serves it."""
    now = datetime.now(UTC)
    row = {"name": name, "created_at": now, "updated_at": now, **columns}
    return str(await _insert(connection, "river_queue", row, returning="name"))


async def leader(connection: AsyncConnection[Any], leader_id: str = WORKER, **columns: Any) -> str:
    """Make this client the leader for the next 15 seconds."""
    now = datetime.now(UTC)
    row = {
        "leader_id": leader_id,
        "elected_at": now,
        "expires_at": now + timedelta(seconds=15),
        **columns,
    }
    return str(await _insert(connection, "river_leader", row, returning="leader_id"))


async def client(driver: Driver, id: str = WORKER, **status: Any) -> ClientLife:
    """Let a client of the queue `default` give a sign of life with this status; it is silent after
    15 minutes.
    """
    params = ClientParams(
        id=id,
        started_at=datetime.now(UTC) - timedelta(hours=1),
        heartbeat_interval=timedelta(minutes=10),
        host="here",
        pid=1,
        language="Python",
        version="1",
        release="",
    )
    given = {"queues": {"default": (2, 0)}} | status
    async with driver.autocommit() as executor:
        return await ClientStore(executor).client_register(params, ClientStatus(**given))


async def _insert(
    connection: AsyncConnection[Any], table: str, row: Mapping[str, Any], *, returning: str
) -> Any:
    statement = sql.SQL("insert into {} ({}) values ({}) returning {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(sql.Placeholder() * len(row)),
        sql.Identifier(returning),
    )
    cursor = await connection.execute(
        statement, [_value(name, value) for name, value in row.items()]
    )
    found = await cursor.fetchone()
    assert found is not None
    return found[returning] if isinstance(found, dict) else found[0]


def _value(column: str, value: Any) -> Any:
    """Return what a column takes: JSON ones take Python values, or text that is JSON already."""
    if column == "errors" and value is not None:
        return [Jsonb(item) for item in value]
    if column in ("args", "metadata"):
        return (
            value
            if isinstance(value, str)
            else Jsonb(value, dumps=lambda v: json.dumps(v, ensure_ascii=False))
        )
    return value


def job_row(**columns: Any) -> JobRow:
    """Return a running job's row that is in no database."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    row: dict[str, Any] = {
        "id": 1, "state": JobState.RUNNING, "attempt": 1, "max_attempts": 25, "attempted_at": at,
        "created_at": at, "finalized_at": None, "scheduled_at": at, "priority": 1, "args": "{}",
        "attempted_by": ("a",), "errors": (), "kind": "mail_send", "metadata": "{}",
        "queue": "default", "tags": (), "unique_key": None, "unique_states": None,
    }  # fmt: skip
    return JobRow(**(row | columns))


class Make:
    """Writes rows to River's tables, and reads them, without the code under test."""

    def __init__(self, connection: AsyncConnection[DictRow]) -> None:
        self.connection = connection
        self.execute = connection.execute

    async def job(self, state: str = "available", **columns: Any) -> int:
        """Insert a job and return its id; see job."""
        return await job(self.connection, state, **columns)

    async def job_in(self, schema: str) -> int:
        """Insert a plain job into another schema, given quoted; return its id."""
        statement = (
            f"insert into {schema}.river_job (kind, args) values ('test_kind', '{{}}') returning id"
        )
        (row,) = await self.rows(statement)
        return int(row["id"])

    async def queue(self, name: str = "default", **columns: Any) -> str:
        """Insert a queue and return its name; see queue."""
        return await queue(self.connection, name, **columns)

    async def leader(self, leader_id: str = WORKER, **columns: Any) -> str:
        """Insert a leader and return its id; see leader."""
        return await leader(self.connection, leader_id, **columns)

    async def row(self, job_id: int) -> DictRow:
        """Return a job's columns as they are stored."""
        cursor = await self.connection.execute("select * from river_job where id = %s", [job_id])
        row = await cursor.fetchone()
        assert row is not None
        return row

    async def states(self) -> dict[int, str]:
        """Return the state of each job, by id."""
        found = await self.rows("select id, state::text from river_job order by id")
        return {row["id"]: row["state"] for row in found}

    async def notify(self, topic: str, payload: str) -> None:
        """Send a notification on River's channel for a topic."""
        await self.connection.execute(
            "select pg_notify(current_schema() || '.' || %s, %s)", [topic, payload]
        )

    async def rows(self, query: str, params: Sequence[object] | None = None) -> list[DictRow]:
        """Return the rows of a query."""
        return await (await self.connection.execute(query.encode(), params)).fetchall()
