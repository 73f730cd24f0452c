"""Finished jobs go when their retention is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.engine.config import NO_LIMIT
from riverui.engine.lead.maintenance.job_cleaner import Cleaning, JobCleaner
from riverui.engine.lead.maintenance.service import BatchSize
from riverui.errors import QueryTimeout
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking
from tests.factory import job

FINAL = ("cancelled", "completed", "discarded")
OTHERS = ("available", "pending", "retryable", "running", "scheduled")


async def left(connection: AsyncConnection[Any]) -> list[str]:
    rows = await (
        await connection.execute("select state::text from river_job order by state::text")
    ).fetchall()
    return [row["state"] for row in rows]


async def test_each_finished_state_has_its_own_retention(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    for hours in (23, 25):
        for state in ("cancelled", "completed"):
            await job(connection, state, finalized_at=clock.now() - timedelta(hours=hours))
    for days in (6.9, 7.1):
        await job(connection, "discarded", finalized_at=clock.now() - timedelta(days=days))
    assert await JobCleaner(service_parts().context).run_once() == 3
    assert await left(connection) == list(FINAL)


async def test_unfinished_jobs_stay_however_old(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for state in OTHERS:
        await job(connection, state, created_at="2001-01-01Z", scheduled_at="2001-01-01Z")
    assert await JobCleaner(service_parts().context).run_once() == 0
    assert await left(connection) == list(OTHERS)


async def test_a_state_without_limit_is_kept(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for kept in FINAL:
        await connection.execute("delete from river_job")
        for state in FINAL:
            await job(connection, state, finalized_at="2001-01-01Z")
        cleaner = JobCleaner(service_parts(**{f"{kept}_job_retention_period": NO_LIMIT}).context)
        assert await cleaner.run_once() == 2
        assert await left(connection) == [kept]


async def test_nothing_is_read_if_all_jobs_are_kept(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    await connection.execute("alter table river_job rename to river_job_away")
    cleaner = JobCleaner(
        service_parts(**{f"{state}_job_retention_period": NO_LIMIT for state in FINAL}).context
    )
    assert await cleaner.run_once() == 0


async def test_a_retention_longer_than_time_itself_keeps_all(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "completed", finalized_at="2001-01-01Z")
    cleaner = JobCleaner(service_parts(completed_job_retention_period=timedelta.max).context)
    assert await cleaner.run_once() == 0


async def test_many_jobs_go_in_batches(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for _ in range(5):
        await job(connection, "completed", finalized_at="2001-01-01Z")
    assert await JobCleaner(service_parts().context, size=BatchSize(2, 1)).run_once() == 5


async def test_queues_can_be_left_out(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for queue in ("a", "b"):
        await job(connection, "completed", queue=queue, finalized_at="2001-01-01Z")
    assert (
        await JobCleaner(service_parts().context, Cleaning(queues_excluded=["a"])).run_once() == 1
    )
    assert (
        await JobCleaner(service_parts().context, Cleaning(queues_excluded=["a"])).run_once() == 0
    )
    assert await JobCleaner(service_parts().context).run_once() == 1


async def test_a_slow_database_gets_smaller_batches(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for _ in range(3):
        await job(connection, "completed", finalized_at="2001-01-01Z")
    size = BatchSize(10, 1)
    impatient = Cleaning(timeout=timedelta(milliseconds=50))
    cleaner = JobCleaner(service_parts().context, impatient, size=size)
    async with connection.transaction():
        await connection.execute("lock table river_job in access exclusive mode")
        for _ in range(3):
            assert not size.is_reduced
            with pytest.raises(QueryTimeout):
                await cleaner.run_once()
    assert size.is_reduced
    patient = JobCleaner(service_parts().context, size=size)
    assert await patient.run_once() == 3
