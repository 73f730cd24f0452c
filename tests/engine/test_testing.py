"""The helpers for users' tests, used as their tests would."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

import riverui
from riverui.domain.jobs import JobRow, JobState
from riverui.engine.args.job_args import JsonArgs
from riverui.engine.client import Client, client_from_context
from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.work.context import job_complete_tx, record_output
from riverui.engine.work.resumable import (
    resumable_set_cursor,
    resumable_step,
    resumable_step_cursor,
)
from riverui.engine.work.worker import ErrorResult, Job, JobCancel, JobSnooze, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import DatabaseError, JobTimedOut, NotFound, NotSupported, OutsideJob
from riverui.storage.connect import connect
from riverui.storage.interface import LISTENING, Driver
from riverui.testing import (
    EventKind,
    Expected,
    require_inserted,
    require_inserted_tx,
    require_many_inserted,
    require_many_inserted_tx,
    require_not_inserted,
    require_not_inserted_tx,
    resumable_step_after,
    resumable_step_at_cursor,
    river,  # noqa: F401  # a fixture
    river_config,  # noqa: F401  # a fixture
    rolled_back,
    work,
    work_context,
    work_tx,
)


@dataclass
class Mail:
    kind: ClassVar[str] = "mail"
    to: str


@dataclass
class Invoice:
    kind: ClassVar[str] = "invoice"
    number: int = 0


@pytest.fixture
def river_database(database_url: str) -> str:
    return database_url


@pytest.fixture
def count(connection: AsyncConnection[DictRow]) -> Callable[[], Awaitable[int]]:
    """Return a function that counts committed jobs."""

    async def read() -> int:
        [row] = await (await connection.execute("select count(*) as n from river_job")).fetchall()
        return int(row["n"])

    return read


async def test_what_was_inserted(river: Client, count: Callable[[], Awaitable[int]]) -> None:  # noqa: F811
    at = datetime.now(UTC) + timedelta(days=1)
    await river.insert(
        Mail("ann"),
        InsertOpts(max_attempts=5, priority=3, queue="mail", scheduled_at=at, tags=["one", "two"]),
    )

    job = await require_inserted(
        river,
        Mail,
        max_attempts=5,
        priority=3,
        queue="mail",
        scheduled_at=at,
        state="scheduled",
        tags=("one", "two"),
    )
    assert job.args.to == "ann"
    assert job.row.state is JobState.SCHEDULED
    assert (await require_inserted(river, Mail("ann"))).args == Mail("ann")
    assert (await require_inserted(river, JsonArgs("mail", {"to": "ann"}))).args.data == {
        "to": "ann"
    }
    await require_not_inserted(river, Invoice)
    await require_not_inserted(river, Mail("bob"))
    await require_not_inserted(river, Mail, queue="mail", priority=1)
    assert await count() == 0


@pytest.mark.parametrize(
    ("expected", "options", "words"),
    [
        (Invoice, {}, "River: no job of kind 'invoice' was inserted."),
        (
            Mail("bob"),
            {},
            r"job \d+ of kind 'mail' has args {\"to\": \"ann\"}, not {\"to\":\"bob\"}\.",
        ),
        (Mail, {"queue": "other"}, r"job \d+ of kind 'mail' has queue 'default', not 'other'\."),
        (
            Mail,
            {"priority": 2, "max_attempts": 1},
            r"has priority 1, not 2, max_attempts 25, not 1\.",
        ),
        (Mail, {"state": "running"}, "has state 'available', not 'running'"),
        (Mail, {"tags": []}, r"has tags \['new'\], not \[\]"),
        (
            Mail,
            {"scheduled_at": datetime(2026, 1, 1, tzinfo=UTC)},
            r"not 2026-01-01T00:00:00\+00:00",
        ),
    ],
)
async def test_what_was_not_inserted(
    river: Client,  # noqa: F811
    expected: Any,
    options: dict[str, Any],
    words: str,
) -> None:
    await river.insert(Mail("ann"), InsertOpts(tags=["new"]))
    with pytest.raises(AssertionError, match=words):
        await require_inserted(river, expected, **options)


async def test_more_than_expected(river: Client) -> None:  # noqa: F811
    await river.insert_many([Mail("ann"), Mail("bob")])
    with pytest.raises(
        AssertionError, match="2 jobs of kind 'mail' were inserted: require_many_inserted"
    ):
        await require_inserted(river, Mail)
    with pytest.raises(
        AssertionError, match="2 of kind 'mail' inserted, where none was expected: job"
    ):
        await require_not_inserted(river, Mail)
    with pytest.raises(
        AssertionError, match="1 of kind 'mail', priority 1, queue 'default' inserted"
    ):
        await require_not_inserted(river, Mail("bob"), priority=1, queue="default")
    with pytest.raises(TypeError, match="no option 'prio'"):
        await require_not_inserted(river, Mail, prio=1)  # type: ignore[call-arg]


async def test_several(river: Client) -> None:  # noqa: F811
    await river.insert_many([Mail("ann"), JsonArgs("unmentioned", {}), Invoice(7), Mail("bob")])

    jobs = await require_many_inserted(
        river, [Mail, Expected(Invoice(7), queue="default"), Mail("bob")]
    )
    assert [job.args for job in jobs] == [Mail("ann"), Invoice(7), Mail("bob")]
    assert await require_many_inserted(river, []) == []
    with pytest.raises(
        AssertionError, match=r"of kinds \['mail', 'mail'\], where \['mail'\] was expected"
    ):
        await require_many_inserted(river, [Mail])
    with pytest.raises(
        AssertionError, match=r"'invoice' \(number 2 of those expected\) has priority 1, not 4"
    ):
        await require_many_inserted(river, [Mail, Expected(Invoice, priority=4), Mail])


async def test_other_ways_to_name_the_database(
    database_url: str, driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    async with await AsyncConnection.connect(database_url) as tx:
        await Client(driver).insert_tx(tx, Mail("ann"))
        assert (await require_inserted_tx(tx, Mail)).args.to == "ann"
        await require_inserted_tx(tx, Mail, schema="public", priority=1)
        await require_many_inserted_tx(tx, [Mail])
        await require_not_inserted_tx(tx, Invoice)
        await require_not_inserted(driver, Mail)
        await tx.commit()
    for database in (database_url, driver, Client(driver)):
        await require_inserted(database, Mail)
    async with driver.reading() as executor:
        await require_inserted_tx(executor, Mail)


def test_without_a_loop(database_url: str) -> None:
    asyncio.run(require_not_inserted(database_url, Mail))


async def test_what_the_client_of_a_test_does_is_rolled_back(
    driver: Driver, count: Callable[[], Awaitable[int]]
) -> None:
    unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    async with rolled_back(driver) as client:
        assert client.driver.schema_in_use == driver.schema_in_use
        assert client.driver.database == driver.database
        await client.driver.ping()
        await asyncio.gather(*(client.insert(Mail(str(n))) for n in range(20)))
        assert (
            await client.insert_many_fast([Mail("copied"), InsertManyParams(Mail("a"), unique)])
            == 2
        )
        with pytest.raises(DatabaseError):
            await client.insert_many_fast([InsertManyParams(Mail("a"), unique)])
        assert (await client.insert(Mail("a"), unique)).unique_skipped_as_duplicate
        async with client.driver.transaction() as tx:
            await client.insert_tx(tx, Mail("inner"))
            await client.insert(Mail("nested"))
        with pytest.raises(ZeroDivisionError):
            await insert_in_vain(client.driver.transaction(), client)
        assert len(await require_many_inserted(client, [Mail] * 24)) == 24
        with pytest.raises(NotSupported):
            LISTENING.on(client.driver)
    assert await count() == 0
    with pytest.raises(ZeroDivisionError):
        await insert_in_vain(rolled_back(driver))
    assert await count() == 0


async def insert_in_vain(
    context: AbstractAsyncContextManager[Any], client: Client | None = None
) -> None:
    """Insert, and end in an error."""
    async with context as given:
        await (client or given).insert(Mail("lost"))
        raise ZeroDivisionError


class Mailer(Worker[Mail]):
    """Does what the address says."""

    async def work(self, job: Job[Mail]) -> None:
        logging.getLogger("mailer").warning("to %s", job.args.to)
        match job.args.to:
            case "cancel":
                raise JobCancel("no such address")
            case "snooze":
                raise JobSnooze(timedelta(hours=1))
            case "fail":
                raise ValueError("no server")
            case "slow":
                await asyncio.sleep(60)
            case "follow":
                await client_from_context().insert(Invoice(job.row.attempt))
            case "output":
                record_output({"sent": True})

    timeout = timedelta(seconds=0.2)


@pytest.mark.parametrize(
    ("to", "event", "state", "error"),
    [
        ("ann", "job_completed", "completed", None),
        ("cancel", "job_cancelled", "cancelled", None),
        ("snooze", "job_snoozed", "scheduled", None),
        ("fail", "job_failed", "available", ValueError),
        ("slow", "job_failed", "available", JobTimedOut),
    ],
)
async def test_working_a_job(
    driver: Driver,
    count: Callable[[], Awaitable[int]],
    to: str,
    event: EventKind,
    state: str,
    error: type[BaseException] | None,
) -> None:
    result = await work(driver, Mailer(), Mail(to))

    assert (result.event, result.job.state) == (event, state)
    assert type(result.error) is (error or type(None))
    assert result.job.attempt == (0 if to == "snooze" else 1)
    assert len(result.job.attempted_by) == 1
    assert len(result.job.errors) == (1 if error or to == "cancel" else 0)
    assert f"to {to}" in result.job.metadata
    assert await count() == 0


async def test_a_job_that_inserts_jobs(river: Client) -> None:  # noqa: F811
    result = await work(river, Mailer(), Mail("follow"), InsertOpts(queue="mail", priority=2))

    assert (result.event, result.job.queue, result.job.priority) == ("job_completed", "mail", 2)
    assert (await require_inserted(river, Invoice)).args.number == 1
    assert (await require_inserted(river, Mail, state="completed")).row == result.job


async def test_a_job_that_is_there_already(river: Client) -> None:  # noqa: F811
    row = (
        await river.insert(
            Mail("output"), InsertOpts(scheduled_at=datetime.now(UTC) + timedelta(days=1))
        )
    ).job
    result = await work(river, Mailer(), row)
    assert (result.job.id, result.job.state) == (row.id, "completed")
    assert '"output": {"sent": true}' in result.job.metadata

    with pytest.raises(NotFound, match=f"Job {row.id} does not exist"):
        await work(river, Mailer(), row)


async def test_a_job_in_a_transaction_of_ones_own(
    database_url: str, connection: AsyncConnection[DictRow], count: Callable[[], Awaitable[int]]
) -> None:
    async with await AsyncConnection.connect(database_url) as tx:
        await tx.execute("create temporary table outbox (address text) on commit drop")
        workers = Workers()

        @workers.work(Mail)
        async def send(job: Job[Mail]) -> None:
            await tx.execute("insert into outbox values (%s)", [job.args.to])
            await job_complete_tx(tx, job)
            raise ValueError("after the end")

        result = await work_tx(tx, workers, Mail("ann"))
        assert result.job.state == "completed"
        assert isinstance(result.error, ValueError)
        assert await (await tx.execute("select address from outbox")).fetchall() == [("ann",)]
        await tx.rollback()
    assert await count() == 0


async def test_a_job_that_was_deleted_while_it_was_worked(database_url: str) -> None:
    async with await AsyncConnection.connect(database_url) as tx:
        workers = Workers()

        @workers.work(Mail)
        async def vanish(job: Job[Mail]) -> None:
            await tx.execute("delete from river_job where id = %s", [job.id])

        with pytest.raises(NotFound, match="was deleted while it was worked"):
            await work_tx(tx, workers, Mail("x"))


class Noting(Hook):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def work_begin(self, job: JobRow) -> None:
        self.notes.append(f"begin {job.state}")


async def test_hooks_and_error_handlers_take_part(driver: Driver) -> None:
    hook, handled = Noting(), []

    def handle(row: JobRow, error: BaseException) -> ErrorResult:
        handled.append(str(error))
        return ErrorResult(set_cancelled=True)

    config = ClientConfig(hooks=[hook], error_handler=handle)
    result = await work(driver, Mailer(), Mail("fail"), config=config)

    assert (hook.notes, handled) == (["begin running"], ["no server"])
    assert (result.event, result.job.state) == ("job_cancelled", "cancelled")
    assert isinstance(result.error, ValueError)


async def test_the_last_attempt(driver: Driver) -> None:
    result = await work(driver, Mailer(), Mail("fail"), InsertOpts(max_attempts=1))
    assert (result.event, result.job.state) == ("job_failed", "discarded")


async def test_unique_jobs_are_worked_side_by_side(driver: Driver) -> None:
    unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    await Client(driver).insert(Mail("ann"), unique)
    assert (await work(driver, Mailer(), Mail("ann"), unique)).event == "job_completed"


class Steps(Worker[Mail]):
    """Three steps, the last one with a cursor."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def work(self, job: Job[Mail]) -> None:
        await resumable_step("one", lambda: self.ran.append("one"))
        await resumable_step("two", lambda: self.ran.append("two"))
        await resumable_step_cursor("three", self.three, start=0)

    def three(self, cursor: int) -> None:
        self.ran.append(f"three from {cursor}")
        resumable_set_cursor(cursor + 1)


