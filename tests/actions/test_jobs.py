"""The verbs on chosen jobs: what changes, what is skipped and why; one bad id never fails the
rest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, JOB_VERBS, MOVE, RETRY
from riverui.actions.verbs import NOTHING, Given, JobVerb
from riverui.engine.feature_list import plain_pilot
from riverui.errors import BadRequest, JobRunning
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from tests.factory import job, queue

UNIQUE = {"unique_key": b"k" * 32, "unique_states": "11110101"}

GIVEN = {MOVE: {"queue": "other"}}


async def state_of(connection: AsyncConnection[Any], job_id: int) -> str | None:
    row = await (
        await connection.execute("select state::text from river_job where id = %s", [job_id])
    ).fetchone()
    return row["state"] if row else None


async def test_one_call_tells_every_outcome(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    waiting = await job(connection, "retryable")
    running = await job(connection, "running")
    ended = await job(connection, "completed")

    changes = await jobs.apply(
        driver, CANCEL, [waiting, running, ended, 999_999, waiting], pilot=plain_pilot()
    )
    assert changes.changed == (waiting,)
    assert changes.requested == (running,)
    assert dict(changes.skipped) == {ended: SkipReason.FINALIZED, 999_999: SkipReason.NOT_FOUND}

    changes = await jobs.apply(driver, DELETE, [waiting, running, 999_999], pilot=plain_pilot())
    assert changes.changed == (waiting,)
    assert dict(changes.skipped) == {running: SkipReason.RUNNING, 999_999: SkipReason.NOT_FOUND}
    assert await state_of(connection, waiting) is None


async def test_nothing_to_do_is_no_transaction(driver: Driver) -> None:
    assert await jobs.apply(driver, RETRY, [], pilot=plain_pilot()) == JobChanges()


async def test_retry_leaves_out_only_the_jobs_whose_unique_twin_is_active(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    plain = [await job(connection, "discarded") for _ in range(5)]
    await job(connection, "available", **UNIQUE)
    conflicting = await job(connection, "discarded", **UNIQUE)
    more = [await job(connection, "cancelled") for _ in range(6)]

    changes = await jobs.apply(driver, RETRY, [*plain, conflicting, *more], pilot=plain_pilot())
    assert sorted(changes.changed) == sorted(plain + more)
    assert changes.skipped == ((conflicting, SkipReason.UNIQUE_CONFLICT),)
    assert await state_of(connection, conflicting) == "discarded"
    assert await state_of(connection, more[-1]) == "available"


async def test_of_two_twins_only_one_is_retried(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    twins = [await job(connection, "discarded", **UNIQUE) for _ in range(2)]
    changes = await jobs.apply(driver, RETRY, twins, pilot=plain_pilot())
    assert len(changes.changed) == 1
    assert [reason for _, reason in changes.skipped] == [SkipReason.UNIQUE_CONFLICT]


@pytest.mark.parametrize("verb", JOB_VERBS.values(), ids=list(JOB_VERBS))
async def test_a_row_that_another_transaction_holds_is_skipped(
    verb: JobVerb, database_url: str, connection: AsyncConnection[Any]
) -> None:
    free, held = await job(connection, "discarded"), await job(connection, "retryable")
    if verb in (CANCEL, MOVE):
        free = await job(connection, "scheduled")
    driver = connect(database_url, lock_timeout=timedelta(milliseconds=100))
    try:
        async with connection.transaction():
            await connection.execute("select from river_job where id = %s for update", [held])
            changes = await jobs.apply(
                driver, verb, [free, held], GIVEN.get(verb, NOTHING), pilot=plain_pilot()
            )
    finally:
        await driver.close()
    assert changes == JobChanges(changed=(free,), skipped=((held, SkipReason.LOCKED),))


async def test_a_move_of_all_or_none_refuses_jobs_that_do_not_wait(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    waiting, running = await job(connection), await job(connection, "running")
    ended = await job(connection, "completed")
    given = {"queue": "other", "priority": 2}
    with pytest.raises(JobRunning, match=f"Job {running} is running: only jobs that wait"):
        await jobs.apply_whole(driver, MOVE, [waiting, running], given, pilot=plain_pilot())
    with pytest.raises(BadRequest, match=f"Job {ended} has finished: only jobs that wait"):
        await jobs.apply_whole(driver, MOVE, [ended, waiting], given, pilot=plain_pilot())
    rows = await (await connection.execute("select queue, priority from river_job")).fetchall()
    assert {(row["queue"], row["priority"]) for row in rows} == {("default", 1)}
    changes = await jobs.apply_whole(driver, MOVE, [waiting], given, pilot=plain_pilot())
    assert changes == JobChanges(changed=(waiting,))
    # Once more: there is nothing to be done, which is no error.
    changes = await jobs.apply_whole(driver, MOVE, [waiting], given, pilot=plain_pilot())
    assert changes == JobChanges(skipped=((waiting, SkipReason.UNCHANGED),))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queue": "nobody"}, "No client has served queue nobody lately"),
        ({"queue": "resting"}, "Queue resting is paused"),
        ({"queue": "busy"}, ""),
        ({"priority": 3}, ""),
    ],
)
async def test_a_queue_in_which_jobs_would_wait_is_told(
    given: Given, told: str, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await queue(connection, "busy")
    await queue(connection, "resting", paused_at=datetime.now(UTC))
    assert MOVE.caution is not None
    async with driver.reading() as executor:
        found = await MOVE.caution(executor, given)
    assert found.startswith(told)
    assert bool(found) is bool(told)
