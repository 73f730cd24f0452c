"""Rollups in `riverui_rollup`: stored unchanged, folded, read by stretches, deleted; whoever
stores them, how often and in what order, the end is the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import Sketch
from riverui.features.figures.domain import (
    DAY,
    HOUR,
    KEPT,
    MINUTE,
    TEN_MINUTES,
    Rollup,
    Stretch,
    Waiting,
    begin,
    fold,
)
from riverui.features.figures.store import RollupStore
from riverui.features.figures.verbs import figures_delete
from riverui.storage.interface import Driver
from tests.drivers import connect
from tests.features.both import database, driver, driver_url, file, postgres_only
from tests.features.figures.conftest import Connection

__all__ = ["database", "driver", "driver_url", "file"]

pytestmark = pytest.mark.usefixtures("own_tables")
NOON = begin(datetime.now(UTC), DAY) - timedelta(hours=36)
"""The day before yesterday's."""


@pytest.fixture
async def other(driver: Driver, database_url: str) -> AsyncIterator[Driver]:
    """Yield another process's driver of the same database."""
    other = connect(database_url)
    yield other
    await other.close()


def rollup(
    at: datetime = NOON, span: timedelta = MINUTE, *, kinds: int = 3, more: int = 0
) -> Rollup:
    """Return the rollup of this time: always the same, plus `more`."""
    dice = random.Random(at.timestamp())
    pairs = {("slow", OTHER): Tally(cancelled=1, discarded=2)}
    for n in range(kinds):
        runs = [timedelta(milliseconds=dice.randrange(1, 90_000)) for _ in range(dice.randrange(9))]
        pairs["mail", f"kind “{n}”"] = Tally(
            completed=len(runs) + more,
            failed=dice.randrange(3),
            inserted=dice.randrange(5),
            snoozed=n,
            run=Sketch.from_spans(runs),
            failed_run=Sketch.from_spans([timedelta(seconds=9)] * n),
            wait=Sketch.from_spans([*runs[::2], timedelta(days=1000)]),
        )
    waiting = Waiting(jobs=dice.randrange(100), capped=True, oldest=timedelta(seconds=3))
    idle = Waiting(jobs=2, capped=False, oldest=timedelta(0))
    return Rollup(
        at=at, span=span, pairs=pairs, waiting={"": waiting, "mail": waiting, "idle": idle}
    )


def hours(number: int = 3) -> list[Rollup]:
    """Return the minutes of so many hours from noon."""
    return [rollup(NOON + n * MINUTE) for n in range(60 * number)]


async def add(driver: Driver, rollups: Sequence[Rollup]) -> bool:
    async with driver.transaction() as transaction:
        return await RollupStore(transaction).rollup_add(rollups)


async def put(driver: Driver, *rollups: Rollup) -> None:
    async with driver.transaction() as transaction:
        await RollupStore(transaction).rollup_put(rollups)


async def stored(driver: Driver, span: timedelta, at: datetime = NOON) -> Rollup | None:
    async with driver.reading() as db:
        found = await RollupStore(db).rollup_part_list(span, since=at, until=at + span)
    return found[0] if found else None


async def newest(driver: Driver) -> Any:
    async with driver.reading() as db:
        return await RollupStore(db).rollup_newest_list()


async def totals(connection: Connection) -> dict[int, tuple[Any, ...]]:
    """Return the sums over each span, and the newest rollup."""
    found = await connection.execute(
        "select step, count(*) as rows, sum(completed) as completed, sum(failed) as failed,"
        " sum(inserted) as inserted, sum(run_sum_us) as run, max(run_max_us) as longest,"
        " max(waiting) as waiting, max(bucket) as newest"
        " from riverui_rollup group by step order by step"
    )
    return {row["step"]: tuple(row.values()) for row in await found.fetchall()}


def assert_same(one: Rollup | None, other: Rollup) -> None:
    assert one is not None
    assert one.waiting == other.waiting
    assert one.pairs.keys() == other.pairs.keys()
    for pair, tally in other.pairs.items():
        for name in Tally.__struct_fields__:
            found, expected = getattr(one.pairs[pair], name), getattr(tally, name)
            if isinstance(expected, Sketch):
                assert found.counts == expected.counts
                assert (found.sum_us, found.max_us) == (expected.sum_us, expected.max_us)
            else:
                assert found == expected, name


