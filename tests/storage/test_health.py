"""The reads of the health report, each on real rows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from psycopg import AsyncConnection, sql

from riverui.domain.health.facts import DatabaseState
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.sqlite.values import to_milliseconds
from riverui.storage.stores.health import HealthStore
from tests.factory import WORKER, Make
from tests.features.both import (
    SqliteMake,
    database,
    driver,
    driver_url,
    file,
    make,
    postgres_only,
)

__all__ = ["database", "driver", "driver_url", "file", "make"]

Connection = AsyncConnection[Any]


def ago(**span: float) -> datetime:
    """Return a time that SQLite, too, stores whole."""
    return to_milliseconds(datetime.now(UTC) - timedelta(**span))


async def test_who_runs(driver: Driver, make: Make | SqliteMake) -> None:
    await make.job("running", queue="b", attempted_by=["first", "x" * 900])
    await make.job("running", queue="a", attempted_by=[])
    await make.job()
    async with driver.reading() as db:
        found = await HealthStore(db).health_running()
        assert [(row.queue, row.client) for row in found.jobs] == [("a", ""), ("b", "x" * 200)]
        assert len((await HealthStore(db).health_running(cap=1)).jobs) == 1


async def test_what_is_overdue(driver: Driver, make: Make | SqliteMake) -> None:
    oldest = ago(minutes=9)
    await make.job("scheduled", scheduled_at=oldest)
    await make.job("retryable", scheduled_at=ago(minutes=3), priority=4)
    await make.job("scheduled", scheduled_at=ago(seconds=5))
    await make.job("scheduled")
    await make.job("retryable", scheduled_at=ago(minutes=3), queue="other")
    async with driver.reading() as db:
        health = HealthStore(db)
        due = ago(seconds=15)
        found = await health.health_overdue(["default"], due_before=due)
        assert (found.jobs, found.oldest_at) == (2, oldest)
        both = await health.health_overdue(["default", "other", "none"], due_before=due, cap=2)
        assert both.jobs == 2
        none = await health.health_overdue([], due_before=due)
        assert (none.jobs, none.oldest_at) == (0, None)


async def test_what_waits_in_a_queue(driver: Driver, make: Make | SqliteMake) -> None:
    for n in range(4):
        await make.job(kind="a", attempt=n % 2, priority=1)
    await make.job(kind="b", priority=4)
    await make.job(kind="later", scheduled_at=ago(hours=-1))
    taken = ago(minutes=2)
    await make.job("completed", attempted_at=taken)
    await make.job("running", attempted_at=ago(hours=2), attempted_by=["old"])
    await make.job("running", attempted_at=ago(days=2), attempted_by=["ancient"])
    async with driver.reading() as db:
        now = datetime.now(UTC)
        found = await HealthStore(db).health_waiting(["default", "empty"], now=now, cap=5)
    waits = found["default"]
    assert {kind: (found.jobs, found.retries) for kind, found in waits.kinds.items()} == {
        "a": (4, 2),
        "b": (1, 0),
    }
    assert (waits.jobs, waits.cap) == (5, 5)
    assert list(waits.takers) == [WORKER, "old"]
    assert waits.taken_at == taken
    assert (found["empty"].jobs, found["empty"].kinds, found["empty"].taken_at) == (0, {}, None)


async def test_a_kind_that_younger_jobs_overtake(driver: Driver, make: Make | SqliteMake) -> None:
    due, taken = ago(minutes=10), {"scheduled_at": ago(minutes=9), "attempted_at": ago(minutes=8)}
    await make.job(kind="a", scheduled_at=due, priority=2)
    await make.job(kind="a", scheduled_at=ago(minutes=20), priority=3)
    await make.job(kind="b", scheduled_at=due)
    await make.job("completed", **taken)
    for state in ("running", "discarded"):
        await make.job(state, **taken, priority=2)
    await make.job("completed", **taken, queue="another")
    own = ago(minutes=7)
    await make.job("running", kind="b", scheduled_at=ago(minutes=11), attempted_at=own)
    async with driver.reading() as db:
        now = datetime.now(UTC)
        waits = (await HealthStore(db).health_waiting(["default"], now=now))["default"].kinds
    a, b = waits["a"], waits["b"]
    assert (a.jobs, a.since, a.taken_at, a.overtaken) == (2, due, None, 2)
    assert (b.since, b.taken_at, b.overtaken) == (due, own, 0), "one of its kind was taken later"


async def test_jobs_that_were_lost_again_and_again(driver: Driver, make: Make | SqliteMake) -> None:
    async def rescued(count: object, state: str = "retryable", **columns: Any) -> int:
        metadata = {"river:rescue_count": count}
        return await make.job(state, attempt=9, metadata=metadata, **columns)

    twice, often = await rescued(2), await rescued(5, "running")
    for odd in (1, "7", -3, None, 2**40, 1.5):
        await rescued(odd)
    await rescued(4, "completed")
    async with driver.reading() as db:
        found = await HealthStore(db).health_lost()
        assert [(row.id, row.rescues) for row in found.jobs] == [(often, 5), (twice, 2)]
        assert found.whole
        assert len((await HealthStore(db).health_lost(limit=1)).jobs) == 1
        some = await HealthStore(db).health_lost(seen=2)
        assert (len(some.jobs), some.whole) == (2, False)


async def state(driver: Driver) -> DatabaseState:
    async with driver.reading() as db:
        return await HealthStore(db).health_database()


@postgres_only
async def test_a_quiet_server(driver: Driver) -> None:
    found = await state(driver)
    assert (found.oldest, found.blocked, found.blocker) == (None, 0, None)
    assert not found.standby
    assert 0 <= found.notifications < 0.5


@postgres_only
async def test_an_open_transaction(driver: Driver, database_url: str) -> None:
    async with await AsyncConnection.connect(database_url, application_name="psql") as session:
        await session.execute("select 1")
        assert (await state(driver)).oldest is None, "it holds nothing back"
        await session.execute("update river_queue set updated_at = now()")
        await session.execute("select txid_current()")
        found = (await state(driver)).oldest
        assert found is not None
        assert (found.pid, found.client) == (session.info.backend_pid, "psql")
        assert found.state == "idle in transaction"
        assert timedelta(0) <= datetime.now(UTC) - found.since < timedelta(minutes=1)


@postgres_only
async def test_who_holds_a_lock(driver: Driver, database_url: str, connection: Connection) -> None:
    async with await AsyncConnection.connect(database_url, application_name="migrate") as holder:
        pid = holder.info.backend_pid
        await holder.execute("lock table river_job in access exclusive mode")
        waiter = asyncio.create_task(connection.execute("delete from river_job"))
        try:
            found = await state(driver)
            while not found.blocked:
                found = await state(driver)
        finally:
            await holder.rollback()
            await waiter
    assert found.blocker is not None
    assert (found.blocker.pid, found.blocker.client) == (pid, "migrate")
    assert found.blocked == 1
    assert found.blocked_since is not None


@postgres_only
async def test_what_a_role_may_not_see_is_counted(
    driver: Driver, database_url: str, connection: Connection
) -> None:
    name = f"little_{connection.info.dbname}"
    role = sql.Identifier(name)
    await connection.execute(sql.SQL("create role {} login password 'secret'").format(role))
    parts = urlsplit(database_url)
    address = parts.netloc.rpartition("@")[2]
    little = connect(urlunsplit(parts._replace(netloc=f"{name}:secret@{address}")))
    try:
        async with await AsyncConnection.connect(database_url) as session:
            await session.execute("select txid_current()")
            found = await state(little)
            assert found.oldest is None
            assert found.hidden >= 1
            assert (await state(driver)).hidden == 0
    finally:
        await little.close()
        await connection.execute(sql.SQL("drop role {}").format(role))