async def test_resuming(driver: Driver) -> None:
    tagged = InsertOpts(tags=["tag"], metadata={"own": 1})
    for opts, ran in (
        (None, ["one", "two", "three from 0"]),
        (resumable_step_after(None, "one"), ["two", "three from 0"]),
        (resumable_step_after(tagged, "two"), ["three from 0"]),
        (resumable_step_at_cursor(tagged, "three", 41), ["three from 41"]),
    ):
        steps = Steps()
        result = await work(driver, steps, Mail("x"), opts)
        assert steps.ran == ran
        assert result.event == "job_completed"
    assert '"own": 1' in result.job.metadata
    assert result.job.tags == ("tag",)


async def test_another_schema(
    driver: Driver, connection: AsyncConnection[DictRow], database_url: str
) -> None:
    await connection.execute("create schema elsewhere")
    for name in ("river_job_state", "river_job", "river_queue", "river_leader", "river_migration"):
        what = "type" if name.endswith("state") else "table"
        await connection.execute(f"alter {what} {name} set schema elsewhere")
    await connection.execute("alter function river_job_state_in_bitmask set schema elsewhere")
    config = ClientConfig(schema="elsewhere")
    async with rolled_back(database_url, config) as client:
        await client.insert(Mail("ann"))
        await require_inserted(client, Mail)
        assert (await work(client, Mailer(), Mail("bob"))).event == "job_completed"
    elsewhere = connect(database_url, schema="elsewhere")
    await require_not_inserted(elsewhere, Mail)
    await elsewhere.close()
    assert replace(config).schema == "elsewhere"


