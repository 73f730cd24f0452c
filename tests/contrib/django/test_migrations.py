"""River's tables as Django migrations: new, adopted, taken back, in other places."""

from __future__ import annotations

import re

import psycopg
import pytest

from riverui import connect
from riverui.storage.migrations import migrate
from tests.contrib.django.conftest import RunDjango, database, django_process

_MIGRATE = "call_command('migrate', verbosity=0)\n"

_TABLES = """
select table_name, column_name, data_type, column_default, is_nullable
from information_schema.columns
where table_schema = %s and table_name ~ '^river(ui)?_'
union all
select tablename, indexname, replace(indexdef, schemaname, ''), '', ''
from pg_indexes where schemaname = %s and tablename ~ '^river(ui)?_'
order by 1, 2
"""


def tables(url: str, schema: str = "public") -> list[tuple[str, ...]]:
    """Return columns and indexes of River's tables, wherever they are."""
    with psycopg.connect(url) as connection:
        found = connection.execute(_TABLES, [schema, schema]).fetchall()
    return [tuple(re.sub(rf'"|({schema})?\.', "", str(value)) for value in row) for row in found]


def recorded(url: str, schema: str = "public") -> list[tuple[str, int]]:
    with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
        return connection.execute(
            "select line, version from river_migration order by line, version"
        ).fetchall()


async def migrated(url: str, *lines: str) -> None:
    """Migrate a database as `riverui migrate-up` does."""
    driver = connect(url)
    for line in lines:
        await migrate(driver, "up", line=line)
    await driver.close()


@pytest.mark.parametrize("psycopg2", [False, True])
async def test_a_new_database(
    empty_database_url: str, database_url: str, run_django: RunDjango, psycopg2: bool
) -> None:
    """What Django makes is what `riverui migrate-up` makes, and is recorded as River does."""
    program = f"""{_MIGRATE}
print(type(connection.connection).__module__)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
call_command("migrate", verbosity=0)
"""
    told = run_django(program, empty_database_url, psycopg2=psycopg2)
    assert told[0].startswith("psycopg2" if psycopg2 else "psycopg")
    await migrated(database_url, "main", "riverui")
    assert tables(empty_database_url) == tables(database_url) != []
    assert recorded(empty_database_url) == recorded(database_url)


async def test_there_and_back_again(empty_database_url: str, run_django: RunDjango) -> None:
    program = f"""{_MIGRATE}
call_command("migrate", "riverui", "zero", verbosity=0)
left = rows("select tablename from pg_tables where tablename ~ '^river'")
left += rows("select typname from pg_type where typname ~ '^river'")
left += rows("select proname from pg_proc where proname ~ '^river'")
print(left)
call_command("migrate", "riverui", "0001", verbosity=0)
print(rows("select line, max(version) from river_migration group by line"))
call_command("migrate", "riverui", verbosity=0)
print(rows("select line, max(version) from river_migration group by line order by line"))
"""
    told = run_django(program, empty_database_url)
    assert told == ["[]", "[('main', 5)]", "[('main', 8), ('riverui', 17)]"]


def test_the_migrations_bring_every_version_there_is(
    run_django: RunDjango, database_url: str
) -> None:
    """A new version of a line needs a Django migration: add one, for those who have these."""
    program = """
from django.db.migrations.loader import MigrationLoader
from riverui.contrib.django.tables import RiverMigrations
from riverui.storage.connect import migrations

loader = MigrationLoader(None)
at = {"main": 0, "riverui": 0}
for key in loader.graph.forwards_plan(loader.graph.leaf_nodes("riverui")[0]):
    for operation in loader.get_migration(*key).operations:
        if isinstance(operation, RiverMigrations):
            assert operation.since == at[operation.line]
            at[operation.line] = operation.to
assert at == {line: max(migrations().versions(line)) for line in at}, at
"""
    run_django(program, database_url)


