"""The figures that are gathered out of rows: the same as those of an exact count, whatever happens
in between.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from riverui.domain.figures import OTHER, WINDOWS, Figures, Tally
from riverui.errors import QueryTimeout
from riverui.storage.interface import Driver
from riverui.testing import MemoryDatabase
from riverui.web.config import DashboardConfig
from riverui.web.live.collector import Collector
from riverui.web.live.figure_readings import CollectorLimits
from tests.factory import attempt_error, job
from tests.scale import scaled
from tests.web.stand_ins import DeadDriver, Later, SlowDriver

HOUR, SIX_HOURS, DAY = WINDOWS["1h"], WINDOWS["6h"], WINDOWS["24h"]


class Clock:
    """Tells seconds that only a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Costly:
    """Tells a time that goes on with each look, as if everything took so long."""

    def __init__(self, cost: float) -> None:
        self.now = 1000.0
        self.cost = cost

    def __call__(self) -> float:
        self.now += self.cost
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def later(driver: Driver) -> Later:
    return Later(driver)


@pytest.fixture
async def collector(later: Later, clock: Clock) -> AsyncIterator[Collector]:
    collector = _collector(later, clock)
    yield collector
    await collector.close()


def _collector(driver: Any, clock: Callable[[], float], **limits: Any) -> Collector:
    return Collector(driver, DashboardConfig(), CollectorLimits(**limits), clock=clock)


async def read_all(collector: Collector) -> None:
    """Read what is new and all of the past."""
    await collector.tick()
    while await collector.fill():
        pass


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def ended(
    connection: AsyncConnection[DictRow],
    at: datetime,
    state: str = "completed",
    *,
    run: float = 1.0,
    wait: float = 2.0,
    **columns: Any,
) -> int:
    """Insert a job that ended then, after so many seconds of run and wait."""
    began = at - timedelta(seconds=run)
    given: dict[str, Any] = {
        "attempt": 1,
        "attempted_at": began,
        "created_at": began - timedelta(seconds=wait),
        "errors": [],
        "finalized_at": at,
        "scheduled_at": began - timedelta(seconds=wait),
    }
    return await job(connection, state, **(given | columns))


async def exact(
    connection: AsyncConnection[DictRow], figures: Figures
) -> Counter[tuple[datetime, str, str, str]]:
    """Count what ended in the columns of these figures by the rows themselves."""
    assert figures.read_at is not None
    rows = await connection.execute(
        "select finalized_at, queue, kind, state::text from river_job where finalized_at >= %s and"
        " finalized_at < %s",
        # The database's clock may be ahead, so that a column is still to come.
        [figures.columns[0].at, min(figures.read_at, figures.columns[-1].at + figures.window.step)],
    )
    step = figures.window.step
    found: Counter[tuple[datetime, str, str, str]] = Counter()
    for row in await rows.fetchall():
        start = figures.columns[0].at
        start += (row["finalized_at"] - start) // step * step
        found[start, row["queue"], row["kind"], row["state"]] += 1
    return found


def by_column(figures: Figures) -> Counter[tuple[datetime, str]]:
    """Return how many ended in each column, by state."""
    found: Counter[tuple[datetime, str]] = Counter()
    for column in figures.columns:
        assert column.tally is not None
        for state in ("completed", "cancelled", "discarded"):
            found[column.at, state] += getattr(column.tally, state)
    return +found


def by_pair(figures: Figures) -> Counter[tuple[str, str, str]]:
    """Return how many ended of each queue and kind, by state."""
    found: Counter[tuple[str, str, str]] = Counter()
    for pair, tally in figures.pairs.items():
        for state in ("completed", "cancelled", "discarded"):
            found[*pair, state] += getattr(tally, state)
    return +found


