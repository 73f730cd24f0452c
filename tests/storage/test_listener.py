"""Receiving River's notifications."""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from riverui.errors import DatabaseUnavailable
from riverui.storage.interface import Listener
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.limits import PostgresLimits
from riverui.storage.postgres.listener import PostgresListener
from tests.drivers import connect
from tests.factory import Make
from tests.storage.conftest import limited
from tests.storage.tcp_proxy import tcp_proxy


@pytest.fixture
async def asking(database_url: str, limits: PostgresLimits) -> AsyncIterator[PostgresDriver]:
    """Lend a driver with the limits of the test's parameter."""
    async with limited(database_url, limits) as driver:
        yield driver


Opened = Callable[[PostgresDriver], Awaitable[Listener]]


@pytest.fixture(params=["listener", "shared_listener"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Return what makes a listener: one on its own connection, and one that shares it."""
    return operator.methodcaller(request.param)


async def _collect(listener: Listener, into: list[tuple[str, str]], *topics: str) -> None:
    async for heard in listener.notifications(*topics):
        into.append(heard)


async def _until(heard: list[tuple[str, str]], make: Make, channel: str) -> None:
    """Send until something arrives: LISTEN takes a moment."""
    deadline = time.monotonic() + 10
    while not heard and time.monotonic() < deadline:
        await make.connection.execute("select pg_notify(%s, 'hello')", [channel])
        await asyncio.sleep(0.02)


async def test_topics_without_their_schema(
    driver: PostgresDriver, make: Make, opened: Opened
) -> None:
    listener = await opened(driver)
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


async def test_schema(database_url: str, make: Make, opened: Opened) -> None:
    driver = connect(database_url, schema="jobs_1")
    listener = await opened(driver)
    heard: list[tuple[str, str]] = []
    task = asyncio.create_task(_collect(listener, heard, "river_insert"))
    await _until(heard, make, "jobs_1.river_insert")
    assert heard[0] == ("river_insert", "hello")
    await listener.close()
    await task
    await driver.close()


async def test_lost_connection(
    driver: PostgresDriver, make: Make, database_url: str, opened: Opened
) -> None:
    listener = await opened(driver)
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


async def test_cancelled_reader_lets_go(driver: PostgresDriver, opened: Opened) -> None:
    listener = await opened(driver)
    task = asyncio.create_task(_collect(listener, [], "river_insert"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await listener.close()


async def test_closed_before_anything_is_read(driver: PostgresDriver, opened: Opened) -> None:
    listener = await opened(driver)
    await listener.close()
    heard: list[tuple[str, str]] = []
    await asyncio.wait_for(_collect(listener, heard, "river_insert"), 5)
    assert heard == []


async def test_no_server_to_listen_to() -> None:
    driver = connect("postgresql://127.0.0.1:1/x")
    with pytest.raises(DatabaseUnavailable):
        await driver.listener()
    with pytest.raises(DatabaseUnavailable):
        await (await driver.shared_listener()).listen("river_insert")
    await driver.close()


async def _next(reading: AsyncIterator[tuple[str, str]]) -> tuple[str, str]:
    async with asyncio.timeout(10):
        return await anext(reading)


async def test_listening_begins_at_once(driver: PostgresDriver, make: Make, opened: Opened) -> None:
    listener = await opened(driver)
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


async def test_topics_can_be_added(driver: PostgresDriver, make: Make, opened: Opened) -> None:
    listener = await opened(driver)
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


async def test_many_at_once_in_order(driver: PostgresDriver, make: Make, opened: Opened) -> None:
    listener = await opened(driver)
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
async def test_quiet_connections_are_pinged(
    asking: PostgresDriver, make: Make, opened: Opened
) -> None:
    listener = await opened(asking)
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
        raise AssertionError("no call expected")
    await make.notify("river_insert", "heard")
    assert await reading == ("river_insert", "heard")
    await listener.close()


@pytest.mark.parametrize("limits", [PostgresLimits(listener_ping_seconds=0.001)])
async def test_pings_lose_nothing(asking: PostgresDriver, make: Make, opened: Opened) -> None:
    listener = await opened(asking)
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


async def test_a_connection_that_dies_silently(database_url: str, opened: Opened) -> None:
    passing = asyncio.Event()
    passing.set()
    limits = PostgresLimits(listener_ping_seconds=0.05, listener_answer_seconds=0.2)
    async with (
        tcp_proxy(database_url, passing=passing) as url,
        limited(url, limits) as driver,
    ):
        listener = await opened(driver)
        await listener.listen("river_insert")
        reading = asyncio.create_task(_next(listener.notifications()))
        await asyncio.sleep(0.2)
        assert not reading.done()
        passing.clear()
        with pytest.raises(DatabaseUnavailable):
            await reading
        await listener.close()


async def test_a_lost_connection(driver: PostgresDriver, make: Make, opened: Opened) -> None:
    listener = await opened(driver)
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


async def test_many_listeners_share_a_connection(database_url: str, make: Make) -> None:
    async with AsyncConnectionPool(database_url, min_size=1, max_size=1, open=False) as pool:
        drivers = [connect(pool=pool, schema=schema) for schema in ("one", "two", None, None)]
        listeners = [await driver.shared_listener() for driver in drivers]
        await asyncio.gather(*(listener.listen("river_insert") for listener in listeners))
        listening = (
            "select 1 from pg_stat_activity where datname = current_database()"
            " and query ilike 'listen%'"
        )
        assert len(await make.rows(listening)) == 1

        for schema in ("one", "two", "public"):
            await make.connection.execute(
                "select pg_notify(%s, %s)", [f"{schema}.river_insert", schema]
            )
        heard = [await _next(listener.notifications()) for listener in listeners]
        assert [payload for _, payload in heard] == ["one", "two", "public", "public"]

        await listeners[0].close()
        await make.connection.execute("select pg_notify('two.river_insert', 'still heard')")
        assert await _next(listeners[1].notifications()) == ("river_insert", "still heard")
        for listener in listeners:
            await listener.close()
        for _ in range(500):
            if not await make.rows(listening):
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("the connection is still there")


async def test_all_listeners_lose_a_shared_connection(database_url: str, make: Make) -> None:
    async with AsyncConnectionPool(database_url, min_size=1, max_size=1, open=False) as pool:
        drivers = [connect(pool=pool, schema=schema) for schema in ("one", "two")]
        listeners = [await driver.shared_listener() for driver in drivers]
        readings = []
        for listener in listeners:
            await listener.listen("river_insert")
            readings.append(asyncio.create_task(_next(listener.notifications())))
        await make.rows(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and query ilike 'listen%'"
        )
        for reading in readings:
            with pytest.raises(DatabaseUnavailable):
                await reading
        # The next listener gets a new one.
        for driver, listener in zip(drivers, listeners, strict=True):
            await listener.close()
            again = await driver.shared_listener()
            await again.listen("river_insert")
            await make.connection.execute(
                "select pg_notify(%s, 'heard')", [f"{driver.schema}.river_insert"]
            )
            assert await _next(again.notifications()) == ("river_insert", "heard")
            await again.close()
