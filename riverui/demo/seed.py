"""Fills the demo's database with the shop's past: a whole day at first, later what it slept
through.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import dict_row

from riverui.demo.attempts import Row
from riverui.demo.history import PAUSED_FOR, encode, history
from riverui.demo.shop import QUEUES
from riverui.storage.sql import number, read_blocks

_FIRST_ID = 4_812_000
"""The id of the first job, as in a database that has been used for long."""
_INSERTED_AT_ONCE = 1_000
"""Rows of one statement: some megabytes of JSON."""

Connection = AsyncConnection[dict[str, Any]]


async def seed(url: str, rng: Random, *, jobs: int) -> None:
    """Insert a past of so many jobs a day, up to now."""
    now = datetime.now(UTC)
    async with _writing(url) as (connection, sql):
        (newest,) = await _run(connection, sql["job_get_newest"])
        since = newest["created_at"]
        if since is None:
            await _run(connection, sql["sequence_start"], id=_FIRST_ID)
            await _run(connection, sql["queue_create"], queues=encode(_queues(now)))
        await _insert(connection, sql, list(history(now, rng, jobs=jobs, since=since)))


async def write(url: str, *, rows: Sequence[Row], queues: Sequence[Row]) -> None:
    """Insert jobs and queues into an empty database as they are."""
    async with _writing(url) as (connection, sql):
        await _run(connection, sql["sequence_start"], id=_FIRST_ID)
        await _run(connection, sql["queue_create"], queues=encode(queues))
        await _insert(connection, sql, rows)


@asynccontextmanager
async def _writing(url: str) -> AsyncIterator[tuple[Connection, Mapping[str, str]]]:
    """Yield a connection in a transaction, and the statements; the tables are analyzed after it."""
    sql = read_blocks(Path(__file__).with_name("seed.sql").read_text(encoding="utf-8"))
    async with await AsyncConnection.connect(
        url, autocommit=True, cursor_factory=AsyncRawCursor, row_factory=dict_row
    ) as connection:
        async with connection.transaction():
            yield connection, sql
        await connection.execute("analyze")


async def _insert(connection: Connection, sql: Mapping[str, str], rows: Sequence[Row]) -> None:
    for first in range(0, len(rows), _INSERTED_AT_ONCE):
        await _run(
            connection, sql["job_insert"], jobs=encode(rows[first : first + _INSERTED_AT_ONCE])
        )


def _queues(now: datetime) -> list[dict[str, object]]:
    return [
        {
            "name": queue.name,
            "created_at": now - timedelta(days=41),
            "updated_at": now,
            "paused_at": now - PAUSED_FOR if queue.paused else None,
        }
        for queue in QUEUES
    ]


async def _run(connection: Connection, block: str, **values: Any) -> list[dict[str, Any]]:
    text, names = number(block)
    cursor = await connection.execute(text.encode(), [values[name] for name in names])
    return await cursor.fetchall() if cursor.description else []
