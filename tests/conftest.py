"""A Postgres for the tests, and a migrated database of its own for each test that asks for one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote, urlsplit, urlunsplit

import hypothesis
import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow, dict_row

from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.factory import Make

# How long an example takes tells of the machine, not of what is tested.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

_DATABASE_SQL = Path(__file__).with_name("kept_databases.sql")

pytest_plugins = ["tests.needs", "tests.pgbouncer", "tests.postgres", "tests.selection"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return how many processes share the tests: one more than there are processors, as many tests
    wait for programs, timers and the database. pytest-xdist's own variable says another number.
    """
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what a test logged fit for pytest-xdist's messages, which take no half surrogate
    pairs.
    """
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def with_database(url: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(name)}"))


def create_database(admin_url: str, *, template: str = "template1") -> str:
    """Return a new database's name."""
    name = f"riverui_test_{token_hex(6)}"
    with psycopg.connect(admin_url, autocommit=True) as connection:
        # Copying files is several times as fast as logging them; servers before 15 know no other
        # way.
        strategy = sql.SQL(
            " strategy file_copy" if connection.info.server_version >= 150_000 else ""
        )
        connection.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
            + strategy
        )
    return name


def _emptied(url: str) -> bool:
    """Empty a database that a test has used, whoever is still connected; return False where it
    cannot be used again, as its tables or settings were changed.
    """
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            connection.execute("set lock_timeout = '5s'")
            row = connection.execute("select test_database.emptied()").fetchone()
    except psycopg.OperationalError:  # no connections, or a lock that stays
        return False
    return row == (True,)


def drop_database(admin_url: str, name: str) -> None:
    """Drop a database, whoever is still connected."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings of whoever runs the tests away from them."""
    for name in os.environ:
        if name.startswith(("PG", "RIVER")) or name in ("COLUMNS", "DATABASE_URL", "LINES"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def template_database(admin_url: str) -> Iterator[str]:
    """Yield the name of a migrated, empty database that others are cloned from."""
    name = create_database(admin_url)
    migrate_template(with_database(admin_url, name), "main")
    yield name
    drop_database(admin_url, name)


@pytest.fixture(scope="session")
def own_template_database(admin_url: str, template_database: str) -> Iterator[str]:
    """Yield the name of one that has riverui's own tables as well."""
    name = create_database(admin_url, template=template_database)
    migrate_template(with_database(admin_url, name), "riverui")
    yield name
    drop_database(admin_url, name)


def migrate_template(url: str, line: str, *, schema: str | None = None) -> None:
    """Make the tables of a database that others are cloned from, and what empties the clones."""

    async def up() -> None:
        driver = connect(url, schema=schema)
        await migrate(driver, "up", line=line)
        await driver.close()

    asyncio.run(up())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_DATABASE_SQL.read_bytes())


@pytest.fixture
def empty_database_url(admin_url: str) -> Iterator[str]:
    """Yield a database without River's tables."""
    name = create_database(admin_url)
    yield with_database(admin_url, name)
    drop_database(admin_url, name)


@pytest.fixture(scope="session")
def kept_databases(admin_url: str) -> Iterator[dict[str, str]]:
    """Yield the empty databases that this process keeps for its next test, by their template."""
    kept: dict[str, str] = {}
    yield kept
    for name in kept.values():
        drop_database(admin_url, name)


@pytest.fixture
def own_tables() -> None:
    """Let this test's database have riverui's own tables: see `database_url`."""


@pytest.fixture
def database_url(
    admin_url: str, kept_databases: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[str]:
    """Yield a database with River's tables and nothing in them; with riverui's own for a test, or
    one of its fixtures, that asks for `own_tables`. It is the one that the last test has used,
    emptied: that is much quicker than a new one.
    """
    own = "own_tables" in request.fixturenames
    template = request.getfixturevalue("own_template_database" if own else "template_database")
    with kept_database(admin_url, kept_databases, template) as url:
        yield url


@contextmanager
def kept_database(admin_url: str, kept: dict[str, str], template: str) -> Iterator[str]:
    """Lend a copy of the template: the one that the last test has used, or a new one; keep it for
    the next test unless its tables or settings were changed.
    """
    name = kept.pop(template, None) or create_database(admin_url, template=template)
    url = with_database(admin_url, name)
    yield url
    if _emptied(url):
        kept[template] = name
    else:
        drop_database(admin_url, name)


@pytest.fixture
async def driver(database_url: str) -> AsyncIterator[Driver]:
    """Yield a driver on this test's database."""
    driver = connect(database_url)
    yield driver
    await driver.close()


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[AsyncConnection[DictRow]]:
    """Yield a plain autocommit connection to this test's database, for setting up and looking
    behind.
    """
    async with await AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as opened:
        yield opened


@pytest.fixture
def make(connection: AsyncConnection[DictRow]) -> Make:
    """Return what writes rows to this test's database, and reads them."""
    return Make(connection)
