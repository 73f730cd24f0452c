"""Windows of stored figures, joined with the minutes that this process has read."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from riverui.domain.figures import WINDOWS, Figures, Tally
from riverui.domain.sketch import Sketch
from riverui.errors import DatabaseUnavailable
from riverui.features.figures.domain import (
    DAY,
    HOUR,
    MINUTE,
    TEN_MINUTES,
    Rollup,
    Waiting,
    begin,
)
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.store import RollupStore
from riverui.storage.interface import Driver
from tests.factory import attempt_error, job
from tests.features.figures.conftest import Clock, Connection, Make, ended, read_all
from tests.web.stand_ins import DeadDriver

pytestmark = pytest.mark.usefixtures("own_tables")
NOW = datetime.now(UTC)
"""When the current test begins: windows move on while others run."""


@pytest.fixture(autouse=True)
def _now() -> None:
    global NOW
    NOW = datetime.now(UTC)


def rollup(at: datetime, span: timedelta, completed: int = 1, **waiting: int) -> Rollup:
    """Return a rollup with two kinds in two queues."""
    run = Sketch.from_spans([timedelta(seconds=1)] * completed)
    return Rollup(
        at=begin(at, span),
        span=span,
        pairs={
            ("mail", "send"): Tally(completed=completed, run=run),
            ("mail", "bounce"): Tally(discarded=1, failed=2),
            ("slow", "send"): Tally(completed=1),
        },
        waiting={
            "" if queue == "all" else queue: Waiting(
                jobs=jobs, capped=jobs > 99, oldest=timedelta(seconds=jobs)
            )
            for queue, jobs in waiting.items()
        },
    )


async def put(driver: Driver, *rollups: Rollup) -> None:
    async with driver.transaction() as transaction:
        await RollupStore(transaction).rollup_put(rollups)


def at(figures: Figures, when: datetime) -> Tally | None:
    """Return the tally of the column that covers this time."""
    start = begin(when, figures.window.step)
    return next(column.tally for column in figures.columns if column.at == start)


async def test_a_week_of_hours_tens_and_minutes(driver: Driver, figures: FigureReader) -> None:
    hour = begin(NOW, HOUR)
    await put(
        driver,
        *(rollup(hour - n * HOUR, HOUR, n) for n in range(1, 9 * 24)),
        *(rollup(hour - n * TEN_MINUTES, TEN_MINUTES, 7) for n in range(1, 100)),
        rollup(begin(NOW, DAY) - DAY, DAY, sum(range(1, 25))),
    )
    week = await figures.known(WINDOWS["7d"])
    assert len(week.columns) == 84
    # A column of two hours has what its hours have, and nothing is counted twice.
    when = begin(hour - 10 * HOUR, timedelta(hours=2))
    back = (hour - when) // HOUR
    tally = at(week, when)
    assert tally is not None
    assert tally.completed == back + (back - 1) + 2
    assert tally.run.n == back + (back - 1)
    assert (week.complete, week.source, week.trouble) == (True, "stored figures", "")
    assert week.since == week.columns[0].at
    assert set(week.pairs) == {("mail", "send"), ("mail", "bounce"), ("slow", "send")}


async def test_the_newest_column_is_made_of_finer_rollups(
    driver: Driver, figures: FigureReader
) -> None:
    day = begin(NOW, DAY)
    await put(driver, rollup(day - DAY, DAY, 100), rollup(NOW - MINUTE, MINUTE, 5))
    quarter = await figures.known(WINDOWS["90d"])
    assert len(quarter.columns) == 90
    yesterday = at(quarter, day - DAY)
    assert yesterday is not None
    assert yesterday.completed == 101
    # Just after midnight the minute is one of yesterday, which is read as a day.
    assert quarter.total.completed in (101 + 6, 101)
    assert quarter.columns[-3].tally is None
    assert not quarter.columns[-1].finished


async def test_a_queue_a_kind_and_a_pair(driver: Driver, figures: FigureReader) -> None:
    when, day = NOW - 3 * HOUR, WINDOWS["24h"]
    await put(driver, rollup(when, TEN_MINUTES, 5, all=120, mail=20))
    whole = await figures.known(day)
    queue = await figures.known(day, queue="mail")
    kind = await figures.known(day, kind="send")
    pair = await figures.known(day, queue="slow", kind="send")
    nobody = await figures.known(day, queue="none")
    assert [
        (tally.completed, tally.failed)
        for found in (whole, queue, kind, pair, nobody)
        if (tally := at(found, when))
    ] == [(6, 2), (5, 2), (6, 0), (1, 0), (0, 0)]
    assert set(queue.pairs) == {("mail", "send"), ("mail", "bounce")}
    assert set(kind.pairs) == {("mail", "send"), ("slow", "send")}
    assert set(pair.pairs) == {("slow", "send")}
    assert [
        [
            (column.waiting, column.waiting_capped, column.oldest_waiting)
            for column in found.columns
            if column.waiting is not None
        ]
        for found in (whole, queue, nobody, kind)
    ] == [
        [(120, True, timedelta(seconds=120))],
        [(20, False, timedelta(seconds=20))],
        [(0, False, timedelta(0))],
        [],
    ]


async def test_a_window_is_read_once_a_minute(
    driver: Driver, figures: FigureReader, clock: Clock
) -> None:
    async def completed() -> int:
        return (await figures.known(WINDOWS["24h"])).total.completed

    when = NOW - 2 * HOUR
    assert await completed() == 0
    await put(driver, rollup(when, TEN_MINUTES))
    clock.now += 59
    assert await completed() == 0
    clock.now += 1
    # The old one is shown while it is read again.
    await completed()
    async with asyncio.timeout(10):
        while await completed() != 2:  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.01)
    for more in (9, 19):
        await put(driver, rollup(when, TEN_MINUTES, more))
        clock.now += 600
        assert await completed() == more + 1
    figures.forget()
    await put(driver, rollup(when, TEN_MINUTES, 29))
    assert await completed() == 30


async def test_the_newest_minutes_are_those_of_this_process(
    driver: Driver, figures: FigureReader, connection: Connection
) -> None:
    seconds = timedelta(seconds=20)
    await ended(connection, NOW - seconds)
    await put(driver, rollup(NOW - 5 * MINUTE, MINUTE, 7), rollup(NOW - 3 * HOUR, TEN_MINUTES, 70))
    await read_all(figures)
    for name in ("1h", "6h", "24h", "7d", "90d"):
        found = await figures.known(WINDOWS[name])
        assert found.total.completed == (9 if name == "1h" else 80), name
        assert found.pairs["default", "test_kind"].completed == 1
        assert found.read_at is not None
        assert found.read_at > NOW - MINUTE
        assert found.source == ("the rows of jobs" if name == "1h" else "stored figures")
    # The figures returned before have not changed.
    before = found.total.completed
    await ended(connection, NOW - seconds)
    await figures.collector.tick()
    assert found.total.completed == before


async def test_without_a_database_it_says_why(make: Make, driver: Driver) -> None:
    figures = make(DeadDriver(DatabaseUnavailable()))
    await figures.collector.tick()
    week = await figures.known(WINDOWS["7d"])
    assert week.trouble == "The database cannot be reached."
    assert [column.tally for column in week.columns] == [None] * 84
    assert await figures.usual_hour(NOW) is None


async def test_jobs_that_go_on_have_failed_in_the_hours_before(
    connection: Connection, figures: FigureReader
) -> None:
    before = NOW - 2 * HOUR
    await ended(connection, before, attempt=2, errors=[attempt_error(at=before.isoformat())])
    # They failed then too: one completed since, one may be tried again.
    errors = [attempt_error(at=before.isoformat()), attempt_error(attempt=2, at=NOW.isoformat())]
    await ended(connection, NOW - MINUTE, attempt=3, errors=errors)
    await job(connection, "retryable", attempt=2, attempted_at=NOW, errors=errors)
    past = await figures.past(NOW)
    assert sum(column.tally.completed for column in past) == 1
    assert sum(column.tally.failed for column in past) == 3


async def test_the_same_hour_of_the_last_seven_days(driver: Driver, figures: FigureReader) -> None:
    assert await figures.usual_hour(NOW) is None
    hour = begin(NOW, HOUR)
    await put(
        driver,
        rollup(hour, HOUR, 1000),
        rollup(hour - HOUR, HOUR, 1000),
        rollup(hour - 1 * DAY, HOUR, 1),
        rollup(hour - 3 * DAY, HOUR, 10),
        rollup(hour - 7 * DAY, HOUR, 100),
        rollup(hour - 8 * DAY, HOUR, 1000),
    )
    for queue, kind, expected in (
        ("", "", (3, 114, 6)),
        ("mail", "", (3, 111, 6)),
        ("", "bounce", (3, 0, 6)),
        ("none", "", (3, 0, 0)),
    ):
        usual = await figures.usual_hour(NOW, queue=queue, kind=kind)
        assert usual is not None
        assert (usual.days, usual.tally.completed, usual.tally.failed) == expected
