"""Functions that jobs can call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from riverui.engine.client import client_from_context
from riverui.engine.sync_client import SyncClient
from riverui.engine.work import context
from riverui.engine.work.context import (
    current_job,
    job_complete_tx,
    metadata_set,
    record_output,
)
from riverui.engine.work.worker import Job
from riverui.errors import AttemptLost, NotFound, OutsideJob
from tests.cases import cases
from tests.engine.conftest import Playground, Task
from tests.odd_rows import insert_odd_rows


def test_outside_of_a_job() -> None:
    for ask in (
        *(client_from_context, context.cancel_requested, current_job, context.raise_if_cancelled),
        *(lambda: metadata_set("a", 1), lambda: record_output(1)),
    ):
        with pytest.raises(OutsideJob):
            ask()


async def test_inside_of_a_job(play: Playground) -> None:
    seen: list[Any] = []

    async def work(job: Job[Task]) -> None:
        seen.append(client_from_context() is play.client)
        seen.append(current_job() is job)
        seen.append(await asyncio.to_thread(current_job) is job)
        seen.append(await asyncio.create_task(_later()) is job)

    await play.work(work)
    assert seen == [True] * 4
    with pytest.raises(OutsideJob):
        current_job()


async def _later() -> Job[Any]:
    return current_job()


async def test_job_knows_its_row(play: Playground) -> None:
    seen: list[Job[Task]] = []
    play.worker(seen.append)
    await play.work(args=Task(value="a"), tags=["x", "y"], priority=2, metadata={"a": 1}, attempt=1)
    (job,) = seen
    row = await play.row(job.id)
    assert job.args == Task(value="a")
    assert (job.kind, job.queue, job.attempt, job.max_attempts, job.priority) == (
        "task",
        "default",
        2,
        25,
        2,
    )
    assert (job.state, job.finalized_at, job.errors) == ("running", None, ())
    assert (job.tags, job.metadata) == (("x", "y"), '{"a": 1}')
    assert job.attempted_by == (play.client.id,)
    for name in ("created_at", "scheduled_at", "attempted_at"):
        assert getattr(job, name) == row[name]
    assert repr(job) == f"<Job {job.id} task, attempt 2>"


async def test_output(play: Playground) -> None:
    values: list[Any] = [None, 1, 1.5, "é", [1, {"a": None}], {"b": 1, "a": 2}, True]

    async def work(job: Job[Task]) -> None:
        record_output("first")
        record_output(values[job.args.number])

    play.worker(work)
    for number, value in enumerate(values):
        row = await play.work(args=Task(number=number), metadata={"a": 1})
        assert row["metadata"] == {"a": 1, "output": value}


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: record_output(object()), "object"),
    (lambda: record_output(float("nan")), "nan"),
    (lambda: record_output("\0"), "NUL"),
    (lambda: record_output({"a": ["\ud800"]}), "surrogate"),
    (lambda: record_output(ENDLESS), "itself"),
    (lambda: record_output("x" * (32 * 1024 * 1024)), "33,554,434 bytes"),
    (lambda: record_output("é" * (17 * 1024 * 1024)), "bytes"),
    (lambda: metadata_set("river:log", 1), "reserved for River"),
    (lambda: metadata_set("a\0", 1), "NUL"),
    (lambda: metadata_set("a", {1, object()}), "object"),
]


async def test_what_cannot_be_stored_is_refused_at_once(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        with cases() as case:
            for call, words in REFUSED:
                with case(words), pytest.raises(ValueError, match=words):
                    call()

    row = await play.work(work)
    assert (row["errors"], row["metadata"]) == (None, {})


async def test_synchronous_jobs_can_record_too(play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        record_output([job.id])
        metadata_set("a", "b")

    row = await play.work(work)
    assert row["metadata"] == {"output": [row["id"]], "a": "b"}


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("commits", [True, False])
async def test_completion_in_a_transaction(play: Playground, commits: bool, fails: bool) -> None:
    seen: list[Job[Task]] = []

    async def work(job: Job[Task]) -> None:
        metadata_set("before", 1)
        async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
            await tx.execute("create table if not exists theirs (id bigint)")
            await tx.execute("insert into theirs values (%s)", [job.id])
            seen.append(await job_complete_tx(tx, job))
            if not commits:
                await tx.rollback()
        metadata_set("after", 2)
        if fails:
            raise ValueError("x")

    row = await play.work(work)
    assert seen[0].state == "completed"
    assert seen[0].args == Task()
    assert row["metadata"] == {"before": 1, "after": 2}
    if commits:
        assert (row["state"], row["errors"], row["finalized_at"]) == (
            "completed",
            None,
            seen[0].finalized_at,
        )
    else:
        assert row["state"] == ("available" if fails else "completed")


async def test_completion_that_cannot_be(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
            done = await job_complete_tx(tx, job)
            with pytest.raises(ValueError, match="running"):
                await job_complete_tx(tx, done)
            await tx.execute("delete from river_job")
            with pytest.raises(NotFound):
                await job_complete_tx(tx, job)
            await tx.rollback()

    assert (await play.work(work))["state"] == "completed"


async def test_completion_by_an_attempt_that_the_job_was_rescued_from(play: Playground) -> None:
    """The changes of its transaction are not made twice."""

    async def work(job: Job[Task]) -> None:
        async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
            await tx.execute("update river_job set attempt = 2")
            with pytest.raises(AttemptLost):
                await job_complete_tx(tx, job)
            await tx.rollback()

    assert (await play.work(work))["state"] == "completed"


async def test_what_a_job_leaves_running_records_nothing_more(play: Playground) -> None:
    ended = asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def later() -> None:
        await ended.wait()
        assert client_from_context() is play.client
        metadata_set("late", 1)

    async def work(job: Job[Task]) -> None:
        left.append(asyncio.create_task(later()))

    await play.work(work)
    ended.set()
    with pytest.raises(OutsideJob, match="already ended"):
        await left[0]


@pytest.mark.parametrize("commits", [True, False])
async def test_synchronous_completion_in_a_transaction(play: Playground, commits: bool) -> None:
    client = SyncClient()

    def work(job: Job[Task]) -> None:
        metadata_set("before", 1)
        with psycopg.connect(play.database_url) as tx:
            client.job_complete_tx(tx, job)
            if not commits:
                tx.rollback()
        raise ValueError("after it was completed")

    row = await play.work(work)
    assert row["state"] == ("completed" if commits else "available")
    assert (row["errors"] is None) is commits
    assert row["metadata"] == {"before": 1}


async def test_synchronous_completion_of_a_deleted_job(play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        with psycopg.connect(play.database_url) as tx:
            tx.execute("delete from river_job")
            with pytest.raises(NotFound):
                SyncClient().job_complete_tx(tx, job)
            tx.rollback()

    assert (await play.work(work))["state"] == "completed"


async def test_the_output_of_a_row(play: Playground) -> None:
    values: list[Any] = [None, 0, "text", {"a": [1, 2.5]}, []]
    outputs: list[Any] = []

    async def work(job: Job[Task]) -> None:
        outputs.append(job.output)
        record_output(values[job.args.number])
        if job.attempt == 1:
            raise ValueError("once more")

    play.worker(work)
    client = await play.start(retry_policy=lambda row: datetime.now(UTC))
    for number, value in enumerate(values):
        job_id = await play.insert(Task(number=number))
        await play.event(job_id, 2)
        assert (await client.job_get(job_id)).output == value
        assert outputs[-2:] == [None, value]


async def test_outputs_that_cannot_be_read(play: Playground) -> None:
    ids = await insert_odd_rows(play.connection, ("available",))
    client = play.make()
    for name in ("metadata that is an array", "metadata that is a text", "metadata that is null"):
        assert (await client.job_get(ids[name, "available"])).output is None
    with pytest.raises(ValueError, match="too deep"):
        _ = (await client.job_get(ids["output nested deep", "available"])).output
