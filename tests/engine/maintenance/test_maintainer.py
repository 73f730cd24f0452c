"""The whole maintenance: it starts with the leader, ends with it, and is given up where it cannot
start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.hooks import Hook
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.queue_maintainer import QueueMaintainer, queue_maintainer
from riverui.engine.lead.maintenance.service import ServiceContext, Timing
from riverui.engine.lead.periodic import PeriodicInterval, PeriodicJob
from riverui.engine.pilot import Pilot
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.interface import Driver
from tests.engine.ticking import Ticking, eventually
from tests.factory import job, queue

NewMaintainer = Callable[..., QueueMaintainer]


@dataclass
class Task:
    kind: ClassVar[str] = "task"


@pytest.fixture
def new(driver: Driver, clock: Ticking) -> NewMaintainer:
    """Make the maintenance of a client with these settings."""

    def make(**settings: Any) -> QueueMaintainer:
        client = Client(driver, ClientConfig(**settings), clock=clock.now)
        nothing = timedelta(0)
        context = ServiceContext(
            driver=client.driver,
            clock=client.clock,
            logger=client.logger,
            now=clock.steady,
            retention=client.config.retention,
            timing=Timing(
                stagger=nothing, pause_least=nothing, pause_most=nothing, sleep=clock.sleep
            ),
        )
        return queue_maintainer(
            context,
            client.config,
            client.periodic_jobs,
            client,
            hooks=client.extensions.periodic_jobs_start,
            # Its features have services of their own.
            pilot=Pilot(),
        )

    return make


async def test_a_leader_does_all_of_it_at_once_and_nothing_afterwards(
    new: NewMaintainer, clock: Ticking, term: LeaderTerm, connection: AsyncConnection[Any]
) -> None:
    workers = Workers()

    @workers.work(Task)
    async def work(job: Job[Task]) -> None: ...

    long_ago = clock.now() - timedelta(days=30)
    await job(connection, "scheduled", kind="due", scheduled_at=long_ago)
    # It waits for longer than a scheduler that comes after the rescue would look ahead.
    await job(connection, "running", kind="task", attempted_at=long_ago, attempt=5)
    await job(connection, "completed", kind="old", finalized_at=long_ago)
    await queue(connection, "gone", updated_at=long_ago)
    periodic = PeriodicJob(PeriodicInterval(timedelta(hours=1)), Task, run_on_start=True)
    leading = asyncio.ensure_future(new(workers=workers, periodic_jobs=[periodic]).lead(term))

    async def done() -> bool:
        jobs = await connection.execute(
            "select kind, state::text from river_job order by kind, state::text"
        )
        queues = await connection.execute("select name from river_queue")
        return [tuple(row.values()) for row in await jobs.fetchall()] == [
            ("due", "available"),
            ("task", "available"),
            ("task", "retryable"),
        ] and not await queues.fetchall()

    await eventually(done)
    # All of them wait for their next turn, and none is left when the term is over.
    await eventually(lambda: len(clock.sleeping) == 6)
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert not clock.sleeping


async def test_a_term_that_goes_on_begins_nothing_anew(
    new: NewMaintainer, clock: Ticking, term: LeaderTerm, connection: AsyncConnection[Any]
) -> None:
    periodic = PeriodicJob(PeriodicInterval(timedelta(seconds=10)), Task, run_on_start=True)
    maintenance = new(periodic_jobs=[periodic])

    async def led(term: LeaderTerm, jobs: int) -> None:
        async def inserted() -> bool:
            found = await (await connection.execute("select count(*) from river_job")).fetchone()
            return found is not None and found["count"] == jobs

        leading = asyncio.ensure_future(maintenance.lead(term))
        await eventually(lambda: len(clock.sleeping) == 6)
        await eventually(inserted)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    await led(term, 1)
    clock.advance(25)
    await led(replace(term, trusted_until=100), 3)
    await led(replace(term, trusted_until=100, elected_at=clock.now()), 4)


async def test_what_cannot_be_started_is_tried_three_times_and_given_up(
    new: NewMaintainer, clock: Ticking, term: LeaderTerm, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Hook):
        def periodic_jobs_start(self) -> None:
            raise RuntimeError("not today")

    leading = asyncio.ensure_future(new(hooks=[Failing()]).lead(term))
    for expected in (1, 2):
        await eventually(lambda: clock.sleeping)
        assert clock.sleeping == [pytest.approx(expected, rel=0.101)]
        clock.advance(expected * 1.2)
    with pytest.raises(RuntimeError, match="not today"):
        await leading
    assert caplog.text.count("maintenance could not be started") == 3


async def test_a_start_that_fails_once_is_made_up_for(
    new: NewMaintainer, clock: Ticking, term: LeaderTerm
) -> None:
    starts = 0

    class FailingOnce(Hook):
        async def periodic_jobs_start(self) -> None:
            nonlocal starts
            starts += 1
            if starts == 1:
                raise RuntimeError("not yet")

    leading = asyncio.ensure_future(new(hooks=[FailingOnce()]).lead(term))
    await eventually(lambda: clock.sleeping)
    clock.advance(1.2)
    await eventually(lambda: len(clock.sleeping) == 6)
    assert starts == 2
    leading.cancel()
