"""One dashboard stores figures: the same as an exact count, whichever dashboard and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from riverui.domain.figures import WINDOWS
from riverui.features.figures.domain import MINUTE, TEN_MINUTES, Rollup, begin
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.figures.reader.writer import FigureWriter
from riverui.features.figures.store import RollupStore
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from tests.factory import attempt_error, job
from tests.features.figures.conftest import Clock, Connection, Make, ago, ended, read_all
from tests.web.stand_ins import Later

pytestmark = pytest.mark.usefixtures("own_tables")


class Board:
    """A dashboard that stores figures, with its own clock."""

    def __init__(self, driver: Driver, **settings: Any) -> None:
        config = DashboardConfig(**settings)
        self.late = timedelta()
        self.database = Later(driver)
        self.figures = FigureReader(self.database, config, clock=Clock())
        self.writer = FigureWriter(
            driver,
            config,
            self.figures.collector,
            FigureLimits(),
            clock=lambda: datetime.now(UTC) + self.late,
        )

    async def store(self) -> bool:
        """Read River's rows and store the figures."""
        await read_all(self.figures)
        return await self.writer.tick()

    async def close(self) -> None:
        await self.writer.close()
        await self.figures.close()


@pytest.fixture
async def boards(driver: Driver, database_url: str) -> AsyncIterator[list[Board]]:
    """Yield two dashboards of the same database."""
    other = connect(database_url)
    boards = [Board(driver), Board(other)]
    yield boards
    for board in boards:
        await board.close()
    await other.close()


@pytest.fixture
async def jobs(connection: Connection) -> None:
    """Make jobs that ended within the last hour."""
    now = datetime.now(UTC)
    for minutes in range(5, 35):
        for n in range(minutes % 3 + 1):
            await ended(connection, now - minutes * MINUTE, kind=f"kind_{n}", run=n + 1)


async def stored(connection: Connection) -> list[tuple[Any, ...]]:
    """Return everything stored except waiting jobs, which only one process has seen."""
    found = await connection.execute(
        "select step, bucket, queue, kind, completed, failed, inserted, run_sum_us, run_bins,"
        " wait_bins from riverui_rollup order by 1, 2, 3, 4"
    )
    return [tuple(row.values()) for row in await found.fetchall()]


@pytest.mark.usefixtures("jobs")
async def test_ended_jobs_are_stored_by_minute_and_folded_up(
    boards: list[Board], connection: Connection
) -> None:
    assert await boards[0].store()
    found = await connection.execute(
        "select step, bucket, completed, run_sum_us, wait_sum_us from riverui_rollup"
        " where queue = '' and kind = '' order by step, bucket"
    )
    whole = await found.fetchall()
    exact = await connection.execute(
        "select date_trunc('minute', finalized_at) as at, count(*) as n,"
        " sum(extract(epoch from finalized_at - attempted_at) * 1e6)::bigint as run"
        " from river_job group by 1 order by 1"
    )
    minutes = {row["bucket"]: row for row in whole if row["step"] == 60}
    for row in await exact.fetchall():
        assert minutes[row["at"]]["completed"] == row["n"]
        assert minutes[row["at"]]["run_sum_us"] == row["run"]
        assert minutes[row["at"]]["wait_sum_us"] == row["n"] * 2_000_000
    # Minutes in which no job ended are stored as well, up to those not settled.
    assert len(minutes) >= 55
    tens = [row for row in whole if row["step"] == 600]
    assert len(tens) >= 5
    for ten in tens[1:]:
        parts = [
            row["completed"]
            for at, row in minutes.items()
            if ten["bucket"] <= at < ten["bucket"] + TEN_MINUTES
        ]
        assert sum(parts) == ten["completed"]


@pytest.mark.usefixtures("jobs")
async def test_one_stores_and_another_goes_on_when_it_is_gone(
    boards: list[Board], connection: Connection
) -> None:
    first, second = boards
    assert await first.store()
    before = await stored(connection)
    assert not await second.store()
    assert await first.store()
    assert await stored(connection) == before
    # Half of the stored figures have no rows any more.
    await connection.execute("delete from river_job where kind = 'kind_0'")
    second.late = timedelta(minutes=7)
    assert await second.store()
    assert await stored(connection) == before
    # Everything is deleted, and both store their figures at once.
    await connection.execute("truncate riverui_rollup")
    await asyncio.gather(*(board.store() for board in boards))
    assert set(before) <= set(await stored(connection))


