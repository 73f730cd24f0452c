"""The tables of riverui's own, for tests that look at what stands in them."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from riverui.storage.migrations import migration_sql
from riverui.storage.postgres.driver import MIGRATIONS

OWN_TABLES = "\n".join(step.sql for step in migration_sql(MIGRATIONS, "riverui")).encode()
"""Makes them, without a record."""


async def dead_letter(connection: AsyncConnection[Any], job_id: int) -> None:
    """Keep a copy of a job as a dead letter, in a table that is made for it."""
    await connection.execute(migration(13))
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
    """Keep a durable periodic job, in a table that is made for it."""
    await connection.execute(migration(14))
    await connection.execute(
        "insert into riverui_periodic_job (id, next_run_at) values (%s, now())", [job_id]
    )


def migration(version: int) -> bytes:
    """Return one migration's SQL."""
    (step,) = (step for step in migration_sql(MIGRATIONS, "riverui") if step.version == version)
    return step.sql.encode()
