"""Lists that take long: their time limit, how many there may be, and whose client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui import create_app
from riverui.errors import ConfigError
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.factory import Make
from tests.test_together import until
from tests.web.stand_ins import browser
from tests.web.test_connections import Served, serving

Connection = AsyncConnection[Any]

SLOW = "/api/jobs?state=completed&tags=old"
_SLEEPING = """
select count(*)::int as n from pg_stat_activity
where datname = current_database() and wait_event = 'PgSleep'
"""


async def _slow(make: Make, *, jobs: int, seconds: float) -> None:
    """Insert completed jobs, at each of which the database takes so long."""
    for _ in range(jobs):
        await make.job("completed", tags=["old"])
    await make.execute("alter table river_job rename to river_job_slow")
    await make.execute(
        "create view river_job as select * from river_job_slow"
        f" where pg_sleep({seconds})::text = ''".encode()
    )


async def _sleeping(make: Make, jobs: int) -> bool:
    row = await (await make.execute(_SLEEPING.encode())).fetchone()
    assert row is not None
    return bool((row["n"] if isinstance(row, dict) else row[0]) == jobs)


@asynccontextmanager
async def _served(driver: Driver, **limits: Any) -> AsyncIterator[Served]:
    app = create_app(driver, no_auth=True, config=DashboardConfig(**limits))
    async with serving(app) as served:
        yield served


async def test_a_list_may_take_longer_than_a_page(driver: Driver, make: Make) -> None:
    await _slow(make, jobs=4, seconds=0.1)
    config = DashboardConfig(page_timeout=timedelta(seconds=0.2))
    async with browser(create_app(driver, no_auth=True, config=config)) as client:
        answer = await client.get("/api/jobs?state=completed&tags=old")
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["data"]) == 4
        assert (await client.get("/api/jobs?q=state:completed&order=-time")).status_code == 503


async def test_its_time_is_limited_too(driver: Driver, make: Make) -> None:
    await _slow(make, jobs=1, seconds=60)
    config = DashboardConfig(api_timeout=timedelta(seconds=0.2))
    async with browser(create_app(driver, no_auth=True, config=config)) as client:
        answer = await client.get(SLOW)
        assert answer.status_code == 503
        assert "time" in answer.json()["message"]
    with pytest.raises(ConfigError, match="api_timeout"):
        DashboardConfig(api_timeout=timedelta(0))


async def test_who_hangs_up_ends_the_query(driver: Driver, make: Make) -> None:
    await _slow(make, jobs=1, seconds=60)
    async with _served(driver) as served:
        _, writer = await served.open(f"GET {SLOW} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        await until(lambda: _sleeping(make, 1))
        writer.close()
        await until(lambda: _sleeping(make, 0))
        # The connection has come back into the pool.
        await asyncio.gather(*(driver.ping() for _ in range(8)))
        assert await served.status("/api/health-checks/complete") == 200


async def test_two_may_take_long_at_once(driver: Driver, make: Make) -> None:
    await _slow(make, jobs=1, seconds=60)
    async with _served(driver, page_timeout=timedelta(seconds=0.2)) as served:
        for _ in range(2):
            await served.open(f"GET {SLOW} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        await until(lambda: _sleeping(make, 2))
        assert await served.status(SLOW) == 503
        assert await _sleeping(make, 2)
