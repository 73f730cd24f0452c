"""The tables of riverui's own, for tests that look at what stands in them."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from riverui.storage.migrations import migration_sql
from riverui.storage.postgres.driver import MIGRATIONS

OWN_TABLES = "\n".join(step.sql for step in migration_sql(MIGRATIONS, "riverui")).encode()
"""Makes them, without a record."""


async def create(connection: AsyncConnection[Any]) -> None:
    """Make them where they are missing."""
    cursor = await connection.execute("select to_regclass('riverui_client') is null as missing")
    if (row := await cursor.fetchone()) and dict(row)["missing"]:
        await connection.execute(OWN_TABLES)


async def dead_letter(connection: AsyncConnection[Any], job_id: int) -> None:
    """Keep a copy of a job as a dead letter, in a table that may have to be made."""
    await create(connection)
    names = (
        "id, created_at, scheduled_at, attempt, max_attempts, priority, kind, queue, args,"
        " metadata, tags"
    )
    await connection.execute(
        f"insert into riverui_dead_job ({names}, state)"
        f" select {names}, 'discarded' from river_job where id = %s".encode(),
        [job_id],
    )


async def periodic_job(connection: AsyncConnection[Any], job_id: str) -> None:
    """Keep a durable periodic job, in a table that may have to be made."""
    await create(connection)
    await connection.execute(
        "insert into riverui_periodic_job (id, next_run_at) values (%s, now())", [job_id]
    )


async def incident(connection: AsyncConnection[Any], incident_id: str) -> None:
    """Keep an open incident, in a table that may have to be made."""
    await create(connection)
    await connection.execute(
        "insert into riverui_incident (id, opened_at, seen_at, cause, level, title)"
        " values (%s, now(), now(), 'failures', 'warn', 'mail_send is failing.')",
        [incident_id],
    )
