"""Connections on which each call commits itself: of the pool, and a service's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

from riverui.errors import (
    DatabaseUnavailable,
    LoginRefused,
    QueryTimeout,
    SchemaMissing,
    SchemaTooOld,
    UniqueConflict,
)
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.postgres.limits import PostgresLimits
from riverui.storage.stores.indexes import IndexStore
from tests.drivers import connect
from tests.factory import Make
from tests.storage.conftest import NOW, insert_params, limited
from tests.storage.tcp_proxy import tcp_proxy

SECOND = timedelta(seconds=1)


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[PostgresDriver]:
    """Yield a driver on this test's database."""
    driver = connect(database_url)
    yield driver
    await driver.close()


async def _show(executor: PostgresExecutor, *names: str) -> list[str]:
    return [(await executor.ask("show", f"show {name}", ()))[0][0] for name in names]


async def _pid(executor: PostgresExecutor) -> int:
    return int((await executor.ask("pid", "select pg_backend_pid()", ()))[0][0])


async def _end(database_url: str) -> None:
    """End every other connection to the database."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as admin:
        await admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )


async def test_a_sessions_settings(postgres: PostgresDriver) -> None:
    async with postgres.session(timeout=timedelta(milliseconds=2500)) as executor:
        assert await _show(
            executor, "statement_timeout", "timezone", "jit", "enable_seqscan", "enable_bitmapscan"
        ) == ["2500ms", "UTC", "off", "off", "off"]
        assert postgres.database.startswith("riverui_test_")


async def test_a_sessions_connection_is_its_own(postgres: PostgresDriver, make: Make) -> None:
    async with postgres.session(timeout=SECOND) as one, postgres.session(timeout=SECOND) as two:
        pids = {await _pid(one), await _pid(two)}
        assert len(pids) == 2
        async with postgres.autocommit() as pooled:
            assert await _pid(pooled) not in pids
            assert await _show(pooled, "statement_timeout") == ["0"]
    count = (
        "select count(*) as n from pg_stat_activity where datname = current_database()"
        " and application_name = 'riverui'"
    )
    for _ in range(200):
        if (await make.rows(count))[0]["n"] == 1:
            break
        await asyncio.sleep(0.02)
    assert (await make.rows(count))[0]["n"] == 1, "the sessions' connections are still open"


async def test_only_hot_statements_are_prepared(postgres: PostgresDriver, make: Make) -> None:
    for _ in range(3):
        await make.job()
    async with postgres.session(timeout=SECOND) as executor:
        for _ in range(3):
            (row,) = await executor.work.get_available(JobFetchParams("me", "default", 1))
            await executor.work.complete_many([row.id], [NOW])
            await executor.jobs.row_get(row.id)
            await executor.jobs.insert_many([insert_params(queue="other")])
        hot = ["insert into", "set state = 'completed'", "set state = 'running'"]
        assert await _prepared(executor, *hot) == hot
    async with postgres.autocommit() as executor:
        await executor.jobs.insert_many([insert_params(queue="other")])
        await executor.jobs.row_get(1)
        assert await _prepared(executor, *hot) == ["insert into"]


async def _prepared(executor: PostgresExecutor, *keys: str) -> list[str]:
    """Return every prepared statement, by the first of the keys that it contains."""
    rows = await executor.ask("prepared", "select statement from pg_prepared_statements", ())
    return sorted(next((words for words in keys if words in text), text) for (text,) in rows)


async def test_a_failed_call_does_not_spoil_the_next(postgres: PostgresDriver) -> None:
    jobs = [insert_params(unique_key=b"k", unique_states=245)]
    for way in (postgres.autocommit(), postgres.session(timeout=SECOND)):
        async with way as executor:
            await executor.jobs.insert_many(jobs)
            with pytest.raises(UniqueConflict):
                await executor.jobs.insert_many_fast(jobs)
            assert (await executor.jobs.insert_many(jobs))[0].unique_skipped_as_duplicate


async def test_a_session_stops_what_takes_too_long(postgres: PostgresDriver) -> None:
    async with postgres.session(timeout=timedelta(milliseconds=200)) as executor:
        with pytest.raises(QueryTimeout):
            await executor.ask("slow", "select pg_sleep(30)", ())
        assert await executor.jobs.row_get(1) is None


async def test_autocommit_stops_what_takes_too_long(postgres: PostgresDriver, make: Make) -> None:
    started = time.monotonic()
    async with postgres.autocommit(timeout=timedelta(milliseconds=200)) as executor:
        with pytest.raises(QueryTimeout):
            await executor.ask("slow", "select pg_sleep(30)", ())
        assert await executor.jobs.row_get(1) is None
    assert time.monotonic() - started < 10
    running = await make.rows(
        "select from pg_stat_activity where query like '%pg_sleep(30)%' and state = 'active'"
    )
    assert len(running) <= 1, "the server has stopped, and does not continue for no client"


async def test_a_server_that_says_nothing(database_url: str) -> None:
    """The request to stop, which comes on its own connection, is not heard either."""
    hears = asyncio.Event()
    hears.set()
    async with (
        tcp_proxy(database_url, begin=hears.wait) as url,
        limited(url, PostgresLimits(grace_seconds=0.2)) as driver,
    ):
        await driver.ping()
        hears.clear()
        with pytest.raises(DatabaseUnavailable):
            async with driver.autocommit(timeout=timedelta(milliseconds=100)) as executor:
                await executor.ask("slow", "select pg_sleep(5)", ())


async def test_a_lost_session(postgres: PostgresDriver, database_url: str) -> None:
    async with postgres.session(timeout=SECOND) as executor:
        await _end(database_url)
        with pytest.raises(DatabaseUnavailable):
            await executor.jobs.row_get(1)
    async with postgres.session(timeout=SECOND) as executor:
        assert await executor.jobs.row_get(1) is None


@pytest.mark.parametrize("hosts", [False, True])
async def test_dead_connections_of_the_pool_are_passed_over(database_url: str, hosts: bool) -> None:
    """An insert may not be sent twice, so it is not tried on a connection that is known to be
    dead.
    """
    async with AsyncConnectionPool(database_url, min_size=3, max_size=3, open=False) as pool:
        await pool.wait()
        driver = connect(pool=pool) if hosts else connect(database_url, max_size=3)

        async def insert() -> None:
            async with driver.autocommit() as executor:
                await executor.jobs.insert_many([insert_params()])

        await asyncio.gather(*(insert() for _ in range(3)))
        await _end(database_url)
        await asyncio.sleep(0.1)
        await asyncio.gather(*(insert() for _ in range(5)))
        await driver.close()


async def test_a_hosts_connections_come_back_as_they_were(database_url: str) -> None:
    async with AsyncConnectionPool(database_url, min_size=1, max_size=1, open=False) as pool:
        driver = connect(pool=pool)
        async with driver.autocommit() as executor:
            await executor.jobs.insert_many([insert_params()])
        async with pool.connection() as connection:
            assert not connection.autocommit
            cursor = await connection.execute("select count(*) from river_job")
            assert await cursor.fetchone() == (1,)
        async with driver.session(timeout=SECOND) as executor:
            assert await executor.jobs.row_get(10**9) is None


async def test_actions_without_a_transaction(postgres: PostgresDriver, make: Make) -> None:
    ids = [await make.job() for _ in range(3)]
    async with postgres.autocommit() as executor:
        assert (await executor.jobs.cancel_many(ids[:1])).changed == (ids[0],)
        assert (await executor.jobs.retry_many(ids[:1])).changed == (ids[0],)
        assert (await executor.jobs.delete_many([*ids[:1], 99])).skipped == (
            (99, SkipReason.NOT_FOUND),
        )
        await make.queue("q")
        assert await executor.queues.pause("q") == ["q"]
        await IndexStore(executor).job_truncate()
    assert await make.rows("select from river_job") == []


async def test_tasks_may_share_a_session(postgres: PostgresDriver, make: Make) -> None:
    ids = [await make.job(kind=f"kind_{n}") for n in range(40)]
    async with postgres.session(timeout=timedelta(seconds=10)) as executor:
        rows = await asyncio.gather(*(executor.jobs.row_get(job_id) for job_id in ids))
    assert [row.id if row else None for row in rows] == ids


async def test_a_cancelled_call_leaves_a_session_usable(postgres: PostgresDriver) -> None:
    async with postgres.session(timeout=timedelta(seconds=30)) as executor:
        slow = asyncio.create_task(executor.ask("slow", "select pg_sleep(30)", ()))
        await asyncio.sleep(0.1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await executor.jobs.row_get(1) is None


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancellation_while_connecting(database_url: str, turns: int) -> None:
    """Before Python 3.12 `asyncio.wait_for` forgets one that comes together with its result."""
    driver = connect(database_url, max_size=1)
    held, release = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with driver.autocommit():
            held.set()
            await release.wait()

    async def wait() -> None:
        async with driver.autocommit():
            await asyncio.sleep(10)

    holder = asyncio.create_task(hold())
    await held.wait()
    waiter = asyncio.create_task(wait())
    await asyncio.sleep(0.02)
    release.set()
    # As far as the pool has given the connection away, perhaps.
    for _ in range(turns):
        await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(waiter), 5)
    await holder
    await driver.close()


async def test_no_database() -> None:
    driver = connect("postgresql://127.0.0.1:1/x")
    for way in (driver.autocommit(), driver.session(timeout=SECOND)):
        with pytest.raises(DatabaseUnavailable):
            async with way:
                pass
    await driver.close()


async def test_no_user_of_that_name(database_url: str) -> None:
    driver = connect(make_conninfo(database_url, user="absent_user"))
    for way in (driver.autocommit(), driver.session(timeout=SECOND)):
        with pytest.raises(LoginRefused):
            async with way:
                pass
    await driver.close()


async def test_no_tables_and_old_tables(empty_database_url: str) -> None:
    driver = connect(empty_database_url)

    def ways() -> list[Any]:
        return [driver.autocommit(), driver.session(timeout=SECOND)]

    for way in ways():
        with pytest.raises(SchemaMissing):
            async with way as executor:
                await executor.jobs.insert_many([insert_params(unique_key=b"k", unique_states=245)])
    await migrate(driver, "up", target_version=5)
    for way in ways():
        with pytest.raises(SchemaTooOld, match="migration 6"):
            async with way as executor:
                await executor.jobs.insert_many([insert_params(unique_key=b"k", unique_states=245)])
    for way in ways():
        with pytest.raises(SchemaTooOld, match="migration 6"):
            async with way as executor:
                await executor.work.get_available(JobFetchParams("me", "default", 1))
    await driver.close()
