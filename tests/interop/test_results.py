"""Jobs that the real Go River works are waited for as others are."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from riverui import Client, JobState, JsonArgs, SyncClient
from riverui.storage.interface import Driver
from tests.interop.conftest import StartWorker

pytestmark = pytest.mark.interop

LONG = timedelta(seconds=30)
"""After which a test gives up waiting."""


@pytest.mark.short
async def test_the_end_of_a_job_that_go_works(
    start_worker: StartWorker, driver: Driver, database_url: str
) -> None:
    client = Client(driver)
    put_out = await client.insert(JsonArgs("output", {"value": {"rows": [1, 2]}}))
    first = asyncio.create_task(client.wait(put_out.job.id, timeout=LONG))
    async with start_worker():
        assert (await first).output == {"rows": [1, 2]}

        def view() -> JobState:
            with SyncClient(database_url) as sync:
                logged = sync.insert(JsonArgs("log", {"message": "hello", "lines": 1}))
                return sync.wait(logged.job.id, timeout=LONG).state

        assert await asyncio.to_thread(view) is JobState.COMPLETED
    await client.stop()
