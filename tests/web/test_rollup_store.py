"""Stored figures: whoever writes them, how often and in what order, the end is the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.figures import OTHER, Tally
from riverui.domain.rollups import (
    DAY,
    HOUR,
    KEPT,
    MINUTE,
    MOST_PAIRS,
    TEN_MINUTES,
    Rollup,
    Waiting,
    begin,
    busiest,
    fold,
    stretches,
)
from riverui.domain.sketch import Sketch
from riverui.storage.connect import connect
from riverui.storage.interface import ROLLUPS, Driver
from riverui.web.live.rollup_store import store
from tests.drivers import connect as connect_postgres

Connection = AsyncConnection[dict[str, Any]]

NOON = begin(datetime.now(UTC), DAY) - timedelta(hours=12)
"""Yesterday."""


@pytest.fixture
def driver(driver: Driver, own_tables: None) -> Driver:
    """With riverui's own tables."""
    return driver


@pytest.fixture
async def other(driver: Driver, database_url: str) -> AsyncIterator[Driver]:
    """Yield another dashboard's way to the same database."""
    other = connect(database_url)
    yield other
    await other.close()


def minute(at: datetime, *, kinds: int = 3, more: int = 0, sampled: int = 1) -> Rollup:
    """Return what happened in this minute: the same each time, and `more`."""
    dice = random.Random(at.timestamp())
    pairs = {}
    for n in range(kinds):
        runs = [timedelta(milliseconds=dice.randrange(1, 90_000)) for _ in range(dice.randrange(9))]
        pairs["mail", f"kind_{n}"] = Tally(
            completed=len(runs) + more,
            failed=dice.randrange(3),
            inserted=dice.randrange(5),
            run=Sketch.of(runs),
            wait=Sketch.of(runs[::2]),
        )
    waiting = Waiting(jobs=dice.randrange(100), capped=False, oldest=timedelta(seconds=3))
    return Rollup(
        at=at, span=MINUTE, pairs=pairs, waiting={"": waiting, "mail": waiting}, sampled=sampled
    )


def day() -> list[Rollup]:
    """Return three hours, minute by minute."""
    return [minute(NOON + n * MINUTE) for n in range(180)]


async def write(driver: Driver, rollups: list[Rollup], *, until: datetime | None = None) -> None:
    stored = await store(driver, rollups, until=until or rollups[-1].at + MINUTE)
    assert stored is not None


async def totals(connection: Connection) -> dict[int, tuple[Any, ...]]:
    """All that is told of each span, and the newest bucket."""
    found = await connection.execute(
        "select step, count(*) as rows, sum(completed) as completed, sum(failed) as failed,"
        " sum(inserted) as inserted, sum(run_sum_us) as run, max(run_max_us) as longest,"
        " max(waiting) as waiting, max(bucket) as newest"
        " from riverui_rollup group by step order by step"
    )
    return {row["step"]: tuple(row.values()) for row in await found.fetchall()}


async def test_hours_are_exactly_what_their_minutes_are(driver: Driver) -> None:
    minutes = day()
    for n in range(0, 180, 7):
        await write(driver, minutes[n : n + 7])
    async with driver.reading() as db:
        for span, number in ((MINUTE, 180), (TEN_MINUTES, 18), (HOUR, 3)):
            found = await ROLLUPS.on(db).rollup_part_list(span, since=NOON, until=NOON + DAY)
            assert len(found) == number
            for each in found:
                parts = [one for one in minutes if each.at <= one.at < each.at + span]
                exact = fold(parts, at=each.at, span=span)
                assert each.waiting == exact.waiting
                assert each.pairs.keys() == exact.pairs.keys()
                for pair, tally in exact.pairs.items():
                    stored = each.pairs[pair]
                    assert stored.run.counts == tally.run.counts
                    assert stored.wait.sum_us == tally.wait.sum_us
                    assert (stored.completed, stored.failed) == (tally.completed, tally.failed)
        # The day is not over.
        assert DAY not in await ROLLUPS.on(db).rollup_newest_list()
    await write(driver, [minute(NOON + 13 * HOUR)])
    async with driver.reading() as db:
        whole = await ROLLUPS.on(db).rollup_get(DAY, NOON - 12 * HOUR)
    assert whole is not None
    assert whole.weight == sum(each.weight for each in minutes)


