"""Windows of stored figures, and the dashboard that stores them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.figures import WINDOWS, Figures, Tally
from riverui.domain.rollups import DAY, HOUR, MINUTE, TEN_MINUTES, Rollup, Waiting, begin
from riverui.domain.sketch import Sketch
from riverui.errors import DatabaseUnavailable
from riverui.storage.connect import connect
from riverui.storage.interface import ROLLUPS, Driver
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from riverui.web.live.collector import Collector
from riverui.web.live.figure_readings import CollectorLimits
from riverui.web.live.kept_figures import KeptFigures
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.live.rollup_store import store
from riverui.web.live.rollup_writer import RollupTimes, RollupWriter
from riverui.web.live.stored_figures import StoredFigures
from tests.factory import job
from tests.web.stand_ins import DeadDriver

Connection = AsyncConnection[DictRow]

NOW = datetime.now(UTC)
"""When the test at hand begins: windows move on while others run."""


@pytest.fixture(autouse=True)
def _now() -> None:
    global NOW
    NOW = datetime.now(UTC)


class Clock:
    """Tells seconds that only a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def driver(driver: Driver, own_tables: None) -> Driver:
    """With riverui's own tables."""
    return driver


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stored(driver: Driver, clock: Clock) -> AsyncIterator[StoredFigures]:
    stored = StoredFigures(driver, clock=clock)
    yield stored
    await stored.close()


def rollup(at: datetime, span: timedelta, completed: int = 1, **waiting: int) -> Rollup:
    """Return a bucket with two kinds in two queues."""
    run = Sketch.of([timedelta(seconds=1)] * completed)
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


async def fill(driver: Driver, *rollups: Rollup) -> None:
    """Store these as they are."""
    async with driver.transaction() as db:
        await ROLLUPS.on(db).rollup_put(rollups)


def at(figures: Figures, when: datetime) -> Tally | None:
    """Return what is told of the column that this time is in."""
    step = figures.window.step
    return next(column.tally for column in figures.columns if column.at == begin(when, step))