async def test_a_database_that_river_migrated_is_adopted(
    database_url: str, run_django: RunDjango
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into river_job (kind, args, max_attempts) values ('a', '{}', 3)")
        connection.execute("update river_migration set created_at = '2020-01-01'")
    program = f"""{_MIGRATE}
print(rows("select kind from river_job"))
print(rows("select count(*) from river_migration where created_at < '2021-01-01'"))
"""
    assert run_django(program, database_url) == ["[('a',)]", "[(8,)]"]
    assert len(recorded(database_url)) == 8 + 17


async def test_a_database_that_is_behind_is_brought_up(
    empty_database_url: str, database_url: str, run_django: RunDjango
) -> None:
    driver = connect(empty_database_url)
    await migrate(driver, "up", target_version=4)
    await driver.close()
    run_django(_MIGRATE, empty_database_url)
    await migrated(database_url, "riverui")
    assert tables(empty_database_url) == tables(database_url)
    assert recorded(empty_database_url) == recorded(database_url)


def test_tables_without_a_record(database_url: str, run_django: RunDjango) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("drop table river_migration")
    failed = django_process(_MIGRATE, database_url)
    assert failed.returncode == 1
    assert "run `manage.py migrate riverui --fake`" in failed.stderr.splitlines()[-1]
    run_django("call_command('migrate', 'riverui', fake=True, verbosity=0)", database_url)


async def test_versions_of_another_time_are_not_taken_down_blindly(
    empty_database_url: str, run_django: RunDjango
) -> None:
    run_django(_MIGRATE, empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("insert into river_migration (line, version) values ('main', 99)")
    failed = django_process(
        "call_command('migrate', 'riverui', 'zero', verbosity=0)", empty_database_url
    )
    assert "Version 99 of the line main is applied" in failed.stderr.splitlines()[-1]
    # What needs no step down goes on.
    run_django(_MIGRATE, empty_database_url)


async def test_a_schema_of_its_own(
    empty_database_url: str, database_url: str, run_django: RunDjango
) -> None:
    program = f"""{_MIGRATE}
from dataclasses import dataclass
from typing import ClassVar
from riverui.contrib.django.models import Job

@dataclass
class Note:
    kind: ClassVar[str] = "note"
    text: str

river.insert(Note("hello"))
print(Job.objects.get().args)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
"""
    told = run_django(program, empty_database_url, RIVERUI={"SCHEMA": "jobs"})
    assert told == ["{'text': 'hello'}"]
    await migrated(database_url, "riverui")
    assert tables(empty_database_url, "jobs") == tables(database_url)
    assert tables(empty_database_url) == []
    assert recorded(empty_database_url, "jobs") == recorded(database_url)


def test_a_database_of_its_own(
    empty_database_url: str, database_url: str, run_django: RunDjango
) -> None:
    databases = {"default": database(empty_database_url), "queue": database(database_url)}
    program = """
for alias in ("default", "queue"):
    call_command("migrate", database=alias, verbosity=0)
from dataclasses import dataclass
from typing import ClassVar
from riverui.contrib.django.models import Job

@dataclass
class Note:
    kind: ClassVar[str] = "note"

river.insert(Note())
print(Job.objects.get().kind)
with transaction.atomic():
    river.insert_on_commit(Note())
    print(Job.objects.count())
print(Job.objects.count())
try:
    with transaction.atomic():
        river.insert_on_commit(Note())
        raise ValueError
except ValueError:
    print(Job.objects.count())
"""
    told = run_django(
        program, empty_database_url, DATABASES=databases, RIVERUI={"DATABASE": "queue"}
    )
    assert told == ["note", "1", "2", "2"]
    assert tables(empty_database_url) == []


def test_tables_that_are_missing_are_reported_with_the_command_that_makes_them(
    empty_database_url: str,
) -> None:
    program = """
from riverui.contrib.django.management.commands.riverui_worker import Command
call_command("check", databases=["default"])
call_command("check")
Command().run_from_argv(["manage.py", "riverui_worker"])
"""
    done = django_process(program, empty_database_url)
    assert done.returncode == 1
    assert done.stderr.count("riverui.W003) River's tables") == 1
    assert "HINT: manage.py migrate makes them." in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "riverui: There are no River tables here: run `manage.py migrate`."
    )


def test_own_tables_are_left_out_where_they_are_not_wanted(
    empty_database_url: str, run_django: RunDjango
) -> None:
    run_django(_MIGRATE, empty_database_url, RIVERUI={"OWN_TABLES": False})
    assert {line for line, _ in recorded(empty_database_url)} == {"main"}
    program = """
call_command("check", databases=["default"])
try:
    call_command("riverui", "migrate-up", "--line", "riverui")
except SystemExit as ended:
    assert not ended.code
call_command("check", databases=["default"])
"""
    done = django_process(program, empty_database_url)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("riverui.W001") == 1
    assert len(recorded(empty_database_url)) == 8 + 17


async def test_the_sql_that_django_shows_is_what_it_runs(
    empty_database_url: str, database_url: str, run_django: RunDjango
) -> None:
    """`manage.py sqlmigrate`, for those whose administrators run SQL by hand."""
    program = """
for name in ("0001", "0002", "0003", "0004", "0005"):
    call_command("sqlmigrate", "riverui", name)
"""
    sql = "\n".join(run_django(program, empty_database_url))
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(sql)
    await migrated(database_url, "riverui")
    assert tables(empty_database_url) == tables(database_url)
    assert recorded(empty_database_url) == recorded(database_url)
