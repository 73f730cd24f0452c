"""Marks in `riverui_mark`: the first of a label wins among concurrent inserts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from riverui.domain.marks import Mark
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from tests.features.both import database, driver, driver_url, file

__all__ = ["database", "driver", "driver_url", "file"]

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


pytestmark = pytest.mark.usefixtures("own_tables")


async def insert(
    driver: Driver, label: str, at: datetime | None = None, **given: str
) -> tuple[Mark, bool]:
    async with driver.transaction() as db:
        return await MarkStore(db).mark_insert(
            MarkInsertParams(label=label, at=at, **given), within=MINUTE
        )


async def listed(
    driver: Driver,
    since: datetime = NOON - timedelta(days=1),
    until: datetime = NOON + timedelta(days=1),
    limit: int = 100,
) -> list[Mark]:
    async with driver.reading() as db:
        return list(await MarkStore(db).mark_list(since=since, until=until, limit=limit))


async def test_a_mark_is_kept_to_the_minute(driver: Driver) -> None:
    mark, made = await insert(
        driver,
        "v1.4.2 “ü”",
        NOON + timedelta(seconds=59.9),
        release="9f3c",
        url="https://git.example/v1.4.2",
        user="ada",
    )
    assert made
    assert mark == Mark(
        at=NOON, label="v1.4.2 “ü”", release="9f3c", url="https://git.example/v1.4.2", user="ada"
    )
    assert await listed(driver) == [mark]
    before = datetime.now(UTC)
    now, _ = await insert(driver, "now")
    assert now.at.second == now.at.microsecond == 0
    assert before - MINUTE < now.at <= datetime.now(UTC)


async def test_the_first_of_a_label_wins_for_its_minute_and_those_beside_it(
    driver: Driver,
) -> None:
    first, _ = await insert(driver, "v2", NOON + timedelta(seconds=50), user="first")
    # In the next minute of the clock, but the same deploy.
    assert await insert(driver, "v2", NOON + timedelta(seconds=65), user="late") == (first, False)
    assert await insert(driver, "v2", NOON - MINUTE, user="early") == (first, False)
    other, made = await insert(driver, "v3", NOON)
    assert made
    again, made = await insert(driver, "v2", NOON + timedelta(seconds=121))
    assert made
    assert await listed(driver) == [again, other, first]


async def test_forty_processes_at_once_make_one(driver: Driver, driver_url: str) -> None:
    others = [connect(driver_url) for _ in range(4)]
    try:
        made = await asyncio.gather(
            *(
                insert(other, "v5", NOON + timedelta(seconds=at), user=f"process {at}")
                for at in range(40)
                for other in others[at % 4 : at % 4 + 1]
            )
        )
        assert sum(new for _, new in made) == 1
        assert len({mark for mark, _ in made}) == 1
        assert len(await listed(driver)) == 1

        async def release(each: Driver) -> Mark | None:
            async with each.transaction() as db:
                return await MarkStore(db).mark_insert_release(
                    MarkInsertParams(label="r1", release="r1")
                )

        released = await asyncio.gather(*(release(others[n % 4]) for n in range(20)))
        assert len([mark for mark in released if mark]) == 1
    finally:
        for other in others:
            await other.close()


async def test_a_release_is_marked_once(driver: Driver) -> None:
    async def release(name: str) -> Mark | None:
        async with driver.transaction() as db:
            return await MarkStore(db).mark_insert_release(
                MarkInsertParams(label=name, release=name)
            )

    # It was marked already, an hour before the workers started.
    await insert(driver, "v7", NOON)
    assert await release("v7") is None
    mark = await release("v8")
    assert mark is not None
    assert (mark.label, mark.release) == ("v8", "v8")
    assert await release("v8") is None
    await insert(driver, "Tuesday", NOON, release="9f3c")
    assert await release("9f3c") is None


async def test_old_ones_are_forgotten_few_at_a_time(driver: Driver) -> None:
    for hour in range(5):
        await insert(driver, f"v{hour}", NOON + timedelta(hours=hour))
    for expected in (2, 1, 0):
        async with driver.autocommit() as db:
            before = NOON + timedelta(hours=3)
            assert await MarkStore(db).mark_delete_before(before, limit=2) == expected
    assert [mark.label for mark in await listed(driver)] == ["v4", "v3"]


def test_the_table_refuses_what_charts_cannot_show(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for columns, values in (
            ("at, label", "'2026-11-22 12:00:01Z', 'v1'"),
            ("at, label", "'2026-11-22 12:00:00Z', ''"),
            ("at, label, url", "'2026-11-22 12:00:00Z', 'v1', 'javascript:alert(1)'"),
        ):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(
                    f"insert into riverui_mark ({columns}) values ({values})".encode()
                )
