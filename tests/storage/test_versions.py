"""Databases of other versions, in other schemas, with columns and tables that riverui does not
know.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from riverui.domain.jobs import JobState
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
    JobSelectParams,
    JobSetStateParams,
)
from riverui.storage.interface.params import Field, JobFilter, JobOrder, JobPageParams, Op, Term
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.statements import PostgresQueries
from riverui.storage.stores.indexes import IndexStore
from riverui.storage.stores.server import ServerStore
from riverui.storage.stores.suggestions import SuggestionStore
from tests import factory
from tests.drivers import connect
from tests.factory import Make
from tests.storage.conftest import NOW, insert_params
from tests.storage.test_job_work import fetch


@pytest.fixture
async def make_empty(empty_database_url: str) -> AsyncIterator[Make]:
    """Put rows into a database that a test makes tables in."""
    async with await AsyncConnection.connect(
        empty_database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        yield Make(connection)


async def _use_everything(driver: PostgresDriver, make: Make) -> None:
    """Call every operation once."""
    ids = [await make.job(state.value, queue="q", tags=["t"]) for state in JobState]
    await make.queue("q")
    await make.leader("l")
    terms = (
        Term(field=Field.KIND, op=Op.LIKE, values=("test*",)),
        Term(field=Field.QUEUE, op=Op.EQ, values=("q",)),
        Term(field=Field.ARGS, op=Op.CONTAINS, values=("{}",)),
        Term(field=Field.TAG, op=Op.EQ, values=("t",)),
        Term(field=Field.ERROR, op=Op.LIKE, values=("nothing",), negated=True),
    )
    async with driver.reading() as executor:
        for order in JobOrder:
            for states in ((), tuple(JobState), (JobState.RUNNING,)):
                for chosen in ((), terms):
                    page = await executor.jobs.list(
                        JobPageParams(filter=JobFilter(states=states, terms=chosen), order=order)
                    )
                    assert len(page.rows) == (1 if len(states) == 1 else 8)
        assert (await executor.jobs.count(JobFilter(terms=terms), cap=100)).value == 8
        assert {count.value for count in (await executor.jobs.count_by_state(cap=5)).values()} == {
            1
        }
        assert (await executor.jobs.count_exact(JobState.RUNNING)).value == 1
        cutoff = await executor.jobs.cutoff()
        assert cutoff.id == ids[-1]
        for job_id in ids:
            job = await executor.jobs.get(job_id)
            assert job is not None
            assert job.unique_states == ()
            assert await executor.jobs.text_piece(job_id, "job", size=10) is not None
            assert await executor.jobs.log_piece(job_id, 1, size=10) is None
        assert await executor.jobs.kind_list() == ["test_kind"]
        assert list(await SuggestionStore(executor).job_path_list("args")) == []
        assert await SuggestionStore(executor).job_tag_list() == ["t"]
        assert await SuggestionStore(executor).job_worker_list() == [factory.WORKER]
        leader = await executor.leader.get()
        assert leader is not None
        assert [row.queue.name for row in await executor.queues.list(cap=10)] == ["q"]
        assert await executor.queues.get("q", cap=10) is not None
        assert [kind for kind, _ in await executor.queues.kind_count("q", cap=10)] == ["test_kind"]
        assert len(await executor.queues.failure_list("q")) == 2
        assert await executor.queues.name_list() == ["q"]
        assert (await ServerStore(executor).server_get()).version
    async with driver.transaction() as transaction:
        assert len((await transaction.jobs.cancel_many(ids)).changed) == 4
        assert len((await transaction.jobs.retry_many(ids)).changed) == 7
        assert len((await transaction.jobs.delete_many(ids)).changed) == 7
        assert await transaction.queues.pause("q") == ["q"]
        assert await transaction.queues.resume("*") == ["q"]
    await driver.ping()


async def _work(driver: PostgresDriver, make: Make) -> None:
    """Call every operation of an engine once."""
    job = insert_params(unique_key=b"k", unique_states=245, queue="w")
    async with driver.session(timeout=timedelta(seconds=10)) as executor:
        one, twin = await executor.jobs.insert_many([job, job], notify=["w"])
        assert twin.job.id == one.job.id
        assert (await executor.jobs.insert_many([job]))[0].unique_skipped_as_duplicate
        assert await executor.jobs.insert_many_fast([insert_params(queue="x")], notify=["x"]) == 1
        (row,) = await executor.work.get_available(fetch("w", kinds=("test_kind",)))
        assert row == await executor.jobs.row_get(one.job.id)
        (row,) = await executor.work.set_state_many(
            [JobSetStateParams(row.id, JobState.RETRYABLE, error="{}", scheduled_at=NOW)]
        )
        assert [moved.id for moved in await executor.work.schedule(now=NOW, limit=9)] == [row.id]
        (row,) = await executor.work.get_available(fetch("w"))
        future = datetime.now(UTC) + timedelta(hours=1)
        stuck = await executor.work.get_stuck(attempted_before=future, after_id=0, limit=10_000)
        assert row in stuck
        rescue = JobRescueParams(row.id, JobState.RETRYABLE, "{}", NOW)
        assert list(await executor.work.rescue_many([rescue], attempted_before=future)) == [row.id]
        assert await executor.work.cancel_requested([row.id]) == []
        assert await executor.jobs.update(row.id, metadata='{"a": 1}') is not None
        assert [r.id for r in await executor.jobs.row_list(JobSelectParams(queues=("w",)))] == [
            row.id
        ]
        assert [
            r.id for r in await executor.jobs.delete_selected(JobSelectParams(queues=("w",)))
        ] == [row.id]
        (row,) = await executor.work.get_available(fetch("x"))
        assert list(await executor.work.complete_many([row.id], [NOW])) == [row.id]
        await executor.work.delete_before(
            JobDeleteBeforeParams(
                cancelled_before=NOW, completed_before=future, discarded_before=NOW, limit=99
            )
        )
        await executor.queues.upsert("w")
        await executor.queues.update("w", metadata='{"a": 1}')
        assert "w" in [queue.name for queue in await executor.queues.row_list()]
        assert "w" in await executor.queues.delete_expired(updated_before=future, limit=99)
        await make.connection.execute("delete from river_leader")
        leader = await executor.leader.attempt_elect("me", ttl=timedelta(seconds=9))
        assert leader is not None
        assert await executor.leader.attempt_reelect(
            "me", elected_at=leader.elected_at, ttl=timedelta(seconds=9)
        )
        assert await executor.leader.resign("me", elected_at=leader.elected_at)
        assert "river_job_kind" in await IndexStore(executor).index_list()
        await IndexStore(executor).index_reindex("river_job_kind")
        await IndexStore(executor).index_drop("river_job_of_another_time")


async def _versions(driver: PostgresDriver) -> Sequence[int]:
    async with driver.reading() as executor:
        return [row.version for row in await ServerStore(executor).migration_list()]


@pytest.mark.parametrize("version", [5, 6, 7, 8])
async def test_every_version(empty_database_url: str, make_empty: Make, version: int) -> None:
    driver = connect(empty_database_url)
    await migrate(driver, "up", target_version=version)
    assert await _versions(driver) == list(range(1, version + 1))
    if version < 7:
        # It has no default before.
        await make_empty.connection.execute(
            "alter table river_job alter max_attempts set default 25"
        )
    await _use_everything(driver, make_empty)
    if version >= 6:
        await _work(driver, make_empty)
    await driver.close()


async def test_unknown_columns_tables_and_lines(empty_database_url: str, make_empty: Make) -> None:
    driver = connect(empty_database_url)
    await migrate(driver, "up")
    for statement in (
        (
            "alter table river_job add column workflow_id text"
            " generated always as (metadata ->> 'workflow_id') stored"
        ),
        (
            "alter table river_job add column id2 bigint default 7, add column at timestamptz"
            " default now()"
        ),
        "alter table river_job add column matched boolean, add column ended boolean",
        "alter table river_job add column args_text text, add column unique_bits text",
        "alter table river_queue add column counts jsonb, add column paused boolean",
        "alter table river_leader add column term bigint",
        "alter table river_migration add column checksum text",
        "alter type river_job_state add value 'sleeping' after 'scheduled'",
        "create table river_producer (id bigserial primary key)",
        "insert into river_migration (line, version) values ('pro', 1), ('main', 9)",
    ):
        await make_empty.connection.execute(statement.encode())
    await _use_everything(driver, make_empty)
    await _work(driver, make_empty)
    assert await _versions(driver) == [*range(1, 10), 1]
    await driver.close()


async def test_an_unknown_state_breaks_no_list(empty_database_url: str, make_empty: Make) -> None:
    driver = connect(empty_database_url)
    await migrate(driver, "up")
    await make_empty.connection.execute("alter type river_job_state add value 'sleeping'")
    await make_empty.job("sleeping")
    known = await make_empty.job("running")
    async with driver.reading() as executor:
        page = await executor.jobs.list(JobPageParams())
        counts = await executor.jobs.count_by_state(cap=10)
    assert [row.id for row in page.rows] == [known]
    assert set(counts) == set(JobState)
    await driver.close()


@pytest.mark.parametrize("schema", ["jobs_1", "River_Jobs", "select"])
async def test_schema(empty_database_url: str, make_empty: Make, schema: str) -> None:
    await make_empty.connection.execute(f'create schema "{schema}"'.encode())
    driver = connect(empty_database_url, schema=schema)
    await migrate(driver, "up")
    assert [r["s"] for r in await make_empty.rows("select to_regclass('river_job') s")] == [None]
    await make_empty.connection.execute(f'set search_path = "{schema}"'.encode())
    await _use_everything(driver, make_empty)
    await _work(driver, make_empty)
    async with driver.reading() as executor:
        assert (await ServerStore(executor).server_get()).schema == schema
    await driver.close()


async def test_schema_by_the_users_search_path(empty_database_url: str, make_empty: Make) -> None:
    await make_empty.connection.execute("create schema jobs_2")
    (row,) = await make_empty.rows("select quote_ident(current_database()) as name")
    await make_empty.connection.execute(
        f"alter database {row['name']} set search_path = jobs_2".encode()
    )
    await make_empty.connection.execute("set search_path = jobs_2")
    driver = connect(empty_database_url)
    await migrate(driver, "up")
    await _use_everything(driver, make_empty)
    await _work(driver, make_empty)
    async with driver.reading() as executor:
        assert (await ServerStore(executor).server_get()).schema == "jobs_2"
    await driver.close()


async def test_nothing_is_read_as_a_whole_row(driver: PostgresDriver) -> None:
    """`select *` would change its meaning with every added column."""
    assert isinstance(driver, PostgresDriver)
    queries = PostgresQueries(driver.schema)
    # `[*]` and `**` are a path's: all elements, all levels. `~*`, `.*` and `S*` are of patterns.
    # Of `n`, which is what parameters are spread out to, there are as many columns as are written.
    fine = re.compile(
        r"count\(\*\)|'\*'|/\*|\*/| \* |\[\*\]|\$\.\*\*|~\* |\(\.\*\)|\\S\*"
        r"|select n\.\*(?=\s+from (unnest|jsonb\w+)\()"
    )
    assert [name for name in queries.names if "*" in fine.sub("", queries.text(name))] == []
