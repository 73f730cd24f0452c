"""Buckets of tokens in `riverui_rate`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.features.rate_limits.buckets import SPARE
from riverui.features.rate_limits.store import BucketParams, RateStore, Take
from riverui.storage.interface import Driver
from tests.features.both import database, driver, driver_url, file, postgres_only

__all__ = ["database", "driver", "driver_url", "file"]

SLOW = BucketParams(queue="default", limit=0.01, per=timedelta(seconds=1), burst=10.0)
"""A token in 100 seconds: none comes while a test runs."""


pytestmark = pytest.mark.usefixtures("own_tables")


async def take(driver: Driver, tokens: float, key: str = "", *, unit: float = 1.0) -> float:
    async with driver.autocommit() as db:
        return (await RateStore(db).rate_take(SLOW, [Take(key, tokens, unit)]))[key].tokens


async def test_a_bucket_is_full_at_first_and_empties(driver: Driver) -> None:
    async with driver.autocommit() as db:
        odd = "é\\\"'{}"
        taken = await RateStore(db).rate_take(
            SLOW, [Take(odd, 3, 1), Take("", 4, 1), Take("none", 0, 1)]
        )
        assert {key: each.tokens for key, each in taken.items()} == {odd: 3, "": 4}
        assert (3 - SPARE) * 100 - 1 < taken[odd].full_in <= 300.001
        taken = await RateStore(db).rate_take(SLOW, [Take("", 9, 1), Take("new", 10, 1)])
        assert {key: each.tokens for key, each in taken.items()} == {"": 6, "new": 10}
        taken = await RateStore(db).rate_take(SLOW, [Take("", 1, 1), Take("new", 1, 1)])
        assert [each.tokens for each in taken.values()] == [0, 0]
    async with driver.reading() as db:
        rows = await RateStore(db).rate_list("default", limit=2)
        assert await RateStore(db).rate_list("other", limit=2) == []
    assert {row.key for row in rows} == {"", "new"}
    assert rows[0].full_in >= rows[1].full_in
    assert rows[0].tokens == pytest.approx(0, abs=SPARE + 0.1)
    assert rows[0].rate == SLOW.rate
    assert 0.9 < rows[0].pace <= 1


async def test_only_whole_units_are_given(driver: Driver) -> None:
    assert await take(driver, 12, unit=4) == 8
    assert await take(driver, 5, unit=5) == 0
    assert await take(driver, 2, unit=0.25) == 2
    assert await take(driver, 9, "mixed", unit=9) == 9
    assert await take(driver, 3, "mixed", unit=3) == 0


async def test_a_unit_larger_than_the_bucket_is_given_when_it_is_full(
    driver: Driver,
) -> None:
    assert await take(driver, 25, unit=25) == 25
    assert await take(driver, 25, unit=25) == 0
    assert await take(driver, 1, "b") == 1
    assert await take(driver, 25, "b", unit=25) == 0
    async with driver.reading() as db:
        rows = {row.key: row for row in await RateStore(db).rate_list("default", limit=9)}
    assert rows[""].tokens == pytest.approx(-15, abs=SPARE + 0.1)
    assert rows["b"].tokens == pytest.approx(9, abs=SPARE + 0.1)


async def test_what_is_given_back_can_be_taken_again_and_no_more_than_a_full_bucket(
    driver: Driver,
) -> None:
    assert await take(driver, 9) == 9
    async with driver.autocommit() as db:
        await RateStore(db).rate_give_back(SLOW, {"": 4, "unknown": 3})
    assert await take(driver, 9) == 5
    async with driver.autocommit() as db:
        await RateStore(db).rate_give_back(SLOW, {"": 1_000})
    assert await take(driver, 1_000) == 10


@postgres_only
async def test_tokens_come_in_by_the_clock(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    assert await take(driver, 10) == 10
    await connection.execute(b"update riverui_rate set full_at = full_at - interval '251 seconds'")
    assert await take(driver, 10) == 2
    await connection.execute(b"update riverui_rate set full_at = full_at - interval '1 day'")
    assert await take(driver, 100) == 10


async def test_a_changed_limit_keeps_the_tokens(driver: Driver) -> None:
    assert await take(driver, 4) == 4
    other = BucketParams(queue="default", limit=1, per=timedelta(hours=1), burst=100.0)
    async with driver.autocommit() as db:
        taken = (await RateStore(db).rate_take(other, [Take("", 100, 1)]))[""]
        assert taken.tokens == 6
        assert taken.full_in == pytest.approx(100 * 3600, rel=0.01)
        smaller = BucketParams(queue="default", limit=1000, per=timedelta(hours=1), burst=2.0)
        taken = (await RateStore(db).rate_take(smaller, [Take("", 1, 1)]))[""]
        assert taken.tokens == 0
        assert taken.full_in == pytest.approx(2 * 3.6, rel=0.3)


async def test_concurrent_takes_never_exceed_the_bucket(driver: Driver) -> None:
    keys = [f"k{number}" for number in range(12)]

    async def taken(some: list[str]) -> float:
        total = 0.0
        for _ in range(6):
            async with driver.autocommit() as db:
                found = await RateStore(db).rate_take(SLOW, [Take(key, 3, 1) for key in some])
                total += sum(each.tokens for each in found.values())
                await RateStore(db).rate_give_back(SLOW, {some[0]: 1.0})
                await RateStore(db).rate_take(SLOW, [Take(some[0], 1, 1)])
        return total

    totals = await asyncio.gather(
        taken(keys), taken(keys[::-1]), taken(keys[::2]), taken(keys[3:] + keys[:3])
    )
    assert sum(totals) >= 120
    async with driver.reading() as db:
        rows = await RateStore(db).rate_list("default", limit=100)
    assert len(rows) == 12
    assert all(-0.01 <= row.tokens <= SPARE + 0.1 for row in rows)


@postgres_only
async def test_unused_full_buckets_are_deleted(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    for queue in "ab":
        async with driver.autocommit() as db:
            params = BucketParams(queue=queue, limit=1, per=timedelta(seconds=1), burst=10)
            await RateStore(db).rate_take(params, [Take(key, 1, 1) for key in "123"])
    await connection.execute(
        b"update riverui_rate set full_at = now() - interval '2 minutes',"
        b" spent_at = now() - interval '2 minutes' where key <> '2' or queue = 'b'"
    )
    await connection.execute(
        b"update riverui_rate set full_at = now() + interval '1 hour'"
        b" where key = '2' and queue = 'b'"
    )
    async with driver.autocommit() as db:
        assert await RateStore(db).rate_delete_full(after=None, limit=4) == (3, ("b", "1"))
        assert await RateStore(db).rate_delete_full(after=("b", "1"), limit=4) == (1, None)
        left = [
            *await RateStore(db).rate_list("a", limit=9),
            *await RateStore(db).rate_list("b", limit=9),
        ]
    assert [(row.queue, row.key) for row in left] == [("a", "2"), ("b", "2")]


@postgres_only
async def test_tiny_numbers_in_a_row_do_not_underflow(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await take(driver, 10)
    await connection.execute(
        b"update riverui_rate set pace = 1e-308, limited_to = 1e-308,"
        b" per = interval '9999999 years', spent_at = to_timestamp(0)"
    )
    # By that rate next to nothing is missing from the bucket.
    assert await take(driver, 1) == 1
