"""riverui's migrations leave the same catalog as the real River's, at every version, up and down,
in any mixture.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from riverui.storage.migrations import migrate, migration_sql, migration_status, validate
from riverui.storage.postgres.driver import MIGRATIONS, PostgresDriver
from tests.conftest import create_database, drop_database, with_database
from tests.drivers import connect

pytestmark = pytest.mark.interop

VERSIONS = range(1, 9)
"""Those of River's own line."""

River = Callable[..., subprocess.CompletedProcess[str]]

# One text per object of a schema. Names inside definitions come without their schema, which the
# search path holds.
_CATALOG = """
select 'table ' || c.relname || ' ' || c.relkind::text || ' ' || c.relpersistence::text
  || ' ' || coalesce(array_to_string(c.reloptions, ','), '')
from pg_class c where c.relnamespace = current_schema()::regnamespace
union all
select 'column ' || c.relname || ' ' || a.attnum || ' ' || a.attname
  || ' ' || format_type(a.atttypid, a.atttypmod)
  || case when a.attnotnull then ' not null' else '' end || ' ' || a.attidentity::text ||
  a.attgenerated::text
  || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' ' || a.attcollation::regcollation
  || ' ' || a.attstorage::text
from pg_attribute a
join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace = current_schema()::regnamespace and a.attnum > 0 and not a.attisdropped
union all
select 'constraint ' || coalesce(r.relname, t.typname) || ' ' || c.conname
  || ' ' || pg_get_constraintdef(c.oid) || c.convalidated
from pg_constraint c
left join pg_class r on r.oid = c.conrelid
left join pg_type t on t.oid = c.contypid
where c.connamespace = current_schema()::regnamespace
union all
select 'index ' || pg_get_indexdef(i.indexrelid) || ' ' || i.indisvalid
from pg_index i join pg_class c on c.oid = i.indexrelid
where c.relnamespace = current_schema()::regnamespace
union all
select 'function ' || p.proname || ' ' || pg_get_function_arguments(p.oid)
  || ' ' || pg_get_function_result(p.oid)
  || ' ' || l.lanname || ' ' || p.provolatile::text || p.proisstrict || p.prosecdef ||
  p.proparallel::text
  || ' ' || p.prosrc
from pg_proc p join pg_language l on l.oid = p.prolang
where p.pronamespace = current_schema()::regnamespace
union all
select 'enum ' || t.typname || ' ' || string_agg(e.enumlabel, ' ' order by e.enumsortorder)
from pg_type t join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = current_schema()::regnamespace
group by t.typname
union all
select 'trigger ' || pg_get_triggerdef(t.oid) || t.tgenabled::text
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal
union all
select 'sequence ' || s.seqrelid::regclass || ' ' || format_type(s.seqtypid, null) || ' ' ||
s.seqstart || ' '
  || s.seqincrement || ' ' || s.seqmax || ' ' || s.seqcycle || ' ' ||
  coalesce(d.refobjid::regclass::text, '')
  || ' ' || coalesce(d.refobjsubid::text, '')
from pg_sequence s
join pg_class c on c.oid = s.seqrelid
left join pg_depend d on d.objid = s.seqrelid and d.deptype = 'a' and d.classid =
'pg_class'::regclass
where c.relnamespace = current_schema()::regnamespace
"""


def catalog(url: str, schema: str | None) -> list[str]:
    """Everything in the schema, one text each, sorted; and the recorded versions."""
    with psycopg.connect(url, autocommit=True) as connection:
        if schema:
            connection.execute(f'set search_path = "{schema}"'.encode())
        texts = [row[0] for row in connection.execute(_CATALOG)]
        recorded = []
        if connection.execute("select to_regclass('river_migration')").fetchone() != (None,):
            rows = connection.execute("select to_jsonb(m) - 'created_at' from river_migration m")
            recorded = [f"recorded {json.dumps(row[0], sort_keys=True)}" for row in rows]
    if schema:
        texts = [text.replace(f"{schema}.", "") for text in texts]
    else:
        texts = [text.replace("public.", "") for text in texts]
    return sorted([*map(_tokens, texts), *recorded])