class TestReading:
    """What is told of a window."""

    async def test_a_week_of_hours_tens_and_minutes(
        self, driver: Driver, stored: StoredFigures
    ) -> None:
        hour = begin(NOW, HOUR)
        await fill(
            driver,
            *(rollup(hour - n * HOUR, HOUR, n) for n in range(1, 9 * 24)),
            *(rollup(hour - n * TEN_MINUTES, TEN_MINUTES, 7) for n in range(1, 100)),
            rollup(begin(NOW, DAY) - DAY, DAY, sum(range(1, 25))),
        )
        figures = await stored.read(WINDOWS["7d"])
        assert len(figures.columns) == 84
        # A column of two hours has what its hours have, and nothing is counted twice.
        when = begin(hour - 10 * HOUR, timedelta(hours=2))
        back = (hour - when) // HOUR
        tally = at(figures, when)
        assert tally is not None
        assert tally.completed == back + (back - 1) + 2
        assert tally.run.n == back + (back - 1)
        assert (figures.complete, figures.source, figures.trouble) == (True, "stored figures", "")
        assert figures.columns[0].tally is not None
        assert figures.since == figures.columns[0].at
        assert figures.pairs["mail", "send"].completed > 0
        assert set(figures.pairs) == {("mail", "send"), ("mail", "bounce"), ("slow", "send")}

    async def test_the_newest_column_is_made_of_finer_buckets(
        self, driver: Driver, stored: StoredFigures
    ) -> None:
        day = begin(NOW, DAY)
        await fill(driver, rollup(day - DAY, DAY, 100), rollup(NOW - MINUTE, MINUTE, 5))
        figures = await stored.read(WINDOWS["90d"])
        assert len(figures.columns) == 90
        yesterday = at(figures, day - DAY)
        assert yesterday is not None
        assert yesterday.completed == 101
        total = figures.total
        # Just after midnight the minute is one of yesterday, which is told as a day.
        assert total.completed in (101 + 6, 101)
        assert figures.columns[-3].tally is None
        assert not figures.columns[-1].finished

    async def test_a_queue_a_kind_and_a_pair(self, driver: Driver, stored: StoredFigures) -> None:
        when = NOW - 3 * HOUR
        await fill(driver, rollup(when, TEN_MINUTES, 5, all=120, mail=20))
        whole = await stored.read(WINDOWS["24h"])
        queue = await stored.read(WINDOWS["24h"], queue="mail")
        kind = await stored.read(WINDOWS["24h"], kind="send")
        pair = await stored.read(WINDOWS["24h"], queue="slow", kind="send")
        nobody = await stored.read(WINDOWS["24h"], queue="none")
        tallies = [at(figures, when) for figures in (whole, queue, kind, pair, nobody)]
        assert [tally and (tally.completed, tally.failed) for tally in tallies] == [
            (6, 2),
            (5, 2),
            (6, 0),
            (1, 0),
            (0, 0),
        ]
        assert set(queue.pairs) == {("mail", "send"), ("mail", "bounce")}
        assert set(kind.pairs) == {("mail", "send"), ("slow", "send")}
        assert set(pair.pairs) == {("slow", "send")}
        seen = [
            [column for column in figures.columns if column.waiting is not None]
            for figures in (whole, queue, kind)
        ]
        assert [
            [(column.waiting, column.waiting_capped, column.oldest_waiting) for column in columns]
            for columns in seen
        ] == [
            [(120, True, timedelta(seconds=120))],
            [(20, False, timedelta(seconds=20))],
            [],
        ]

    async def test_a_window_is_read_once_a_minute(
        self, driver: Driver, stored: StoredFigures, clock: Clock
    ) -> None:
        window, when = WINDOWS["24h"], NOW - 2 * HOUR
        assert (await stored.read(window)).total.completed == 0
        await fill(driver, rollup(when, TEN_MINUTES))
        clock.now += 59
        assert (await stored.read(window)).total.completed == 0
        clock.now += 1
        # The old one is shown while it is read again.
        await stored.read(window)
        async with asyncio.timeout(10):
            while (await stored.read(window)).total.completed != 2:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        await fill(driver, rollup(when, TEN_MINUTES, 9))
        clock.now += 600
        assert (await stored.read(window)).total.completed == 10
        stored.forget()
        await fill(driver, rollup(when, TEN_MINUTES, 19))
        assert (await stored.read(window)).total.completed == 20

    async def test_what_is_new_is_added_to_what_was_read(
        self, driver: Driver, stored: StoredFigures, clock: Clock
    ) -> None:
        window = WINDOWS["7d"]
        settled, recent = NOW - 30 * HOUR, NOW - HOUR
        await fill(driver, rollup(settled, HOUR, 100), rollup(recent, TEN_MINUTES, 5))
        before = await stored.read(window)
        for completed in (7, 9):
            await fill(driver, rollup(recent, TEN_MINUTES, completed))
            clock.now += 600
            figures = await stored.read(window)
            tally = at(figures, settled)
            assert tally is not None
            assert (tally.completed, tally.run.n) == (101, 100)
            assert figures.total.completed == 101 + completed + 1
            assert figures.pairs["mail", "send"].completed == 100 + completed
        # What was told before has not changed in somebody's hands.
        assert before.total.completed == 101 + 5 + 1

    async def test_without_a_database_it_says_why(self) -> None:
        stored = StoredFigures(DeadDriver(DatabaseUnavailable()))
        figures = await stored.read(WINDOWS["7d"])
        assert figures.trouble == "The database cannot be reached."
        assert [column.tally for column in figures.columns] == [None] * 84
        assert await stored.usual_hour(NOW) is None
        await stored.close()

    async def test_the_same_hour_of_the_last_seven_days(
        self, driver: Driver, stored: StoredFigures
    ) -> None:
        assert await stored.usual_hour(NOW) is None
        hour = begin(NOW, HOUR)
        await fill(
            driver,
            rollup(hour, HOUR, 1000),
            rollup(hour - HOUR, HOUR, 1000),
            rollup(hour - 1 * DAY, HOUR, 1),
            rollup(hour - 3 * DAY, HOUR, 10),
            rollup(hour - 7 * DAY, HOUR, 100),
            rollup(hour - 8 * DAY, HOUR, 1000),
        )
        found = [
            await stored.usual_hour(NOW),
            await stored.usual_hour(NOW, queue="mail"),
            await stored.usual_hour(NOW, kind="bounce"),
            await stored.usual_hour(NOW, queue="none"),
        ]
        assert [
            usual and (usual.days, usual.tally.completed, usual.tally.failed) for usual in found
        ] == [
            (3, 114, 6),
            (3, 111, 6),
            (3, 0, 6),
            (3, 0, 0),
        ]


