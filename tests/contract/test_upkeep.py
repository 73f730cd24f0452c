"""Scheduling, rescuing and removing jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from riverui.domain.jobs import JobState, state_bits
from riverui.errors import DatabaseError
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
    JobSelectParams,
)
from tests.contract.seeds import ENDS, NOW, ended, insert, job, row_of, running, state_of

HOUR = timedelta(hours=1)
ERROR = '{"at": "2026-11-21T09:00:00Z", "attempt": 1, "error": "stuck", "trace": ""}'


async def test_due_jobs_become_available(driver: Driver) -> None:
    due, later, pending = await insert(
        driver,
        job(state=JobState.SCHEDULED, queue="q"),
        job(state=JobState.SCHEDULED, scheduled_at=NOW + HOUR),
        job(state=JobState.PENDING),
    )
    (failed,) = await ended(driver, JobState.RETRYABLE, job())
    now = NOW + timedelta(minutes=2)
    async with driver.autocommit() as executor:
        assert await executor.work.first_due(now=now) == due
        moved = await executor.work.schedule(now=now, limit=10, except_ids=[failed])
        assert await executor.work.first_due(now=now, except_ids=[failed]) is None
        (again,) = await executor.work.schedule(now=now, limit=10)
    assert [(job.id, job.queue, job.conflict_discarded) for job in moved] == [(due, "q", False)]
    assert again.id == failed
    states = [await state_of(driver, each) for each in (due, later, pending, failed)]
    assert states == ["available", "scheduled", "pending", "available"]


async def test_a_due_job_whose_key_is_taken_is_discarded(driver: Driver) -> None:
    unique = job(unique_key=bytes(32), unique_states=state_bits([JobState.AVAILABLE]))
    (late,) = await insert(driver, unique._replace(state=JobState.SCHEDULED))
    (first,) = await insert(driver, unique)
    async with driver.autocommit() as executor:
        (moved,) = await executor.work.schedule(now=NOW, limit=10)
    assert (moved.id, moved.conflict_discarded) == (late, True)
    assert [await state_of(driver, each) for each in (late, first)] == ["discarded", "available"]


async def test_stuck_jobs_are_rescued(driver: Driver) -> None:
    old, other = await running(driver, job(), job(), at=NOW - HOUR)
    (young,) = await running(driver, job(), at=NOW)
    since = NOW - timedelta(minutes=30)
    async with driver.autocommit() as executor:
        rows = await executor.work.get_stuck(attempted_before=since, after_id=0, limit=10)
        assert [row.id for row in rows] == [old, other]
        assert rows[0] == await executor.jobs.row_get(old)
        rows = await executor.work.get_stuck(attempted_before=since, after_id=old, limit=10)
        assert [row.id for row in rows] == [other]
        assert await executor.work.first_stuck(attempted_before=since, after_id=old) == other
        assert await executor.work.first_stuck(attempted_before=since, after_id=other) is None
        rescues = [
            JobRescueParams(id=old, state=JobState.RETRYABLE, error=ERROR, scheduled_at=NOW),
            JobRescueParams(id=other, state=JobState.DISCARDED, error=ERROR, finalized_at=NOW),
            JobRescueParams(id=young, state=JobState.RETRYABLE, error=ERROR),
        ]
        changed = await executor.work.rescue_many(rescues, attempted_before=since)
    assert sorted(changed) == [old, other]
    rescued = await row_of(driver, old)
    assert (rescued.state, rescued.scheduled_at) == ("retryable", NOW)
    assert [error.error for error in rescued.errors] == ["stuck"]
    states = [await state_of(driver, each) for each in (other, young)]
    assert states == ["discarded", "running"]


def before(time: datetime | None, limit: int = 10) -> JobDeleteBeforeParams:
    """Return the same retention for every state; None keeps discarded jobs."""
    return JobDeleteBeforeParams(
        cancelled_before=NOW, completed_before=NOW, discarded_before=time, limit=limit
    )


async def test_old_jobs_are_removed_the_longest_finished_first(driver: Driver) -> None:
    (young,) = await ended(driver, JobState.COMPLETED, job(), at=NOW)
    (old,) = await ended(driver, JobState.COMPLETED, job(), at=NOW - HOUR)
    (older,) = await ended(driver, JobState.CANCELLED, job(), at=NOW - 2 * HOUR)
    (kept,) = await ended(driver, JobState.DISCARDED, job(), at=NOW - HOUR)
    async with driver.autocommit() as executor:
        assert await executor.work.first_old(before(None)) == older
        assert await executor.work.delete_before(before(None, limit=1)) == 1
        assert await executor.jobs.row_get(older) is None
        assert await executor.work.first_old(before(None)) == old
        assert await executor.work.delete_before(before(None)) == 1
        assert await executor.work.first_old(before(None)) is None
        assert await executor.work.delete_before(before(NOW)) == 1
        assert await executor.jobs.row_get(kept) is None
        assert await executor.jobs.row_get(young) is not None


async def test_some_queues_and_ids_are_left_alone(driver: Driver) -> None:
    archive, poison, deleted = await ended(
        driver, JobState.COMPLETED, job(queue="archive"), job(), job(), at=NOW - HOUR
    )
    params = JobDeleteBeforeParams(
        cancelled_before=None,
        completed_before=NOW,
        discarded_before=None,
        limit=10,
        queues_excluded=("archive",),
        except_ids=(poison,),
    )
    async with driver.autocommit() as executor:
        assert await executor.work.delete_before(params) == 1
        assert await executor.jobs.row_get(deleted) is None
        assert await executor.jobs.row_get(archive) is not None


async def test_whole_jobs_and_queues_are_restored(driver: Driver) -> None:
    key = bytes(range(32))
    given = job(
        args='{"n": 9007199254740993}', metadata='{"a": "ü"}', queue="waits", tags=("x", 'y"'),
        unique_key=key,
        unique_states=state_bits([JobState.AVAILABLE]),
    )  # fmt: skip
    await insert(driver, given)
    await running(driver, job("runs"))
    for state in (*ENDS, JobState.RETRYABLE):
        await ended(driver, state, job(f"is_{state}", queue="ends"))
    async with driver.transaction() as transaction:
        await transaction.queues.upsert("q", now=NOW)
        await transaction.queues.pause("q")
        queues = await transaction.queues.row_list()
        rows = await transaction.jobs.row_list(JobSelectParams())
        copies = [
            row._replace(id=row.id + 1_000, unique_key=row.unique_key and b"2") for row in rows
        ]
        await transaction.jobs.restore_many(copies)
        await transaction.queues.restore_many([replace(queues[0], name="r"), queues[0]])
        restored = await transaction.jobs.row_list(JobSelectParams(after=(None, 1_000)))
        assert list(restored) == copies
        assert [replace(row, name="q") for row in await transaction.queues.row_list()] == [
            *queues, *queues,
        ]  # fmt: skip
    (later,) = await insert(driver, job())
    assert later > copies[-1].id
    with pytest.raises(DatabaseError):
        async with driver.transaction() as transaction:
            await transaction.jobs.restore_many(copies[:1])
