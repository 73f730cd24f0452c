"""Synchronous clients that work jobs where they are inserted, and what drains their databases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import Connection

import riverui
from riverui import (
    ClientConfig,
    InsertOpts,
    Job,
    JobState,
    SyncClient,
    UniqueOpts,
    Worker,
    Workers,
)
from riverui.errors import SchemaMissing, UniqueConflict
from riverui.testing import MemoryDatabase
from riverui.testing.sync import InlineSyncClient, drain, require_inserted, rolled_back, work

HOUR = timedelta(hours=1)


@dataclass
class Do:
    """The args of a synchronous worker."""

    kind: ClassVar[str] = "do"
    what: str = "well"


@dataclass
class Later:
    """The args of an asynchronous worker."""

    kind: ClassVar[str] = "later"
    number: int = 0


class Doer(Worker[Do]):
    """Does what the args say, in the thread of who has it done."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.river: SyncClient | None = None
        self.connection: Connection[Any] | None = None

    def work(self, job: Job[Do]) -> None:
        self.done.append(job.args.what)
        match job.args.what:
            case "fail":
                raise ValueError("no luck")
            case "insert":
                assert self.river is not None
                self.done.append(self.river.insert(Later(1)).job.state.value)
            case "thread":
                self.done.append(threading.current_thread())
                # As in a thread of its own, no event loop is in the way.
                assert asyncio.run(asyncio.sleep(0, "a")) == "a"
            case "look":
                assert self.connection is not None
                (row,) = self.connection.execute("select name from customer").fetchall()
                self.done.append(row[0])


class Laterer(Worker[Later]):
    """Inserts jobs of the other kind."""

    def __init__(self, done: list[object]) -> None:
        self.done = done

    async def work(self, job: Job[Later]) -> None:
        self.done.append(f"later {job.args.number}")
        if job.args.number == 2:
            await riverui.client_from_context().insert_many([Do("a"), Do("b")])


@pytest.fixture
def doer() -> Doer:
    """Return the worker."""
    return Doer()


