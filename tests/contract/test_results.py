"""Who waits for jobs has them by any driver, heard of or found by looking."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import JsonArgs
from riverui.engine.client import Client
from riverui.errors import JobGone, NotFound, WaitTimeout
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
