"""Ephemeral jobs are removed when they succeed, in the write that would complete them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from psycopg import AsyncConnection, connect

from riverui.domain.jobs import JobState
from riverui.engine.config import QueueConfig
from riverui.engine.events import EventKind
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.limits import EngineLimits
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx, record_output
from riverui.engine.work.worker import Job, JobCancel, JobSnooze, Worker
from riverui.engine.work.workers import Workers
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSetStateParams
from tests import factory
from tests.engine.conftest import Playground, Task
from tests.own_tables import OWN_TABLES

EPHEMERAL = {"default": QueueConfig(max_workers=10, ephemeral=True)}


@dataclass
class Ping:
    """Args that are marked as ephemeral."""

    kind: ClassVar[str] = "ping"
    ephemeral: ClassVar[bool] = True
    does: str = ""


@dataclass
class Field:
    """Args with a field of that name."""

    kind: ClassVar[str] = "field"
    ephemeral: bool = True


async def by_value(job: Job[Task]) -> None:
    """End as the job says."""
    match job.args.value:
        case "fail":
            raise ArithmeticError
        case "cancel":
            raise JobCancel
        case "snooze":
            raise JobSnooze(timedelta(hours=1))
        case "output":
            record_output({"answer": 42})


async def nothing(job: Job[Field]) -> None:
    """Do nothing."""


async def states(play: Playground) -> list[str]:
    """Return the states of all jobs, by id."""
    rows = await play.rows("select state::text from river_job order by id")
    return [row["state"] for row in rows]


def test_who_says_whether_a_kind_is_ephemeral() -> None:
    workers = Workers()

    class Works(Worker[Ping]):
        async def work(self, job: Job[Ping]) -> None: ...

    workers.add(Works())
    workers.work(Task, ephemeral=True)(by_value)
    workers.work(Field)(nothing)
    ephemeral = {kind: unit.ephemeral for kind in workers.kinds if (unit := workers.get(kind))}
    assert ephemeral == {"ping": True, "task": True, "field": False}
    others = Workers()
    others.add(Works(), ephemeral=False)
    unit = others.get("ping")
    assert unit is not None
    assert not unit.ephemeral


@pytest.mark.parametrize("by_queue", [False, True])
async def test_what_goes_well_is_removed_and_all_else_is_as_ever(
    play: Playground, by_queue: bool
) -> None:
    play.workers.work(Task, ephemeral=not by_queue)(by_value)
    await play.start(queues=EPHEMERAL) if by_queue else await play.start()
    values = ("", "fail", "cancel", "snooze", "output", "")
    ids = [await play.insert(Task(value), max_attempts=1) for value in values]
    for job_id in ids:
        await play.event(job_id)
    assert await states(play) == ["discarded", "cancelled", "scheduled"]
    done = await play.event(ids[0])
    assert (done.kind, done.job and done.job.state) == (
        EventKind.JOB_COMPLETED,
        JobState.COMPLETED,
    )
    event = await play.event(ids[4])
    assert event.kind is EventKind.JOB_COMPLETED
    assert event.job is not None
    assert event.job.output == {"answer": 42}
    assert event.job.finalized_at is not None


async def test_jobs_that_stay_are_completed_beside_those_that_go(play: Playground) -> None:
    play.workers.work(Ping)(by_value_of_ping)
    play.worker(by_value)
    await play.start()
    ids = [
        await play.insert(Ping() if number % 2 else Task(), state="available")
        for number in range(60)
    ]
    for job_id in ids:
        assert (await play.event(job_id)).kind is EventKind.JOB_COMPLETED
    assert await states(play) == ["completed"] * 30


async def by_value_of_ping(job: Job[Ping]) -> None:
    """Do what a ping says."""


async def test_a_job_that_completes_itself_goes_with_its_transaction(play: Playground) -> None:
    roll_back = [True]

    async def work(job: Job[Ping]) -> None:
        async with await AsyncConnection.connect(play.database_url) as connection:
            done = await job_complete_tx(connection, job)
            assert done.state is JobState.COMPLETED
            cursor = await connection.execute("select from river_job where id = %s", [job.id])
            assert await cursor.fetchone() is None
            if roll_back:
                await connection.rollback()

    play.workers.work(Ping)(work)
    await play.start()
    # Undone, the end of the attempt removes it; otherwise it is gone by then.
    first = await play.insert(Ping())
    assert (await play.event(first)).kind is EventKind.JOB_COMPLETED
    roll_back.clear()
    second = await play.insert(Ping())
    assert (await play.event(second)).kind is EventKind.JOB_COMPLETED
    assert await states(play) == []


async def test_a_synchronous_job_that_completes_itself_goes_too(play: Playground) -> None:
    def work(job: Job[Ping]) -> None:
        with connect(play.database_url) as connection:
            SyncClient(play.database_url).job_complete_tx(connection, job)

    play.workers.work(Ping)(work)
    await play.start()
    assert (await play.event(await play.insert(Ping()))).kind is EventKind.JOB_COMPLETED
    assert await states(play) == []


async def test_the_worker_of_an_earlier_attempt_removes_nothing(
    driver: Driver, connection: AsyncConnection[dict[str, object]]
) -> None:
    now = datetime.now(UTC)
    ids = [
        await factory.job(connection, "running", attempt=2),
        await factory.job(connection, "running"),
        await factory.job(connection, "retryable"),
        await factory.job(connection, "running", metadata={"kept": 1}),
        await factory.job(connection, "running"),
    ]
    changes = [
        JobSetStateParams(
            job_id,
            JobState.COMPLETED,
            finalized_at=now,
            of_attempt=1,
            metadata='{"output": 7}',
            ephemeral=job_id != ids[4],
        )
        for job_id in ids
    ]
    async with driver.transaction() as executor:
        rows = {row.id: row for row in await executor.work.set_state_many(changes)}
        assert list(rows) == ids
        assert [rows[job_id].state.value for job_id in ids] == [
            "running", "completed", "retryable", "completed", "completed",
        ]  # fmt: skip
        assert rows[ids[3]].metadata_dict == {"kept": 1, "output": 7}
        assert rows[ids[3]].finalized_at == now
        assert await executor.work.delete_completed_many(ids, of_attempts=[1, 1, 1, 1, 1]) == []
        assert await executor.work.delete_completed_many([], of_attempts=[]) == []
    rest = await (await connection.execute("select id from river_job order by id")).fetchall()
    assert [row["id"] for row in rest] == [ids[0], ids[2], ids[4]]
    async with driver.transaction() as executor:
        assert await executor.work.delete_completed_many(ids, of_attempts=[2, 9, 9, 9, 9]) == [
            ids[0]
        ]


async def test_ephemeral_jobs_of_a_sequence_let_the_next_run(play: Playground) -> None:
    await play.connection.execute(OWN_TABLES)
    worked: list[int] = []

    async def work(job: Job[Ping]) -> None:
        worked.append(job.id)

    play.workers.work(Ping)(work)
    client = await play.start()
    line = InsertOpts(sequence=SequenceOpts())
    results = await client.insert_many([InsertManyParams(Ping(), line)] * 5)
    await play.event(results[-1].job.id)
    assert worked == [result.job.id for result in results]
    assert await states(play) == []


async def test_ephemeral_tasks_move_their_workflow_on(play: Playground) -> None:
    await play.connection.execute(OWN_TABLES)
    play.workers.work(Ping)(by_value_of_ping)
    play.worker(by_value)
    client = await play.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Ping())
    workflow.add("second", Task(), deps=[first])
    await workflow.insert()

    async def over() -> bool:
        return bool(await play.rows("select from riverui_workflow where ended_at is not null"))

    await play.until(over)
    assert await states(play) == ["completed"]
    rows = await play.rows("select state from riverui_workflow_task")
    assert {row["state"] for row in rows} == {"completed"}


async def test_batches_of_ephemeral_jobs_go_as_one(play: Playground) -> None:
    sizes: list[int] = []

    async def work(jobs: Sequence[Job[Ping]]) -> None:
        sizes.append(len(jobs))

    play.workers.work_many(Ping, max_count=3)(work)
    ids = [await play.insert(Ping()) for _ in range(3)]
    await play.start()
    for job_id in ids:
        assert (await play.event(job_id)).kind is EventKind.JOB_COMPLETED
    assert sum(sizes) == 3
    assert await states(play) == []


async def test_charts_count_removed_jobs(play: Playground) -> None:
    await play.connection.execute(OWN_TABLES)
    play.workers.work(Ping)(by_value_of_ping)
    client = await play.start(limits=EngineLimits(figures_seconds=0.05))
    for _ in range(7):
        await play.insert(Ping())

    async def counted() -> bool:
        rows = await play.rows("select completed from riverui_rollup where kind = 'ping'")
        return [row["completed"] for row in rows] == [7]

    async with asyncio.timeout(20):
        await play.until(counted)
    await client.stop()
    assert await states(play) == []
