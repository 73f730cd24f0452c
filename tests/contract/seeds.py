"""Jobs in every state, inserted through the interface."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import (
    JobFetchParams,
    JobInsertParams,
    JobSetStateParams,
)

NOW = datetime(2026, 11, 21, 9, 30, 0, 123000, tzinfo=UTC)
"""With milliseconds, as SQLite keeps no more."""
CLIENT = "host_a_2026"


def job(kind: str = "mail", **given: Any) -> JobInsertParams:
    """Return a job to insert, due at NOW by default."""
    return JobInsertParams(
        **{"kind": kind, "args": "{}", "created_at": NOW, "scheduled_at": NOW, **given}
    )


async def insert(driver: Driver, *jobs: JobInsertParams) -> list[int]:
    """Insert jobs; their ids."""
    async with driver.transaction() as transaction:
        return [inserted.job.id for inserted in await transaction.jobs.insert_many(jobs)]


async def running(driver: Driver, *jobs: JobInsertParams, at: datetime = NOW) -> list[int]:
    """Insert jobs and fetch them at that time; their ids."""
    ids = []
    for each in jobs:
        due = min(each.scheduled_at, at)
        ids += await insert(driver, each._replace(scheduled_at=due))
        async with driver.autocommit() as executor:
            fetched = await executor.work.get_available(
                JobFetchParams(client_id=CLIENT, queue=each.queue, limit=1, now=at)
            )
        assert [row.id for row in fetched] == ids[-1:]
    return ids


async def ended(
    driver: Driver, state: JobState, *jobs: JobInsertParams, at: datetime = NOW
) -> list[int]:
    """Insert jobs, work them, and end them in that state at that time; their ids."""
    ids = await running(driver, *jobs)
    async with driver.transaction() as transaction:
        await transaction.work.set_state_many([ending(job_id, state, at=at) for job_id in ids])
    return ids


def ending(
    job_id: int, state: JobState, *, at: datetime = NOW, attempt: int = 1
) -> JobSetStateParams:
    """Return how an attempt ends in that state."""
    failed = state in (JobState.RETRYABLE, JobState.DISCARDED)
    error = {"at": at.isoformat(), "attempt": attempt, "error": "boom\nmore", "trace": ""}
    return JobSetStateParams(
        id=job_id,
        state=state,
        error=json.dumps(error) if failed else None,
        finalized_at=at if state in ENDS else None,
        scheduled_at=at + timedelta(minutes=1) if state is JobState.RETRYABLE else None,
    )


ENDS = (JobState.CANCELLED, JobState.COMPLETED, JobState.DISCARDED)


async def state_of(driver: Driver, job_id: int) -> str:
    """Return the state that a job is in."""
    return (await row_of(driver, job_id)).state.value


async def row_of(driver: Driver, job_id: int) -> JobRow:
    """Return an existing job."""
    async with driver.reading() as executor:
        row = await executor.jobs.row_get(job_id)
    assert row is not None
    return row
