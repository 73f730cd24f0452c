"""Hearing River's notifications."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from riverui.errors import DatabaseUnavailable
from riverui.storage.interface import Listener
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.limits import PostgresLimits
from riverui.storage.postgres.listener import PostgresListener
from tests.drivers import connect
from tests.storage.conftest import Make, limited
from tests.storage.tcp_proxy import tcp_proxy


@pytest.fixture
async def asking(database_url: str, limits: PostgresLimits) -> AsyncIterator[PostgresDriver]:
    """Lend a driver with the limits of the test's parameter."""
    async with limited(database_url, limits) as driver:
        yield driver


async def _collect(listener: Listener, into: list[tuple[str, str]], *topics: str) -> None:
    async for heard in listener.notifications(*topics):
        into.append(heard)


async def _until(heard: list[tuple[str, str]], make: Make, channel: str) -> None:
    """Send until something arrives: LISTEN takes a moment."""
    deadline = time.monotonic() + 10
    while not heard and time.monotonic() < deadline:
        await make.connection.execute("select pg_notify(%s, 'hello')", [channel])
        await asyncio.sleep(0.02)


async def test_topics_without_their_schema(driver: PostgresDriver, make: Make) -> None:
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


async def test_lost_connection(driver: PostgresDriver, make: Make, database_url: str) -> None:
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


async def test_cancelled_reader_lets_go(driver: PostgresDriver) -> None:
    listener = await driver.listener()
    task = asyncio.create_task(_collect(listener, [], "river_insert"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await listener.close()


async def test_closed_before_anything_is_read(driver: PostgresDriver) -> None:
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


async def _next(reading: AsyncIterator[tuple[str, str]]) -> tuple[str, str]:
    async with asyncio.timeout(10):
        return await anext(reading)


async def test_what_is_sent_after_listen_is_heard(driver: PostgresDriver, make: Make) -> None:
    listener = await driver.listener()
    await listener.listen("river_insert", "river_control")
    await make.notify("river_insert", "one")
    await make.notify("river_control", "two")
    reading = listener.notifications()
    assert await _next(reading) == ("river_insert", "one")
    await make.notify("river_insert", "three")
    assert [await _next(reading) for _ in range(2)] == [
        ("river_control", "two"),
        ("river_insert", "three"),
    ]
    await listener.close()


async def test_further_topics_while_somebody_reads(driver: PostgresDriver, make: Make) -> None:
    listener = await driver.listener()
    heard: list[tuple[str, str]] = []
    await listener.listen("river_insert")
    task = asyncio.create_task(_collect(listener, heard))
    await asyncio.sleep(0.05)
    for topic in ("river_control", "river_leadership", "river_control"):
        async with asyncio.timeout(2):
            await listener.listen(topic)
        await make.notify(topic, "heard")
    await make.notify("river_insert", "still heard")
    for _ in range(500):
        if len(heard) == 4:
            break
        await asyncio.sleep(0.01)
    assert [payload for _, payload in heard] == ["heard"] * 3 + ["still heard"]
    await listener.close()
    await task


async def test_many_at_once_in_order(driver: PostgresDriver, make: Make) -> None:
    listener = await driver.listener()
    await listener.listen("river_insert")
    reading = listener.notifications()
    for start in range(0, 3000, 1000):
        await make.connection.execute(
            "select pg_notify('public.river_insert', n::text) from generate_series(%s::int,"
            " %s::int) n",
            [start, start + 999],
        )
    assert [int((await _next(reading))[1]) for _ in range(3000)] == list(range(3000))
    await listener.close()


@pytest.mark.parametrize("limits", [PostgresLimits(listener_ping_seconds=0.05)])
async def test_a_quiet_connection_is_asked_whether_it_lives(
    asking: PostgresDriver, make: Make
) -> None:
    listener = await asking.listener()
    await listener.listen("river_insert")
    reading = asyncio.create_task(_next(listener.notifications()))
    asked = (
        "select query from pg_stat_activity where datname = current_database() and query = 'select"
        " 1' and state_change > now() - interval '1 second'"
    )
    for _ in range(300):
        if await make.rows(asked):
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("nobody asked")
    await make.notify("river_insert", "heard")
    assert await reading == ("river_insert", "heard")
    await listener.close()


@pytest.mark.parametrize("limits", [PostgresLimits(listener_ping_seconds=0.001)])
async def test_nothing_is_lost_between_pings(asking: PostgresDriver, make: Make) -> None:
    listener = await asking.listener()
    await listener.listen("river_insert")
    heard: list[tuple[str, str]] = []
    task = asyncio.create_task(_collect(listener, heard))
    for n in range(300):
        await make.notify("river_insert", str(n))
        await asyncio.sleep(0.002)
    for _ in range(500):
        if len(heard) == 300:
            break
        await asyncio.sleep(0.01)
    assert [payload for _, payload in heard] == [str(n) for n in range(300)]
    await listener.close()
    await task


async def test_a_connection_that_dies_silently(database_url: str) -> None:
    passing = asyncio.Event()
    passing.set()
    limits = PostgresLimits(listener_ping_seconds=0.05, listener_answer_seconds=0.2)
    async with (
        tcp_proxy(database_url, passing=passing) as url,
        limited(url, limits) as driver,
    ):
        listener = await driver.listener()
        await listener.listen("river_insert")
        reading = asyncio.create_task(_next(listener.notifications()))
        await asyncio.sleep(0.2)
        assert not reading.done()
        passing.clear()
        with pytest.raises(DatabaseUnavailable):
            await reading
        await listener.close()


async def test_a_lost_connection_is_told_to_who_listens(driver: PostgresDriver, make: Make) -> None:
    listener = await driver.listener()
    await listener.listen("river_insert")
    await make.rows(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and application_name = 'riverui'"
    )
    with pytest.raises(DatabaseUnavailable):
        await listener.listen("river_control")
    with pytest.raises(DatabaseUnavailable):
        await _next(listener.notifications())
    await listener.close()


async def test_the_loop_watches_nothing_after_the_end(database_url: str, make: Make) -> None:
    """The number of a closed socket may be another's a moment later."""
    loop = asyncio.get_running_loop()
    watched: list[int] = []
    for lose in (False, True):
        connection = await AsyncConnection.connect(
            database_url, autocommit=True, application_name="riverui"
        )
        listener, number = PostgresListener(connection, None), connection.fileno()
        task = asyncio.create_task(_collect(listener, [], "river_insert"))
        await asyncio.sleep(0.1)
        if lose:
            await make.rows(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where datname = current_database() and application_name = 'riverui'"
            )
            with pytest.raises(DatabaseUnavailable):
                await asyncio.wait_for(task, 10)
        else:
            await listener.close()
            await task
        watched += [n for n in (number,) if loop.remove_reader(n)]
        await listener.close()
    assert watched == []