def _tokens(text: str) -> str:
    """Return a function's body without comments, and with one space where there is any: its layout
    is nobody's concern.
    """
    if not text.startswith("function "):
        return text
    return re.sub(r"\s+", " ", re.sub(r"--.*", "", text)).strip().lower().replace("'::text", "'")


@pytest.fixture(params=[None, "jobs_of_2026"])
def schema(request: pytest.FixtureRequest) -> str | None:
    name: str | None = request.param
    return name


@pytest.fixture
def urls(admin_url: str, schema: str | None) -> Iterator[tuple[str, str]]:
    """Yield two empty databases."""
    names = [create_database(admin_url), create_database(admin_url)]
    ours, theirs = (with_database(admin_url, name) for name in names)
    if schema:
        for url in (ours, theirs):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f'create schema "{schema}"'.encode())
    yield ours, theirs
    for name in names:
        drop_database(admin_url, name)


@pytest.fixture
async def driver(urls: tuple[str, str], schema: str | None) -> AsyncIterator[PostgresDriver]:
    """On the first of the two databases."""
    driver = connect(urls[0], schema=schema)
    yield driver
    await driver.close()


@pytest.fixture
def river(river_cli: Path, schema: str | None) -> River:
    """Run the real `river` on a database; fail the test when it fails, unless it `may_fail`."""

    def run(
        url: str, command: str, *flags: str, may_fail: bool = False
    ) -> subprocess.CompletedProcess[str]:
        line: list[str | Path] = [
            river_cli,
            command,
            "--database-url",
            url,
            *(["--schema", schema] if schema else []),
            *flags,
        ]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode and not may_fail:
            pytest.fail(f"river {command} {flags}: {done.stdout}{done.stderr}", pytrace=False)
        return done

    return run


@pytest.mark.short
async def test_every_version_up_and_down(
    urls: tuple[str, str], driver: PostgresDriver, river: River, schema: str | None
) -> None:
    ours, theirs = urls
    empty = catalog(ours, schema)
    for version in VERSIONS:
        await migrate(driver, "up", target_version=version)
        river(theirs, "migrate-up", "--target-version", str(version))
        assert catalog(ours, schema) == catalog(theirs, schema), f"up to {version}"
    for version in reversed(VERSIONS):
        if version == 1:
            break
        await migrate(driver, "down", target_version=version - 1)
        river(theirs, "migrate-down", "--target-version", str(version - 1))
        assert catalog(ours, schema) == catalog(theirs, schema), f"down to {version - 1}"
    # `pending` has stayed in the enum: the way up again must cope with it.
    await migrate(driver, "up")
    river(theirs, "migrate-up")
    assert catalog(ours, schema) == catalog(theirs, schema)
    await migrate(driver, "down", target_version=-1)
    river(theirs, "migrate-down", "--target-version", "0")
    assert catalog(ours, schema) == catalog(theirs, schema) == empty


@pytest.mark.short
async def test_each_goes_on_where_the_other_stopped(
    urls: tuple[str, str], driver: PostgresDriver, river: River, schema: str | None
) -> None:
    mixed, theirs = urls
    for version in VERSIONS:
        if version % 2:
            steps = await migrate(driver, "up", max_steps=1)
            assert [step.version for step in steps] == [version]
        else:
            river(mixed, "migrate-up", "--max-steps", "1")
    river(theirs, "migrate-up")
    assert catalog(mixed, schema) == catalog(theirs, schema)
    for version in reversed(VERSIONS):
        if version % 2:
            river(mixed, "migrate-down")
        else:
            steps = await migrate(driver, "down")
            assert [step.version for step in steps] == [version]
        if version > 1:
            river(theirs, "migrate-down")
            assert catalog(mixed, schema) == catalog(theirs, schema), f"down from {version}"


