"""Migrations by themselves; that they equal River's is shown in
tests/interop/test_migrations.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from psycopg import AsyncConnection

from riverui.errors import DatabaseUnavailable, MigrationError
from riverui.storage.migrations import migrate, migration_sql, migration_status, validate
from riverui.storage.postgres.driver import MIGRATIONS, PostgresDriver
from tests.drivers import connect


@pytest.fixture
async def empty(empty_database_url: str) -> AsyncIterator[PostgresDriver]:
    """Yield a driver on a database without tables."""
    driver = connect(empty_database_url)
    yield driver
    await driver.close()


async def _applied(driver: PostgresDriver) -> list[int]:
    return [version for version, _, applied in await migration_status(driver) if applied]


async def test_up_and_down(empty: PostgresDriver) -> None:
    steps = await migrate(empty, "up")
    assert [step.version for step in steps] == list(range(1, 9))
    assert all(step.applied_in is not None and step.direction == "up" for step in steps)
    assert steps[5].name == "bulk unique"
    assert "river_job_state_in_bitmask" in steps[5].sql
    assert await migrate(empty, "up") == []
    assert [step.version for step in await migrate(empty, "down")] == [8]
    assert [step.version for step in await migrate(empty, "down", max_steps=2)] == [7, 6]
    assert [step.version for step in await migrate(empty, "down", target_version=3)] == [5, 4]
    assert await _applied(empty) == [1, 2, 3]
    assert [step.version for step in await migrate(empty, "up", max_steps=1)] == [4]
    assert [step.version for step in await migrate(empty, "up", target_version=6)] == [5, 6]
    assert await migrate(empty, "up", target_version=2) == []
    assert [step.version for step in await migrate(empty, "up", max_steps=1, target_version=8)] == [
        7
    ]
    assert await migrate(empty, "up", max_steps=-1) == []
    assert [step.version for step in await migrate(empty, "down", target_version=-1)] == [
        7,
        6,
        5,
        4,
        3,
        2,
        1,
    ]
    assert await _applied(empty) == []
    assert await migrate(empty, "down", target_version=-1) == []


async def test_dry_run(empty: PostgresDriver) -> None:
    steps = await migrate(empty, "up", dry_run=True, target_version=2)
    assert [(step.version, step.applied_in) for step in steps] == [(1, None), (2, None)]
    assert await _applied(empty) == []


async def test_status_and_validation(empty: PostgresDriver) -> None:
    assert await validate(empty) == list(range(1, 9))
    await migrate(empty, "up", target_version=7)
    assert await validate(empty) == [8]
    assert await validate(empty, target_version=7) == []
    status = await migration_status(empty)
    assert status[0] == (1, "create river migration", True)
    assert status[-1] == (8, "job id autoincrement", False)
    with pytest.raises(MigrationError, match="Migration 99 not found"):
        await validate(empty, target_version=99)


async def test_unknown_migrations_are_shown(empty: PostgresDriver, empty_database_url: str) -> None:
    await migrate(empty, "up")
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into river_migration (line, version) values ('main', 9), ('pro', 1)"
        )
    assert (await migration_status(empty))[-1] == (9, "", True)
    assert await validate(empty) == []
    assert await migrate(empty, "up") == []


async def test_unknown_lines_and_versions(empty: PostgresDriver) -> None:
    with pytest.raises(MigrationError, match="did you mean “main”"):
        await migrate(empty, "up", line="mian")
    with pytest.raises(MigrationError, match="there is main"):
        migration_sql(MIGRATIONS, "workflow")
    with pytest.raises(MigrationError, match="Migration 99 not found"):
        await migrate(empty, "up", target_version=99)
    with pytest.raises(MigrationError, match="Migration 0 not found"):
        migration_sql(MIGRATIONS, "main", [0])
    with pytest.raises(MigrationError, match="not among"):
        await migrate(empty, "down", target_version=3)
    assert await _applied(empty) == []


def test_sql_to_read() -> None:
    steps = migration_sql(MIGRATIONS, "main", [3, 1], "up", "jobs")
    assert [step.version for step in steps] == [3, 1]
    assert 'alter table "jobs".river_job' in steps[0].sql
    down = migration_sql(MIGRATIONS, direction="down", exclude=[1])
    assert [step.version for step in down] == [8, 7, 6, 5, 4, 3, 2]
    assert "schema */" not in "".join(step.sql for step in down)


async def test_two_at_the_same_time(empty_database_url: str) -> None:
    drivers = [connect(empty_database_url) for _ in range(4)]
    results = await asyncio.gather(*(migrate(driver, "up") for driver in drivers))
    assert sorted(step.version for steps in results for step in steps) == list(range(1, 9))
    assert await _applied(drivers[0]) == list(range(1, 9))
    results = await asyncio.gather(
        *(migrate(driver, "down", target_version=-1) for driver in drivers)
    )
    assert await _applied(drivers[0]) == []
    for driver in drivers:
        await driver.close()


async def test_a_failed_step_changes_nothing(
    empty: PostgresDriver, empty_database_url: str
) -> None:
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute("create table river_queue (mine text)")
    with pytest.raises(MigrationError, match=r"Version 004 \(up\).*river_queue.*already exists"):
        await migrate(empty, "up")
    assert await _applied(empty) == [1, 2, 3]
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute("drop table river_queue")
    assert [step.version for step in await migrate(empty, "up")] == [4, 5, 6, 7, 8]


async def test_other_lines_keep_version_5(empty: PostgresDriver, empty_database_url: str) -> None:
    await migrate(empty, "up")
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute("insert into river_migration (line, version) values ('pro', 1)")
    with pytest.raises(MigrationError, match="Version 005"):
        await migrate(empty, "down", target_version=-1)
    assert await _applied(empty) == [1, 2, 3, 4, 5]


async def test_rows_survive(empty: PostgresDriver, empty_database_url: str) -> None:
    await migrate(empty, "up", target_version=2)
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as connection:
        await connection.execute(
            "insert into river_job (kind, max_attempts, args, tags) values ('k', 3, null, null)"
        )
        await migrate(empty, "up")
        cursor = await connection.execute(
            "select kind, args::text, tags, metadata::text, state::text from river_job"
        )
        assert await cursor.fetchall() == [("k", "{}", [], "{}", "available")]
        await migrate(empty, "down", target_version=2)
        cursor = await connection.execute("select kind, max_attempts from river_job")
        assert await cursor.fetchall() == [("k", 3)]


async def test_no_database() -> None:
    driver = connect("postgresql://127.0.0.1:1/x")
    with pytest.raises(DatabaseUnavailable):
        await migrate(driver, "up")
    await driver.close()


async def test_statements_have_a_timeout(empty: PostgresDriver, empty_database_url: str) -> None:
    await migrate(empty, "up", target_version=5)
    async with await AsyncConnection.connect(empty_database_url) as holder:
        await holder.execute("lock table river_job")
        with pytest.raises(MigrationError, match=r"006.*statement timeout"):
            await migrate(empty, "up", statement_timeout=timedelta(milliseconds=100))
    assert await _applied(empty) == [1, 2, 3, 4, 5]
    await migrate(empty, "up", statement_timeout=timedelta(minutes=2))
    assert await _applied(empty) == list(range(1, 9))