async def test_the_figures_are_those_of_an_exact_count(
    collector: Collector, connection: AsyncConnection[DictRow]
) -> None:
    for n in range(200):
        state = ("completed", "completed", "cancelled", "discarded")[n % 4]
        queue, kind = f"queue_{n % 3}", f"kind_{n % 7}"
        await ended(connection, ago(seconds=17.3 * n), state, queue=queue, kind=kind)
    await read_all(collector)
    figures = collector.known(HOUR)
    assert figures.complete
    expected: Counter[tuple[datetime, str]] = Counter()
    pairs: Counter[tuple[str, str, str]] = Counter()
    for (at, queue, kind, state), n in (await exact(connection, figures)).items():
        expected[at, state] += n
        pairs[queue, kind, state] += n
    assert by_column(figures) == expected
    assert by_pair(figures) == pairs
    one = collector.known(HOUR, queue="queue_1")
    assert by_pair(one) == Counter({key: n for key, n in pairs.items() if key[0] == "queue_1"})
    both = collector.known(HOUR, queue="queue_1", kind="kind_1")
    assert by_pair(both) == Counter(
        {key: n for key, n in pairs.items() if key[:2] == ("queue_1", "kind_1")}
    )


async def test_what_ended_is_told_by_a_first_look(
    collector: Collector, connection: AsyncConnection[DictRow]
) -> None:
    await ended(connection, ago(seconds=30), run=4, wait=2)
    await ended(connection, ago(seconds=31), "discarded", run=8, wait=2)
    await job(connection, "available", scheduled_at=ago(seconds=50), queue="slow")
    figures = await collector.read(HOUR)
    total = figures.total
    assert (total.completed, total.discarded, total.ended) == (1, 1, 2)
    assert total.run.n == 1
    assert total.failed_run.longest == timedelta(seconds=8)
    assert total.wait.mean == timedelta(seconds=2)
    newest = [column for column in figures.columns if column.waiting is not None][-1]
    assert newest.waiting == 1
    assert newest.oldest_waiting is not None
    assert newest.oldest_waiting >= timedelta(seconds=50)
    assert figures.trouble == ""
    assert figures.source == "the rows of jobs"


def figures_of(figures: Figures) -> list[Any]:
    """Return what two readings of the same rows must agree on."""

    def told(tally: Tally | None) -> Any:
        if tally is None:
            return None
        sketches = [
            (sketch.counts, sketch.sum_us, sketch.max_us)
            for sketch in (tally.run, tally.failed_run, tally.wait)
        ]
        counts = (tally.completed, tally.cancelled, tally.discarded, tally.failed, tally.inserted)
        return (counts, sketches)

    columns = [(column.at, told(column.tally), column.sampled) for column in figures.columns]
    return [columns, sorted((pair, told(tally)) for pair, tally in figures.pairs.items())]


def total_failed(figures: Figures) -> Counter[str]:
    """Return how many attempts failed, by kind."""
    return +Counter({kind: tally.failed for (_, kind), tally in figures.pairs.items()})


async def some_jobs(connection: AsyncConnection[DictRow]) -> None:
    """Insert jobs that ended in the last hour, and some that failed."""
    for n in range(60):
        state = ("completed", "discarded", "completed")[n % 3]
        at = ago(seconds=61 * n + 1)
        error = attempt_error(at=(at - timedelta(seconds=1)).isoformat())
        errors = [error] if state == "discarded" else []
        await ended(connection, at, state, kind=f"kind_{n % 5}", errors=errors)
        if n < 5:
            await job(connection, "retryable", attempted_at=at, errors=[error], kind="again")


async def test_the_day_is_read_where_somebody_looks_at_it(
    collector: Collector, connection: AsyncConnection[DictRow]
) -> None:
    for n in range(180):
        await ended(connection, ago(seconds=481 * n + 3), kind=f"kind_{n % 5}")
    await ended(connection, ago(days=3))
    await read_all(collector)
    assert not collector.known(DAY).complete
    assert collector.known(DAY).columns[0].tally is None
    await collector.read(SIX_HOURS)
    await collector.close()
    await read_all(collector)
    for window in (HOUR, SIX_HOURS, DAY):
        figures = collector.known(window)
        assert figures.complete
        assert figures.since == figures.columns[0].at
        expected: Counter[tuple[datetime, str]] = Counter()
        for (at, _, _, state), n in (await exact(connection, figures)).items():
            expected[at, state] += n
        assert by_column(figures) == expected
    assert all(column.tally is None for column in collector.known(WINDOWS["7d"]).columns)
    assert not collector.known(WINDOWS["90d"]).complete


