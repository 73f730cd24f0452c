"""Fills the demo's database with the shop's past: a whole day at first, later the time since it
was stopped.
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

from riverui.demo.history import PAUSED_FOR, Row, encode, history
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
            paused_at = {queue.name: now - PAUSED_FOR for queue in QUEUES if queue.paused}
            await _begin(connection, sql, paused_at)
        await _insert(connection, sql, list(history(now, rng, jobs=jobs, since=since)))


async def write(url: str, *, rows: Sequence[Row], paused_at: Mapping[str, datetime]) -> None:
    """Insert jobs and the shop's queues, some of them paused, into an empty database."""
    async with _writing(url) as (connection, sql):
        await _begin(connection, sql, paused_at)
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


async def _begin(
    connection: Connection, sql: Mapping[str, str], paused_at: Mapping[str, datetime]
) -> None:
    """Create the queues in an empty database, and let job ids begin as in an old one."""
    now = datetime.now(UTC)
    times = {"created_at": now - timedelta(days=41), "updated_at": now}
    queues = [
        {"name": queue.name, "paused_at": paused_at.get(queue.name), **times} for queue in QUEUES
    ]
    await _run(connection, sql["sequence_start"], id=_FIRST_ID)
    await _run(connection, sql["queue_create"], queues=encode(queues))


async def _insert(connection: Connection, sql: Mapping[str, str], rows: Sequence[Row]) -> None:
    for first in range(0, len(rows), _INSERTED_AT_ONCE):
        part = encode(rows[first : first + _INSERTED_AT_ONCE])
        await _run(connection, sql["job_insert"], jobs=part)


async def _run(connection: Connection, block: str, **values: Any) -> list[dict[str, Any]]:
    text, names = number(block)
    cursor = await connection.execute(text.encode(), [values[name] for name in names])
    return await cursor.fetchall() if cursor.description else []
