"""Figures in `riverui_rollup`: kept as they were, replaced, read by stretches, deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from riverui.domain.figures import OTHER, Tally
from riverui.domain.rollups import DAY, HOUR, MINUTE, TEN_MINUTES, Rollup, Stretch, Waiting
from riverui.domain.sketch import FIRST_BIN, LAST_BIN, Sketch
from riverui.errors import SchemaMissing
from riverui.storage.postgres.driver import PostgresDriver
from riverui.storage.postgres.own import packed_bins
from tests.drivers import connect

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def driver(driver: PostgresDriver, own_tables: None) -> PostgresDriver:
    """With riverui's own tables."""
    return driver


def tally(completed: int = 1, *, seconds: float = 1.5, failed: int = 0) -> Tally:
    return Tally(
        completed=completed,
        cancelled=1,
        discarded=2,
        failed=failed,
        inserted=7,
        run=Sketch.of([timedelta(seconds=seconds)] * completed),
        failed_run=Sketch.of([timedelta(seconds=9)] * failed),
        wait=Sketch.of([timedelta(milliseconds=3), timedelta(days=1000)]),
    )


def rollup(
    at: datetime = NOON, span: timedelta = MINUTE, *, completed: int = 1, kinds: int = 2
) -> Rollup:
    pairs = {("mail", f"kind “{n}”"): tally(completed, failed=n) for n in range(kinds)}
    pairs["slow", OTHER] = tally(3)
    waiting = Waiting(jobs=10_000, capped=True, oldest=timedelta(minutes=3))
    calm = Waiting(jobs=2, capped=False, oldest=timedelta(0))
    return Rollup(
        at=at, span=span, pairs=pairs, waiting={"": waiting, "mail": waiting, "idle": calm}
    )


def same(one: Tally, other: Tally) -> bool:
    """Whether two tallies tell the same."""
    sketches = [
        (
            getattr(each, name).counts,
            getattr(each, name).sum_us,
            getattr(each, name).max_us,
        )
        for name in ("run", "failed_run", "wait")
        for each in (one, other)
    ]
    counts = ("completed", "cancelled", "discarded", "failed", "inserted")
    return sketches[::2] == sketches[1::2] and all(
        getattr(one, name) == getattr(other, name) for name in counts
    )


async def put(driver: PostgresDriver, *rollups: Rollup) -> None:
    async with driver.transaction() as db:
        assert await db.rollup_lock()
        await db.rollup_put(rollups)


async def rows(connection: AsyncConnection[dict[str, int]]) -> int:
    found = await connection.execute("select count(*) as n from riverui_rollup")
    row = await found.fetchone()
    assert row is not None
    return row["n"]


async def test_a_bucket_is_kept_as_it_was(driver: PostgresDriver) -> None:
    kept = rollup()
    await put(driver, kept)
    async with driver.reading() as db:
        found = await db.rollup_get(MINUTE, NOON)
        assert await db.rollup_get(TEN_MINUTES, NOON) is None
        assert await db.rollup_get(MINUTE, NOON + MINUTE) is None
        assert await db.rollup_newest_list() == {MINUTE: NOON}
        told = await db.rollup_told_list(MINUTE, [NOON, NOON + MINUTE])
    assert found is not None
    assert found.pairs.keys() == kept.pairs.keys()
    assert all(same(found.pairs[pair], kept.pairs[pair]) for pair in kept.pairs)
    assert found.waiting == kept.waiting
    assert told == {NOON: (kept.weight, 1)}
    assert found.weight == kept.weight


async def test_one_in_place_of_another(
    driver: PostgresDriver, connection: AsyncConnection[dict[str, int]]
) -> None:
    await put(driver, rollup(kinds=5), rollup(NOON + MINUTE))
    before = await rows(connection)
    await put(driver, rollup(kinds=2), rollup(NOON, HOUR))
    async with driver.reading() as db:
        found = await db.rollup_get(MINUTE, NOON)
        assert found is not None
        assert len(found.pairs) == 3
        assert await db.rollup_get(MINUTE, NOON + MINUTE) is not None
        assert await db.rollup_newest_list() == {MINUTE: NOON + MINUTE, HOUR: NOON}
    # The whole, three queues, three pairs of the hour have come, and three pairs have gone.
    assert await rows(connection) == before - 3 + 7


