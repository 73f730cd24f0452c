"""Jobs whose time has come become available, and their workers hear of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.service import BatchSize
from riverui.storage.interface import Executor
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking
from tests.factory import job

UNIQUE = {"unique_key": b"k" * 32, "unique_states": "11110101"}


class NotifiedQueues:
    """Takes the place of the client's limiter and notification."""

    def __init__(self) -> None:
        self.queues: list[str] = []

    async def __call__(self, executor: Executor, queues: Iterable[str]) -> None:
        self.queues.extend(queues)


async def row(connection: AsyncConnection[Any], id: int) -> dict[str, Any]:
    found = await (
        await connection.execute("select * from river_job where id = %s", [id])
    ).fetchone()
    assert found is not None
    return dict(found)


async def test_what_is_due_by_the_next_round_becomes_available(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    others = ("pending", "running", "completed", "cancelled", "discarded")
    due = [
        *(("scheduled", seconds) for seconds in (-60, 0, 4.9)),
        ("retryable", -60),
        ("retryable", 4.9),
    ]
    stay = [
        ("scheduled", 5.5),
        ("retryable", 5.5),
        ("available", 60),
        *((state, -60) for state in others),
    ]
    before = {}
    for state, due_in in (*due, *stay):
        at = clock.now() + timedelta(seconds=due_in)
        job_id = await job(connection, state, scheduled_at=at)
        before[job_id] = await row(connection, job_id)
    moved = await JobScheduler(service_parts().context, notify_inserts=NotifiedQueues()).run_once()
    assert moved == len(due)
    for number, (job_id, was) in enumerate(before.items()):
        then = "available" if number < len(due) else was["state"]
        assert await row(connection, job_id) == {**was, "state": then}


async def test_a_job_with_an_active_twin_is_discarded(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    notified = NotifiedQueues()
    past = clock.now() - timedelta(minutes=1)
    # It is not unique while it is retryable.
    late = await job(
        connection, "retryable", scheduled_at=past, unique_key=b"k" * 32, unique_states="11010101"
    )
    await job(connection, "available", **UNIQUE)
    assert await JobScheduler(service_parts().context, notify_inserts=notified).run_once() == 1
    found = await row(connection, late)
    assert found["state"] == "discarded"
    assert found["metadata"] == {"unique_key_conflict": "scheduler_discarded"}
    assert found["finalized_at"] - clock.now() == timedelta(seconds=5)
    assert notified.queues == []


async def test_the_workers_of_each_queue_are_woken_once(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    notified = NotifiedQueues()
    for queue, due_in in [("a", -1), ("a", -2), ("b", 0), ("c", 3), ("d", 60)]:
        due = clock.now() + timedelta(seconds=due_in)
        await job(connection, "scheduled", queue=queue, scheduled_at=due)
    scheduler = JobScheduler(service_parts().context, notify_inserts=notified)
    assert await scheduler.run_once() == 4
    assert notified.queues == ["a", "b"]
    assert await scheduler.run_once() == 0
    assert notified.queues == ["a", "b"]


async def test_many_jobs_are_moved_in_batches(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    notified = NotifiedQueues()
    past = clock.now() - timedelta(seconds=1)
    for number in range(5):
        await job(
            connection, "retryable", queue=f"q{number}", priority=4 - number % 4, scheduled_at=past
        )
    assert (
        await JobScheduler(
            service_parts().context, notify_inserts=notified, size=BatchSize(2, 1)
        ).run_once()
        == 5
    )
    # What has priority comes with the first batch.
    assert notified.queues == ["q2", "q3", "q0", "q1", "q4"]
