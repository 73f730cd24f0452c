"""Figures read from River's rows: the same as those of an exact count, whatever
happens in between.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from riverui.domain.figures import OTHER, WINDOWS, Figures, Tally
from riverui.errors import QueryTimeout
from riverui.features.figures.domain import ranges
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.storage.interface import Driver
from tests.engine.conftest import until
from tests.factory import attempt_error, job
from tests.features.figures.conftest import Clock, Connection, Make, ago, ended, read_all
from tests.scale import scaled
from tests.web.stand_ins import DeadDriver, Later, SlowDriver

HOUR, SIX_HOURS, DAY = WINDOWS["1h"], WINDOWS["6h"], WINDOWS["24h"]
STATES = ("completed", "cancelled", "discarded")


async def exact(
    connection: Connection, figures: Figures
) -> Counter[tuple[datetime, str, str, str]]:
    """Count the jobs that ended in the columns of these figures from the rows."""
    assert figures.read_at is not None
    first, step = figures.columns[0].at, figures.window.step
    rows = await connection.execute(
        "select finalized_at, queue, kind, state::text from river_job where finalized_at >= %s and"
        " finalized_at < %s",
        # The database's clock may be ahead, so that a column is still missing.
        [first, min(figures.read_at, figures.columns[-1].at + step)],
    )
    found: Counter[tuple[datetime, str, str, str]] = Counter()
    for row in await rows.fetchall():
        start = first + (row["finalized_at"] - first) // step * step
        found[start, row["queue"], row["kind"], row["state"]] += 1
    return found


def by_column(figures: Figures) -> Counter[tuple[datetime, str]]:
    """Return how many jobs ended in each column, by state."""
    return +Counter(
        {
            (column.at, state): getattr(column.tally, state)
            for column in figures.columns
            if column.tally is not None
            for state in STATES
        }
    )


def by_pair(figures: Figures) -> Counter[tuple[str, str, str]]:
    """Return how many jobs ended of each queue and kind, by state."""
    return +Counter(
        {
            (*pair, state): getattr(tally, state)
            for pair, tally in figures.pairs.items()
            for state in STATES
        }
    )


def total_failed(figures: Figures) -> Counter[str]:
    """Return how many attempts failed, by kind."""
    return +Counter({kind: tally.failed for (_, kind), tally in figures.pairs.items()})


def all_of(figures: Figures) -> list[Any]:
    """Return the values that two readings of the same rows must share."""

    def of_tally(tally: Tally | None) -> Any:
        if tally is None:
            return None
        sketches = [
            (sketch.counts, sketch.sum_us, sketch.max_us)
            for sketch in (tally.run, tally.failed_run, tally.wait)
        ]
        counts = (tally.completed, tally.cancelled, tally.discarded, tally.failed, tally.inserted)
        return (counts, sketches)

    columns = [(column.at, of_tally(column.tally), column.sampled) for column in figures.columns]
    return [columns, sorted((pair, of_tally(tally)) for pair, tally in figures.pairs.items())]


async def some_jobs(connection: Connection) -> None:
    """Insert jobs that ended in the last hour, and some that failed."""
    for n in range(60):
        state = ("completed", "discarded", "completed")[n % 3]
        at = ago(seconds=61 * n + 5)
        error = attempt_error(at=(at - timedelta(seconds=1)).isoformat())
        errors = [error] if state == "discarded" else []
        await ended(connection, at, state, kind=f"kind_{n % 5}", errors=errors)
        if n < 5:
            await job(connection, "retryable", attempted_at=at, errors=[error], kind="again")


async def many_jobs(connection: Connection, span: timedelta, apart: timedelta) -> None:
    """Insert jobs that ended at this interval, up to now."""
    await connection.execute(
        "insert into river_job (kind, args, max_attempts, state, attempt, attempted_at,"
        " scheduled_at, finalized_at) select 'many', '{}', 25, 'completed', 1, at, at, at from"
        " generate_series(now() - %s, now(), %s) as at",
        [span, apart],
    )


async def test_the_figures_are_those_of_an_exact_count(
    figures: FigureReader, connection: Connection
) -> None:
    for n in range(200):
        state = ("completed", "completed", "cancelled", "discarded")[n % 4]
        queue, kind = f"queue_{n % 3}", f"kind_{n % 7}"
        await ended(connection, ago(seconds=17.3 * n + 5), state, queue=queue, kind=kind)
    await read_all(figures)
    hour = await figures.known(HOUR)
    assert hour.complete
    columns: Counter[tuple[datetime, str]] = Counter()
    pairs: Counter[tuple[str, str, str]] = Counter()
    for (at, queue, kind, state), n in (await exact(connection, hour)).items():
        columns[at, state] += n
        pairs[queue, kind, state] += n
    assert by_column(hour) == columns
    assert by_pair(hour) == pairs
    for queue, kind in (("queue_1", ""), ("", "kind_2"), ("queue_1", "kind_1")):
        chosen = Counter(
            {key: n for key, n in pairs.items() if queue in ("", key[0]) and kind in ("", key[1])}
        )
        found = await figures.known(HOUR, queue=queue, kind=kind)
        assert by_pair(found) == chosen
        assert by_column(found).total() == chosen.total()


async def test_a_first_look_shows_what_ended_and_waits(
    figures: FigureReader, connection: Connection
) -> None:
    await ended(connection, ago(seconds=30), run=4, wait=2)
    await ended(connection, ago(seconds=31), "discarded", run=8, wait=2)
    await job(connection, "available", scheduled_at=ago(seconds=50), queue="slow")
    hour = await figures.read(HOUR)
    total = hour.total
    assert (total.completed, total.discarded, total.ended) == (1, 1, 2)
    assert total.run.n == 1
    assert total.failed_run.longest == timedelta(seconds=8)
    assert (total.wait.n, total.wait.sum_us) == (2, 4_000_000)
    newest = [column for column in hour.columns if column.waiting is not None][-1]
    assert newest.waiting == 1
    assert newest.oldest_waiting is not None
    assert newest.oldest_waiting >= timedelta(seconds=50)
    assert (hour.trouble, hour.source) == ("", "the rows of jobs")


async def test_without_the_table_longer_windows_have_the_last_hour(
    figures: FigureReader, connection: Connection
) -> None:
    await some_jobs(connection)
    await read_all(figures)
    hour = await figures.known(HOUR)
    for window in (SIX_HOURS, DAY, WINDOWS["7d"], WINDOWS["90d"]):
        longer = await figures.known(window)
        assert by_column(longer).total() == by_column(hour).total()
        assert longer.complete
        assert longer.since == hour.columns[0].at
        assert longer.columns[0].tally is None
        assert by_pair(longer) == by_pair(hour)


async def test_whoever_reads_whenever_knows_the_same(
    figures: FigureReader, make: Make, later: Later, connection: Connection
) -> None:
    await some_jobs(connection)
    other = make()
    # Repeatedly at the same time, then until everything has settled.
    for seconds in (0, 0, 1, 9, 11, 60, 119, 121, 180):
        later.by = timedelta(seconds=seconds)
        await read_all(figures)
        await other.collector.tick()
    await read_all(other)
    # Their clock goes back by an hour, and they start over.
    later.by = timedelta(hours=-1)
    await other.collector.tick()
    assert not other.collector.complete
    later.by = timedelta(seconds=180)
    await read_all(other)
    fresh = make()
    await fresh.collector.tick()
    begun = await fresh.known(HOUR)
    assert not begun.complete
    assert [column.tally is None for column in begun.columns[-2:]] == [False, False]
    assert begun.columns[0].tally is None
    await read_all(fresh)
    found = [all_of(await each.known(HOUR)) for each in (figures, other, fresh)]
    assert found[0] == found[1] == found[2]
    assert by_column(await fresh.known(HOUR)).total() > 50


async def test_what_was_missed_in_a_pause_is_filled_in(
    figures: FigureReader, make: Make, later: Later, connection: Connection
) -> None:
    await some_jobs(connection)
    for minutes in (-50, -30):
        later.by = timedelta(minutes=minutes)
        await read_all(figures)
    for minutes in range(20):
        await job(connection, created_at=ago(minutes=minutes), kind="new")
    later.by = timedelta()
    await figures.collector.tick()
    assert not (await figures.known(HOUR)).complete
    await read_all(figures)
    fresh = make()
    await read_all(fresh)
    hour = await figures.known(HOUR)
    assert by_column(hour) == by_column(await fresh.known(HOUR))
    for each in (figures, fresh):
        assert (await each.known(HOUR, kind="new")).total.inserted == 20


async def test_rows_that_come_late_are_found_once_the_minute_has_settled(
    figures: FigureReader, later: Later, connection: Connection
) -> None:
    async def completed() -> int:
        return (await figures.known(HOUR, kind="late")).total.completed

    await figures.collector.tick()
    at = ago(seconds=100)
    await ended(connection, at, kind="late")
    later.by = timedelta(seconds=10)
    await figures.collector.tick()
    assert await completed() == 0
    later.by = timedelta(minutes=2)
    await read_all(figures)
    assert await completed() == 1
    # Once settled, a minute is not read again.
    await ended(connection, at, kind="late")
    await read_all(figures)
    assert await completed() == 1


async def test_what_a_reading_did_not_finish_is_read_by_the_next(
    driver: Driver, make: Make, connection: Connection
) -> None:
    await some_jobs(connection)
    for slow in ("job_ended_tally_list", "job_inserted_tally_list"):
        halting = SlowDriver(driver, slow)
        figures = make(halting)
        await read_all(figures)
        assert not figures.collector.complete
        halting.slow = ()
        await read_all(figures)
        hour = await figures.known(HOUR)
        # Ended jobs are sampled for a while after that, but no column is left out.
        assert hour.complete
        came = await connection.execute(
            "select count(*) as n from river_job where created_at >= %s", [hour.columns[0].at]
        )
        assert [row["n"] for row in await came.fetchall()] == [hour.total.inserted]


async def test_jobs_of_the_last_moment_are_found_by_the_next_reading(
    figures: FigureReader, later: Later, connection: Connection
) -> None:
    for n in range(30):
        await ended(connection, ago(seconds=-n))
    for n in range(5):
        later.by = timedelta(seconds=10 * n)
        await figures.collector.tick()
        hour = await figures.known(HOUR)
        rows = await exact(connection, hour)
        # Jobs that ended in the last three seconds are not read yet.
        assert rows.total() - 4 <= hour.total.completed <= rows.total()
    assert hour.total.completed == 30


async def test_every_failed_attempt_counts_once(
    figures: FigureReader, later: Later, connection: Connection
) -> None:
    def error(n: int) -> dict[str, Any]:
        return attempt_error(attempt=n, at=ago(seconds=40 - n).isoformat())

    async def failed() -> Counter[str]:
        return total_failed(await figures.known(HOUR))

    await figures.collector.tick()
    # It fails twice between two readings, then again, and finally succeeds.
    again = await job(
        connection,
        "retryable",
        attempt=2,
        attempted_at=ago(seconds=38),
        errors=[error(1), error(2)],
        kind="again",
    )
    for _ in range(2):
        await figures.collector.tick()
        assert await failed() == {"again": 2}
    errors = [Jsonb(error(n)) for n in (1, 2, 3)]
    await connection.execute(
        "update river_job set state = 'completed', attempt = 4, errors = %s, finalized_at = now()"
        " where id = %s",
        [errors, again],
    )
    # A job that failed and was completed between two readings is found once the minute has settled.
    quick = [error(1)]
    await ended(connection, ago(seconds=1), attempt=2, errors=quick, kind="quick")
    await ended(connection, ago(seconds=1), "discarded", errors=quick, kind="gone")
    later.by = timedelta(seconds=10)
    await figures.collector.tick()
    assert await failed() == {"again": 2, "gone": 1}
    later.by = timedelta(minutes=4)
    for _ in range(2):
        await read_all(figures)
        assert await failed() == {"again": 3, "quick": 1, "gone": 1}
    total = (await figures.known(HOUR)).total
    assert total.failing == 5 / 7


async def test_an_attempt_that_took_long_is_counted_when_it_fails(
    figures: FigureReader, later: Later, connection: Connection
) -> None:
    await read_all(figures)
    began = ago(minutes=20)
    errors = [attempt_error(at=began.isoformat())]
    await job(connection, "retryable", attempted_at=began, errors=errors, kind="long")
    await figures.collector.tick()
    assert total_failed(await figures.known(HOUR)) == {}
    later.by = timedelta(minutes=1)
    await read_all(figures)
    found = await figures.known(HOUR, kind="long")
    (column,) = [each for each in found.columns if each.tally and each.tally.failed]
    assert column.at <= began < column.at + timedelta(minutes=1)


async def test_no_attempt_is_counted_twice_if_too_many_are_remembered(
    make: Make, later: Later, connection: Connection
) -> None:
    figures = make(attempts=5)
    for n in range(20):
        at = ago(minutes=n % 4, seconds=20)
        await job(connection, "retryable", attempted_at=at, errors=[])
    await read_all(figures)
    first = (await figures.known(HOUR)).total.failed
    assert 0 < first <= 20
    await job(connection, "retryable", attempted_at=ago(seconds=-50), errors=[])
    for minutes in (1, 2):
        later.by = timedelta(minutes=minutes)
        await read_all(figures)
    assert (await figures.known(HOUR)).total.failed == first + 1


async def test_inserted_jobs_are_counted_by_their_ids(
    figures: FigureReader, make: Make, later: Later, connection: Connection
) -> None:
    for n in range(10):
        await job(connection, created_at=ago(minutes=n), kind="old")
    await read_all(figures)
    assert (await figures.known(HOUR, kind="old")).total.inserted == 10
    for n in range(4):
        await job(connection, created_at=ago(seconds=0), kind="new")
        later.by = timedelta(seconds=n)
        await figures.collector.tick()
        assert (await figures.known(HOUR, kind="new")).total.inserted == n + 1
    await figures.collector.tick()
    assert (await figures.known(HOUR)).total.inserted == 14
    # If there are very many, only the ids are counted.
    figures = make(inserted_ids=10)
    await read_all(figures)
    for _ in range(11):
        await job(connection)
    await figures.collector.tick()
    assert (await figures.known(HOUR)).pairs[OTHER, OTHER].inserted == 11


async def test_queues_have_the_minutes_of_their_windows(
    figures: FigureReader, connection: Connection
) -> None:
    for n in range(40):
        at = ago(minutes=2 + n % 20)
        await ended(connection, at, queue=f"queue_{n % 3}", run=5, wait=5 + n)
    await job(connection, "available", queue="waiting", scheduled_at=ago(minutes=3))
    assert await figures.read_queues() == {}
    await figures.collector.close()
    await read_all(figures)
    queues = await figures.read_queues()
    assert queues.keys() == {"queue_0", "queue_1", "queue_2", "waiting"}
    for queue, minutes in queues.items():
        columns = (await figures.known(HOUR, queue=queue)).columns
        assert len(minutes) == len(columns) == 60
        for minute, column in zip(minutes, columns, strict=True):
            assert minute is not None
            assert column.tally is not None
            wait = column.tally.wait.quantile(0.95)
            assert (minute.ended, minute.inserted) == (column.tally.ended, column.tally.inserted)
            assert (minute.wait, minute.waiting) == (wait, column.waiting)
    newest = queues["waiting"][-1]
    assert newest is not None
    assert (newest.ended, newest.waiting, newest.waiting_capped) == (0, 1, False)


async def test_it_rests_when_nobody_looks(make: Make, clock: Clock, connection: Connection) -> None:
    figures = make(tick_seconds=0.001)
    assert figures.collector.resting
    await figures.read(HOUR)
    clock.now += 599
    await figures.read(HOUR)
    clock.now += 599
    await asyncio.sleep(0)
    assert not figures.collector.resting
    clock.now += 2
    await until(lambda: figures.collector.resting)
    # The next viewer gets the known figures, and starts reading again.
    assert (await figures.read(HOUR)).read_at is not None
    assert not figures.collector.resting
    await figures.close()
    assert figures.collector.resting


async def test_an_error_is_reported_and_what_is_known_stays(
    figures: FigureReader, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await ended(connection, ago(seconds=30))
    await figures.collector.tick()
    await connection.execute("alter table river_job rename to elsewhere")
    for _ in range(3):
        await figures.collector.tick()
        assert await figures.collector.fill() is False
    hour = await figures.known(HOUR)
    assert hour.trouble.startswith("There are no River tables here")
    assert hour.total.completed == 1
    assert len([record for record in caplog.records if record.name == "riverui.figures"]) == 1
    await connection.execute("alter table elsewhere rename to river_job")
    await figures.collector.tick()
    assert (await figures.known(HOUR)).trouble == ""


async def test_tries_become_rarer_while_the_database_is_away(make: Make, clock: Clock) -> None:
    figures = make(DeadDriver())
    rests = []
    for _ in range(2_000):
        await figures.collector.tick()
        rests.append(figures.collector.due - clock.now)
        clock.now = figures.collector.due
    assert rests[:7] == [10, 20, 40, 80, 160, 300, 300]
    assert rests[-1] == 300
    hour = await figures.known(HOUR)
    assert hour.trouble
    assert [column.tally for column in hour.columns] == [None] * 60


async def test_an_unexpected_error_ends_nothing(make: Make, clock: Clock) -> None:
    figures = make(DeadDriver(ZeroDivisionError("of a bug")))
    assert (await figures.read(HOUR)).trouble == "The figures could not be read."
    assert figures.collector.due > clock.now
    assert not figures.collector.resting


async def test_a_first_look_waits_a_second_at_most(make: Make) -> None:
    class Stuck(DeadDriver):
        @asynccontextmanager
        async def _refuse(self) -> AsyncIterator[Any]:
            await asyncio.sleep(3600)
            yield

    assert (await make(Stuck(), first_seconds=0.01).read(HOUR)).read_at is None


async def test_charts_may_be_switched_off(make: Make) -> None:
    figures = make(charts=False)
    hour = await figures.read(HOUR)
    assert hour.trouble == "Charts are switched off (RIVERUI_CHARTS)."
    assert len(hour.columns) == 60
    assert await figures.read_queues() == {}
    assert figures.collector.resting


async def test_a_host_that_ends_without_closing_it_is_not_kept_waiting(make: Make) -> None:
    class Forgetful(DeadDriver):
        """Forgets a cancellation, as a pool does that is about to lend a connection."""

        @asynccontextmanager
        async def _refuse(self) -> AsyncIterator[Any]:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            raise self.error
            yield

    figures = make(Forgetful(), tick_seconds=0.001, most_rest_seconds=0.0)
    others = asyncio.all_tasks()
    await figures.read(HOUR)
    # Like the end of a loop: each task is cancelled once, and awaited.
    tasks = asyncio.all_tasks() - others
    assert tasks
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=5)
    assert not left


async def test_after_a_timeout_samples_are_read(
    figures: FigureReader, later: Later, connection: Connection
) -> None:
    await ended(connection, ago(seconds=10))
    await figures.collector.tick()
    assert (await figures.known(HOUR)).sampled == 1
    later.error = QueryTimeout()
    await figures.collector.tick()
    assert (await figures.known(HOUR)).trouble
    later.error, later.by = None, timedelta(seconds=10)
    await figures.collector.tick()
    hour = await figures.known(HOUR)
    assert (hour.trouble, hour.columns[-1].sampled) == ("", 10)


async def test_many_ended_jobs_are_sampled_and_it_is_shown(
    make: Make, later: Later, connection: Connection
) -> None:
    figures = make(most_per_second=1.5)
    await many_jobs(connection, timedelta(minutes=70), timedelta(seconds=0.5))
    await read_all(figures)
    hour = await figures.known(HOUR)
    assert hour.complete
    assert hour.sampled == 10
    assert abs(hour.total.completed - 7200) < 400
    assert hour.total.run.n == hour.total.completed
    # Once few end again, all are read.
    for minutes in (10, 11):
        later.by = timedelta(minutes=minutes)
        await read_all(figures)
    newest = (await figures.known(HOUR)).columns[-5:]
    assert {column.sampled for column in newest} == {1}


@pytest.mark.parametrize("sampled", [False, True])
def test_ranges_lie_within_a_minute_and_leave_nothing_out(sampled: bool) -> None:
    since = datetime(2026, 11, 21, 9, 29, 57, tzinfo=UTC)
    found = list(ranges(since, since + timedelta(seconds=125), sampled=sampled))
    assert all(at.replace(second=0) <= at < until for at, until in found)
    assert all(until <= at.replace(second=0) + timedelta(minutes=1) for at, until in found)
    if sampled:
        assert {until - at for at, until in found} == {timedelta(seconds=1)}
        assert len({at.second % 10 for at, _ in found}) > 5
    else:
        assert [at for at, _ in found[1:]] == [until for _, until in found[:-1]]
        assert (found[0][0], found[-1][1]) == (since, since + timedelta(seconds=125))


@pytest.mark.long
async def test_its_memory_is_bounded_whatever_the_kinds(make: Make, connection: Connection) -> None:
    """Each job of the hour has its own kind, in a queue with few others."""
    kinds = scaled(20_000, 100_000)
    await connection.execute(
        "insert into river_job (kind, queue, args, max_attempts, state, attempt, attempted_at,"
        " scheduled_at, finalized_at, created_at) select rpad('kind ' || n, 127, 'x'), rpad('queue"
        " ' || mod(n, 1000), 127, 'x'), '{}', 25, 'completed', 1, at - mod(n, 1000) * interval '1"
        " second', at - mod(n, 997) * interval '1 second', at, at from generate_series(1, %s) as n"
        " cross join lateral (select now() - n * interval '1 hour' / %s as at) t",
        [kinds, kinds],
    )
    figures = make()
    tracemalloc.start()
    try:
        await read_all(figures)
        hour = await figures.known(HOUR)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert hour.complete
    assert hour.total.completed > 0.96 * kinds
    assert len([pair for pair in hour.pairs if OTHER not in pair]) <= 200
    # 12,000 pairs of a queue and a kind are kept by name.
    assert held < 50e6
    assert most < 64e6, most
