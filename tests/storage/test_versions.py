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
                    page = await executor.job_list(
                        JobPageParams(filter=JobFilter(states=states, terms=chosen), order=order)
                    )
                    assert len(page.rows) == (1 if len(states) == 1 else 8)
        assert (await executor.job_count(JobFilter(terms=terms), cap=100)).value == 8
        assert {count.value for count in (await executor.job_count_by_state(cap=5)).values()} == {1}
        assert (await executor.job_count_exact(JobState.RUNNING)).value == 1
        cutoff = await executor.job_cutoff()
        assert cutoff.id == ids[-1]
        for job_id in ids:
            job = await executor.job_get(job_id)
            assert job is not None
            assert job.unique_states == ()
            assert await executor.job_text_piece(job_id, "job", size=10) is not None
            assert await executor.job_log_piece(job_id, 1, size=10) is None
        assert await executor.job_kind_list() == ["test_kind"]
        assert list(await SuggestionStore(executor).job_path_list("args")) == []
        assert await SuggestionStore(executor).job_tag_list() == ["t"]
        assert await SuggestionStore(executor).job_worker_list() == [factory.WORKER]
        leader = await executor.leader_get()
        assert leader is not None
        assert [row.queue.name for row in await executor.queue_list(cap=10)] == ["q"]
        assert await executor.queue_get("q", cap=10) is not None
        assert [kind for kind, _ in await executor.queue_kind_count("q", cap=10)] == ["test_kind"]
        assert len(await executor.queue_failure_list("q")) == 2
        assert await executor.queue_name_list() == ["q"]
        assert (await ServerStore(executor).server_get()).job_bytes > 0
    async with driver.transaction() as transaction:
        assert len((await transaction.job_cancel_many(ids)).changed) == 4
        assert len((await transaction.job_retry_many(ids)).changed) == 7
        assert len((await transaction.job_delete_many(ids)).changed) == 7
        assert await transaction.queue_pause("q") == ["q"]
        assert await transaction.queue_resume("*") == ["q"]
    await driver.ping()


async def _work(driver: PostgresDriver, make: Make) -> None:
    """Call every operation of an engine once."""
    job = insert_params(unique_key=b"k", unique_states=245, queue="w")
    async with driver.session(timeout=timedelta(seconds=10)) as executor:
        one, twin = await executor.job_insert_many([job, job], notify=["w"])
        assert twin.job.id == one.job.id
        assert (await executor.job_insert_many([job]))[0].unique_skipped_as_duplicate
        assert await executor.job_insert_many_fast([insert_params(queue="x")], notify=["x"]) == 1
        (row,) = await executor.job_get_available(fetch("w", kinds=("test_kind",)))
        assert row == await executor.job_row_get(one.job.id)
        (row,) = await executor.job_set_state_many(
            [JobSetStateParams(row.id, JobState.RETRYABLE, error="{}", scheduled_at=NOW)]
        )
        assert [moved.id for moved in await executor.job_schedule(now=NOW, limit=9)] == [row.id]
        (row,) = await executor.job_get_available(fetch("w"))
        future = datetime.now(UTC) + timedelta(hours=1)
        stuck = await executor.job_get_stuck(attempted_before=future, after_id=0, limit=10_000)
        assert row in stuck
        rescue = JobRescueParams(row.id, JobState.RETRYABLE, "{}", NOW)
        assert list(await executor.job_rescue_many([rescue], attempted_before=future)) == [row.id]
        assert await executor.job_cancel_requested([row.id]) == []
        assert await executor.job_update(row.id, metadata='{"a": 1}') is not None
        assert [r.id for r in await executor.job_row_list(JobSelectParams(queues=("w",)))] == [
            row.id
        ]
        assert [
            r.id for r in await executor.job_row_delete_many(JobSelectParams(queues=("w",)))
        ] == [row.id]
        (row,) = await executor.job_get_available(fetch("x"))
        assert list(await executor.job_complete_many([row.id], [NOW])) == [row.id]
        await executor.job_delete_before(
            JobDeleteBeforeParams(
                cancelled_before=NOW, completed_before=future, discarded_before=NOW, limit=99
            )
        )
        await executor.queue_upsert("w")
        await executor.queue_update("w", metadata='{"a": 1}')
        assert "w" in [queue.name for queue in await executor.queue_row_list()]
        assert "w" in await executor.queue_delete_expired(updated_before=future, limit=99)
        await make.connection.execute("delete from river_leader")
        leader = await executor.leader_attempt_elect("me", ttl=timedelta(seconds=9))
        assert leader is not None
        assert await executor.leader_attempt_reelect(
            "me", elected_at=leader.elected_at, ttl=timedelta(seconds=9)
        )
        assert await executor.leader_resign("me", elected_at=leader.elected_at)
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
        page = await executor.job_list(JobPageParams())
        counts = await executor.job_count_by_state(cap=10)
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
    """`select *` would change its meaning with every column that somebody adds."""
    assert isinstance(driver, PostgresDriver)
    queries = PostgresQueries(driver.schema)
    # `[*]` is a path's: all elements. Of `n`, which is what parameters are spread out to, there
    # are as many columns as are written.
    fine = re.compile(
        r"count\(\*\)|'\*'|/\*|\*/| \* |\[\*\]|select n\.\*(?=\s+from (unnest|jsonb\w+)\()"
    )
    assert [name for name in queries.names if "*" in fine.sub("", queries.text(name))] == []