async def test_a_rollup_is_kept_as_it_was_until_another_takes_its_place(driver: Driver) -> None:
    await put(driver, rollup(kinds=5), rollup(NOON + MINUTE))
    assert_same(await stored(driver, MINUTE), rollup(kinds=5))
    assert await stored(driver, TEN_MINUTES) is None
    assert await newest(driver) == {MINUTE: NOON + MINUTE}
    await put(driver, rollup(kinds=2), rollup(NOON, HOUR))
    assert_same(await stored(driver, MINUTE), rollup(kinds=2))
    assert_same(await stored(driver, MINUTE, NOON + MINUTE), rollup(NOON + MINUTE))
    assert await newest(driver) == {MINUTE: NOON + MINUTE, HOUR: NOON}
    async with driver.autocommit() as db:
        assert await RollupStore(db).rollup_delete_before(MINUTE, NOON + MINUTE, limit=3) == 3
    await figures_delete(driver)
    assert await newest(driver) == {}


async def test_rows_of_everything_of_a_queue_and_of_pairs(driver: Driver) -> None:
    await put(driver, *(rollup(NOON + n * MINUTE) for n in range(3)))
    stretch = [Stretch(MINUTE, NOON, NOON + 2 * MINUTE)]
    minutes = [rollup(NOON), rollup(NOON + MINUTE)]

    def completed(*names: str) -> list[int]:
        return [
            sum(tally.completed for pair, tally in each.pairs.items() if {*names} <= {*pair})
            for each in minutes
        ]

    async with driver.reading() as db:
        store = RollupStore(db)
        whole = await store.rollup_list(stretch)
        queue = await store.rollup_list(stretch, queue="mail")
        kind = await store.rollup_pair_list(stretch, kind="kind “1”")
        pair = await store.rollup_pair_list(stretch, queue="slow", kind=OTHER)
        pairs = await store.rollup_pair_list(stretch)
        of_queue = await store.rollup_pair_list(stretch, queue="mail")
        assert await store.rollup_list([]) == []
        assert await store.rollup_list(stretch, queue="none") == []
    for rows, expected in (
        (whole, completed()),
        (queue, completed("mail")),
        (kind, completed("kind “1”")),
        (pair, completed("slow", OTHER)),
    ):
        assert [row.tally.completed for row in sorted(rows)] == expected
    assert [row.waiting for row in sorted(whole)] == [each.waiting[""] for each in minutes]
    assert {(row.queue, row.kind) for row in pairs} == set(rollup().pairs)
    assert len(pairs) == 8
    assert {row.kind for row in of_queue} == {f"kind “{n}”" for n in range(3)}