class Board:
    """What a dashboard has to store figures, and its own idea of what time it is."""

    def __init__(self, driver: Driver, **settings: Any) -> None:
        config = DashboardConfig(**settings)
        self.late = timedelta()
        self.collector = Collector(driver, config, CollectorLimits())
        self.writer = RollupWriter(
            driver,
            config,
            self.collector,
            OwnTableWatch(driver),
            clock=lambda: datetime.now(UTC) + self.late,
        )

    async def store(self) -> bool:
        """Gather what there is in the rows, and store it."""
        await self.collector.tick()
        while await self.collector.fill():
            pass
        return await self.writer.tick()

    async def close(self) -> None:
        """Stop."""
        await self.writer.close()
        await self.collector.close()


class TestWriting:
    """A dashboard stores what its collector has gathered."""

    @pytest.fixture
    async def boards(self, driver: Driver, database_url: str) -> AsyncIterator[list[Board]]:
        """Yield two dashboards of the same database."""
        other = connect(database_url)
        boards = [Board(driver), Board(other)]
        yield boards
        for board in boards:
            await board.close()
        await other.close()

    @pytest.fixture
    async def ended(self, connection: Connection) -> int:
        """Make jobs that ended within the last hour; return how many minutes they are of."""
        for minutes in range(5, 35):
            ended = NOW - minutes * MINUTE
            for n in range(minutes % 3 + 1):
                begun = ended - timedelta(seconds=n + 1)
                await job(
                    connection,
                    "completed",
                    kind=f"kind_{n}",
                    scheduled_at=begun - timedelta(seconds=2),
                    attempted_at=begun,
                    finalized_at=ended,
                )
        return 30

    async def told(self, connection: Connection) -> list[tuple[Any, ...]]:
        """Return all that is stored but for what waited, which only whoever looks can know."""
        found = await connection.execute(
            "select step, bucket, queue, kind, completed, failed, inserted, run_sum_us, run_bins,"
            " wait_bins from riverui_rollup order by 1, 2, 3, 4"
        )
        return [tuple(row.values()) for row in await found.fetchall()]

    async def test_what_ended_is_stored_by_minute_and_folded_up(
        self, boards: list[Board], ended: int, connection: Connection
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
        # Minutes in which nothing ended are known as well, up to those that have not settled.
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

    async def test_one_stores_and_the_other_rests_until_it_is_gone(
        self, boards: list[Board], ended: int, connection: Connection
    ) -> None:
        first, second = boards
        assert await first.store()
        before = await self.told(connection)
        assert not await second.store()
        assert await first.store()
        assert await self.told(connection) == before
        second.late = timedelta(minutes=7)
        assert await second.store()
        assert await self.told(connection) == before

    async def test_both_at_once_store_the_same_as_one(
        self, driver: Driver, boards: list[Board], ended: int, connection: Connection
    ) -> None:
        await asyncio.gather(*(board.store() for board in boards))
        await asyncio.gather(*(board.store() for board in boards))
        both = await self.told(connection)
        await connection.execute("truncate riverui_rollup")
        third = Board(driver)
        await third.store()
        alone = await self.told(connection)
        await third.close()
        # The last minute may have settled in between.
        newest = max(row[1] for row in both if row[0] == 60)
        assert [row for row in alone if row[0] > 60 or row[1] <= newest] == both

    async def test_after_a_restart_what_rows_have_lost_stays(
        self, boards: list[Board], ended: int, connection: Connection
    ) -> None:
        assert await boards[0].store()
        before = await self.told(connection)
        await connection.execute("delete from river_job")
        boards[1].late = timedelta(minutes=7)
        assert await boards[1].store()
        assert (await self.told(connection))[: len(before)] == before

    async def test_after_all_was_deleted_they_begin_anew(
        self, boards: list[Board], ended: int, connection: Connection
    ) -> None:
        assert await boards[0].store()
        before = await self.told(connection)
        await connection.execute("truncate riverui_rollup")
        assert await boards[0].store()
        assert set(before) <= set(await self.told(connection))

    async def test_a_gap_is_filled_from_the_rows(
        self, driver: Driver, boards: list[Board], connection: Connection
    ) -> None:
        for hours in range(2, 20):
            await job(connection, "completed", finalized_at=NOW - hours * HOUR)
        await store(driver, [rollup(NOW - 20 * HOUR, MINUTE)], until=NOW - 20 * HOUR)
        board = boards[0]
        assert await board.store()
        while not await self._hours(connection) >= 18:
            assert await board.store()

    async def _hours(self, connection: Connection) -> int:
        found = await connection.execute(
            "select count(*) as n from riverui_rollup"
            " where step = 3600 and queue = '' and kind = '' and completed > 0"
        )
        row = await found.fetchone()
        assert row is not None
        return int(row["n"])

    @pytest.mark.parametrize("settings", [{"read_only": True}, {"charts": False}])
    async def test_where_nothing_is_to_be_written(
        self, driver: Driver, settings: dict[str, Any], ended: int, connection: Connection
    ) -> None:
        board = Board(driver, **settings)
        assert not await board.writer.tick()
        assert await self.told(connection) == []
        await board.close()

    async def test_without_the_table_nothing_happens(self, database_url: str) -> None:
        driver = connect(database_url)
        board = Board(driver)
        assert not await board.store()
        await board.close()
        await driver.close()

    @pytest.mark.long
    async def test_it_goes_on_by_itself_once_there_is_a_table(
        self, driver: Driver, ended: int, connection: Connection
    ) -> None:
        await migrate(driver, "down", line="riverui", target_version=1)
        config, tick = DashboardConfig(), timedelta(milliseconds=50)
        times = RollupTimes(tick=tick, first=tick, look_for_table=tick)
        # Whoever asks what time it is makes half a minute pass.
        ticks = count(step=30.0)
        figures = KeptFigures(
            driver, config, CollectorLimits(tick_seconds=0.1), times, clock=lambda: next(ticks)
        )
        figures.watch()
        await migrate(driver, "up", line="riverui")
        async with asyncio.timeout(30):
            while not await self.told(connection):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.02)
        await figures.close()


