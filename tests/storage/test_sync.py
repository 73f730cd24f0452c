"""Inserting synchronously: on a pool of our own or the host's, and inside other people's
transactions.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from riverui.errors import (
    BadRequest,
    ConfigError,
    DatabaseUnavailable,
    LoginRefused,
    QueryTimeout,
    SchemaMissing,
    UniqueConflict,
)
from riverui.storage.interface import at_once
from riverui.storage.interface.engine_params import JobInsertParams
from riverui.storage.postgres import sync_time_limits
from riverui.storage.postgres.sync_driver import PostgresSyncDriver
from tests.drivers import connect_sync
from tests.guests import GUESTS, Begin
from tests.storage.conftest import NOW, SCHEMA, insert_params, sync_insert, sync_insert_tx
from tests.storage.test_job_insert import NASTY

UNIQUE = insert_params(unique_key=b"\x00\xffk", unique_states=245)


@pytest.fixture
def sync_driver(database_url: str) -> Iterator[PostgresSyncDriver]:
    """Yield a driver on this test's database."""
    driver = connect_sync(database_url)
    yield driver
    driver.close()


@pytest.fixture
def look(database_url: str) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Ask the database behind the driver's back."""
    with psycopg.connect(database_url, autocommit=True, row_factory=dict_row) as connection:
        yield lambda query: connection.execute(query.encode()).fetchall()


@pytest.fixture(params=GUESTS)
def begin(request: pytest.FixtureRequest, database_url: str) -> Begin:
    """Begin a transaction of each kind, in turn."""
    return GUESTS[request.param](database_url)


def test_kept_or_lost_with_the_transaction(
    sync_driver: PostgresSyncDriver,
    look: Callable[[str], list[dict[str, Any]]],
    begin: Begin,
    database_url: str,
) -> None:
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute('listen "public.river_insert"')
        kept = 0
        for fast, keep in product((False, True), (False, True)):
            with begin(keep) as transaction:
                sync_insert_tx(sync_driver, transaction, [insert_params()], notify=["q"], fast=fast)
                assert len(look("select from river_job")) == kept, fast
            kept += keep
            assert len(look("select from river_job")) == kept, (fast, keep)
        listener.execute('notify "public.river_insert", \'"end"\'')
        heard = [notify.payload for notify in listener.notifies(timeout=5, stop_after=3)]
    assert [json.loads(payload) for payload in heard] == [{"queue": "q"}, {"queue": "q"}, "end"]


def test_what_every_guest_stores_and_gives(
    sync_driver: PostgresSyncDriver, look: Callable[[str], list[dict[str, Any]]], begin: Begin
) -> None:
    jobs = [
        UNIQUE,
        UNIQUE,
        *(
            insert_params(
                kind=f"k{nasty}",
                args=json.dumps({"t": nasty, "%": "%s"}, ensure_ascii=False),
                tags=(nasty, "t"),
                scheduled_at=NOW + timedelta(minutes=n),
            )
            for n, nasty in enumerate(NASTY)
        ),
    ]
    with begin(True) as transaction:
        inserted = sync_insert_tx(sync_driver, transaction, jobs)
        again = sync_insert_tx(sync_driver, transaction, [UNIQUE])
    assert [one.unique_skipped_as_duplicate for one in inserted] == [False, True] + [False] * len(
        NASTY
    )
    assert again[0].unique_skipped_as_duplicate
    assert again[0].job == inserted[0].job._replace(args=again[0].job.args)
    rows = look("select * from river_job order by id")
    assert [row["id"] for row in rows] == [one.job.id for one in inserted[1:]]
    assert rows[0]["unique_key"] == b"\x00\xffk"
    for row, job in zip(rows[1:], jobs[2:], strict=True):
        assert (row["kind"], row["args"], tuple(row["tags"]), row["scheduled_at"]) == (
            job.kind,
            json.loads(job.args),
            job.tags,
            job.scheduled_at,
        )


