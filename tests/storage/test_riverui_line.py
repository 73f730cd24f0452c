"""The migration line `riverui`: tables of riverui's own, made only when asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from riverui.errors import MigrationError
from riverui.storage.migrations import migrate, migration_sql, migration_status, validate
from riverui.storage.postgres.driver import MIGRATIONS, PostgresDriver
from tests.drivers import connect

LINE = "riverui"

_NAMES = """
select c.relname as name from pg_class c where c.relnamespace = to_regnamespace(%(schema)s)
union all
select c.conname from pg_constraint c where c.connamespace = to_regnamespace(%(schema)s)
union all
select t.typname from pg_type t where t.typnamespace = to_regnamespace(%(schema)s)
union all
select p.proname from pg_proc p where p.pronamespace = to_regnamespace(%(schema)s)
union all
select g.tgname from pg_trigger g join pg_class c on c.oid = g.tgrelid
where c.relnamespace = to_regnamespace(%(schema)s) and not g.tgisinternal
"""


@pytest.fixture(params=[None, "jobs_of_2026"])
def schema(request: pytest.FixtureRequest) -> str | None:
    name: str | None = request.param
    return name


@pytest.fixture
def behind(empty_database_url: str, schema: str | None) -> Iterator[psycopg.Connection]:
    """Yield a look behind, at a database that has the schema and nothing in it."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        if schema:
            connection.execute(f'create schema "{schema}"'.encode())
        yield connection


@pytest.fixture
async def empty(
    empty_database_url: str, schema: str | None, behind: psycopg.Connection
) -> AsyncIterator[PostgresDriver]:
    driver = connect(empty_database_url, schema=schema)
    yield driver
    await driver.close()


def names(connection: psycopg.Connection, schema: str | None) -> set[str]:
    """Return what is in the schema."""
    return {row[0] for row in connection.execute(_NAMES, {"schema": schema or "public"})}


async def test_it_is_made_when_asked_for_and_leaves_nothing(
    empty: PostgresDriver, behind: psycopg.Connection, schema: str | None
) -> None:
    await migrate(empty, "up")
    main = names(behind, schema)
    assert not [name for name in main if "riverui_" in name]
    known = sorted(MIGRATIONS.versions(LINE))
    assert known == list(range(1, len(known) + 1))
    assert await validate(empty, LINE) == known

    for version in known:
        steps = await migrate(empty, "up", line=LINE, target_version=version)
        assert [step.version for step in steps] == [version]
        made = names(behind, schema) - main
        assert made
        assert not [name for name in made if not name.lstrip("_").startswith("riverui_")]
    assert await validate(empty, LINE) == []
    assert all(applied for _, _, applied in await migration_status(empty, LINE))
    assert await migrate(empty, "up", line=LINE) == []
    assert await validate(empty) == []

    for version in reversed(known):
        steps = await migrate(empty, "down", line=LINE)
        assert [step.version for step in steps] == [version]
    assert names(behind, schema) == main
    assert await validate(empty, LINE) == known
    steps = await migrate(empty, "down", target_version=-1)
    assert len(steps) == 8


async def test_it_comes_after_the_main_line_and_goes_before_it(empty: PostgresDriver) -> None:
    with pytest.raises(MigrationError, match="needs the migrations of the line “main” first"):
        await migrate(empty, "up", line=LINE)
    await migrate(empty, "up", target_version=4)
    with pytest.raises(MigrationError, match="needs the migrations of the line “main” first"):
        await migrate(empty, "up", line=LINE)
    await migrate(empty, "up")
    await migrate(empty, "up", line=LINE)
    with pytest.raises(MigrationError, match="Version 005"):
        await migrate(empty, "down", target_version=-1)
    await migrate(empty, "up")
    assert await validate(empty, LINE) == []


async def test_its_sql_can_be_run_elsewhere(
    empty: PostgresDriver, behind: psycopg.Connection, schema: str | None
) -> None:
    """What `migrate-get` prints makes the same, without River's record."""
    await migrate(empty, "up")
    main = names(behind, schema)
    await migrate(empty, "up", line=LINE)
    made = names(behind, schema)
    await migrate(empty, "down", line=LINE, target_version=-1)
    for direction, expected in (("up", made), ("down", main)):
        for step in migration_sql(
            MIGRATIONS, LINE, "all", "up" if direction == "up" else "down", schema
        ):
            behind.execute(step.sql.encode())
        assert names(behind, schema) == expected