async def test_wider_rollups_are_exactly_what_their_minutes_are(driver: Driver) -> None:
    minutes = hours()
    for n in range(0, 180, 7):
        assert await add(driver, minutes[n : n + 7])
    for span in (TEN_MINUTES, HOUR):
        for at in (NOON + n * span for n in range(3 * HOUR // span)):
            parts = [each for each in minutes if at <= each.at < at + span]
            assert_same(await stored(driver, span, at), fold(parts, at=at, span=span))
    # The day is not over.
    assert DAY not in await newest(driver)
    late = rollup(NOON + 13 * HOUR, kinds=0)
    await add(driver, [late])
    day = await stored(driver, DAY, NOON - 12 * HOUR)
    assert day is not None
    assert day.weight == sum(each.weight for each in minutes)
    # Minutes without jobs are stored too.
    await add(driver, [Rollup(at=late.at + n * MINUTE, span=MINUTE, pairs={}) for n in range(60)])
    empty = await stored(driver, TEN_MINUTES, late.at + TEN_MINUTES)
    assert empty is not None
    assert empty.weight == 0


@postgres_only
async def test_who_stores_what_how_often_makes_no_difference(
    driver: Driver, other: Driver, connection: Connection
) -> None:
    minutes = hours(1)
    await add(driver, minutes)
    before = await totals(connection)
    shuffled = random.Random(7).sample(minutes, len(minutes))
    for n in range(0, 60, 10):
        await add(driver, shuffled[n : n + 10])
    assert await totals(connection) == before
    await connection.execute("truncate riverui_rollup")

    async def all_of_them(driver: Driver) -> None:
        for n in range(0, 60, 10):
            while not await add(driver, minutes[n : n + 10]):  # noqa: ASYNC110 - the lock is SQL's
                await asyncio.sleep(0.001)

    await asyncio.gather(all_of_them(driver), all_of_them(other))
    assert await totals(connection) == before


async def test_the_heavier_rollup_wins_and_reaches_the_hour(driver: Driver) -> None:
    minutes = hours(1)
    await add(driver, minutes)
    late = rollup(NOON + 7 * MINUTE, more=100)
    await add(driver, [late])
    # After a restart half of the rows are deleted.
    await add(driver, [rollup(late.at, more=1)])
    for span, number in ((MINUTE, 1), (TEN_MINUTES, 10), (HOUR, 60)):
        found = await stored(driver, span, begin(late.at, span))
        assert found is not None
        if span > MINUTE:
            assert found.weight == sum(each.weight for each in minutes[:number]) + 300
        else:
            assert_same(found, late)


@postgres_only
async def test_a_process_that_is_killed_leaves_nothing_half_done(
    driver: Driver, database_url: str, connection: Connection
) -> None:
    minutes = hours(1)
    await add(driver, minutes[:30])
    before = await totals(connection)
    victim = connect(database_url)

    async def die() -> None:
        async with victim.transaction() as transaction:
            assert await RollupStore(transaction).rollup_add(minutes[30:40])
            # Meanwhile no other transaction stores, or waits.
            assert not await add(driver, minutes[30:40])
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
            )
            await RollupStore(transaction).rollup_newest_list()

    with pytest.raises(Exception, match=r"terminat|closed|reached"):
        await die()
    await victim.close()
    assert await totals(connection) == before
    await add(driver, minutes[30:])
    after = await totals(connection)
    await connection.execute("truncate riverui_rollup")
    await add(driver, minutes)
    assert await totals(connection) == after


@postgres_only
async def test_it_works_behind_a_pooler(driver: Driver, bouncer_url: str) -> None:
    """The lock is the transaction's: a session's would stay with a server connection."""
    one, other = connect(bouncer_url), connect(bouncer_url)
    minutes = hours(1)[:40]
    for n in range(0, 40, 10):
        both = await asyncio.gather(*(add(each, minutes[n : n + 10]) for each in (one, other)))
        assert any(both)
    await one.close()
    await other.close()
    for each in minutes:
        assert_same(await stored(driver, MINUTE, each.at), each)


@postgres_only
async def test_what_is_too_old_is_deleted_and_no_sooner(
    driver: Driver, connection: Connection
) -> None:
    old = begin(NOON - KEPT[MINUTE] - HOUR, TEN_MINUTES)
    await add(driver, [rollup(old + n * MINUTE) for n in range(10)])
    await add(driver, [rollup(NOON)])
    found = await connection.execute("select distinct step, bucket from riverui_rollup")
    left = {(row["step"], row["bucket"].astimezone(UTC)) for row in await found.fetchall()}
    assert left == {(600, old), (3600, begin(old, HOUR)), (86_400, begin(old, DAY)), (60, NOON)}
    async with driver.autocommit() as db:
        for expected in (3, 3, 2, 0):
            store = RollupStore(db)
            assert await store.rollup_delete_before(HOUR, NOON, limit=3) == expected


@postgres_only
async def test_all_are_deleted_whatever_the_users_rights(
    driver: Driver, connection: Connection, database_url: str
) -> None:
    async def rows() -> int:
        return len(await (await connection.execute("select 1 from riverui_rollup")).fetchall())

    await put(driver, rollup(), rollup(NOON, HOUR))
    await figures_delete(driver)
    assert await rows() == 0
    await put(driver, rollup())
    name = f"few_{connection.info.backend_pid}"
    user = sql.Identifier(name)
    await connection.execute(sql.SQL("create role {} login password 'few'").format(user))
    try:
        await connection.execute(
            sql.SQL("grant select, insert, update, delete on riverui_rollup to {}").format(user)
        )
        few = connect(psycopg.conninfo.make_conninfo(database_url, user=name, password="few"))
        async with few.autocommit() as db:
            assert not await RollupStore(db).rollup_truncate()
            assert await RollupStore(db).rollup_delete_some(limit=4) == 4
        await figures_delete(few)
        await few.close()
        assert await rows() == 0
    finally:
        await connection.execute(sql.SQL("drop owned by {}").format(user))
        await connection.execute(sql.SQL("drop role {}").format(user))
