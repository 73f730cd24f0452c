"""Features that take part in retry, cancel and delete, with a client or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from riverui.actions import jobs
from riverui.actions.job_part import Inner, KnownTables
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.engine.feature_list import plain_pilot
from riverui.engine.pilot import Feature, Pilot
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.job_actions import JobChanges
from tests.factory import job


class Clock:
    """Seconds that go on when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Retrying(Feature):
    """Takes part in retries where there is a table `riverui_one`."""

    def __init__(self, name: str, heard: list[str], tables: KnownTables) -> None:
        self._name = name
        self._heard = heard
        self._tables = tables

    async def takes_part(self, executor: Executor) -> bool:
        return "riverui_one" in await self._tables.names(executor)

    async def retry(self, executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
        self._heard.append(f"{self._name} before")
        changes = await do_inner(ids)
        self._heard.append(f"{self._name} after")
        return changes


class Deleting(Retrying):
    """Takes part in deletions, too."""

    async def delete(self, executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
        return await self.retry(executor, ids, do_inner)


async def test_a_feature_takes_part_once_its_table_is_there(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    heard: list[str] = []
    clock = Clock()
    tables = KnownTables(seconds=10, clock=clock)
    pilot = Pilot([Deleting("outer", heard, tables), Retrying("inner", heard, tables)])
    ended = await job(connection, "completed")
    await jobs.apply(driver, RETRY, [ended], pilot=pilot)
    assert heard == []

    await connection.execute("create table riverui_one ()")
    clock.now = 9.9
    await jobs.apply(driver, CANCEL, [ended], pilot=pilot)
    clock.now = 10
    changes = await jobs.apply(driver, RETRY, [ended], pilot=pilot)
    assert changes.changed == (ended,)
    assert heard == ["outer before", "inner before", "inner after", "outer after"]

    heard.clear()
    await jobs.apply(driver, CANCEL, [ended], pilot=pilot)
    assert heard == []
    await jobs.apply(driver, DELETE, [ended], pilot=pilot)
    assert heard == ["outer before", "outer after"]


async def test_without_tables_deleting_is_storage_s_call(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    pilot = Pilot([Deleting("one", [], KnownTables(seconds=0))])
    async with driver.transaction() as executor:
        assert await Pilot().deletes_plainly(executor)
        assert await plain_pilot().deletes_plainly(executor)
        assert await pilot.deletes_plainly(executor)
    await connection.execute("create table riverui_one ()")
    async with driver.transaction() as executor:
        assert not await pilot.deletes_plainly(executor)