async def test_before_the_oldest_row_nothing_is_known(
    collector: Collector, connection: AsyncConnection[DictRow]
) -> None:
    await ended(connection, ago(hours=8))
    await collector.read(DAY)
    await collector.close()
    await read_all(collector)
    figures = collector.known(DAY)
    known = [column for column in figures.columns if column.tally is not None]
    assert figures.complete
    assert figures.since == known[0].at
    assert timedelta(hours=8) <= datetime.now(UTC) - known[0].at < timedelta(hours=8, minutes=20)
    assert len(known) in (24, 25)
    assert figures.total.completed == 1


async def test_reading_again_changes_nothing(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    await read_all(collector)
    first = collector.known(HOUR)
    assert first.total.ended == 60 - sum(
        1 for n in range(60) if ago(seconds=61 * n + 1) < first.columns[0].at
    )
    # The same moment again and again, then up to the time when everything has settled.
    for seconds in (0, 0, 1, 9, 11, 60, 119, 121, 180):
        later.by = timedelta(seconds=seconds)
        await read_all(collector)
    fresh = _collector(later, Clock())
    await read_all(fresh)
    assert figures_of(collector.known(HOUR)) == figures_of(fresh.known(HOUR))


async def test_two_collectors_tell_the_same(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    await read_all(collector)
    await ended(connection, ago(seconds=0), kind="newest")
    later.by = timedelta(seconds=30)
    other = _collector(later, Clock())
    await other.tick()
    await collector.tick()
    later.by = timedelta(minutes=3)
    await read_all(other)
    await read_all(collector)
    assert figures_of(collector.known(HOUR)) == figures_of(other.known(HOUR))


async def test_a_restart_finds_what_ended_before_it(
    later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    restarted = _collector(later, Clock())
    await restarted.tick()
    figures = restarted.known(HOUR)
    assert not figures.complete
    assert [column.tally is None for column in figures.columns[-2:]] == [False, False]
    assert figures.columns[0].tally is None
    while await restarted.fill():
        pass
    assert restarted.known(HOUR).complete
    assert by_column(restarted.known(HOUR)).total() > 50


async def test_rows_that_come_late_are_found_when_the_time_has_settled(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await collector.tick()
    at = ago(seconds=100)
    await ended(connection, at, kind="late")
    later.by = timedelta(seconds=10)
    await collector.tick()
    assert collector.known(HOUR, kind="late").total.completed == 0
    later.by = timedelta(seconds=60)
    await read_all(collector)
    assert collector.known(HOUR, kind="late").total.completed == 1
    # Once settled, a minute is not read again.
    await ended(connection, at, kind="late")
    await read_all(collector)
    assert collector.known(HOUR, kind="late").total.completed == 1


@pytest.mark.parametrize("slow", ["job_ended_tally_list", "job_inserted_tally_list"])
async def test_what_a_reading_that_was_cut_short_had_not_read_is_read_by_the_next(
    slow: str, driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    halting = SlowDriver(driver, slow)
    collector = _collector(halting, Clock())
    await read_all(collector)
    assert not collector.known(HOUR).complete
    halting.slow = ()
    await read_all(collector)
    figures = collector.known(HOUR)
    # Ends are sampled for a while after that, but no column is left out.
    assert figures.complete
    came = await connection.execute(
        "select count(*) as n from river_job where created_at >= %s", [figures.columns[0].at]
    )
    assert [row["n"] for row in await came.fetchall()] == [figures.total.inserted]


async def test_ends_of_the_last_moment_are_found_by_the_next_tick(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    for n in range(30):
        await ended(connection, ago(seconds=-n))
    seen = []
    for n in range(4):
        later.by = timedelta(seconds=10 * n)
        await collector.tick()
        figures = collector.known(HOUR)
        rows = await exact(connection, figures)
        seen.append(figures.total.completed)
        assert seen[-1] >= rows.total()
    assert seen[-1] in (30, rows.total())


async def test_every_failed_attempt_counts_once(
    collector: Collector, clock: Clock, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    def error(n: int) -> dict[str, Any]:
        return attempt_error(attempt=n, at=ago(seconds=40 - n).isoformat())

    await collector.tick()
    # It fails twice between two ticks, then again, and succeeds at last.
    again = await job(
        connection,
        "retryable",
        attempt=2,
        attempted_at=ago(seconds=38),
        errors=[error(1), error(2)],
        kind="again",
    )
    clock.now += 10
    await collector.tick()
    assert total_failed(collector.known(HOUR)) == {"again": 2}
    clock.now += 10
    await collector.tick()
    assert total_failed(collector.known(HOUR)) == {"again": 2}
    errors = [Jsonb(error(n)) for n in (1, 2, 3)]
    await connection.execute(
        "update river_job set state = 'completed', attempt = 4, errors = %s, finalized_at = now()"
        " where id = %s",
        [errors, again],
    )
    # A job that failed and ended well between two ticks is found when its end has settled.
    quick = [error(1)]
    await ended(connection, ago(seconds=1), attempt=2, errors=quick, kind="quick")
    await ended(connection, ago(seconds=1), "discarded", errors=quick, kind="gone")
    later.by = timedelta(seconds=10)
    await collector.tick()
    assert total_failed(collector.known(HOUR)) == {"again": 2, "gone": 1}
    later.by = timedelta(minutes=3)
    await read_all(collector)
    await read_all(collector)
    figures = collector.known(HOUR)
    assert total_failed(figures) == {"again": 3, "quick": 1, "gone": 1}
    assert figures.total.failed == 5
    assert figures.total.failing == 5 / 7


async def test_an_attempt_that_took_long_is_counted_when_it_fails(
    collector: Collector, clock: Clock, connection: AsyncConnection[DictRow]
) -> None:
    await read_all(collector)
    began = ago(minutes=20)
    await job(
        connection,
        "retryable",
        attempted_at=began,
        errors=[attempt_error(at=began.isoformat())],
        kind="long",
    )
    await collector.tick()
    assert total_failed(collector.known(HOUR)) == {}
    clock.now += 60
    await read_all(collector)
    figures = collector.known(HOUR, kind="long")
    (column,) = [found for found in figures.columns if found.tally and found.tally.failed]
    assert column.at <= began < column.at + timedelta(minutes=1)


async def test_no_attempt_is_counted_twice_when_too_many_are_remembered(
    later: Later, clock: Clock, connection: AsyncConnection[DictRow]
) -> None:
    collector = _collector(later, clock, attempts=5)
    for n in range(20):
        at = ago(minutes=n % 4, seconds=20)
        await job(connection, "retryable", attempted_at=at, errors=[])
    await read_all(collector)
    first = collector.known(HOUR).total.failed
    assert 0 < first <= 20
    fresh = ago(seconds=1)
    await job(connection, "retryable", attempted_at=fresh, errors=[])
    for _ in range(2):
        clock.now += 60
        await read_all(collector)
    assert collector.known(HOUR).total.failed == first + 1


async def test_jobs_that_came_are_counted_by_their_ids(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    for n in range(10):
        await job(connection, created_at=ago(minutes=n), kind="old")
    await read_all(collector)
    assert collector.known(HOUR, kind="old").total.inserted == 10
    for n in range(4):
        await job(connection, created_at=ago(seconds=0), kind="new")
        later.by = timedelta(seconds=n)
        await collector.tick()
        assert collector.known(HOUR, kind="new").total.inserted == n + 1
    await collector.tick()
    assert collector.known(HOUR).total.inserted == 14


async def test_very_many_new_ids_are_told_by_their_number(
    later: Later, connection: AsyncConnection[DictRow]
) -> None:
    collector = _collector(later, Clock(), inserted_ids=10)
    await read_all(collector)
    for _ in range(11):
        await job(connection)
    await collector.tick()
    figures = collector.known(HOUR)
    assert figures.total.inserted == 11
    assert set(figures.pairs) == {(OTHER, OTHER)}


async def test_the_biggest_pairs_are_told_apart(
    later: Later, connection: AsyncConnection[DictRow]
) -> None:
    collector = _collector(later, Clock(), pairs=3)
    for n in range(10):
        for _ in range(10 - n):
            await ended(connection, ago(minutes=10, seconds=n), kind=f"kind_{n}")
    await read_all(collector)
    figures = collector.known(HOUR)
    assert {pair: tally.completed for pair, tally in figures.pairs.items()} == {
        ("default", "kind_0"): 10,
        ("default", "kind_1"): 9,
        ("default", "kind_2"): 8,
        ("default", OTHER): 28,
    }
    assert collector.known(HOUR, queue="default").total.completed == 55


async def test_it_rests_when_nobody_looks(
    later: Later, clock: Clock, connection: AsyncConnection[DictRow]
) -> None:
    collector = _collector(later, clock, tick_seconds=0.001)
    assert collector.resting
    await collector.read(HOUR)
    assert not collector.resting
    clock.now += 599
    await collector.read(HOUR)
    clock.now += 599
    await asyncio.sleep(0)
    assert not collector.resting
    clock.now += 2
    async with asyncio.timeout(10):
        await collector.rested()
    # The next look finds what it knew, and starts it again.
    await ended(connection, ago(seconds=1))
    assert (await collector.read(HOUR)).read_at is not None
    assert not collector.resting
    await collector.close()
    assert collector.resting


async def test_trouble_is_told_and_what_is_known_stays(
    later: Later, clock: Clock, connection: AsyncConnection[DictRow], caplog: Any
) -> None:
    collector = _collector(later, clock)
    await ended(connection, ago(seconds=30))
    await collector.tick()
    await connection.execute("alter table river_job rename to elsewhere")
    for _ in range(3):
        await collector.tick()
        assert await collector.fill() is False
    figures = collector.known(HOUR)
    assert figures.trouble.startswith("There are no River tables here")
    assert figures.total.completed == 1
    assert len([record for record in caplog.records if record.name == "riverui.figures"]) == 1
    await connection.execute("alter table elsewhere rename to river_job")
    await collector.tick()
    assert collector.known(HOUR).trouble == ""


async def test_tries_become_rarer_while_there_is_trouble(later: Later, clock: Clock) -> None:
    dead: Any = DeadDriver()
    collector = _collector(dead, clock)
    rests = []
    for _ in range(8):
        await collector.tick()
        rests.append(collector.due - clock.now)
        clock.now = collector.due
    assert rests == [10, 20, 40, 80, 160, 300, 300, 300]
    figures = collector.known(HOUR)
    assert figures.trouble
    assert len(figures.columns) == 60
    assert all(column.tally is None for column in figures.columns)


async def test_what_nobody_expected_ends_nothing(clock: Clock) -> None:
    odd: Any = DeadDriver(ZeroDivisionError("of a bug"))
    collector = _collector(odd, clock)
    figures = await collector.read(HOUR)
    assert figures.trouble == "The figures could not be read."
    assert collector.due > clock.now
    assert not collector.resting
    await collector.close()


async def test_what_takes_too_long_is_read_in_samples(
    later: Later, clock: Clock, connection: AsyncConnection[DictRow]
) -> None:
    collector = _collector(later, clock)
    await ended(connection, ago(seconds=1))
    await collector.tick()
    assert collector.known(HOUR).sampled == 1
    later.error = QueryTimeout()
    await collector.tick()
    assert collector.known(HOUR).trouble
    later.error = None
    await collector.tick()
    assert not collector.known(HOUR).trouble
    assert collector.known(HOUR).columns[-1].sampled == 10


async def test_a_first_look_waits_a_second_at_most(clock: Clock) -> None:
    class Stuck(DeadDriver):
        @asynccontextmanager
        async def _reading(self) -> AsyncIterator[Any]:
            await asyncio.sleep(3600)
            yield

        def reading(self, *, timeout: timedelta | None = None) -> Any:
            return self._reading()

    stuck: Any = Stuck()
    collector = _collector(stuck, clock, first_seconds=0.01)
    figures = await collector.read(HOUR)
    assert figures.read_at is None
    await collector.close()


async def test_a_driver_without_figures_is_told(clock: Clock) -> None:
    bare: Any = MemoryDatabase()
    collector = _collector(bare, clock)
    await collector.tick()
    assert collector.known(HOUR).trouble


async def test_charts_may_be_switched_off(later: Later, clock: Clock) -> None:
    collector = Collector(later, DashboardConfig(charts=False), clock=clock)
    figures = await collector.read(HOUR)
    assert figures.trouble == "Charts are switched off (RIVERUI_CHARTS)."
    assert collector.resting
    assert len(figures.columns) == 60


async def test_a_clock_that_goes_back_begins_anew(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    later.by = timedelta(hours=2)
    await read_all(collector)
    later.by = timedelta(minutes=59)
    await read_all(collector)
    fresh = _collector(later, Clock())
    await read_all(fresh)
    assert figures_of(collector.known(HOUR)) == figures_of(fresh.known(HOUR))
    assert collector.known(HOUR).complete


async def test_what_was_missed_while_it_rested_is_filled_in(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    later.by = timedelta(minutes=-30)
    await read_all(collector)
    later.by = timedelta()
    await collector.tick()
    assert not collector.known(HOUR).complete
    await read_all(collector)
    fresh = _collector(later, Clock())
    await read_all(fresh)
    one, two = by_column(collector.known(HOUR)), by_column(fresh.known(HOUR))
    assert one == two


async def test_minutes_become_part_of_ten(
    collector: Collector, later: Later, connection: AsyncConnection[DictRow]
) -> None:
    await some_jobs(connection)
    await read_all(collector)
    for minutes in range(0, 150, 7):
        later.by = timedelta(minutes=minutes)
        await read_all(collector)
    figures = collector.known(SIX_HOURS)
    kept = [column for column in figures.columns if column.tally is not None]
    rows = await exact(connection, figures)
    expected = sum(n for (at, *_), n in rows.items() if at >= kept[0].at)
    assert sum(column.tally.ended for column in kept if column.tally) == expected
    assert figures.total.failed > 0


async def test_too_many_rows_are_sampled_and_it_is_told(
    later: Later, connection: AsyncConnection[DictRow]
) -> None:
    clock = Costly(0.3)
    collector = _collector(later, clock, few_jobs=0.0)
    await connection.execute(
        "insert into river_job (kind, args, max_attempts, state, attempt, attempted_at,"
        " scheduled_at, finalized_at) select 'many', '{}', 25, 'completed', 1, at, at, at from"
        " generate_series(now() - interval '70 minutes', now(), interval '0.5 seconds') as at"
    )
    await collector.tick()
    assert collector.known(HOUR).sampled == 1
    await read_all(collector)
    await collector.tick()
    figures = collector.known(HOUR)
    assert figures.complete
    assert figures.sampled == 10
    assert abs(figures.total.completed - 7200) < 400
    assert figures.total.run.n == figures.total.completed
    # Where reading costs little again, it is whole again.
    clock.cost = 0.0
    for minutes in (1, 10):
        later.by = timedelta(minutes=minutes)
        await read_all(collector)
    newest = collector.known(HOUR).columns[-5:]
    assert {column.sampled for column in newest} == {1}


@pytest.mark.long
async def test_its_memory_is_bounded_whatever_the_kinds(
    later: Later, connection: AsyncConnection[DictRow]
) -> None:
    """Each job of a day has a kind of its own, in a queue that few share."""
    kinds = scaled(20_000, 100_000)
    await connection.execute(
        "insert into river_job (kind, queue, args, max_attempts, state, attempt, attempted_at,"
        " scheduled_at, finalized_at, created_at) select rpad('kind ' || n, 127, 'x'), rpad('queue"
        " ' || mod(n, 1000), 127, 'x'), '{}', 25, 'completed', 1, at - mod(n, 1000) * interval '1"
        " second', at - mod(n, 997) * interval '1 second', at, at from generate_series(1, %s) as n"
        " cross join lateral (select now() - n * interval '1 day' / %s as at) t",
        [kinds, kinds],
    )
    collector = _collector(later, Clock())
    await collector.read(DAY)
    await collector.close()
    tracemalloc.start()
    try:
        await read_all(collector)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    figures = collector.known(DAY)
    assert figures.complete
    assert figures.total.completed > 0.98 * kinds
    assert len([pair for pair in figures.pairs if OTHER not in pair]) <= 200
    # Some 30,000 pairs of a queue and a kind are kept, each in one of the buckets.
    assert held < 16e6
    assert most < 40e6


async def test_a_long_day_is_sampled(later: Later, connection: AsyncConnection[DictRow]) -> None:
    collector = _collector(later, Clock(), ten_jobs=30)
    await connection.execute(
        "insert into river_job (kind, args, max_attempts, state, attempt, attempted_at,"
        " scheduled_at, finalized_at) select 'many', '{}', 25, 'completed', 1, at, at, at from"
        " generate_series(now() - interval '1 day', now(), interval '10 seconds') as at"
    )
    await collector.read(DAY)
    await collector.close()
    await read_all(collector)
    hour, day = collector.known(HOUR), collector.known(DAY)
    assert (hour.sampled, day.sampled) == (1, 10)
    assert hour.total.completed >= 354
    assert day.complete
    # The seconds go round, so that jobs of every ten seconds are met as often as others.
    assert 8300 < day.total.completed < 8800
