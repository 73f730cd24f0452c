"""Hearing River's notifications."""

from __future__ import annotations

import asyncio
import time

import pytest
from psycopg import AsyncConnection

from riverui.errors import DatabaseUnavailable
from riverui.storage.connect import connect
from riverui.storage.interface import Driver, Listener
from tests.storage.conftest import Make


async def _collect(listener: Listener, into: list[tuple[str, str]], *topics: str) -> None:
    async for heard in listener.notifications(*topics):
        into.append(heard)


async def _until(heard: list[tuple[str, str]], make: Make, channel: str) -> None:
    """Sends until something arrives: LISTEN takes a moment."""
    deadline = time.monotonic() + 10
    while not heard and time.monotonic() < deadline:
        await make.connection.execute("select pg_notify(%s, 'hello')", [channel])
        await asyncio.sleep(0.02)


async def test_topics_without_their_schema(driver: Driver, make: Make) -> None:
    listener = await driver.listener()
    heard: list[tuple[str, str]] = []
    task = asyncio.create_task(_collect(listener, heard, "river_insert", "river_leadership"))
    await _until(heard, make, "public.river_insert")
    await make.connection.execute("select pg_notify('public.river_control', 'unheard')")
    await make.connection.execute("select pg_notify('other.river_insert', 'unheard')")
    await make.connection.execute("select pg_notify('public.river_leadership', '{}')")
    for _ in range(500):
        if heard[-1] == ("river_leadership", "{}"):
            break
        await asyncio.sleep(0.02)
    assert set(heard) == {("river_insert", "hello"), ("river_leadership", "{}")}
    started = time.monotonic()
    await listener.close()
    await listener.close()
    await task
    assert time.monotonic() - started < 2


async def test_schema(database_url: str, make: Make) -> None:
    driver = connect(database_url, schema="jobs_1")
    listener = await driver.listener()
    heard: list[tuple[str, str]] = []
    task = asyncio.create_task(_collect(listener, heard, "river_insert"))
    await _until(heard, make, "jobs_1.river_insert")
    assert heard[0] == ("river_insert", "hello")
    await listener.close()
    await task
    await driver.close()


async def test_lost_connection(driver: Driver, make: Make, database_url: str) -> None:
    listener = await driver.listener()
    heard: list[tuple[str, str]] = []
    task = asyncio.create_task(_collect(listener, heard, "river_insert"))
    await _until(heard, make, "public.river_insert")
    async with await AsyncConnection.connect(database_url, autocommit=True) as admin:
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'riverui'"
        )
    with pytest.raises(DatabaseUnavailable):
        await asyncio.wait_for(task, 10)
    await listener.close()


async def test_cancelled_reader_lets_go(driver: Driver) -> None:
    listener = await driver.listener()
    task = asyncio.create_task(_collect(listener, [], "river_insert"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await listener.close()


async def test_closed_before_anything_is_read(driver: Driver) -> None:
    listener = await driver.listener()
    await listener.close()
    heard: list[tuple[str, str]] = []
    await asyncio.wait_for(_collect(listener, heard, "river_insert"), 5)
    assert heard == []


async def test_nobody_to_listen_to() -> None:
    driver = connect("postgresql://127.0.0.1:1/x")
    with pytest.raises(DatabaseUnavailable):
        await driver.listener()
    await driver.close()