@pytest.mark.usefixtures("jobs")
async def test_after_a_restart_the_hour_is_that_of_the_table(
    boards: list[Board], connection: Connection
) -> None:
    first, second = boards
    began = ago(minutes=35)
    errors = [attempt_error(at=began.isoformat())]
    failed_at = {"created_at": began, "attempted_at": began}
    await job(connection, "retryable", kind="flaky", errors=errors, **failed_at)
    await first.store()
    await connection.execute("delete from river_job")
    await read_all(second.figures)
    failed = [len(board.figures.failed_jobs(ago(hours=1))["flaky"]) for board in boards]
    assert failed == [1, 1]
    window, other = [await board.figures.known(WINDOWS["1h"]) for board in boards]
    assert window.pairs.keys() == other.pairs.keys()
    assert (window.total.completed, window.total.inserted) == (
        other.total.completed,
        other.total.inserted,
    )
    assert other.complete


async def test_a_failure_that_becomes_known_late_is_stored_too(
    boards: list[Board], connection: Connection
) -> None:
    async def failed() -> list[int]:
        found = await connection.execute(
            "select failed from riverui_rollup where queue = '' and kind = '' and failed > 0"
            " order by step"
        )
        return [row["failed"] for row in await found.fetchall()]

    board = boards[0]
    await board.store()
    assert await failed() == []
    began = begin(ago(minutes=35), TEN_MINUTES)
    errors = [attempt_error(at=began.isoformat())]
    await job(connection, "retryable", attempted_at=began, errors=errors)
    board.database.by = MINUTE
    await board.store()
    assert (await failed())[:2] == [1, 1]


async def test_a_gap_of_the_last_day_is_filled_from_the_rows(
    driver: Driver, boards: list[Board], connection: Connection
) -> None:
    async def hours() -> int:
        found = await connection.execute(
            "select sum(completed) as n from riverui_rollup"
            " where step = 3600 and queue = '' and kind = ''"
        )
        return int((await found.fetchall())[0]["n"] or 0)

    for n in range(2, 20):
        await ended(connection, ago(hours=n))
    async with driver.transaction() as transaction:
        old = Rollup(at=begin(ago(hours=10.5), MINUTE), span=MINUTE, pairs={})
        await RollupStore(transaction).rollup_add([old])
    board = boards[0]
    while board.figures.collector.backlog != []:
        assert await board.store()
    assert await hours() == 18
    # No more than an hour is kept in memory.
    board.database.by = timedelta(seconds=20)
    assert await board.store()
    assert len(board.figures.collector.recent.minutes) <= 61
    assert (await board.figures.known(WINDOWS["24h"])).total.completed == 18


@pytest.mark.parametrize("settings", [{"read_only": True}, {"charts": False}])
@pytest.mark.usefixtures("jobs")
async def test_a_dashboard_that_must_not_write_does_not(
    driver: Driver, settings: dict[str, Any], connection: Connection
) -> None:
    board = Board(driver, **settings)
    assert not await board.writer.tick()
    assert await stored(connection) == []
    await board.close()


async def test_without_the_table_nothing_happens(database_url: str) -> None:
    driver = connect(database_url)
    board = Board(driver)
    await migrate(driver, "down", line="riverui", target_version=-1)
    assert not await board.store()
    await board.close()
    await driver.close()


@pytest.mark.long
@pytest.mark.usefixtures("jobs")
async def test_it_goes_on_by_itself_once_there_is_a_table(
    driver: Driver, make: Make, connection: Connection
) -> None:
    await migrate(driver, "down", line="riverui", target_version=1)
    # Each call of the clock makes half a minute pass.
    ticks = count(step=30.0)
    figures = make(
        clock=lambda: next(ticks),
        tick_seconds=0.1,
        store_seconds=0.05,
        store_soon_seconds=0.05,
        look_for_table_seconds=0.05,
    )
    figures.watch()
    await migrate(driver, "up", line="riverui")
    async with asyncio.timeout(30):
        while not await stored(connection):  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.02)
