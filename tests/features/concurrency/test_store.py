"""Slots of limited queues: never more than the limit are lent, and dead clients' are freed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.partitions import Partition
from riverui.features.concurrency.store import LeaseParams, LimitStore
from riverui.features.heartbeats.store import ClientLife, ClientParams, ClientStatus, ClientStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.storage.stores.candidates import CandidateStore
from tests.drivers import connect
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


@pytest.fixture
async def lender(driver: Driver, make: Make | SqliteMake) -> Lender:
    """Return a database with the tables, and ways to borrow there."""
    return Lender(driver, make)


class Lender:
    """Lends slots of the queue `default`."""

    def __init__(self, driver: Driver, make: Make | SqliteMake) -> None:
        self.driver = driver
        self.make = make

    async def life(self, name: str, *, age: timedelta = timedelta(0)) -> ClientLife:
        """Register a client."""
        life = await register(self.driver, name)
        at = life.registered_at - age
        await self.make.execute(
            "update riverui_client set registered_at = %s where id = %s and registered_at = %s",
            [at, name, life.registered_at],
        )
        return ClientLife(id=name, registered_at=at)

    async def die(self, life: ClientLife) -> None:
        """Declare a client dead."""
        await self.make.execute(
            "update riverui_client set declared_dead_at = %s where id = %s",
            [datetime.now(UTC), life.id],
        )

    async def lease(
        self, life: ClientLife, wanted: Mapping[str, int], most: int = 3, **params: Any
    ) -> Mapping[str, int] | None:
        async with self.driver.autocommit() as executor:
            return await LimitStore(executor).limit_lease(
                LeaseParams(life=life, queue="default", most=most, wanted=wanted, **params)
            )

    async def free_dead(self) -> list[str]:
        async with self.driver.transaction() as executor:
            return list(await LimitStore(executor).limit_free_dead())

    async def taken(self) -> dict[str, int]:
        """Return the slots taken by key; the sum and its parts are held to be the same."""
        rows = await self.make.rows("select * from riverui_limit order by key")
        for row in rows:
            assert sum(_object(row["leases"]).values()) == row["taken"]
        return {row["key"]: row["taken"] for row in rows}


async def test_slots_are_lent_up_to_the_limit(lender: Lender) -> None:
    a, b = await lender.life("a"), await lender.life("b")
    assert await lender.lease(a, {"x": 2, "y": 5}) == {"x": 2, "y": 3}
    assert await lender.lease(b, {"x": 2, "y": 1, "z": 1}) == {"x": 1, "y": 0, "z": 1}
    assert await lender.lease(a, {"x": 3}) == {"x": 2}
    assert await lender.lease(a, {"x": 0, "none": 0}) == {"x": 0, "none": 0}
    assert await lender.lease(b, {"x": 3}) == {"x": 3}
    assert await lender.taken() == {"x": 3, "y": 3, "z": 1}


async def test_a_limit_that_sank_takes_no_slot_from_who_has_it(lender: Lender) -> None:
    a, b = await lender.life("a"), await lender.life("b")
    assert await lender.lease(a, {"": 3}) == {"": 3}
    assert await lender.lease(a, {"": 3}, most=1) == {"": 3}
    assert await lender.lease(a, {"": 4}, most=1) == {"": 3}
    assert await lender.lease(b, {"": 1}, most=1) == {"": 0}
    assert await lender.lease(a, {"": 2}, most=1) == {"": 2}


async def test_jobs_at_work_are_counted_in_any_case(lender: Lender) -> None:
    a, b = await lender.life("a"), await lender.life("b")
    assert await lender.lease(a, {"": 3}) == {"": 3}
    assert await lender.lease(b, {"": 2, "new": 7}, forced=True) == {"": 2, "new": 7}
    assert await lender.taken() == {"": 5, "new": 7}
    assert await lender.lease(a, {"": 2}) == {"": 2}
    assert await lender.lease(a, {"": 3}) == {"": 2}


async def test_who_is_dead_borrows_nothing_and_gives_everything_back(lender: Lender) -> None:
    a, b = await lender.life("a@host"), await lender.life("b")
    assert await lender.lease(a, {"x": 2, "y": 1}) == {"x": 2, "y": 1}
    assert await lender.lease(b, {"x": 2}) == {"x": 1}
    async with lender.driver.autocommit() as executor:
        assert await LimitStore(executor).limit_dead_at() is None
    assert await lender.free_dead() == []
    await lender.die(a)
    async with lender.driver.autocommit() as executor:
        assert await LimitStore(executor).limit_dead_at() is not None
    assert await lender.lease(a, {"x": 3}) is None
    assert await lender.lease(a, {"x": 0}) is None
    assert await lender.free_dead() == ["default"]
    assert await lender.taken() == {"x": 1, "y": 0}
    assert await lender.lease(b, {"x": 3}) == {"x": 3}
    assert await lender.free_dead() == []


async def test_who_has_another_life_by_now_borrows_for_that_one_only(lender: Lender) -> None:
    before = await lender.life("a", age=timedelta(minutes=1))
    await lender.lease(before, {"": 1})
    await lender.die(before)
    now = await lender.life("a")
    assert await lender.lease(before, {"": 1}) is None
    assert await lender.lease(now, {"": 2}, forced=True) == {"": 2}
    assert await lender.free_dead() == ["default"]
    assert await lender.taken() == {"": 2}


async def test_slots_of_who_is_not_known_any_more_come_back_in_time(lender: Lender) -> None:
    new, old = await lender.life("new"), await lender.life("old", age=timedelta(minutes=11))
    living = await lender.life("living", age=timedelta(days=1))
    for life in (new, old, living):
        assert await lender.lease(life, {"": 1}) == {"": 1}
    await lender.make.execute("delete from riverui_client where id in ('new', 'old')")
    assert await lender.free_dead() == ["default"]
    (row,) = await lender.make.rows("select leases from riverui_limit")
    assert {holder.split("@")[0] for holder in _object(row["leases"])} == {"new", "living"}


@postgres_only
async def test_workers_are_notified_of_wanted_slots(
    lender: Lender, make: Make, connection: AsyncConnection[Any]
) -> None:
    a, b = await lender.life("a"), await lender.life("b")
    heard: list[str] = []
    async with await connection.connect(connection.info.dsn, autocommit=True) as listening:
        await listening.execute('listen "public.river_insert"')

        async def hear() -> list[str]:
            # What was sent before comes first.
            await make.notify("river_insert", "end")
            async for notification in listening.notifies():
                if notification.payload == "end":
                    break
                heard.append(notification.payload)
            return heard

        await lender.lease(a, {"": 3})
        await lender.lease(a, {"": 2})
        assert await hear() == []
        await lender.lease(b, {"": 2})
        assert await hear() == []
        await lender.lease(a, {"": 1})
        assert [json.loads(payload) for payload in await hear()] == [{"queue": "default"}]
        await lender.lease(a, {"": 0})
        assert len(await hear()) == 1, "notified once, until a client wants more again"


async def register(driver: Driver, name: str) -> ClientLife:
    """Register a client by the driver."""
    params = ClientParams(
        id=name, started_at=datetime.now(UTC), heartbeat_interval=timedelta(seconds=20),
        host="", pid=0, language="", version="", release="",
    )  # fmt: skip
    async with driver.autocommit() as executor:
        return await ClientStore(executor).client_register(params, ClientStatus(queues={}))


async def test_unused_keys_are_deleted(lender: Lender) -> None:
    a = await lender.life("a")
    await lender.lease(a, {"used": 1, "idle": 1})
    await lender.lease(a, {"idle": 0})
    async with lender.driver.autocommit() as executor:
        for hours, forgotten in ((-1, 0), (1, 1)):
            before = datetime.now(UTC) + timedelta(hours=hours)
            found = await LimitStore(executor).limit_delete_idle(before=before, limit=9)
            assert found == forgotten
    assert await lender.taken() == {"used": 1}


async def test_the_keys_that_a_page_lists(lender: Lender) -> None:
    a, b = await lender.life("a"), await lender.life("b")
    await lender.lease(a, {"x": 1, "y": 2, "idle": 1})
    await lender.lease(b, {"y": 2})
    await lender.lease(a, {"idle": 0})
    async with lender.driver.reading() as executor:
        first, second = await LimitStore(executor).limit_list("default", cap=100, limit=10)
        assert (first.key, first.taken, first.clients, first.wanted) == (
            "y",
            3,
            {"a": 2, "b": 1},
            True,
        )
        assert (second.key, second.taken, second.clients) == ("x", 1, {"a": 1})
        assert len(await LimitStore(executor).limit_list("default", cap=100, limit=1)) == 1
        assert await LimitStore(executor).limit_list("other", cap=100, limit=10) == []


async def test_clients_of_limited_queues(lender: Lender) -> None:
    async with lender.driver.autocommit() as executor:
        limits = LimitStore(executor)

        async def listed(hours: float) -> list[Any]:
            after = datetime.now(UTC) + timedelta(hours=hours)
            found = await limits.limited_producer_list("default", updated_after=after, limit=10)
            return [(each.client_id, each.max_workers, each.running) for each in found]

        given = {"client_id": "a", "queue": "default", "concurrency": '{"global_limit": 3}'}
        await limits.limited_producer_upsert(max_workers=5, running="{}", **given)
        await limits.limited_producer_upsert(max_workers=6, running='{"x": 2}', **given)
        assert await listed(-1) == [("a", 6, '{"x": 2}')]
        assert await listed(1) == []
        await limits.limited_producer_delete(client_id="a", queue="default")
        assert await listed(-1) == []


async def test_keys_of_jobs(lender: Lender) -> None:
    one = await lender.make.job("running", args={"n": 1})
    two = await lender.make.job(args={})
    async with lender.driver.autocommit() as executor:
        keys = await CandidateStore(executor).job_key_list(
            [one, two, two + 1], Partition(by_args=("n",))
        )
    assert keys == {one: '{"n": 1}', two: '{"n": null}'}


def _object(leases: Any) -> dict[str, int]:
    """Return what SQLite has as text."""
    found: dict[str, int] = json.loads(leases) if isinstance(leases, str) else leases
    return found


async def test_in_a_schema_of_its_own(schema_database_url: str) -> None:
    driver = connect(schema_database_url, schema="Jobs_1")
    await migrate(driver, "up", line="riverui")
    life = await register(driver, "a")
    async with driver.autocommit() as executor:
        params = LeaseParams(life=life, queue="default", most=1, wanted={"": 2})
        assert await LimitStore(executor).limit_lease(params) == {"": 1}
        await ClientStore(executor).client_declare_dead(by="me", after=0, id="a")
        assert await LimitStore(executor).limit_free_dead() == ["default"]
    await driver.close()