async def test_everything_a_queue_a_kind_and_pairs(driver: PostgresDriver) -> None:
    await put(driver, rollup(), rollup(NOON + MINUTE, completed=4), rollup(NOON + 2 * MINUTE))
    stretch = [Stretch(MINUTE, NOON, NOON + 2 * MINUTE)]
    async with driver.reading() as db:
        whole = await db.rollup_list(stretch)
        queue = await db.rollup_list(stretch, queue="mail")
        kind = await db.rollup_list(stretch, kind="kind “1”")
        pair = await db.rollup_list(stretch, queue="slow", kind=OTHER)
        pairs = await db.rollup_pair_list(stretch)
        of_queue = await db.rollup_pair_list(stretch, queue="mail")
        assert await db.rollup_list([]) == []
        assert await db.rollup_list(stretch, queue="none") == []
    assert sorted((row.at, row.tally.completed) for row in whole) == [
        (NOON, 1 + 1 + 3),
        (NOON + MINUTE, 4 + 4 + 3),
    ]
    assert whole[0].waiting == Waiting(jobs=10_000, capped=True, oldest=timedelta(minutes=3))
    assert sorted((row.queue, row.kind, row.tally.completed) for row in queue) == [
        ("mail", "", 2),
        ("mail", "", 8),
    ]
    assert sorted((row.queue, row.tally.completed) for row in kind) == [("mail", 1), ("mail", 4)]
    assert [row.queue for row in pair] == ["slow", "slow"]
    assert {(row.queue, row.kind) for row in pairs} == set(rollup().pairs)
    assert {row.kind for row in of_queue} == {"kind “0”", "kind “1”"}
    assert len(pairs) == 6


async def test_what_is_over_and_not_folded_up(driver: PostgresDriver) -> None:
    await put(
        driver,
        *(rollup(NOON + n * MINUTE) for n in (0, 9, 10, 25)),
        rollup(NOON + 20 * MINUTE, TEN_MINUTES),
    )
    async with driver.reading() as db:

        async def unfolded(until: datetime) -> list[datetime]:
            return list(await db.rollup_unfolded_list(TEN_MINUTES, since=NOON - HOUR, until=until))

        assert await unfolded(NOON + HOUR) == [NOON, NOON + TEN_MINUTES]
        assert await unfolded(NOON + TEN_MINUTES) == [NOON]
        assert await db.rollup_unfolded_list(DAY, since=NOON - DAY, until=NOON + DAY) == []


async def test_the_oldest_are_deleted_few_at_a_time(
    driver: PostgresDriver, connection: AsyncConnection[dict[str, int]]
) -> None:
    await put(driver, *(rollup(NOON + n * MINUTE) for n in range(4)), rollup(NOON, HOUR))
    whole = await rows(connection)
    async with driver.autocommit() as db:
        for expected in (10, 4, 0):
            assert await db.rollup_delete_before(MINUTE, NOON + 2 * MINUTE, limit=10) == expected
        assert await db.rollup_newest_list() == {MINUTE: NOON + 3 * MINUTE, HOUR: NOON}
    assert await rows(connection) == whole - 14


async def test_all_are_deleted_at_once_where_that_is_allowed(
    driver: PostgresDriver, connection: AsyncConnection[dict[str, int]]
) -> None:
    await put(driver, rollup(), rollup(NOON, HOUR))
    async with driver.transaction() as db:
        assert await db.rollup_truncate()
    assert await rows(connection) == 0


async def test_all_are_deleted_by_a_user_with_few_rights(
    driver: PostgresDriver, connection: AsyncConnection[dict[str, int]], database_url: str
) -> None:
    await put(driver, rollup())
    name = f"few_{connection.info.backend_pid}"
    user = sql.Identifier(name)
    await connection.execute(sql.SQL("create role {} login password 'few'").format(user))
    try:
        await connection.execute(
            sql.SQL("grant select, insert, update, delete on riverui_rollup to {}").format(user)
        )
        few = connect(psycopg.conninfo.make_conninfo(database_url, user=name, password="few"))
        try:
            async with few.autocommit() as db:
                assert not await db.rollup_truncate()
                assert [await db.rollup_delete_some(limit=4) for _ in range(3)] == [4, 3, 0]
        finally:
            await few.close()
    finally:
        await connection.execute(sql.SQL("drop owned by {}").format(user))
        await connection.execute(sql.SQL("drop role {}").format(user))


async def test_one_writes_at_a_time(driver: PostgresDriver, database_url: str) -> None:
    other = connect(database_url)
    try:
        async with driver.transaction() as db:
            assert await db.rollup_lock()
            async with other.transaction() as waiting:
                assert not await waiting.rollup_lock()
        async with other.transaction() as waiting:
            assert await waiting.rollup_lock()
    finally:
        await other.close()


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {FIRST_BIN: 1},
        {LAST_BIN: 255, FIRST_BIN: 1},
        {100: 256, 101: 1},
        {100: 2**32 - 1},
        {n: 2**40 + n for n in range(FIRST_BIN, LAST_BIN + 1)},
    ],
)
def test_bins_are_packed_and_unpacked(counts: dict[int, int]) -> None:
    packed = packed_bins.pack(counts)
    assert packed_bins.unpack(packed) == counts
    assert len(packed) <= 2048


@pytest.mark.parametrize("data", [b"\x00", b"\x03abc", b"\x01a", b"\x02ab"])
def test_odd_bytes_are_no_bins(data: bytes) -> None:
    assert packed_bins.unpack(data) == {}


async def test_without_the_table_it_says_so(database_url: str) -> None:
    driver = connect(database_url)
    try:
        async with driver.reading() as db:
            with pytest.raises(SchemaMissing):
                await db.rollup_newest_list()
    finally:
        await driver.close()