_CONFTEST = """
import os

import pytest
from riverui.engine.config import ClientConfig

pytest_plugins = ["riverui.testing"]

@pytest.fixture
def river_database():
    return os.environ["SHOP_DATABASE"]

@pytest.fixture
def river_config():
    return ClientConfig(max_attempts=7)
"""

_TESTS = """
from dataclasses import dataclass
from typing import ClassVar

import pytest
from riverui.testing import require_inserted, require_not_inserted

@dataclass
class Mail:
    kind: ClassVar[str] = "mail"
    to: str

@pytest.mark.parametrize("number", range(2))
async def test_inserting(river, number):
    await require_not_inserted(river, Mail)
    await river.insert(Mail("ann"))
    await require_inserted(river, Mail("ann"), max_attempts=7)

async def test_failing(river):
    await require_inserted(river, Mail)
"""


async def test_the_fixture_in_a_program_s_tests(
    tmp_path: Path, database_url: str, count: Callable[[], Awaitable[int]]
) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_shop.py").write_text(_TESTS)
    done = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "asyncio_mode=auto",
        ),
        cwd=tmp_path,
        env={**os.environ, "SHOP_DATABASE": database_url},
        stdout=asyncio.subprocess.PIPE,
    )
    said = (await done.communicate())[0].decode()

    assert "2 passed" in said
    assert "1 failed" in said
    assert "AssertionError: River: no job of kind 'mail' was inserted." in said
    assert await count() == 0


async def test_code_of_a_job_called_directly(river: Client) -> None:  # noqa: F811
    with work_context(river, Mail(to="ann")) as context:
        assert riverui.client_from_context() is river
        assert riverui.current_job() is context.job
        assert context.job.args == Mail(to="ann")
        assert (context.job.kind, context.job.attempt) == (Mail.kind, 1)
        riverui.raise_if_cancelled()
        riverui.metadata_set("language", "en")
        riverui.record_output([1, 2])
        await riverui.client_from_context().insert(Mail(to="bob"))
    assert context.metadata == {"language": "en", "output": [1, 2]}
    with pytest.raises(OutsideJob):
        riverui.client_from_context()
    with pytest.raises(OutsideJob):
        riverui.current_job()
    await require_inserted(river, Mail(to="bob"))


async def test_the_client_alone(river: Client) -> None:  # noqa: F811
    with work_context(river):
        assert riverui.client_from_context() is river
