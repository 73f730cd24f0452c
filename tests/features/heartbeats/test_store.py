"""Clients in `riverui_client`: their heartbeats, which are declared dead, and whose jobs are
whose.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.errors import SchemaMissing
from riverui.features.heartbeats.store import (
    DEAD_AFTER,
    ClientLife,
    ClientParams,
    ClientStatus,
    ClientStore,
    HeldJob,
)
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.cases import cases
from tests.factory import Make
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

STARTED = datetime(2026, 11, 22, 9, tzinfo=UTC)
STATUS = ClientStatus(
    queues={"default": (10, 3), "mail": (2, 2)}, running=5, loop_lag=0.002, memory=90_000_000
)


pytestmark = pytest.mark.usefixtures("own_tables")


@pytest.fixture
async def store(driver: Driver) -> AsyncIterator[ClientStore]:
    """Yield a store that commits each call."""
    async with driver.autocommit() as db:
        yield ClientStore(db)


def params(id: str = "one", **changes: Any) -> ClientParams:
    given: dict[str, Any] = {
        "id": id,
        "started_at": STARTED,
        "heartbeat_interval": timedelta(seconds=20),
        "host": "web-1",
        "pid": 4711,
        "language": "Python 3.13.1",
        "version": "1.2.3",
        "release": "v7",
    }
    return ClientParams(**given | changes)


async def register(driver: Driver, id: str = "one", **changes: Any) -> ClientLife:
    async with driver.autocommit() as db:
        return await ClientStore(db).client_register(params(id, **changes), STATUS)


async def silence(make: Make | SqliteMake, id: str, heartbeats: float) -> None:
    """Set a client's last heartbeat to so many heartbeats ago."""
    at = datetime.now(UTC) - heartbeats * timedelta(seconds=20)
    await make.execute("update riverui_client set heartbeat_at = %s where id = %s", [at, id])


async def test_a_life_from_its_start_to_its_end(driver: Driver, store: ClientStore) -> None:
    began = datetime.now(UTC)
    life = await register(driver)
    assert abs(life.registered_at - began) < timedelta(seconds=5)
    (row,) = await store.client_list(limit=10)
    assert row.id == "one"
    assert row.registered_at == life.registered_at
    assert row.started_at == STARTED
    assert row.heartbeat_interval == timedelta(seconds=20)
    assert (row.host, row.pid) == ("web-1", 4711)
    assert (row.language, row.version, row.release) == ("Python 3.13.1", "1.2.3", "v7")
    assert row.queues == {"default": (10, 3), "mail": (2, 2)}
    assert (row.running, row.loop_lag, row.memory) == (5, 0.002, 90_000_000)
    assert row.declared_dead_at is row.rescued_at is None
    assert not row.silent

    assert row.kinds is None

    beat = await store.client_heartbeat(
        life, ClientStatus(queues={"q" * 128: (1, 0)}, kinds=["mail", "a"])
    )
    assert beat.alive
    assert beat.due_in is None
    (later,) = await store.client_list(limit=10)
    assert later.heartbeat_at > row.heartbeat_at
    assert later.queues == {"q" * 128: (1, 0)}
    assert later.kinds == frozenset({"mail", "a"})
    many = [f"kind_{n:060}" for n in range(500)]
    await store.client_heartbeat(life, ClientStatus(queues={}, kinds=many))
    assert (await store.client_list(limit=1))[0].kinds is None, "they take too much room"
    assert (later.running, later.loop_lag, later.memory) == (0, None, None)

    await store.client_delete(life)
    assert list(await store.client_list(limit=10)) == []
    assert not (await store.client_heartbeat(life, STATUS)).alive


async def test_nobody_is_declared_dead_before_the_time(
    driver: Driver, make: Make | SqliteMake, store: ClientStore
) -> None:
    one, two = await register(driver), await register(driver, "two")
    assert await store.client_declare_dead(by="two") is None
    await silence(make, "one", DEAD_AFTER - 0.1)
    due_in = (await store.client_heartbeat(two, STATUS)).due_in
    assert due_in is not None
    assert due_in == pytest.approx(2, abs=1)
    assert await store.client_declare_dead(by="two") is None
    (silent, _) = await store.client_list(limit=10)
    assert silent.silent
    assert silent.silence > timedelta(seconds=67)
    assert silent.dead_at - silent.now == pytest.approx(
        timedelta(seconds=due_in), abs=timedelta(seconds=1)
    )
    # It was only late.
    assert (await store.client_heartbeat(one, STATUS)).alive
    assert (await store.client_heartbeat(two, STATUS)).due_in == pytest.approx(70, abs=2)


