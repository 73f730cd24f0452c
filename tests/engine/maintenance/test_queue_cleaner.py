"""Rows of queues are removed when no client has reported them for a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.engine.lead.maintenance.service import BatchSize
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking
from tests.factory import queue


async def test_queues_not_reported_for_a_day_are_removed(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    for name, hours in [("new", 0), ("younger", 23.9), ("older", 24.1), ("oldest", 10_000)]:
        await queue(connection, name, updated_at=clock.now() - timedelta(hours=hours))
    await queue(
        connection, "paused", updated_at=clock.now() - timedelta(hours=25), paused_at=clock.now()
    )
    cleaner = QueueCleaner(service_parts().context)
    assert await cleaner.run_once() == ["older", "oldest", "paused"]
    assert await cleaner.run_once() == []
    rows = await (await connection.execute("select name from river_queue order by name")).fetchall()
    assert [row["name"] for row in rows] == ["new", "younger"]


async def test_many_queues_go_in_batches(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    for number in range(5):
        await queue(connection, f"q{number}", updated_at="2001-01-01Z")
    assert len(await QueueCleaner(service_parts().context, size=BatchSize(2, 1)).run_once()) == 5
