"""Waiting for jobs by any driver, with notifications or by polling."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import JsonArgs
from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertManyParams
from riverui.engine.job_lists import JobListParams
from riverui.errors import JobGone, NotFound, RiveruiError, WaitTimeout
from riverui.storage.interface import Driver


async def test_jobs_are_waited_for(driver: Driver) -> None:
    client = Client(driver)
    ids = [(await client.insert(JsonArgs("greet", {}))).job.id for _ in range(3)]
    with pytest.raises(WaitTimeout) as late:
        await client.wait(ids[0], timeout=timedelta(0))
    assert late.value.states == {ids[0]: JobState.AVAILABLE}
    with pytest.raises(NotFound):
        await client.wait(4_711)
    each = client.wait_each(ids, timeout=timedelta(seconds=20))
    for job_id in ids[:2]:
        await client.job_cancel(job_id)
        row = await anext(each)
        assert (row.id, row.state) == (job_id, JobState.CANCELLED)
    waiting = asyncio.create_task(anext(each))
    await client.job_delete(ids[2])
    with pytest.raises(JobGone):
        await waiting
    await client.stop()


async def test_jobs_are_counted_and_waited_for_by_what_they_have_in_common(driver: Driver) -> None:
    client = Client(driver)
    batch = JobListParams(metadata={"batch": 7})
    assert await client.wait_all(batch) == dict.fromkeys(JobState, 0)
    jobs = [InsertManyParams(JsonArgs("greet", {}), metadata={"batch": 7}) for _ in range(3)]
    assert await client.insert_many_fast(jobs) == 3
    await client.insert(JsonArgs("greet", {}))
    none = dict.fromkeys(JobState, 0)
    assert await client.job_count(batch) == none | {JobState.AVAILABLE: 3}
    assert await client.job_count() == none | {JobState.AVAILABLE: 4}
    assert sum((await client.job_count(limit=2)).values()) == 2
    assert await client.job_count(JobListParams(ids=[])) == none
    with pytest.raises(WaitTimeout) as late:
        await client.wait_all(batch, timeout=timedelta(0))
    assert str(late.value) == "3 jobs have not ended (3 available) after 0 s."
    waiting = asyncio.create_task(client.wait_all(batch, timeout=timedelta(seconds=20)))
    for each in (await client.job_list(batch)).jobs:
        assert not waiting.done()
        await client.job_cancel(each.id)
    assert await waiting == none | {JobState.CANCELLED: 3}
    # Only jobs of these states: waiting for ended ones would not test anything.
    ended = JobListParams(states=["completed", "cancelled"])
    assert (await client.wait_all(ended))[JobState.CANCELLED] == 3
    forever = asyncio.create_task(client.wait_all(JobListParams()))
    await asyncio.sleep(0)
    await client.stop()
    with pytest.raises(RiveruiError, match=r"The client was stopped"):
        await forever