async def test_who_is_declared_dead_stays_so_and_begins_anew(
    driver: Driver, make: Make | SqliteMake, store: ClientStore
) -> None:
    one, two = await register(driver), await register(driver, "two")
    await silence(make, "one", DEAD_AFTER + 0.1)
    overdue = (await store.client_heartbeat(two, STATUS)).due_in
    assert overdue is not None
    assert overdue < 0
    dead = await store.client_declare_dead(by="two")
    assert dead is not None
    assert dead.life == one
    assert (dead.host, dead.pid) == ("web-1", 4711)
    assert not (await store.client_heartbeat(one, STATUS)).alive
    # The client that declared it dead rescues its jobs, for a while.
    assert await store.client_declare_dead(by="two") is None
    waiting = (await store.client_heartbeat(two, STATUS)).due_in
    assert waiting == pytest.approx(30, abs=2)
    long_ago = datetime.now(UTC) - timedelta(seconds=31)
    await make.execute(
        "update riverui_client set declared_dead_at = %s where id = 'one'", [long_ago]
    )
    once_more = await store.client_declare_dead(by="three")
    assert once_more is not None
    assert once_more.life == one
    await store.client_rescued(one, 7)
    assert await store.client_declare_dead(by="two") is None
    assert (await store.client_heartbeat(two, STATUS)).due_in is None

    again = await register(driver)
    assert again.registered_at > one.registered_at
    assert (await store.client_heartbeat(again, STATUS)).alive
    *living, row = await store.client_list(limit=10)
    assert sorted(each.id for each in living) == ["one", "two"]
    assert (row.declared_dead_by, row.rescued) == ("three", 7)
    assert row.rescued_at is not None
    assert not row.silent


async def test_only_the_client_asked_for(
    driver: Driver, make: Make | SqliteMake, store: ClientStore
) -> None:
    await register(driver)
    await register(driver, "two")
    for name in ("one", "two"):
        await silence(make, name, 2)
    assert await store.client_declare_dead(by="ada", after=1.5, id="three") is None
    assert await store.client_declare_dead(by="ada", after=2.5, id="two") is None
    dead = await store.client_declare_dead(by="ada", after=1.5, id="two")
    assert dead is not None
    assert dead.life.id == "two"


@postgres_only
async def test_a_sign_of_life_and_a_declaration_exclude_each_other(
    driver: Driver,
    make: Make,
    connection: AsyncConnection[DictRow],
    store: ClientStore,
) -> None:
    """Whichever comes first, the other one sees its changes."""
    life = await register(driver)
    await silence(make, "one", DEAD_AFTER + 1)
    async with driver.transaction() as first, driver.autocommit() as second:
        assert (await ClientStore(first).client_heartbeat(life, STATUS)).alive
        assert await ClientStore(second).client_declare_dead(by="two") is None
    assert await store.client_declare_dead(by="two") is None
    await silence(make, "one", DEAD_AFTER + 1)
    async with driver.autocommit() as second:
        async with driver.transaction() as first:
            assert await ClientStore(first).client_declare_dead(by="two") is not None
            beat = asyncio.create_task(ClientStore(second).client_heartbeat(life, STATUS))
            assert await second_waits(connection)
        assert not (await beat).alive


async def second_waits(connection: AsyncConnection[DictRow]) -> bool:
    """Wait until a statement of another connection waits for a lock."""
    while True:
        cursor = await connection.execute(
            "select 1 from pg_stat_activity where datname = current_database() and wait_event_type"
            " = 'Lock'"
        )
        if await cursor.fetchone():
            return True
        await asyncio.sleep(0.01)


async def test_the_jobs_of_a_dead_client_are_those_it_took_itself(
    driver: Driver, make: Make | SqliteMake, store: ClientStore
) -> None:
    async def job(by: list[str], seconds: float = 0, state: str = "running") -> int:
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        return await make.job(state, attempted_by=by, attempted_at=at)

    await job(["one"], -3600)
    await register(driver)
    mine = [await job(["two", "one"]), await job(["one"])]
    await job(["one", "two"])
    await job(["one"], state="completed")
    await job(["one"], 3600)
    await silence(make, "one", 9)
    await register(driver, "two")
    later = await register(driver)
    own = await job(["one"])
    dead = await store.client_declare_dead(by="two")
    assert dead is not None
    assert dead.attempted_before == later.registered_at
    rows = await store.job_get_held(dead, after_id=0, limit=10)
    assert [row.id for row in rows] == mine
    assert rows[0].attempted_by == ("two", "one")
    assert [row.id for row in await store.job_get_held(dead, after_id=0, limit=1)] == mine[:1]
    assert await store.job_first_held(dead, after_id=mine[0]) == mine[1]
    assert await store.job_first_held(dead, after_id=mine[1]) is None
    await silence(make, "one", 9)
    second = await store.client_declare_dead(by="two")
    assert second is not None
    assert [row.id for row in await store.job_get_held(second, after_id=0, limit=10)] == [own]


