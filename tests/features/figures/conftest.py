"""Dashboards' figures, read at times chosen by a test, and jobs that ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.limits import FigureLimits
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.factory import Jobs, job
from tests.web.stand_ins import Later

Connection = AsyncConnection[DictRow]
Make = Callable[..., FigureReader]


class Clock:
    """A clock in seconds that only a test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def later(driver: Driver) -> Later:
    """Return a driver whose database's clock may be ahead."""
    return Later(driver)


@pytest.fixture
async def make(later: Later, clock: Clock) -> AsyncIterator[Make]:
    """Yield a function that makes the figures of another dashboard."""
    made = []

    def make(
        driver: Any = None,
        *,
        clock: Callable[[], float] = clock,
        charts: bool = True,
        **limits: Any,
    ) -> FigureReader:
        config = DashboardConfig(charts=charts)
        made.append(FigureReader(driver or later, config, FigureLimits(**limits), clock=clock))
        return made[-1]

    yield make
    for figures in made:
        await figures.close()


@pytest.fixture
def figures(make: Make) -> FigureReader:
    return make()


async def read_all(figures: FigureReader) -> None:
    """Read new rows and all of the past."""
    await figures.collector.tick()
    while await figures.collector.fill():
        pass


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def ended(
    connection: Connection | Jobs,
    at: datetime,
    state: str = "completed",
    *,
    run: float = 1.0,
    wait: float = 2.0,
    **columns: Any,
) -> int:
    """Insert a job that ended then, with these seconds of run and wait."""
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