@pytest.fixture
def workers(doer: Doer) -> Workers:
    """Return it and the other one."""
    both = Workers()
    both.add(doer)
    both.add(Laterer(doer.done))
    return both


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Return the address of a Postgres; None for a database in memory."""
    return request.getfixturevalue("database_url") if request.param == "postgres" else None


Make = Callable[..., InlineSyncClient]


@pytest.fixture
def inline(url: str | None, workers: Workers, doer: Doer) -> Iterator[Make]:
    """Return what makes clients on one database."""
    database = MemoryDatabase() if url is None else url
    made: list[InlineSyncClient] = []

    def make(**given: Any) -> InlineSyncClient:
        made.append(InlineSyncClient(workers, database, **given))
        doer.river = made[-1]
        return made[-1]

    yield make
    for client in made:
        client.close()


def test_a_job_is_done_when_the_insert_returns(inline: Make, doer: Doer) -> None:
    river = inline()
    result = river.insert(Do("thread"))
    assert doer.done == ["thread", threading.current_thread()]
    assert (result.job.state, result.job.attempt) == (JobState.COMPLETED, 1)
    assert river.job_get(result.job.id) == result.job


def test_what_a_job_raises_is_raised_and_kept(inline: Make) -> None:
    river = inline()
    with pytest.raises(ValueError, match="no luck"):
        river.insert(Do("fail"))
    (row,) = river.job_list().jobs
    assert [error.error for error in row.errors] == ["ValueError: no luck"]
    result = inline(raises=False).insert(Do("fail"), InsertOpts(max_attempts=1))
    assert result.job.state is JobState.DISCARDED


def test_jobs_that_insert_jobs_of_either_sort(inline: Make, doer: Doer) -> None:
    river = inline()
    river.insert(Do("insert"))
    assert doer.done == ["insert", "later 1", "completed"]
    doer.done.clear()
    river.insert_many([Later(2), Do("c")])
    assert doer.done == ["later 2", "a", "b", "c"]


def test_scheduled_and_unique_jobs(inline: Make, doer: Doer) -> None:
    river, patient = inline(), inline(with_scheduled=False)
    later = InsertOpts(scheduled_at=river.clock() + HOUR)
    assert river.insert(Do(), later).job.state is JobState.COMPLETED
    assert patient.insert(Do(), later).job.state is JobState.SCHEDULED
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    assert river.insert(Do("once"), once).job.state is JobState.COMPLETED
    assert river.insert(Do("once"), once).unique_skipped_as_duplicate
    assert doer.done == ["well", "once"]
    with pytest.raises(UniqueConflict):
        river.insert_many_fast([riverui.InsertManyParams(Do("once"), once)])


def test_a_job_in_a_transaction(database_url: str, doer: Doer, workers: Workers) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table customer (name text)")
        connection.execute("insert into customer values ('ann')")
        doer.connection = connection
        result = InlineSyncClient(workers, database_url).insert_tx(connection, Do("look"))
        assert result.job.state is JobState.COMPLETED
        connection.rollback()
        assert connection.execute("select count(*) from river_job").fetchone() == (0,)
    assert doer.done == ["look", "ann"]


def test_a_job_in_a_transaction_of_a_memory(doer: Doer, workers: Workers) -> None:
    database = MemoryDatabase()
    river = doer.river = InlineSyncClient(workers, database)
    with database.sync_transaction() as tx:
        assert river.insert_tx(tx, Do("thread")).job.state is JobState.COMPLETED
        assert river.job_list().jobs == []
    assert len(river.job_list().jobs) == 1


@pytest.mark.usefixtures("own_tables")
def test_tasks_of_a_workflow(database_url: str, doer: Doer, workers: Workers) -> None:
    with InlineSyncClient(workers, database_url) as river:
        workflow = river.workflows.new()
        workflow.add("second", Later(1), deps=[workflow.add("first", Do("first"))])
        workflow.insert()
    assert doer.done == ["first", "later 1"]
    workflow = InlineSyncClient(workers).workflows.new()
    workflow.add("first", Do())
    with pytest.raises(SchemaMissing, match="Workflows need the tables of riverui"):
        workflow.insert()


def test_a_rolled_back_transaction(database_url: str, doer: Doer, workers: Workers) -> None:
    with rolled_back(database_url) as outer:
        river = doer.river = InlineSyncClient(workers, outer.driver)
        river.insert(Do("insert"))
        assert [row.state for row in outer.job_list().jobs] == [JobState.COMPLETED] * 2
    assert doer.done == ["insert", "later 1", "completed"]


def test_a_drain_works_all_that_waits(inline: Make, doer: Doer, workers: Workers) -> None:
    river = SyncClient(inline().driver, ClientConfig(workers=workers))
    doer.river = river
    river.insert_many([Do(), Do("fail"), Do("insert"), Later(2)])
    ended = drain(river)
    assert (ended.completed, ended.failed, ended.discarded) == (6, 1, 0)
    assert doer.done == ["well", "fail", "insert", "available", "later 2", "later 1", "a", "b"]
    assert drain(river).results == []
    assert drain(river, with_scheduled=True).failed == 1
    with pytest.raises(ValueError, match="no luck"):
        drain(river, with_scheduled=True, raises=True)
    river.insert_many([Do()] * 3)
    with pytest.raises(AssertionError, match="2 jobs were worked, and more are waiting"):
        drain(river, most_jobs=2)


@pytest.mark.usefixtures("own_tables")
def test_a_drain_in_a_transaction(database_url: str, doer: Doer, workers: Workers) -> None:
    config = ClientConfig(workers=workers)
    with SyncClient(database_url) as others, rolled_back(database_url, config) as river:
        doer.river = river
        others.insert(Do("of others"))
        workflow = river.workflows.new()
        first = workflow.add("first", Do("insert"))
        workflow.add("second", Later(2), deps=[first])
        workflow.insert()
        assert drain(river).completed == 5
        assert doer.done == ["insert", "available", "later 1", "later 2", "a", "b"]
        assert others.job_list().jobs[0].state is JobState.AVAILABLE


def test_the_helpers_take_a_memory(doer: Doer, workers: Workers) -> None:
    database = MemoryDatabase()
    river = doer.river = SyncClient(database)
    result = work(river, workers, Do("insert"))
    assert result.job.state is JobState.COMPLETED
    assert require_inserted(river, Later(1)).row.state is JobState.AVAILABLE
    assert work(database, doer, Do()).job.state is JobState.COMPLETED