async def test_writing_again_in_any_order_changes_nothing(
    driver: Driver, connection: Connection
) -> None:
    minutes = day()
    for n in range(0, 180, 20):
        await write(driver, minutes[n : n + 20])
    before = await totals(connection)
    shuffled = random.Random(7).sample(minutes, len(minutes))
    for n in range(0, 180, 30):
        await write(driver, shuffled[n : n + 30], until=NOON + 3 * HOUR)
    assert await totals(connection) == before


async def test_two_dashboards_at_once_do_no_harm(
    driver: Driver, other: Driver, connection: Connection
) -> None:
    minutes = day()

    async def one(driver: Driver) -> int:
        busy = 0
        for n in range(0, 180, 10):
            while (
                await store(driver, minutes[n : n + 10], until=minutes[n + 9].at + MINUTE) is None
            ):
                busy += 1
                await asyncio.sleep(0.001)
        return busy

    await asyncio.gather(one(driver), one(other))
    together = await totals(connection)
    await connection.execute("truncate riverui_rollup")
    await one(driver)
    assert await totals(connection) == together


async def test_a_dashboard_that_is_killed_in_between_leaves_nothing_half_done(
    driver: Driver, database_url: str, connection: Connection
) -> None:
    minutes = day()
    await write(driver, minutes[:60])
    before = await totals(connection)
    victim = connect_postgres(database_url)

    async def die() -> None:
        async with victim.transaction() as db:
            assert await db.rollup_lock()
            await db.rollup_put(minutes[60:70])
            # While it holds the lock nobody else writes, and nobody waits.
            assert await store(driver, minutes[60:70], until=NOON + DAY) is None
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"
            )
            await db.rollup_newest_list()

    with pytest.raises(Exception, match=r"terminat|closed|reached"):
        await die()
    await victim.close()
    assert await totals(connection) == before
    await write(driver, minutes[60:])
    after = await totals(connection)
    await connection.execute("truncate riverui_rollup")
    await write(driver, minutes)
    assert await totals(connection) == after


async def test_who_tells_of_more_wins_and_what_waited_stays(driver: Driver) -> None:
    await write(driver, [minute(NOON, more=5)])
    # After a restart half of the rows are gone, and nobody has seen what waited.
    less = minute(NOON, more=1)
    await write(driver, [less])
    more = Rollup(at=NOON, span=MINUTE, pairs=minute(NOON, more=6).pairs)
    async with driver.reading() as db:
        found = await ROLLUPS.on(db).rollup_get(MINUTE, NOON)
    assert found is not None
    assert found.weight == minute(NOON, more=5).weight
    await write(driver, [more])
    async with driver.reading() as db:
        found = await ROLLUPS.on(db).rollup_get(MINUTE, NOON)
    assert found is not None
    assert found.weight == more.weight
    assert found.waiting == minute(NOON).waiting
    # A sample is believed only where it tells of much more.
    await write(driver, [minute(NOON, more=7, sampled=10)])
    async with driver.reading() as db:
        found = await ROLLUPS.on(db).rollup_get(MINUTE, NOON)
    assert found is not None
    assert found.sampled == 1


async def test_a_failure_that_is_told_late_reaches_the_hour(driver: Driver) -> None:
    minutes = day()
    await write(driver, minutes)
    late = minute(NOON + 7 * MINUTE, more=100)
    await write(driver, [late], until=NOON + 3 * HOUR)
    async with driver.reading() as db:
        found = [
            await ROLLUPS.on(db).rollup_get(span, begin(late.at, span))
            for span in (TEN_MINUTES, HOUR)
        ]
    weights = [each.weight for each in found if each is not None]
    assert weights == [
        sum(each.weight for each in minutes[:10]) + 300,
        sum(each.weight for each in minutes[:60]) + 300,
    ]


