"""What queues did minute by minute: the same as the columns of their windows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.figures import WINDOWS
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.live.collector import Collector
from riverui.web.live.figure_readings import CollectorLimits
from tests.factory import job
from tests.web.stand_ins import DeadDriver

HOUR = WINDOWS["1h"]


async def test_queues_are_told_minute_by_minute_like_the_columns_of_their_windows(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    now = datetime.now(UTC)
    for n in range(40):
        ended = now - timedelta(minutes=2 + n % 20)
        await job(
            connection,
            "completed",
            queue=f"queue_{n % 3}",
            scheduled_at=ended - timedelta(seconds=10 + n),
            attempted_at=ended - timedelta(seconds=5),
            finalized_at=ended,
        )
    await job(connection, "available", queue="waiting", scheduled_at=now - timedelta(minutes=3))
    collector = Collector(driver, DashboardConfig())
    assert await collector.read_queues() == {}, "nothing is known before the first reading"
    await collector.close()
    await collector.tick()
    while await collector.fill():
        pass
    queues = await collector.read_queues()
    await collector.close()
    assert queues.keys() == {"queue_0", "queue_1", "queue_2", "waiting"}
    for queue, minutes in queues.items():
        columns = collector.known(HOUR, queue=queue).columns
        assert len(minutes) == len(columns) == 60
        for minute, column in zip(minutes, columns, strict=True):
            assert (minute is None) is (column.tally is None)
            if minute is not None and column.tally is not None:
                wait = column.tally.wait.quantile(0.95)
                assert (minute.ended, minute.inserted) == (
                    column.tally.ended,
                    column.tally.inserted,
                )
                assert (minute.wait, minute.waiting) == (wait, column.waiting)
    newest = queues["waiting"][-1]
    assert newest is not None
    assert (newest.ended, newest.waiting, newest.waiting_capped) == (0, 1, False)


async def test_without_charts_nothing_is_read(driver: Driver) -> None:
    collector = Collector(driver, DashboardConfig(charts=False))
    assert await collector.read_queues() == {}
    assert collector.resting


class Forgetful(DeadDriver):
    """Forgets a cancellation, as a pool does that hands out a connection at that very moment."""

    @asynccontextmanager
    async def _refuse(self) -> AsyncIterator[Any]:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        raise self.error
        yield


async def test_a_host_that_ends_without_closing_it_is_not_kept_waiting() -> None:
    limits = CollectorLimits(tick_seconds=0.001, most_rest_seconds=0.0)
    collector = Collector(Forgetful(), DashboardConfig(), limits)
    others = asyncio.all_tasks()
    await collector.read(HOUR)
    # As the end of a loop does it: each task is cancelled once, and waited for.
    tasks = asyncio.all_tasks() - others
    assert tasks
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=5)
    await collector.close()
    assert not left


async def test_a_database_may_be_away_for_weeks() -> None:
    collector = Collector(DeadDriver(), DashboardConfig())
    for _ in range(2_000):
        await collector.tick()
    assert collector.known(HOUR).trouble
