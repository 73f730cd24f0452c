"""The figures that are gathered out of rows: the same as those of an exact count, whatever happens
in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.figures import WINDOWS, Figures
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.figures import FigureClock
from riverui.web.config import DashboardConfig
from riverui.web.live.collector import Collector, CollectorLimits
from tests.factory import job

HOUR, SIX_HOURS, DAY = WINDOWS["1h"], WINDOWS["6h"], WINDOWS["24h"]


class Clock:
    """Tells seconds that only a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Later:
    """A driver whose database's clock goes as a test says."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.by = timedelta()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        return self._reading(timeout)

    @asynccontextmanager
    async def _reading(self, limit: timedelta | None) -> AsyncIterator[Any]:
        async with self._driver.reading(timeout=limit) as executor:
            yield _LaterExecutor(executor, self.by)


class _LaterExecutor:
    def __init__(self, executor: Any, by: timedelta) -> None:
        self._executor = executor
        self._by = by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def figure_clock_get(self) -> FigureClock:
        clock = await self._executor.figure_clock_get()
        return FigureClock(now=clock.now + self._by, last_id=clock.last_id)


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
        [figures.columns[0].at, figures.read_at],
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