class TestBoth:
    """The figures of a dashboard, gathered or stored."""

    @pytest.fixture
    async def figures(self, driver: Driver, clock: Clock) -> AsyncIterator[KeptFigures]:
        figures = KeptFigures(
            driver, DashboardConfig(), CollectorLimits(), RollupTimes(), clock=clock
        )
        yield figures
        await figures.close()

    async def test_the_rows_tell_what_stored_figures_do_not_yet(
        self, driver: Driver, figures: KeptFigures, connection: Connection
    ) -> None:
        await job(connection, "completed", finalized_at=NOW - timedelta(seconds=5))
        await fill(driver, rollup(NOW - 3 * HOUR, TEN_MINUTES, 7))
        # What is stored begins within the window: rows may go further back.
        found = await figures.read(WINDOWS["24h"])
        assert found.source == "the rows of jobs"
        await fill(driver, rollup(begin(NOW, 2 * TEN_MINUTES) - 142 * TEN_MINUTES, TEN_MINUTES))
        figures.stored.forget()
        await figures.collector.tick()
        while await figures.collector.fill():
            pass
        found = await figures.read(WINDOWS["24h"])
        assert found.source == "stored figures"
        tallies = [at(found, NOW - 3 * HOUR), at(found, NOW - timedelta(seconds=5))]
        assert [tally and tally.completed for tally in tallies] == [8, 1]
        assert found.read_at is not None
        assert found.read_at > NOW - HOUR
        found = await figures.read(WINDOWS["7d"])
        assert found.source == "stored figures"
        assert (await figures.read(WINDOWS["1h"])).source == "the rows of jobs"

    async def test_without_the_table_rows_tell(self, database_url: str, clock: Clock) -> None:
        driver = connect(database_url)
        figures = KeptFigures(
            driver, DashboardConfig(), CollectorLimits(), RollupTimes(), clock=clock
        )
        for name in WINDOWS:
            assert (await figures.read(WINDOWS[name])).source == "the rows of jobs"
        await figures.close()
        await driver.close()