async def test_minutes_without_jobs_are_known_as_such(driver: Driver) -> None:
    await write(driver, [Rollup(at=NOON + n * MINUTE, span=MINUTE, pairs={}) for n in range(60)])
    async with driver.reading() as db:
        newest = await ROLLUPS.on(db).rollup_newest_list()
        hour = await ROLLUPS.on(db).rollup_get(HOUR, NOON)
    assert newest == {MINUTE: NOON + 59 * MINUTE, TEN_MINUTES: NOON + 50 * MINUTE, HOUR: NOON}
    assert hour is not None
    assert hour.weight == 0


async def test_what_is_too_old_is_deleted_and_no_sooner(
    driver: Driver, connection: Connection
) -> None:
    old = begin(NOON - KEPT[MINUTE] - HOUR, TEN_MINUTES)
    await write(driver, [minute(old + n * MINUTE) for n in range(10)])
    await write(driver, [minute(NOON)])
    found = await connection.execute("select distinct step, bucket from riverui_rollup")
    told = {(row["step"], row["bucket"].astimezone(UTC)) for row in await found.fetchall()}
    assert told == {(600, old), (3600, begin(old, HOUR)), (86_400, begin(old, DAY)), (60, NOON)}


def test_the_rest_of_many_kinds_is_one() -> None:
    pairs = {("q", f"kind_{n}"): Tally(completed=1000 - n) for n in range(300)}
    pairs["tiny", "kind"] = Tally(completed=1)
    kept = busiest(pairs)
    assert len(kept) == MOST_PAIRS + 2
    assert kept["q", OTHER].completed == sum(1000 - n for n in range(200, 300))
    assert kept[OTHER, OTHER].completed == 1
    assert busiest(kept).keys() == kept.keys()


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ({}, []),
        ({MINUTE: 13 * 60}, [("0:01:00", 0, 13 * 60 + 1)]),
        (
            {MINUTE: 60 * 24 + 34, TEN_MINUTES: 60 * 24 + 20, HOUR: 60 * 23, DAY: 0},
            [
                ("1 day, 0:00:00", 0, 60 * 24),
                ("0:10:00", 60 * 24, 60 * 24 + 30),
                ("0:01:00", 60 * 24 + 30, 60 * 24 + 35),
            ],
        ),
    ],
)
def test_stretches(newest: dict[timedelta, int], expected: list[tuple[str, int, int]]) -> None:
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    found = stretches(
        midnight,
        midnight + DAY + 40 * MINUTE,
        {span: midnight + n * MINUTE for span, n in newest.items()},
        widest=DAY,
    )
    assert [
        (str(each.step), (each.since - midnight) / MINUTE, (each.until - midnight) / MINUTE)
        for each in found
    ] == expected


def test_stretches_begin_and_end_finely() -> None:
    def at(hour: int, minute: int) -> datetime:
        return datetime(2026, 11, 22, hour, minute, tzinfo=UTC)

    newest = {MINUTE: at(14, 58), TEN_MINUTES: at(14, 40), HOUR: at(13, 0)}
    found = stretches(at(11, 50), at(14, 57), newest, widest=DAY)
    assert [(each.since, each.until) for each in found] == [
        (at(11, 50), at(12, 0)),
        (at(12, 0), at(14, 0)),
        (at(14, 0), at(14, 50)),
        (at(14, 50), at(14, 57)),
    ]


async def test_it_works_behind_a_pooler(driver: Driver, bouncer_url: str) -> None:
    """The lock is the transaction's: a session's would stay with a server connection."""
    one, other = connect(bouncer_url), connect(bouncer_url)
    try:
        minutes = day()[:40]
        for n in range(0, 40, 10):
            stored = await asyncio.gather(
                *(
                    store(each, minutes[n : n + 10], until=NOON + DAY)
                    for each in (one, other, one, other)
                )
            )
            assert any(stored)
        async with driver.transaction() as db:
            assert await ROLLUPS.on(db).rollup_lock()
            found = await ROLLUPS.on(db).rollup_part_list(MINUTE, since=NOON, until=NOON + DAY)
        assert sum(each.weight for each in found) == sum(each.weight for each in minutes)
    finally:
        await one.close()
        await other.close()
