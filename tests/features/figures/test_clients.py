"""Figures of queues worked by riverui's workers, by others, and by both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from riverui.domain.figures import WINDOWS, Figures, Tally
from riverui.domain.sketch import Sketch
from riverui.features.figures.domain import MINUTE, Pair, RollupRow, begin
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.figures.reader.writer import FigureWriter
from riverui.features.figures.store import RollupStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from tests.features.figures.conftest import Connection, Make, ended, read_all
from tests.web.stand_ins import Later

pytestmark = pytest.mark.usefixtures("own_tables")
HOUR = WINDOWS["1h"]
SECOND = timedelta(seconds=1)
MAIL = ("mail", "send")


def ago(minutes: float) -> datetime:
    return begin(datetime.now(UTC), MINUTE) - minutes * MINUTE + 5 * SECOND


async def done(connection: Connection, number: int = 1, *, queue: str = "mail") -> None:
    """Insert jobs that ended ten minutes ago, each after a run and a wait of a second."""
    for n in range(number):
        at = ago(10) + n * timedelta(milliseconds=10)
        await ended(connection, at, kind="send", queue=queue, run=1, wait=1)


async def count(
    connection: Connection, driver: Driver, at: datetime, source: str, pair: Pair, tally: Tally
) -> None:
    """Store the counts of a client, as if counted in time."""
    now = begin(datetime.now(UTC), MINUTE)
    async with driver.autocommit() as db:
        await RollupStore(db).rollup_client_put(source, [RollupRow(now, *pair, 1, tally, None)])
    await connection.execute(
        "update riverui_rollup set bucket = %s where source = %s and bucket = %s",
        [begin(at, MINUTE), source, now],
    )


async def read(figures: FigureReader, queue: str = "", kind: str = "") -> Figures:
    """Return the last hour, read completely."""
    await read_all(figures)
    return await figures.known(HOUR, queue=queue, kind=kind)


def worked(number: int, *, failed: int = 0, snoozed: int = 0, interrupted: int = 0) -> Tally:
    """Return the tally of jobs that ran for two seconds and waited for one."""
    return Tally(
        completed=number,
        failed=failed,
        snoozed=snoozed,
        interrupted=interrupted,
        run=Sketch.from_spans([2 * SECOND] * number),
        wait=Sketch.from_spans([SECOND] * number),
    )


async def test_counts_of_workers_take_the_place_of_rows(
    figures: FigureReader, make: Make, connection: Connection, driver: Driver
) -> None:
    await done(connection, 4)
    rows = await read(make())
    assert (rows.total.completed, rows.total.snoozed) == (4, 0)
    assert rows.source == "the rows of jobs"
    counted = worked(3, failed=3, snoozed=5, interrupted=2)
    await count(connection, driver, ago(10), "a@1", MAIL, counted)
    await count(connection, driver, ago(10), "b@1", MAIL, worked(1, snoozed=1))
    found = await read(figures)
    total = found.total
    assert (total.completed, total.failed, total.snoozed, total.interrupted) == (4, 3, 6, 2)
    assert (total.run.n, total.run.max_us) == (4, 2_000_000)
    assert found.source == "workers and rows"
    assert found.pairs[MAIL].completed == 4
    assert (await figures.known(HOUR, queue="mail")).total.snoozed == 6
    assert (await figures.known(HOUR, kind="other")).total.snoozed == 0


async def test_a_queue_that_others_work_too_has_the_figures_of_its_rows(
    figures: FigureReader, connection: Connection, driver: Driver
) -> None:
    await done(connection, 6)
    await done(connection, 3, queue="ours")
    # Go's clients have ended four of the six, and count nothing.
    await count(connection, driver, ago(10), "a@1", MAIL, worked(2, snoozed=1, failed=1))
    await count(connection, driver, ago(10), "a@1", ("ours", "send"), worked(3))
    # The rows of a third queue are deleted.
    await count(connection, driver, ago(10), "a@1", ("gone", "send"), worked(7))
    found = await read(figures)
    assert found.total.completed == 16
    queues = {name: (tally.completed, tally.run.max_us) for name, tally in found.by_queue.items()}
    assert queues == {"mail": (6, 1_000_000), "ours": (3, 2_000_000), "gone": (7, 2_000_000)}
    # Events that rows do not show are counted all the same.
    assert (found.by_queue["mail"].snoozed, found.by_queue["mail"].failed) == (1, 1)


async def test_snoozes_are_shown_before_the_minute_is_over(
    figures: FigureReader, connection: Connection, driver: Driver
) -> None:
    counted = worked(0, snoozed=8, failed=2)
    await count(connection, driver, datetime.now(UTC), "a@1", MAIL, counted)
    for _ in range(2):
        total = (await read(figures)).total
        assert (total.snoozed, total.failed) == (8, 2)


async def test_they_are_stored_with_the_rest(
    figures: FigureReader, make: Make, later: Later, connection: Connection, driver: Driver
) -> None:
    await done(connection, 5)
    for source, number in (("a@1", 2), ("b@1", 3)):
        await count(connection, driver, ago(10), source, MAIL, worked(number, snoozed=1))
    await count(connection, driver, ago(200), "c@1", MAIL, worked(1))
    await read(figures)
    writer = FigureWriter(driver, DashboardConfig(), figures.collector, FigureLimits())
    assert await writer.tick()
    # Old ones are deleted.
    left = await connection.execute("select distinct source from riverui_rollup where source <> ''")
    assert {row["source"] for row in await left.fetchall()} == {"a@1", "b@1"}
    # A new dashboard reads the same, and later in wider rollups too.
    other = make()
    hour, day = await read(other), await other.known(WINDOWS["24h"])
    for found in (hour, day):
        total = found.total
        assert (total.completed, total.snoozed, total.run.max_us) == (5, 2, 2_000_000)
    later.by = timedelta(minutes=40)
    await read_all(figures)
    assert await writer.tick()
    again = (await make().known(WINDOWS["6h"])).total
    assert (again.completed, again.snoozed, again.run.max_us) == (5, 2, 2_000_000)


async def test_a_table_that_goes_does_no_harm(
    figures: FigureReader, connection: Connection, driver: Driver
) -> None:
    await done(connection, 4)
    await figures.collector.tick()
    await migrate(driver, "down", line="riverui", target_version=6)
    found = await read(figures)
    assert (found.total.completed, found.trouble) == (4, "")
    await migrate(driver, "down", line="riverui", target_version=-1)
    assert (await read(figures)).trouble == ""
