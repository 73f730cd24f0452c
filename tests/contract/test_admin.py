"""Actions on jobs. Every requested id is in exactly one part of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from riverui.domain.jobs import JobState, state_bits
from riverui.errors import UniqueConflict
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.interface.job_actions import SkipReason
from tests.contract.seeds import ended, insert, job, row_of, running, state_of

NOWHERE = 1_000_000_000
"""An id that no job has."""


async def test_cancel(driver: Driver) -> None:
    (waiting,) = await insert(driver, job(queue="other"))
    (at_work,) = await running(driver, job())
    (done,) = await ended(driver, JobState.COMPLETED, job())
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.cancel_many([waiting, at_work, done, NOWHERE])
    assert (changes.changed, changes.requested) == ((waiting,), (at_work,))
    assert dict(changes.skipped) == {done: SkipReason.FINALIZED, NOWHERE: SkipReason.NOT_FOUND}
    states = [await state_of(driver, each) for each in (waiting, at_work, done)]
    assert states == ["cancelled", "running", "completed"]
    assert (await row_of(driver, waiting)).finalized_at is not None


async def test_move(driver: Driver) -> None:
    target, other_queue = await insert(driver, job(queue="here"), job(queue="other", priority=3))
    (at_work,) = await running(driver, job())
    (done,) = await ended(driver, JobState.COMPLETED, job())
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.move_many(
            [target, other_queue, at_work, done, NOWHERE], queue="other", priority=3
        )
    assert (changes.changed, changes.requested) == ((target,), ())
    assert dict(changes.skipped) == {
        other_queue: SkipReason.UNCHANGED,
        at_work: SkipReason.RUNNING,
        done: SkipReason.FINALIZED,
        NOWHERE: SkipReason.NOT_FOUND,
    }
    async with driver.transaction() as transaction:
        assert (await transaction.jobs.move_many([target], priority=1)).changed == (target,)
    row = await row_of(driver, target)
    assert (row.state, row.queue, row.priority) == ("available", "other", 1)


async def test_jobs_are_counted_by_state(driver: Driver) -> None:
    await ended(driver, JobState.COMPLETED, job(queue="a"))
    await insert(driver, job(queue="a"), job(queue="a"), job(queue="b"))
    async with driver.autocommit() as executor:

        async def count(**chosen: Any) -> Mapping[JobState, int]:
            return await executor.jobs.row_count(JobSelectParams(**chosen))

        assert await count() == {JobState.AVAILABLE: 3, JobState.COMPLETED: 1}
        assert await count(queues=("a",), states=(JobState.AVAILABLE,)) == {JobState.AVAILABLE: 2}
        assert sum((await count(limit=2)).values()) == 2
        assert await count(queues=("none",)) == {}


async def test_outcomes(driver: Driver) -> None:
    (waiting,) = await insert(driver, job(queue="other"))
    (done,) = await ended(driver, JobState.COMPLETED, job())
    (failed,) = await ended(driver, JobState.DISCARDED, job(max_attempts=1))
    async with driver.transaction() as transaction:
        found = await transaction.jobs.outcome_list([waiting, done, failed, NOWHERE, 2**70])
    assert {each: (at.state, at.errors) for each, at in found.items()} == {
        waiting: ("available", 0),
        done: ("completed", 0),
        failed: ("discarded", len((await row_of(driver, failed)).errors)),
    }


async def test_retry(driver: Driver) -> None:
    (failed,) = await ended(driver, JobState.DISCARDED, job(max_attempts=1))
    (at_work,) = await running(driver, job())
    (waiting,) = await insert(driver, job(queue="other"))
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.retry_many([failed, at_work, waiting, NOWHERE])
    assert changes.changed == (failed,)
    assert dict(changes.skipped) == {
        at_work: SkipReason.RUNNING,
        waiting: SkipReason.ALREADY_AVAILABLE,
        NOWHERE: SkipReason.NOT_FOUND,
    }
    row = await row_of(driver, failed)
    assert (row.state, row.finalized_at, row.max_attempts) == ("available", None, 2)


async def test_a_retry_whose_key_is_taken_changes_nothing(driver: Driver) -> None:
    unique = job(unique_key=bytes(32), unique_states=state_bits([JobState.AVAILABLE]))
    (old,) = await ended(driver, JobState.DISCARDED, unique)
    (plain,) = await ended(driver, JobState.DISCARDED, job())
    await insert(driver, unique)
    with pytest.raises(UniqueConflict):
        async with driver.transaction() as transaction:
            await transaction.jobs.retry_many([plain, old])
    assert await state_of(driver, plain) == "discarded"


async def test_delete(driver: Driver) -> None:
    (waiting,) = await insert(driver, job(queue="other"))
    (at_work,) = await running(driver, job())
    (done,) = await ended(driver, JobState.COMPLETED, job())
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.delete_many([waiting, at_work, done, NOWHERE])
    assert changes.changed == (waiting, done)
    assert dict(changes.skipped) == {
        at_work: SkipReason.RUNNING,
        NOWHERE: SkipReason.NOT_FOUND,
    }
    async with driver.reading() as executor:
        assert await executor.jobs.row_get(waiting) is None


async def test_delete_by_selection(driver: Driver) -> None:
    ids = await insert(driver, job("a", queue="other"), job("a", queue="other"), job("b"))
    await running(driver, job("a", queue="busy"))
    async with driver.transaction() as transaction:
        deleted = await transaction.jobs.delete_selected(JobSelectParams(kinds=("a",), limit=1))
        assert [row.id for row in deleted] == ids[:1]
        deleted = await transaction.jobs.delete_selected(JobSelectParams(kinds=("a",)))
        assert [row.id for row in deleted] == ids[1:2]
        assert await transaction.jobs.row_get(ids[2]) is not None
