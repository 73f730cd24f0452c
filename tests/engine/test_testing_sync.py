"""The helpers for tests without asyncio, used as the tests of a Flask or Django program would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from riverui import ClientConfig, InsertOpts, Job, JobCancel, JobState, SyncClient, Worker, Workers
from riverui.errors import NotFound
from riverui.storage.connect import connect_sync
from riverui.testing import MemoryDatabase
from riverui.testing.sync import (
    EventKind,
    Expected,
    require_inserted,
    require_inserted_tx,
    require_many_inserted,
    require_many_inserted_tx,
    require_not_inserted,
    require_not_inserted_tx,
    rolled_back,
    work,
    work_tx,
)
from tests.guests import GUESTS, Begin


@dataclass
class Mail:
    kind: ClassVar[str] = "mail"
    to: str


@dataclass
class Invoice:
    kind: ClassVar[str] = "invoice"
    number: int = 0


@pytest.fixture
def count(database_url: str) -> Iterator[Callable[[], int]]:
    """Yield a function that counts committed jobs."""
    with psycopg.connect(database_url, autocommit=True) as connection:

        def read() -> int:
            row = connection.execute("select count(*) from river_job").fetchone()
            assert row
            return int(row[0])

        yield read


@pytest.fixture(params=GUESTS)
def begin(request: pytest.FixtureRequest, database_url: str) -> Begin:
    """Begin a transaction of each kind, in turn."""
    return GUESTS[request.param](database_url)


def test_what_an_open_transaction_has_inserted(begin: Begin, count: Callable[[], int]) -> None:
    river = SyncClient()
    with begin(False) as tx:
        river.insert_tx(tx, Mail("ann"), queue="mail", tags=["sign-up"])
        river.insert_tx(tx, Invoice())
        job = require_inserted_tx(tx, Mail, queue="mail", tags=["sign-up"])
        assert job.args.to == "ann"
        require_not_inserted_tx(tx, Mail("bob"))
        many = require_many_inserted_tx(tx, [Expected(Mail, queue="mail"), Invoice()])
        assert [one.args for one in many] == [Mail("ann"), Invoice()]
        with pytest.raises(AssertionError, match="priority 1, not 3"):
            require_inserted_tx(tx, Mail, priority=3)
        with pytest.raises(AssertionError, match="1 of kind 'mail' inserted"):
            require_not_inserted_tx(tx, Mail)
    assert count() == 0


def test_a_job_is_worked_in_an_open_transaction(begin: Begin, count: Callable[[], int]) -> None:
    river, seen = SyncClient(), []

    class Mails(Worker[Mail]):
        def work(self, job: Job[Mail]) -> None:
            seen.append((job.args.to, threading.current_thread()))
            river.insert_tx(tx, Invoice(7))

    with begin(False) as tx:
        result = work_tx(tx, Mails(), Mail("ann"), InsertOpts(queue="mail"))
        assert (result.event, result.error) == (EventKind.JOB_COMPLETED, None)
        assert (result.job.state, result.job.queue) == (JobState.COMPLETED, "mail")
        assert require_inserted_tx(tx, Invoice).args.number == 7
    assert seen == [("ann", threading.current_thread())]
    assert count() == 0


def test_a_rolled_back_client(database_url: str, count: Callable[[], int]) -> None:
    pool = ConnectionPool(database_url, open=True, min_size=0, max_size=2)
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg2://", 1))
    own = SyncClient(database_url, ClientConfig(max_attempts=3))
    for database in (database_url, pool, engine, connect_sync(database_url), own):
        with rolled_back(database) as river:
            first = river.insert(Mail("ann")).job
            require_inserted(river, Mail("ann"), max_attempts=3 if database is own else 25)
            with pytest.raises(NotFound):
                river.job_cancel(first.id + 1)
            assert river.job_cancel(first.id).state is JobState.CANCELLED
            require_many_inserted(river, [Expected(Mail, state="cancelled")])
            require_not_inserted(river, Invoice)
            assert work(river, Workers(), river.insert(Mail("bob")).job).error is not None
        assert count() == 0
    own.close()
    pool.close()
    engine.dispose()


def test_what_was_committed(database_url: str) -> None:
    with SyncClient(database_url) as river:
        river.insert(Mail("ann"))
    assert require_inserted(database_url, Mail).args.to == "ann"
    require_not_inserted(database_url, Invoice)
    with pytest.raises(AssertionError, match=r"kinds \['mail'\], where \['mail', 'invoice'\]"):
        require_many_inserted(database_url, [Mail("ann"), Invoice()])


def test_how_a_job_ended(database_url: str, count: Callable[[], int]) -> None:
    class Fails(Worker[Mail]):
        def work(self, job: Job[Mail]) -> None:
            raise JobCancel("no") if job.args.to == "ann" else ValueError(job.args.to)

    class Waits(Worker[Mail]):
        async def work(self, job: Job[Mail]) -> None:
            assert threading.current_thread() is not threading.main_thread()

    result = work(database_url, Fails(), Mail("bob"))
    assert result.event is EventKind.JOB_FAILED
    assert isinstance(result.error, ValueError)
    assert (result.job.attempt, result.job.errors[0].error) == (1, "ValueError: bob")
    assert work(database_url, Fails(), Mail("ann")).event is EventKind.JOB_CANCELLED
    assert work(database_url, Waits(), Mail("cy")).event is EventKind.JOB_COMPLETED
    with pytest.raises(NotFound):
        work(database_url, Waits(), result.job)
    assert count() == 0


def test_on_a_database_in_memory() -> None:
    database = MemoryDatabase()

    class Mails(Worker[Mail]):
        def work(self, job: Job[Mail]) -> None:
            SyncClient(database).insert(Invoice(3))

    SyncClient(database).insert(Mail("ann"))
    assert require_inserted(database, Mail).args.to == "ann"
    assert work(database, Mails(), Mail("bob")).event is EventKind.JOB_COMPLETED
    assert require_inserted(database, Invoice).args.number == 3
    require_many_inserted(database, [Mail("ann"), Mail("bob"), Invoice])


async def test_where_a_loop_runs(database_url: str) -> None:
    class Mails(Worker[Mail]):
        def work(self, job: Job[Mail]) -> None:
            pass

    assert work(database_url, Mails(), Mail("ann")).event is EventKind.JOB_COMPLETED


def test_the_job_sees_what_the_test_has_made(database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    names: list[Any] = []

    class Mails(Worker[Mail]):
        def work(self, job: Job[Mail]) -> None:
            names.append(session.execute(text("select name from people")).scalar_one())

    with Session(engine) as session:
        session.execute(text("create table people (name text)"))
        session.execute(text("insert into people values ('ann')"))
        assert work_tx(session, Mails(), Mail("x")).error is None
    assert names == ["ann"]
    engine.dispose()