async def test_what_jobs_tell_of_clients(driver: Driver, make: Make | SqliteMake) -> None:
    at = datetime(2026, 11, 22, 8, tzinfo=UTC)
    ids = [
        await make.job(
            "running",
            kind=f"kind_{n}",
            queue=f"queue_{n % 2}",
            attempted_at=at - timedelta(minutes=n),
            attempted_by=["go", "one"],
        )
        for n in range(4)
    ]
    await make.job("running", attempted_by=None)
    await make.job(
        "completed", attempted_by=["one", "go"], attempted_at=at, queue="q", finalized_at=at
    )
    async with driver.reading() as db:
        go, one = await ClientStore(db).client_seen_list(cap=100, newest=100, held=3, limit=10)
        assert (go.id, go.running, go.held, go.seen_at, go.queues) == ("go", 0, [], at, ["q"])
        assert (one.id, one.running, one.seen_at) == ("one", 4, at)
        assert one.queues == ["queue_0", "queue_1"]
        assert list(one.held) == [
            HeldJob(
                id=ids[n],
                kind=f"kind_{n}",
                queue=f"queue_{n % 2}",
                attempted_at=at - timedelta(minutes=n),
            )
            for n in (3, 2, 1)
        ]
        assert (
            len(await ClientStore(db).client_seen_list(cap=100, newest=100, held=3, limit=1)) == 1
        )
        (few,) = await ClientStore(db).client_seen_list(cap=2, newest=0, held=3, limit=10)
        assert few.running <= 2


async def test_the_dead_are_forgotten_in_time(driver: Driver, make: Make | SqliteMake) -> None:
    for name in ("one", "two", "three"):
        await register(driver, name)
        await silence(make, name, 9)
        async with driver.autocommit() as db:
            assert await ClientStore(db).client_declare_dead(by="x") is not None
    await register(driver, "alive")
    async with driver.autocommit() as db:
        assert await ClientStore(db).client_delete_dead_before(STARTED, limit=10) == 0
        soon = datetime.now(UTC) + timedelta(hours=1)
        assert await ClientStore(db).client_delete_dead_before(soon, limit=2) == 2
        assert await ClientStore(db).client_delete_dead_before(soon, limit=2) == 1
        assert [row.id for row in await ClientStore(db).client_list(limit=10)] == ["alive"]


@postgres_only
async def test_a_heartbeat_changes_its_row_where_it_stands(driver: Driver, make: Make) -> None:
    """It adds no index entry, and the table does not grow."""
    life = await register(driver)
    sizes = [0]
    # A snapshot held for a moment keeps old versions of the row.
    while len(sizes) == 1 or (len(sizes) < 30 and sizes[-1] - sizes[-2] > 3 * 8192):
        async with driver.autocommit() as db:
            for _ in range(500):
                await ClientStore(db).client_heartbeat(life, STATUS)
        (size,) = await make.rows("select pg_relation_size('riverui_client') as bytes")
        sizes.append(size["bytes"])
    assert min(after - before for before, after in pairwise(sizes)) <= 3 * 8192
    (index,) = await make.rows(
        "select relpages from pg_class where relname = 'riverui_client_pkey'"
    )
    assert index["relpages"] <= 2


@postgres_only
async def test_what_the_table_refuses(driver: Driver, make: Make) -> None:
    await register(driver)
    with cases() as case:
        for change in (
            "id = repeat('x', 101)",
            "host = repeat('x', 256)",
            "release = repeat('x', 201)",
            "queues = '[]'",
            "queues = jsonb_build_object(repeat('x', 70000), 1)",
            "memory = -1",
            "heartbeat_interval = '0'",
            "rescued_at = now()",
        ):
            with case(change), pytest.raises(Exception, match="violates check constraint"):
                await make.rows(f"update riverui_client set {change} returning id")


async def test_many_queues_fit(store: ClientStore) -> None:
    names = {f"{n:03}{'q' * 125}": (1, 1) for n in range(1000)}
    await store.client_register(params(), ClientStatus(queues=names))
    (row,) = await store.client_list(limit=10)
    assert list(row.queues) == list(names)[:100]


async def test_without_the_table(driver: Driver) -> None:
    life = await register(driver)
    await migrate(driver, "down", line="riverui", target_version=-1)
    async with driver.autocommit() as db:
        assert not await ClientStore.installed(db)
        for asked in (
            ClientStore(db).client_heartbeat(life, STATUS),
            ClientStore(db).client_list(limit=1),
            ClientStore(db).client_declare_dead(by="x"),
        ):
            with pytest.raises(SchemaMissing):
                await asked
        assert list(await ClientStore(db).client_seen_list(cap=1, newest=1, held=1, limit=1)) == []
