"""Who takes part in verbs where no client is known: the parts whose tables are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from riverui.actions import jobs
from riverui.actions.job_part import Inner, JobPart, KnownTables
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.pilot import PARTS, PLAIN, PartsPilot
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.job_actions import JobChanges
from tests.factory import job


class Part:
    """Notes what it takes part in."""

    def __init__(self, name: str, heard: list[str]) -> None:
        self._name = name
        self._heard = heard

    async def __call__(self, executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
        self._heard.append(f"{self._name} before")
        changes = await do_inner(ids)
        self._heard.append(f"{self._name} after")
        return changes


class Clock:
    """Seconds that go on when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_part_takes_part_once_its_table_is_there(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    heard: list[str] = []
    outer, inner = Part("outer", heard), Part("inner", heard)
    clock = Clock()
    pilot = PartsPilot(
        [
            JobPart(tables=frozenset({"riverui_one", "riverui_other"}), retry=outer, delete=outer),
            JobPart(tables=frozenset({"riverui_one"}), retry=inner),
        ],
        tables=KnownTables(seconds=10, clock=clock),
    )
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
    pilot = PartsPilot([JobPart(tables=frozenset({"riverui_one"}))], tables=KnownTables(seconds=0))
    async with driver.transaction() as executor:
        assert await PLAIN.deletes_plainly(executor)
        assert await pilot.deletes_plainly(executor)
    await connection.execute("create table riverui_one ()")
    async with driver.transaction() as executor:
        assert not await pilot.deletes_plainly(executor)


def test_every_part_names_its_tables() -> None:
    assert PARTS
    assert all(part.tables for part in PARTS)
