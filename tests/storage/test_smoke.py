from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.storage.params import JobListParams
from tests.factory import job


async def test_smoke(driver: Driver, connection: AsyncConnection[Any]) -> None:
    for state in JobState:
        await job(connection, state.value)
    async with driver.reading() as executor:
        page = await executor.job_list(JobListParams())
    assert len(page.rows) == 8
