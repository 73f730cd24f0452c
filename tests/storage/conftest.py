"""What the conformance tests need besides a driver: ways to put rows in and to look at them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from riverui.domain.jobs import JobListRow
from riverui.storage.interface import LISTENING, Driver, Executor, SyncDriver, at_once
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams
from riverui.storage.interface.params import JobCursor, JobFilter, JobOrder, JobPage, JobPageParams
from riverui.storage.options import ConnectOptions
from riverui.storage.postgres.connect import connect as connect_postgres
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.postgres.limits import PostgresLimits
from tests.conftest import (
    create_database,
    drop_database,
    kept_database,
    migrate_template,
    with_database,
)
from tests.drivers import connect
from tests.factory import Make

NOW = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
SCHEMA = "Jobs_1"


async def one_page(driver: Driver, **params: Any) -> JobPage:
    """Return one page; `states` and `terms` may be given instead of a filter."""
    chosen = JobFilter(states=tuple(params.pop("states", ())), terms=tuple(params.pop("terms", ())))
    async with driver.reading() as executor:
        return await executor.jobs.list(JobPageParams(filter=chosen, **params))


async def all_pages(driver: Driver, **params: Any) -> list[JobListRow]:
    """Return every row, page after page, going on wherever a search stopped."""
    rows: list[JobListRow] = []
    by_id = params.get("order", JobOrder.ID_DESC) in (JobOrder.ID, JobOrder.ID_DESC)
    cursor: JobCursor | None = None
    for _ in range(1000):
        page = await one_page(driver, **params, cursor=cursor)
        rows += page.rows
        if page.searched is not None:
            cursor = page.searched.resume
        elif page.more:
            cursor = JobCursor(at=None if by_id else page.rows[-1].matters_at, id=page.rows[-1].id)
        else:
            return rows
    raise AssertionError("the list never ends")


@asynccontextmanager
async def limited(
    url: str, limits: PostgresLimits, **options: Any
) -> AsyncIterator[PostgresDriver]:
    """Lend a driver with other limits than usual; `options` are those of ConnectOptions."""
    driver = connect_postgres(url, None, ConnectOptions(**options), limits)
    yield driver
    await driver.close()


def insert_params(kind: str = "test_kind", **params: Any) -> JobInsertParams:
    """Return a job to insert, with defaults for what a test does not care about."""
    return JobInsertParams(
        **{"kind": kind, "args": "{}", "created_at": NOW, "scheduled_at": NOW, **params}
    )


def sync_insert(
    driver: SyncDriver,
    jobs: Sequence[JobInsertParams],
    *,
    notify: Sequence[str] = (),
    fast: bool = False,
) -> Sequence[InsertResult]:
    """Insert jobs in a transaction of their own."""

    async def insert() -> Sequence[InsertResult]:
        async with driver.transaction() if fast else driver.autocommit() as executor:
            return await _insert(executor, jobs, notify, fast)

    return at_once(insert())


def sync_insert_tx(
    driver: SyncDriver,
    transaction: object,
    jobs: Sequence[JobInsertParams],
    *,
    notify: Sequence[str] = (),
    fast: bool = False,
) -> Sequence[InsertResult]:
    """Insert jobs in a transaction of the caller's."""

    async def insert() -> Sequence[InsertResult]:
        return await _insert(await driver.adopt(transaction), jobs, notify, fast)

    return at_once(insert())


async def _insert(
    executor: Executor, jobs: Sequence[JobInsertParams], notify: Sequence[str], fast: bool
) -> Sequence[InsertResult]:
    if fast:
        assert await executor.jobs.insert_many_fast(jobs, notify=notify) == len(jobs)
        return []
    return await executor.jobs.insert_many(jobs, notify=notify)


@dataclass(frozen=True, kw_only=True)
class Way:
    """An executor by one of the ways to get one, each call of which is its own transaction."""

    name: str
    driver: PostgresDriver
    executor: PostgresExecutor
    make: Make


@pytest.fixture(scope="session")
def schema_template(admin_url: str) -> Iterator[str]:
    """Yield the name of a database with River's tables in the schema SCHEMA only."""
    name = create_database(admin_url)
    url = with_database(admin_url, name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'create schema "{SCHEMA}"'.encode())
    migrate_template(url, "main", schema=SCHEMA)
    yield name
    drop_database(admin_url, name)


@pytest.fixture
def schema_database_url(
    admin_url: str, kept_databases: dict[str, str], schema_template: str
) -> Iterator[str]:
    """Yield a database with River's tables in the schema SCHEMA and nothing in them."""
    with kept_database(admin_url, kept_databases, schema_template) as url:
        yield url


every_way = pytest.mark.parametrize("way_name", ["session", "schema", "autocommit", "asyncpg"])
"""Run a test by each way to an executor: what is written and read goes through another driver."""


@pytest.fixture
def way_name() -> str:
    """Return the way of a test that is not marked `every_way`: a session in a schema of another
    name, since what a statement easily forgets is the schema; all other tests use `public`.
    """
    return "schema"


@pytest.fixture
def way_url(way_name: str, request: pytest.FixtureRequest) -> str:
    """Return the database for that way."""
    return str(
        request.getfixturevalue("schema_database_url" if way_name == "schema" else "database_url")
    )


@pytest.fixture
async def way(way_name: str, way_url: str) -> AsyncIterator[Way]:
    """Yield an executor by the way `way_name`, and how to look behind it."""
    in_schema = way_name == "schema"
    driver = connect(way_url, schema=SCHEMA if in_schema else None)
    async with await AsyncConnection.connect(
        way_url, autocommit=True, row_factory=dict_row
    ) as connection:
        if in_schema:
            await connection.execute(f'set search_path = "{SCHEMA}"'.encode())
        make = Make(connection)
        async with _executor(way_name, driver, way_url) as executor:
            yield Way(name=way_name, driver=driver, executor=executor, make=make)
    await driver.close()


@asynccontextmanager
async def _executor(name: str, driver: PostgresDriver, url: str) -> AsyncIterator[PostgresExecutor]:
    if name == "autocommit":
        async with driver.autocommit() as executor:
            yield executor
    elif name == "asyncpg":
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(
            url.replace("postgresql://", "postgresql+asyncpg://", 1), isolation_level="AUTOCOMMIT"
        )
        async with engine.connect() as connection:
            yield await driver.adopt(connection)
        await engine.dispose()
    else:
        async with driver.session(timeout=timedelta(seconds=30)) as executor:
            yield executor


@asynccontextmanager
async def hearing(driver: Driver, *topics: str) -> AsyncIterator[list[tuple[str, str]]]:
    """Yield the topics and payloads of what is notified while the block runs."""
    listener = await LISTENING.on(driver).listener()
    await listener.listen(*topics, "test_end")
    heard: list[tuple[str, str]] = []
    yield heard
    async with driver.autocommit() as executor:
        await executor.notify_many("test_end", ["end"])
    async with asyncio.timeout(10):
        async for topic, payload in listener.notifications():
            if topic == "test_end":
                break
            heard.append((topic, payload))
    await listener.close()