async def test_each_validates_the_other(
    urls: tuple[str, str], driver: PostgresDriver, river: River, schema: str | None
) -> None:
    ours, theirs = urls
    await migrate(driver, "up", target_version=6)
    done = river(ours, "validate", "--verbose", may_fail=True)
    assert done.returncode == 1
    assert "[7 8]" in done.stdout + done.stderr
    assert await validate(driver) == [7, 8]
    await migrate(driver, "up")
    river(ours, "validate")

    river(theirs, "migrate-up", "--target-version", "7")
    other = connect(theirs, schema=schema)
    assert await validate(other) == [8]
    assert await validate(other, target_version=7) == []
    river(theirs, "migrate-up")
    assert await validate(other) == []
    await other.close()


async def test_list_names_the_same_migrations(
    urls: tuple[str, str], driver: PostgresDriver, river: River
) -> None:
    await migrate(driver, "up", target_version=5)
    listed = [line for line in river(urls[0], "migrate-list").stdout.splitlines() if line.strip()]
    status = await migration_status(driver)
    assert len(listed) == len(status)
    for line, (version, name, applied) in zip(listed, status, strict=True):
        assert f"{version:03}" in line
        assert name in line.replace("_", " ")
        assert line.startswith("*") == (version == 5)
        assert applied == (version <= 5)


@pytest.mark.parametrize("exclude", [(), (1,)])
def test_sql_to_run_elsewhere(
    urls: tuple[str, str], river: River, schema: str | None, exclude: tuple[int, ...]
) -> None:
    """What `migrate-get` prints makes the same catalog with another tool, also without River's own
    record.
    """
    ours, theirs = urls

    def script(url: str, direction: str) -> None:
        # Its own statement per file: an enum value cannot be used in the transaction that adds it.
        for version in VERSIONS if direction == "up" else reversed(VERSIONS):
            if version in exclude:
                continue
            done = river(url, "migrate-get", "--version", str(version), f"--{direction}")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(done.stdout.encode())

    def own(url: str, steps: Any) -> None:
        for step in steps:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(step.sql.encode())

    own(ours, migration_sql(MIGRATIONS, "main", "all", "up", schema, exclude))
    script(theirs, "up")
    assert catalog(ours, schema) == catalog(theirs, schema)
    own(ours, migration_sql(MIGRATIONS, "main", "all", "down", schema, exclude))
    script(theirs, "down")
    assert catalog(ours, schema) == catalog(theirs, schema)


async def test_river_goes_on_beside_the_line_riverui(
    urls: tuple[str, str], driver: PostgresDriver, river: River, schema: str | None
) -> None:
    """River reads the record of its own lines only, and knows no other line."""
    ours, _ = urls
    await migrate(driver, "up", target_version=7)
    without = catalog(ours, schema)
    await migrate(driver, "up", line="riverui")
    beside = catalog(ours, schema)
    assert river(ours, "validate", may_fail=True).returncode == 1
    river(ours, "migrate-up")
    river(ours, "validate")
    listed = [line for line in river(ours, "migrate-list").stdout.splitlines() if line.strip()]
    assert len(listed) == len(VERSIONS)
    assert listed[-1].startswith("*")
    assert "no migrations to apply" in river(ours, "migrate-up").stdout
    assert "riverui" in river(ours, "validate", "--line", "riverui", may_fail=True).stderr
    river(ours, "migrate-down", "--max-steps", "1")
    assert catalog(ours, schema) == beside
    await migrate(driver, "down", line="riverui", target_version=-1)
    assert catalog(ours, schema) == without

    await migrate(driver, "up", line="riverui")
    done = river(ours, "migrate-down", "--target-version", "3", may_fail=True)
    assert done.returncode
    assert "non-main migration lines" in done.stdout + done.stderr


async def test_function_gives_the_same_for_every_mask(
    urls: tuple[str, str], driver: PostgresDriver, river: River, schema: str | None
) -> None:
    await migrate(driver, "up")
    river(urls[1], "migrate-up")
    answers = []
    for url in urls:
        with psycopg.connect(url, autocommit=True) as connection:
            if schema:
                connection.execute(f'set search_path = "{schema}"'.encode())
            answers.append(
                connection.execute(
                    "select m, s, river_job_state_in_bitmask(m::bit(8), s)"
                    " from generate_series(0, 255) m, unnest(enum_range(null::river_job_state)) s"
                    " order by 1, 2"
                ).fetchall()
            )
    assert answers[0] == answers[1]
