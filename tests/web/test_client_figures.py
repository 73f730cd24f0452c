"""Charts of queues that riverui's workers work, that others work, and that both do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.figures import WINDOWS, Figures, Tally
from riverui.domain.rollups import MINUTE, Pair, RollupRow, begin
from riverui.domain.sketch import Sketch
from riverui.storage.interface import ROLLUPS, Driver
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from riverui.web.live.client_figures import StoredClientFigures
from riverui.web.live.collector import Collector
from riverui.web.live.rollup_store import store
from riverui.web.live.rollup_writer import rollup_of
from riverui.web.live.stored_figures import StoredFigures
from tests.factory import job
from tests.web.stand_ins import Later

Connection = AsyncConnection[DictRow]

HOUR = WINDOWS["1h"]
SECOND = timedelta(seconds=1)


@pytest.fixture
async def later(driver: Driver, own_tables: None) -> Later:
    return Later(driver)


@pytest.fixture
async def collector(later: Later) -> AsyncIterator[Collector]:
    collector = new_collector(later)
    yield collector
    await collector.close()


def new_collector(driver: Driver | Later) -> Collector:
    stored = StoredFigures(driver)
    clients = StoredClientFigures(driver, stored.table)
    return Collector(driver, DashboardConfig(), clients=clients)


async def done(
    connection: Connection, at: datetime, number: int = 1, *, queue: str = "mail"
) -> None:
    """Let so many jobs have ended then, in one minute."""
    for n in range(number):
        ended = at + n * timedelta(milliseconds=10)
        await job(
            connection,
            "completed",
            kind="send",
            queue=queue,
            attempt=1,
            attempted_at=ended - SECOND,
            scheduled_at=ended - 2 * SECOND,
            created_at=ended - 2 * SECOND,
            finalized_at=ended,
        )


async def tell(
    connection: Connection, driver: Driver, at: datetime, source: str, *pairs: tuple[Pair, Tally]
) -> None:
    """Let a client have told this in time, whenever it was."""
    now = begin(datetime.now(UTC), MINUTE)
    rows = [RollupRow(now, *pair, 1, tally, None) for pair, tally in pairs]
    async with driver.autocommit() as db:
        await ROLLUPS.on(db).rollup_client_put(source, rows)
    await connection.execute(
        "update riverui_rollup set bucket = %s where source = %s and bucket = %s",
        [begin(at, MINUTE), source, now],
    )


async def read(collector: Collector) -> Figures:
    """Return the last hour, read as far as there is anything to read."""
    await collector.tick()
    while await collector.fill():
        pass
    return collector.known(HOUR)


def worked(number: int, *, failed: int = 0, snoozed: int = 0, interrupted: int = 0) -> Tally:
    """Return what a client tells of so many jobs that ran for two seconds and waited for one."""
    return Tally(
        completed=number,
        failed=failed,
        snoozed=snoozed,
        interrupted=interrupted,
        run=Sketch.of([2 * SECOND] * number),
        wait=Sketch.of([SECOND] * number),
    )


def ago(minutes: float) -> datetime:
    return begin(datetime.now(UTC), MINUTE) - minutes * MINUTE + 5 * SECOND


MAIL = ("mail", "send")


async def test_workers_are_believed_and_nothing_is_doubled(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    await done(connection, ago(10), 4)
    told = worked(4, failed=3, snoozed=5, interrupted=2)
    await tell(connection, driver, ago(10), "a@1", (MAIL, told))
    figures = await read(collector)
    total = figures.total
    assert (total.completed, total.failed, total.snoozed, total.interrupted) == (4, 3, 5, 2)
    assert (total.run.n, total.run.max_us) == (4, 2_000_000)
    assert figures.source == "workers and rows"
    assert figures.pairs[MAIL].completed == 4
    assert collector.known(HOUR, queue="mail").total.snoozed == 5
    assert collector.known(HOUR, kind="other").total.snoozed == 0


async def test_of_two_workers_both_are_counted(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    await done(connection, ago(10), 5)
    for source, number in (("a@1", 2), ("b@1", 3)):
        await tell(connection, driver, ago(10), source, (MAIL, worked(number, snoozed=1)))
    total = (await read(collector)).total
    assert (total.completed, total.run.max_us, total.snoozed) == (5, 2_000_000, 2)


async def test_a_queue_that_others_work_too_is_told_by_its_rows(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    await done(connection, ago(10), 6)
    await done(connection, ago(10), 3, queue="ours")
    # Go's clients have ended four of the six, and told nobody.
    await tell(connection, driver, ago(10), "a@1", (MAIL, worked(2, snoozed=1, failed=1)))
    await tell(connection, driver, ago(10), "a@1", (("ours", "send"), worked(3)))
    figures = await read(collector)
    assert figures.total.completed == 9
    by_queue = figures.by_queue
    assert (by_queue["mail"].completed, by_queue["mail"].run.max_us) == (6, 1_000_000)
    assert (by_queue["ours"].completed, by_queue["ours"].run.max_us) == (3, 2_000_000)
    # What rows cannot tell is told all the same.
    assert (by_queue["mail"].snoozed, by_queue["mail"].failed) == (1, 1)


async def test_without_what_workers_tell_the_rows_are_read(
    collector: Collector, connection: Connection
) -> None:
    await done(connection, ago(10), 4)
    figures = await read(collector)
    assert (figures.total.completed, figures.total.snoozed) == (4, 0)
    assert figures.source == "the rows of jobs"


async def test_rows_that_are_gone_are_told_by_workers(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    await tell(connection, driver, ago(10), "a@1", (MAIL, worked(7)))
    assert (await read(collector)).total.completed == 7


async def test_snoozes_are_told_before_the_minute_is_over(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    now = datetime.now(UTC)
    await tell(connection, driver, now, "a@1", (MAIL, worked(0, snoozed=8, failed=2)))
    for _ in range(2):
        total = (await read(collector)).total
        assert (total.snoozed, total.failed) == (8, 2)


async def test_they_are_stored_with_the_rest_and_clients_become_one(
    collector: Collector, connection: Connection, driver: Driver, later: Later
) -> None:
    await done(connection, ago(10), 5)
    for source, number in (("a@1", 2), ("b@1", 3)):
        await tell(connection, driver, ago(10), source, (MAIL, worked(number, snoozed=1)))
    await tell(connection, driver, ago(200), "c@1", (MAIL, worked(1)))
    await read(collector)
    now = datetime.now(UTC)
    for _ in range(2):
        rollups = [rollup_of(bucket) for bucket in collector.finished()]
        assert await store(driver, rollups, until=now) is not None
    sources = await connection.execute(
        "select source, completed, snoozed from riverui_rollup where source <> '' and step = 60"
    )
    assert [tuple(row.values()) for row in await sources.fetchall()] == [("*", 5, 2)]
    stored = StoredFigures(driver)
    figures = await stored.read(WINDOWS["6h"])
    assert (figures.total.completed, figures.total.snoozed) == (5, 2)
    await stored.close()
    # Who begins now reads the same.
    other = new_collector(later)
    again = await read(other)
    await other.close()
    assert (again.total.completed, again.total.snoozed) == (5, 2)
    assert again.total.run.counts == (await read(collector)).total.run.counts


async def test_ten_minutes_are_made_of_what_the_minutes_told(
    collector: Collector, connection: Connection, driver: Driver, later: Later
) -> None:
    await done(connection, ago(50), 5)
    told = worked(5, snoozed=2, failed=4, interrupted=1)
    await tell(connection, driver, ago(50), "a@1", (MAIL, told))
    await read(collector)
    later.by = timedelta(minutes=40)
    await read(collector)
    figures = collector.known(WINDOWS["6h"])
    total = figures.total
    assert (total.completed, total.snoozed, total.failed, total.interrupted) == (5, 2, 4, 1)
    assert figures.source == "workers and rows"


async def test_tables_that_go_while_it_reads_do_no_harm(
    collector: Collector, connection: Connection, driver: Driver
) -> None:
    await done(connection, ago(10), 4)
    await collector.tick()
    await migrate(driver, "down", line="riverui", target_version=6)
    figures = await read(collector)
    assert (figures.total.completed, figures.trouble) == (4, "")
    await migrate(driver, "down", line="riverui", target_version=-1)
    assert (await read(collector)).trouble == ""


async def test_of_very_much_the_newest_minutes_are_read(
    connection: Connection, driver: Driver, own_tables: None
) -> None:
    await connection.execute(
        "insert into riverui_rollup (step, bucket, queue, kind, source, completed)"
        " select 60, date_trunc('minute', now()) - m * interval '1 min', 'q' || k, 'send', 'a@1', 1"
        " from generate_series(1, 3) m cross join generate_series(1, 9000) k"
    )
    async with driver.reading() as db:
        told = await ROLLUPS.on(db).rollup_client_list(ago(9), ago(0))
    assert sorted(told) == [begin(ago(2), MINUTE), begin(ago(1), MINUTE)]
    assert {len(pairs) for pairs in told.values()} == {9000}
