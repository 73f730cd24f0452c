"""Through PgBouncer in transaction mode, where every transaction may run on another server
connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial

import psycopg

from riverui.domain.jobs import JobState
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobSetStateParams
from riverui.storage.interface.params import Field, JobFilter, JobOrder, Op, Term
from riverui.storage.migrations import migrate, validate
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.executor import PostgresExecutor
from tests.drivers import connect, connect_sync
from tests.factory import Make
from tests.storage.conftest import NOW, all_pages, insert_params, one_page, sync_insert
from tests.storage.test_job_work import fetch


async def _server_settings(url: str) -> set[tuple[str, ...]]:
    """Return what strangers find on the pool's server connections afterwards."""
    found = set()
    for _ in range(10):
        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None
        ) as stranger:
            cursor = await stranger.execute(
                "select current_setting('statement_timeout'), current_setting('lock_timeout'),"
                " current_setting('enable_seqscan'), current_setting('jit'),"
                " current_setting('transaction_read_only'),"
                " current_setting('idle_in_transaction_session_timeout'),"
                " current_setting('timezone'), (select count(*)::text from pg_prepared_statements)"
            )
            found.update(await cursor.fetchall())
    return found


async def _work(driver: PostgresDriver, make: Make) -> None:
    ids = [await make.job(state.value, tags=["t"]) for state in JobState]
    await make.queue("default")
    args = Term(field=Field.ARGS, op=Op.CONTAINS, values=("{}",))
    for _ in range(3):
        for order in JobOrder:
            rows = await all_pages(driver, order=order, terms=[args], limit=3)
            assert sorted(row.id for row in rows) == ids
        async with driver.reading() as executor:
            assert (await executor.jobs.count(JobFilter(), cap=100)).value == 8
            await executor.jobs.count_by_state(cap=10)
            await executor.queues.list(cap=10)
            await executor.jobs.get(ids[0])
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.cancel_many(ids)
        assert len(changes.changed) == 4
        async with transaction.savepoint():
            assert len((await transaction.jobs.retry_many(ids)).changed) == 7
        assert await transaction.queues.pause("*") == ["default"]


async def test_everything_works_and_nothing_stays(bouncer_url: str, make: Make) -> None:
    driver = connect(bouncer_url, max_size=8)
    before = await _server_settings(bouncer_url)
    await _work(driver, make)
    await asyncio.gather(*(one_page(driver) for _ in range(40)))
    assert await _server_settings(bouncer_url) == before
    assert len(before) == 1
    await driver.close()


async def test_with_the_hosts_pool(bouncer_url: str, make: Make) -> None:
    from psycopg_pool import AsyncConnectionPool

    async with AsyncConnectionPool(bouncer_url, min_size=1, max_size=4, open=False) as pool:
        await _work(connect(pool=pool), make)


async def test_migrations(bouncer_url: str, make: Make) -> None:
    driver = connect(bouncer_url)
    await migrate(driver, "down", target_version=-1)
    await migrate(driver, "up")
    assert await validate(driver) == []
    await driver.close()


async def _engine(driver: PostgresDriver, make: Make) -> None:
    """Go through a worker's day, by every way to an executor."""
    job = insert_params(unique_key=b"k", unique_states=245)
    ways: list[Callable[[], AbstractAsyncContextManager[PostgresExecutor]]] = [
        driver.autocommit,
        driver.transaction,
        partial(driver.session, timeout=timedelta(seconds=10)),
    ]
    for way in ways * 3:
        async with way() as executor:
            one, twin = await executor.jobs.insert_many([job, job], notify=["default"])
            assert twin.unique_skipped_as_duplicate
            assert not one.unique_skipped_as_duplicate
            assert [row.id for row in await executor.work.get_available(fetch())] == [one.job.id]
            retry = JobSetStateParams(one.job.id, JobState.RETRYABLE, error="{}", scheduled_at=NOW)
            assert [row.id for row in await executor.work.set_state_many([retry])] == [one.job.id]
            assert [row.id for row in await executor.work.schedule(now=NOW, limit=10)] == [
                one.job.id
            ]
            (row,) = await executor.work.get_available(fetch())
            assert list(await executor.work.complete_many([row.id], [NOW])) == [row.id]
            await executor.queues.upsert("default")
            leader = await executor.leader.attempt_elect("me", ttl=timedelta(seconds=9))
            assert leader is not None
            assert await executor.leader.resign("me", elected_at=leader.elected_at)
            old = JobDeleteBeforeParams(
                cancelled_before=None,
                completed_before=NOW + timedelta(seconds=1),
                discarded_before=None,
                limit=10,
            )
            assert await executor.work.delete_before(old) == 1
    async with driver.transaction() as transaction:
        assert await transaction.jobs.insert_many_fast([job], notify=["default"]) == 1
    assert len(await make.rows("select from river_job")) == 1


async def test_engine(bouncer_url: str, make: Make) -> None:
    driver = connect(bouncer_url, max_size=4)
    before = await _server_settings(bouncer_url)
    await _engine(driver, make)
    assert await _server_settings(bouncer_url) == before
    await driver.close()


async def test_sync_inserts(bouncer_url: str, make: Make) -> None:
    def insert() -> None:
        driver = connect_sync(bouncer_url)
        for _ in range(10):
            sync_insert(driver, [insert_params()], notify=["default"])
            sync_insert(driver, [insert_params()], notify=["default"], fast=True)
        driver.close()

    before = await _server_settings(bouncer_url)
    await asyncio.gather(*(asyncio.to_thread(insert) for _ in range(4)))
    assert await _server_settings(bouncer_url) == before
    assert len(await make.rows("select from river_job")) == 80