def test_errors_of_every_guest(
    sync_driver: PostgresSyncDriver, database_url: str, begin: Begin
) -> None:
    sync_insert(sync_driver, [UNIQUE])
    with begin(False) as transaction, pytest.raises(UniqueConflict):
        sync_insert_tx(sync_driver, transaction, [UNIQUE], fast=True)
    with begin(False) as transaction, pytest.raises(BadRequest):
        sync_insert_tx(sync_driver, transaction, [insert_params(args="{")])
    elsewhere = connect_sync(database_url, schema="nowhere")
    with begin(False) as transaction, pytest.raises(SchemaMissing):
        sync_insert_tx(elsewhere, transaction, [insert_params()])


def test_a_session_sees_inserts(sync_driver: PostgresSyncDriver, database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg2://", 1))
    with Session(engine) as session:
        session.execute(text("create table orders (id int)"))
        sync_insert_tx(sync_driver, session, [insert_params()])
        assert session.execute(text("select count(*) from river_job")).scalar_one() == 1
        session.rollback()
        assert session.execute(text("select to_regclass('orders')")).scalar_one() is None
    engine.dispose()


def test_what_is_no_transaction(sync_driver: PostgresSyncDriver, database_url: str) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as lite:
        things: list[Any] = [None, 5, database_url, engine, lite, sync_driver]
        for thing in things:
            with pytest.raises(TypeError, match="is needed"):
                sync_insert_tx(sync_driver, thing, [insert_params()])
    alchemy = create_async_engine(database_url.replace("postgresql:", "postgresql+psycopg:", 1))
    with pytest.raises(TypeError, match=r"AsyncSession cannot be .* use it with a Client\.$"):
        sync_insert_tx(sync_driver, AsyncSession(alchemy), [insert_params()])


def test_in_a_schema(schema_database_url: str) -> None:
    driver = connect_sync(schema_database_url, schema=SCHEMA)
    with psycopg.connect(schema_database_url) as connection:
        sync_insert(driver, [insert_params()])
        sync_insert_tx(driver, connection, [insert_params()])
        sync_insert_tx(driver, connection, [insert_params()], fast=True)
        assert connection.execute(
            f'select count(*) from "{SCHEMA}".river_job'.encode()
        ).fetchone() == (3,)
    driver.close()


# Transactions of its own


@pytest.mark.parametrize("fast", [False, True])
def test_own_transaction(
    sync_driver: PostgresSyncDriver,
    look: Callable[[str], list[dict[str, Any]]],
    database_url: str,
    fast: bool,
) -> None:
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute('listen "public.river_insert"')
        inserted = sync_insert(
            sync_driver, [insert_params(), UNIQUE], notify=["a", "b", "a"], fast=fast
        )
        heard = [notify.payload for notify in listener.notifies(timeout=0.2)]
    assert [json.loads(payload)["queue"] for payload in heard] == ["a", "b"]
    ids = [row["id"] for row in look("select id from river_job order by id")]
    assert [one.job.id for one in inserted] == ([] if fast else ids)
    with pytest.raises(UniqueConflict):
        sync_insert(sync_driver, [insert_params(), UNIQUE], fast=True)
    assert len(look("select from river_job")) == 2, "all or nothing"


def test_more_than_one_statement_is_still_all_or_nothing(
    sync_driver: PostgresSyncDriver, look: Callable[[str], list[dict[str, Any]]]
) -> None:
    jobs = [insert_params()] * 5001

    async def insert(*parts: list[JobInsertParams]) -> list[int]:
        async with sync_driver.transaction() as executor:
            return [len(await executor.jobs.insert_many(part)) for part in parts]

    assert at_once(insert(jobs)) == [5001]
    with pytest.raises(Exception, match="priority_in_range"):
        at_once(insert(jobs, [insert_params(priority=9)]))
    assert len(look("select from river_job")) == 5001


def test_nothing_is_opened_before_it_is_needed(database_url: str) -> None:
    driver = connect_sync()
    with psycopg.connect(database_url) as connection:
        assert len(sync_insert_tx(driver, connection, [insert_params()])) == 1
    before = threading.active_count()
    driver.close()
    driver.close()
    assert threading.active_count() == before


def test_many_threads(
    sync_driver: PostgresSyncDriver, look: Callable[[str], list[dict[str, Any]]]
) -> None:
    threads = [
        threading.Thread(
            target=lambda: [sync_insert(sync_driver, [UNIQUE, insert_params()]) for _ in range(10)]
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(look("select from river_job")) == 81


@pytest.mark.parametrize("autocommit", [False, True])
def test_the_hosts_pool(
    database_url: str, look: Callable[[str], list[dict[str, Any]]], autocommit: bool
) -> None:
    with ConnectionPool(
        database_url, min_size=1, max_size=1, open=True, kwargs={"autocommit": autocommit}
    ) as pool:
        driver = connect_sync(pool=pool)
        sync_insert(driver, [insert_params()])
        sync_insert(driver, [insert_params()], fast=True)
        assert len(look("select from river_job")) == 2
        with pool.connection() as connection:
            assert connection.autocommit is autocommit
        driver.close()
        assert not pool.closed


def test_dead_connections_are_passed_over(
    sync_driver: PostgresSyncDriver, look: Callable[[str], list[dict[str, Any]]]
) -> None:
    sync_insert(sync_driver, [insert_params()])
    look(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    time.sleep(0.05)
    sync_insert(sync_driver, [insert_params()])


def test_what_takes_too_long(database_url: str) -> None:
    driver = connect_sync(database_url, action_timeout=timedelta(milliseconds=300))
    with psycopg.connect(database_url) as holder:
        sync_insert_tx(driver, holder, [UNIQUE])
        with pytest.raises(QueryTimeout):
            sync_insert(driver, [UNIQUE])
    assert sync_insert(driver, [UNIQUE])[0].unique_skipped_as_duplicate
    driver.close()


def test_a_short_limit_counts_beside_a_long_one(database_url: str) -> None:
    driver = connect_sync(database_url, action_timeout=timedelta(hours=1))

    async def look_twice(holder: psycopg.Connection[Any]) -> None:
        async with driver.autocommit() as patient:
            assert await patient.jobs.row_get(1) is None
            holder.execute("lock table river_job in access exclusive mode")
            async with driver.autocommit(timeout=timedelta(milliseconds=100)) as hasty:
                await hasty.jobs.row_get(1)

    with psycopg.connect(database_url) as holder, pytest.raises(QueryTimeout):
        at_once(look_twice(holder))
    driver.close()


def test_one_thread_watches_many_statements(
    sync_driver: PostgresSyncDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    class Counted(threading.Thread):
        def start(self) -> None:
            started.append(self.name)
            super().start()

    monkeypatch.setattr(sync_time_limits, "Thread", Counted)
    for _ in range(40):
        sync_insert(sync_driver, [insert_params()])
    # It stays for ten seconds after the last of them.
    assert 1 <= len(started) < 20


def test_no_database() -> None:
    driver = connect_sync("postgresql://127.0.0.1:1/x", pool_timeout=timedelta(milliseconds=500))
    with pytest.raises(DatabaseUnavailable):
        sync_insert(driver, [insert_params()])
    driver.close()


def test_no_user_of_that_name(database_url: str) -> None:
    url = make_conninfo(database_url, user="absent_user")
    driver = connect_sync(url, pool_timeout=timedelta(milliseconds=500))
    with pytest.raises(LoginRefused):
        sync_insert(driver, [insert_params()])
    driver.close()


def test_settings_that_cannot_work(database_url: str) -> None:
    with ConnectionPool(database_url, min_size=0, max_size=1, open=False) as pool:
        for arguments in (
            {"url": database_url, "pool": pool},
            {"pool": "a string"},
            {"url": "mysql://x"},
            {"schema": 'a"b'},
        ):
            with pytest.raises(ConfigError):
                connect_sync(**arguments)
