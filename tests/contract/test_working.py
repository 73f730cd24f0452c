"""Fetching jobs and writing their outcomes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import (
    JobFetchParams,
    JobSelectParams,
    JobSetStateParams,
)
from tests.contract.seeds import CLIENT, ENDS, NOW, ended, ending, insert, job, row_of, running

FETCH = JobFetchParams(client_id=CLIENT, queue="default", limit=10, now=NOW)


async def test_due_jobs_of_the_queue_are_fetched(driver: Driver) -> None:
    for state in (*ENDS, JobState.RETRYABLE):
        await ended(driver, state, job())
    await running(driver, job())
    (due,) = await insert(driver, job(max_attempts=3))
    await insert(
        driver,
        job(queue="other"),
        job(scheduled_at=NOW + timedelta(seconds=1)),
        job(state=JobState.SCHEDULED),
        job(state=JobState.PENDING),
    )
    async with driver.autocommit() as executor:
        assert await executor.work.first_available(FETCH) == due
        (row,) = await executor.work.get_available(FETCH)
        assert list(await executor.work.get_available(FETCH)) == []
        assert await executor.work.first_available(FETCH) is None
    assert (row.id, row.state, row.attempt) == (due, "running", 1)
    assert (row.attempted_at, row.attempted_by) == (NOW, (CLIENT,))
    assert row == await row_of(driver, due)


async def test_jobs_go_by_priority_time_and_id(driver: Driver) -> None:
    early = NOW - timedelta(minutes=1)
    ids = await insert(
        driver, job(priority=2), job(), job(), job(scheduled_at=early), job(priority=4)
    )
    order = []
    async with driver.autocommit() as executor:
        for _ in ids:
            first = await executor.work.first_available(FETCH)
            (row,) = await executor.work.get_available(FETCH._replace(limit=1))
            assert row.id == first
            order.append(row.id)
    assert order == [ids[place] for place in (3, 1, 2, 0, 4)]


async def test_some_kinds_only_and_some_ids_never(driver: Driver) -> None:
    mail, post, poison = await insert(driver, job("mail"), job("post"), job("mail"))
    async with driver.autocommit() as executor:
        found = await executor.work.get_available(
            FETCH._replace(kinds=("mail",), except_ids=(poison,))
        )
        assert [row.id for row in found] == [mail]
        found = await executor.work.get_available(FETCH._replace(kinds=("other",)))
        assert list(found) == []
        found = await executor.work.get_available(FETCH)
    assert sorted(row.id for row in found) == [post, poison]


async def test_two_that_fetch_at_once_get_different_jobs(driver: Driver) -> None:
    ids = await insert(driver, *[job()] * 20)

    async def fetch() -> list[int]:
        async with driver.transaction() as transaction:
            rows = await transaction.work.get_available(FETCH._replace(limit=5))
            await asyncio.sleep(0)
            return [row.id for row in rows]

    taken = await asyncio.gather(*(fetch() for _ in range(4)))
    assert sorted(job_id for some in taken for job_id in some) == ids


async def test_only_the_newest_names_are_kept(driver: Driver) -> None:
    (job_id,) = await insert(driver, job(max_attempts=9))
    for attempt in range(3):
        async with driver.autocommit() as executor:
            (row,) = await executor.work.get_available(
                FETCH._replace(client_id=f"client_{attempt}", max_attempted_by=2)
            )
            await executor.work.set_state_many(
                [JobSetStateParams(id=job_id, state=JobState.AVAILABLE, scheduled_at=NOW)]
            )
    assert row.attempted_by == ("client_1", "client_2")


async def test_one_job_can_be_begun_whatever_its_time(driver: Driver) -> None:
    later, done = (
        *await insert(driver, job(scheduled_at=NOW + timedelta(days=1), state=JobState.SCHEDULED)),
        *await ended(driver, JobState.COMPLETED, job()),
    )
    async with driver.autocommit() as executor:
        row = await executor.work.begin(later, client_id=CLIENT, now=NOW)
        assert await executor.work.begin(done, client_id=CLIENT, now=NOW) is None
        assert await executor.work.begin(later + 1_000, client_id=CLIENT, now=NOW) is None
    assert row is not None
    assert (row.id, row.state, row.attempt) == (later, "running", 1)


async def test_only_running_jobs_are_completed(driver: Driver) -> None:
    first, second = await running(driver, job(), job())
    (waiting,) = await insert(driver, job())
    ids, times = [first, second, waiting, 1_000_000], [NOW, NOW + timedelta(seconds=1), NOW, NOW]
    async with driver.autocommit() as executor:
        assert sorted(await executor.work.complete_many(ids, times)) == [first, second]
    assert (await row_of(driver, second)).finalized_at == times[1]
    assert (await row_of(driver, waiting)).state == "available"


async def test_only_running_jobs_of_that_attempt_are_removed(driver: Driver) -> None:
    first, second = await running(driver, job(), job())
    (waiting,) = await insert(driver, job())
    ids = [first, second, waiting, 1_000_000]
    async with driver.autocommit() as executor:
        removed = await executor.work.delete_completed_many(ids, of_attempts=[1, 2, 1, 1])
        assert list(removed) == [first]
        assert await executor.jobs.row_get(first) is None
    assert (await row_of(driver, second)).state == "running"
    assert (await row_of(driver, waiting)).state == "available"


@pytest.mark.parametrize("state", [*ENDS, JobState.RETRYABLE, JobState.SCHEDULED])
async def test_an_attempt_ends_in_each_state(driver: Driver, state: JobState) -> None:
    (job_id,) = await running(driver, job(metadata='{"kept": 1}'))
    change = ending(job_id, state)._replace(metadata='{"added": 2}')
    async with driver.autocommit() as executor:
        (row,) = await executor.work.set_state_many([change])
        assert list(await executor.work.set_state_many([change._replace(id=job_id + 1)])) == []
    assert row == await row_of(driver, job_id)
    assert (row.state, row.finalized_at) == (state, NOW if state in ENDS else None)
    assert row.metadata_dict == {"kept": 1, "added": 2}
    failed = state in (JobState.RETRYABLE, JobState.DISCARDED)
    assert [error.error for error in row.errors] == ["boom\nmore"] * failed


async def test_a_job_that_no_longer_runs_keeps_its_state(driver: Driver) -> None:
    (job_id,) = await ended(driver, JobState.COMPLETED, job())
    change = ending(job_id, JobState.DISCARDED)._replace(metadata='{"late": true}')
    async with driver.autocommit() as executor:
        (row,) = await executor.work.set_state_many([change])
    assert (row.state, row.errors, row.metadata_dict) == ("completed", (), {"late": True})


async def test_an_end_that_takes_the_attempt_back_is_written_once(driver: Driver) -> None:
    (job_id,) = await running(driver, job())
    again = ending(job_id, JobState.AVAILABLE)._replace(attempt=0, of_attempt=1, attempted_at=NOW)
    async with driver.autocommit() as executor:
        (row,) = await executor.work.set_state_many([again])
        assert (row.state, row.attempt) == ("available", 0)
        later = FETCH._replace(now=NOW + timedelta(milliseconds=1))
        (begun,) = await executor.work.get_available(later)
        (row,) = await executor.work.set_state_many([again._replace(metadata='{"late": true}')])
    # The next attempt has the same number.
    assert (row, begun.attempt) == (begun, 1)


async def test_what_runs_under_a_clients_name_is_listed(driver: Driver) -> None:
    first, second = await running(driver, job(), job(), at=NOW)
    await ended(driver, JobState.COMPLETED, job())
    await insert(driver, job(), job())
    async with driver.autocommit() as executor:
        (other,) = await executor.work.get_available(FETCH._replace(client_id="other", limit=1))
        (today,) = await executor.work.get_available(FETCH._replace(limit=1, now=None))
        found = await executor.work.running_list(CLIENT)
        assert [each.id for each in await executor.work.running_list("other")] == [other.id]
        assert list(await executor.work.running_list("nobody")) == []
    assert [(each.id, each.attempted_at) for each in found] == [
        (first, NOW),
        (second, NOW),
        (today.id, today.attempted_at),
    ]
    assert 0 <= found[2].seconds < 60
    assert found[0].seconds - found[2].seconds == pytest.approx(
        (found[2].attempted_at - NOW).total_seconds(), abs=0.01
    )


async def test_a_cancellation_is_seen_by_who_works_the_job(driver: Driver) -> None:
    stopped, other = await running(driver, job(), job())
    requested = '{"cancel_attempted_at": "2026-11-21T09:00:00Z"}'
    (waiting,) = await insert(driver, job(state=JobState.PENDING, metadata=requested))
    async with driver.transaction() as transaction:
        assert list(await transaction.work.cancel_requested([stopped, other])) == []
        changes = await transaction.jobs.cancel_many([stopped])
        assert (changes.requested, changes.changed) == ((stopped,), ())
        ids = [waiting, stopped, other, 1_000_000]
        assert list(await transaction.work.cancel_requested(ids)) == [stopped]
        assert list(await transaction.work.cancel_requested([])) == []


async def test_metadata_is_merged_in_any_state(driver: Driver) -> None:
    given = job(metadata='{"a": 1, "output": {"b": 2, "c": 3}}')
    ids = [*await running(driver, given), *await insert(driver, given)]
    for state in (*ENDS, JobState.RETRYABLE):
        ids += await ended(driver, state, given._replace(queue="other"))
    async with driver.autocommit() as executor:
        for job_id in ids:
            row = await executor.jobs.update(job_id, metadata='{"output": {"b": 4}}')
            assert row is not None
            assert row.metadata_dict == {"a": 1, "output": {"b": 4}}
        assert await executor.jobs.update(ids[-1] + 1, metadata="{}") is None


async def test_whole_jobs_are_listed_by_what_is_asked(driver: Driver) -> None:
    nested = '{"m": {"n": 1, "o": 2}}'
    await running(driver, job("a", queue="p", tags=("x", "y"), metadata='{"m": {"n": 1}}'))
    await insert(driver, job("b", queue="q", priority=2, tags=("y", 'z"'), metadata='{"m": 2}'))
    await ended(driver, JobState.COMPLETED, job('c"\\', queue="r", priority=4, metadata=nested))
    async with driver.reading() as executor:
        rows = await executor.jobs.row_list(JobSelectParams())
        a, b, c = (row.id for row in rows)
        for params, expected in (
            ({"limit": 2}, [a, b]),
            ({"ids": (c, a, c, 2**70, 0)}, [a, c]),
            ({"ids": (2**70,)}, []),
            ({"kinds": ("a", 'c"\\')}, [a, c]),
            ({"queues": ("q", "r", "s")}, [b, c]),
            ({"priorities": (1, 4, 10**9)}, [a, c]),
            ({"states": (JobState.RUNNING,)}, [a]),
            ({"states": (JobState.RUNNING, JobState.COMPLETED)}, [a, c]),
            ({"states": (JobState.COMPLETED, JobState.DISCARDED)}, [c]),
            ({"tags_all": ("y", "x")}, [a]),
            ({"tags_any": ("x", 'z"', "w")}, [a, b]),
            ({"metadata": '{"m": {"n": 1}}'}, [a, c]),
            ({"metadata": "{}"}, [a, b, c]),
            ({"queues": ("r",), "priorities": (4,), "kinds": ("b",)}, []),
            ({"descending": True}, [c, b, a]),
            ({"descending": True, "after": (None, c)}, [b, a]),
            ({"after": (None, a)}, [b, c]),
        ):
            chosen = JobSelectParams(**params)
            found = [row.id for row in await executor.jobs.row_list(chosen)]
            assert found == expected, params
        for row in rows:
            assert row == await executor.jobs.row_get(row.id)
        assert await executor.jobs.row_get(c + 1) is None
