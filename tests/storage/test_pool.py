"""Waiting for a connection: as long as one may come, and no longer than there is a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.driver import PostgresDriver
from tests.drivers import connect
from tests.storage.tcp_proxy import TcpProxy


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[TcpProxy]:
    """Yield a way to the database, open."""
    found = TcpProxy(database_url)
    await found.open()
    yield found
    await found.shut()


@asynccontextmanager
async def _own(url: str, size: int) -> AsyncIterator[PostgresDriver]:
    driver = connect(url, max_size=size)
    yield driver
    await driver.close()


@asynccontextmanager
async def _hosts(url: str, size: int) -> AsyncIterator[PostgresDriver]:
    async with AsyncConnectionPool(url, open=False, min_size=size, max_size=size) as pool:
        yield connect(pool=pool)


_Making = Callable[[str, int], Any]


async def _hold(driver: PostgresDriver, seconds: float) -> None:
    async with driver.reading(timeout=timedelta(seconds=10)) as executor:
        await executor.ask("slow", f"select pg_sleep({seconds})", ())


@pytest.mark.parametrize("making", [_own, _hosts])
async def test_waiting_ends_when_the_database_is_gone(making: _Making, proxy: TcpProxy) -> None:
    async with making(proxy.url, 2) as driver:
        await driver.ping()
        asked = [asyncio.ensure_future(_hold(driver, 9)) for _ in range(2)]
        await asyncio.sleep(0.3)
        asked += [asyncio.ensure_future(driver.ping()) for _ in range(10)]
        await asyncio.sleep(0.3)
        await proxy.shut()
        started = time.monotonic()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert time.monotonic() - started < 1.5
        assert {type(answer) for answer in answers} == {DatabaseUnavailable}
        assert not any("free in time" in str(answer) for answer in answers)
        await proxy.open()
        await asyncio.sleep(1.1)
        await driver.ping()


@pytest.mark.parametrize("making", [_own, _hosts])
async def test_a_busy_pool_is_waited_for_in_turn(making: _Making, proxy: TcpProxy) -> None:
    async with making(proxy.url, 1) as driver:
        await driver.ping()
        holder = asyncio.ensure_future(_hold(driver, 2))
        await asyncio.sleep(0.2)
        before = proxy.passed
        order: list[int] = []

        async def wait(place: int) -> None:
            await driver.ping()
            order.append(place)

        await asyncio.gather(*(wait(place) for place in range(10)))
        assert order == list(range(10))
        # Whether the database is there is asked once a second, however many wait.
        assert proxy.passed - before <= 3
        await holder
