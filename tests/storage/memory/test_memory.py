"""What only a database in memory has to prove: its locks, failed transactions, threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from riverui import Client, ClientConfig, InsertOpts, JobListParams, SyncClient, UniqueOpts, Where
from riverui.domain.jobs import JobState, state_bits
from riverui.errors import (
    BadRequest,
    ConfigError,
    DatabaseError,
    LockTimeout,
    NotSupported,
    UniqueConflict,
)
from riverui.storage.interface.engine_params import JobFetchParams, JobInsertParams
from riverui.storage.interface.job_actions import SkipReason
from riverui.testing import MemoryDatabase

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
UNIQUE = JobInsertParams(
    kind="mail",
    args="{}",
    created_at=NOW,
    scheduled_at=NOW,
    unique_key=bytes(32),
    unique_states=state_bits([JobState.AVAILABLE]),
)


@dataclass
class Mail:
    """The args of the jobs."""

    kind: ClassVar[str] = "mail"
    to: str = "ann"


@pytest.fixture
def database() -> MemoryDatabase:
    """Return an empty database."""
    return MemoryDatabase()


async def test_a_row_that_another_transaction_holds_is_waited_for(database: MemoryDatabase) -> None:
    client = Client(database)
    job_id = (await client.insert(Mail())).job.id
    async with database.transaction() as transaction:
        await transaction.jobs.update(job_id, metadata='{"a": 1}')
        other = asyncio.create_task(client.job_update(job_id, output="b"))
        await asyncio.sleep(0.01)
        assert not other.done()
    await other
    assert (await client.job_get(job_id)).metadata_dict == {"a": 1, "output": "b"}


async def test_inserts_wait_for_a_unique_key(
    database: MemoryDatabase,
) -> None:
    async def insert() -> bool:
        async with database.autocommit() as executor:
            (result,) = await executor.jobs.insert_many([UNIQUE])
            return result.unique_skipped_as_duplicate

    async def insert_and_fail() -> None:
        async with database.transaction() as transaction:
            await transaction.jobs.insert_many([UNIQUE])
            others.append(asyncio.create_task(insert()))
            await asyncio.sleep(0.01)
            assert not others[0].done()
            raise ZeroDivisionError

    others: list[asyncio.Task[bool]] = []
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail()
    (other,) = others
    assert await other is False
    assert await insert() is True


async def test_who_waits_for_himself_is_told() -> None:
    impatient = MemoryDatabase(lock_timeout=timedelta(milliseconds=5))
    client = Client(impatient)
    job_id = (await client.insert(Mail())).job.id
    async with impatient.transaction() as transaction:
        await transaction.jobs.update(job_id, metadata='{"a": 1}')
        with pytest.raises(LockTimeout):
            await client.job_update(job_id, output="b")
        # An action does what it can.
        async with impatient.transaction() as second:
            changes = await second.jobs.cancel_many([job_id])
    assert changes.skipped == ((job_id, SkipReason.LOCKED),)


async def test_a_failed_transaction_takes_no_more_statements(database: MemoryDatabase) -> None:
    async with database.transaction() as transaction:
        await transaction.jobs.insert_many([UNIQUE])
        with pytest.raises(UniqueConflict):
            async with transaction.savepoint():
                await transaction.jobs.insert_many_fast([UNIQUE])
        await transaction.jobs.insert_many([UNIQUE._replace(kind="kept", unique_key=None)])
    async with database.transaction() as transaction:
        with pytest.raises(UniqueConflict):
            await transaction.jobs.insert_many_fast([UNIQUE])
        with pytest.raises(DatabaseError, match="can only be rolled back"):
            await transaction.jobs.cutoff()
    async with database.reading() as executor:
        assert await executor.jobs.kind_list() == ["kept", "mail"]


async def test_notifications_come_with_the_commit(database: MemoryDatabase) -> None:
    listener = await database.listener()
    heard = listener.notifications("river_insert")
    await listener.listen("river_insert")

    async def notify_and_fail() -> None:
        async with database.transaction() as transaction:
            await transaction.notify_many("river_insert", ["lost"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await notify_and_fail()
    async with database.transaction() as transaction:
        await transaction.notify_many("river_insert", ["once", "once"])
        await transaction.notify_many("other", ["unheard"])
        await transaction.notify_many("river_insert", ["again"])
    assert [await anext(heard), await anext(heard)] == [
        ("river_insert", "once"),
        ("river_insert", "again"),
    ]
    await listener.close()
    await listener.close()
    assert await anext(heard, None) is None


async def test_its_clock_may_be_given() -> None:
    database = MemoryDatabase(clock=lambda: NOW)
    client = Client(database, clock=lambda: NOW)
    row = (await client.insert(Mail())).job
    assert row.scheduled_at == NOW
    assert (await client.job_cancel(row.id)).finalized_at == NOW


async def test_what_postgres_refuses_is_refused(database: MemoryDatabase) -> None:
    async with database.autocommit() as executor:
        for args in ("{", '{"a": "\\u0000"}', '{"a": "\\ud800"}'):
            with pytest.raises(BadRequest):
                await executor.jobs.insert_many([UNIQUE._replace(args=args)])
        assert (await executor.jobs.count_exact(JobState.AVAILABLE)).value == 0


async def test_what_it_has_not_is_told_in_words(database: MemoryDatabase) -> None:
    client = Client(database)
    with pytest.raises(NotSupported, match="Conditions in SQL need a Postgres"):
        await client.job_list(JobListParams(where=Where("id = 1")))
    with pytest.raises(TypeError, match="takes part in no other's transactions"):
        await client.insert_tx(object(), Mail())
    with pytest.raises(TypeError, match="takes part in no other's transactions"):
        SyncClient(database).insert_tx(object(), Mail())
    with pytest.raises(ConfigError, match="schema"):
        Client(database, ClientConfig(schema="river"))
    assert Client(MemoryDatabase(schema="river"), ClientConfig(schema="river"))


def test_synchronous_clients_in_many_threads_share_it(database: MemoryDatabase) -> None:
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))

    def insert(number: int) -> bool:
        with SyncClient(database) as client:
            client.insert(Mail(f"each {number}"))
            return client.insert(Mail("once"), once).unique_skipped_as_duplicate

    with ThreadPoolExecutor(8) as threads:
        skipped = list(threads.map(insert, range(40)))
    assert skipped.count(False) == 1
    client = SyncClient(database)

    def insert_and_fail() -> None:
        with database.sync_transaction() as transaction:
            client.insert_tx(transaction, Mail("lost"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        insert_and_fail()
    with database.sync_transaction() as transaction:
        client.insert_many_tx(transaction, [Mail("kept"), Mail("kept")])
        client.insert_many_fast_tx(transaction, [Mail("fast")])
    assert repr(database) == "<MemoryDatabase: 44 jobs>"


def test_a_synchronous_client_has_the_whole_interface(database: MemoryDatabase) -> None:
    client = SyncClient(database)
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    inserted = client.insert(Mail())
    assert client.job_cancel(inserted.job.id).state is JobState.CANCELLED
    assert [row.kind for row in client.job_list().jobs] == ["mail"]
    with ThreadPoolExecutor(1) as thread:
        with database.sync_transaction() as transaction:
            client.insert_tx(transaction, Mail("once"), once)
            other = thread.submit(client.insert, Mail("once"), once)
        assert other.result(10).unique_skipped_as_duplicate


def test_a_synchronous_client_waits_for_a_job(database: MemoryDatabase) -> None:
    client = SyncClient(database)
    job_id = client.insert(Mail()).job.id
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.wait, job_id, timeout=timedelta(seconds=20))
        client.job_cancel(job_id)
        assert waiting.result(20).state is JobState.CANCELLED


async def test_the_next_job_is_found_whatever_there_is(database: MemoryDatabase) -> None:
    client = Client(database)
    params = JobFetchParams(client_id="me", queue="default", limit=2)
    await client.insert_many([Mail(), Mail(), Mail()])
    async with database.transaction() as transaction:
        # What this transaction has changed comes in its place among what was there.
        await transaction.jobs.insert_many([UNIQUE._replace(priority=1, scheduled_at=NOW)])
        await transaction.jobs.move_many([1], priority=4)
        await transaction.jobs.delete_many([2])
        fetched = await transaction.work.get_available(params)
        assert sorted(row.id for row in fetched) == [3, 4]
        # Others see none of that, and leave alone what it holds.
        async with database.autocommit() as executor:
            assert await executor.work.get_available(params) == []
        assert [row.id for row in await transaction.work.get_available(params)] == [1]
    async with database.autocommit() as executor:
        assert await executor.work.first_available(params) is None
