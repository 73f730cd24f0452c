"""The leader's operations on jobs: schedule, rescue, clean."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
)
from tests import factory
from tests.cases import cases
from tests.factory import Make
from tests.storage.conftest import NOW, Way

KEY = b"key"
STATES = tuple(state.value for state in JobState)
ERROR = (
    '{"at":"2026-11-21T09:00:00Z","attempt":1,"error":"Stuck job rescued by JobRescuer","trace":""}'
)


def before(**delta: int) -> Any:
    """Return a time so long before NOW."""
    return NOW - timedelta(**delta)


# Scheduling


async def test_schedule_goes_by_priority_time_and_id(way: Way) -> None:
    ids = [
        await way.make.job(
            state, priority=priority, scheduled_at=before(minutes=minutes), queue=queue
        )
        for state, priority, minutes, queue in (
            ("scheduled", 4, 9, "a"),
            ("retryable", 2, 1, "b"),
            ("scheduled", 2, 1, "a"),
            ("scheduled", 2, 5, "c"),
            ("retryable", 1, 1, "a"),
            ("retryable", 3, 9, "b"),
        )
    ]
    order: list[int] = []
    for limit in (1, 2, 1, 5):
        found = await way.executor.work.schedule(now=NOW, limit=limit)
        assert len(found) == min(limit, 6 - len(order))
        order += sorted((row.id for row in found), key=[ids[p] for p in (4, 3, 1, 2, 5, 0)].index)
    assert order == [ids[place] for place in (4, 3, 1, 2, 5, 0)]


async def _schedule_unique(
    way: Way, *jobs: tuple[str, str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Insert unique jobs (name, state, columns) and run the scheduler; return each job's row by its
    name.
    """
    ids = {}
    for name, state, columns in jobs:
        ids[name] = await way.make.job(
            state,
            **{"unique_key": KEY, "scheduled_at": before(minutes=1), "metadata": {"kept": 1}}
            | columns,
        )
    scheduled = await way.executor.work.schedule(now=NOW, limit=100)
    rows = {name: dict(await way.make.row(job_id)) for name, job_id in ids.items()}
    for row in scheduled:
        state = rows[next(name for name, job_id in ids.items() if job_id == row.id)]["state"]
        assert state == ("discarded" if row.conflict_discarded else "available")
    return rows


def _assert_discarded(row: dict[str, Any]) -> None:
    assert row["state"] == "discarded"
    assert row["finalized_at"] == NOW, "the time that was given, with the scheduler's look ahead"
    assert row["metadata"] == {"kept": 1, "unique_key_conflict": "scheduler_discarded"}


NO_RETRYABLE = "11010101"
"""Unique in River's default states but `retryable`."""


async def test_a_unique_job_without_conflicts(way: Way) -> None:
    rows = await _schedule_unique(way, ("alone", "retryable", {"unique_states": "11110101"}))
    assert rows["alone"]["state"] == "available"
    assert rows["alone"]["metadata"] == {"kept": 1}


async def test_another_job_holds_the_key(way: Way) -> None:
    with cases() as case:
        for holder in ("available", "running", "pending", "completed"):
            with case(holder):
                await way.make.connection.execute("delete from river_job")
                rows = await _schedule_unique(
                    way,
                    ("holder", holder, {"unique_states": NO_RETRYABLE}),
                    ("late", "retryable", {"unique_states": NO_RETRYABLE}),
                )
                _assert_discarded(rows["late"])
                assert rows["holder"]["state"] == holder


async def test_a_key_held_in_other_states_only(way: Way) -> None:
    rows = await _schedule_unique(
        way,
        ("holder", "completed", {"unique_states": "11010001"}),
        ("late", "retryable", {"unique_states": NO_RETRYABLE}),
    )
    assert rows["late"]["state"] == "available"


async def test_two_that_would_be_in_each_others_way(way: Way) -> None:
    rows = await _schedule_unique(
        way,
        ("worse", "retryable", {"unique_states": NO_RETRYABLE, "priority": 2}),
        ("best", "retryable", {"unique_states": NO_RETRYABLE, "scheduled_at": before(minutes=2)}),
        ("later", "retryable", {"unique_states": NO_RETRYABLE}),
    )
    assert rows["best"]["state"] == "available"
    _assert_discarded(rows["worse"])
    _assert_discarded(rows["later"])


async def test_a_key_that_is_held_and_wanted_in_one_round(way: Way) -> None:
    """River's statement discards both, and so does ours: rows are to be the same."""
    rows = await _schedule_unique(
        way,
        ("holds", "scheduled", {"unique_states": NO_RETRYABLE}),
        ("wants", "retryable", {"unique_states": NO_RETRYABLE}),
    )
    _assert_discarded(rows["holds"])
    _assert_discarded(rows["wants"])


async def test_keys_without_states_do_not_count(way: Way) -> None:
    rows = await _schedule_unique(
        way,
        ("one", "retryable", {"unique_states": None}),
        ("two", "scheduled", {"unique_states": None}),
    )
    assert [row["state"] for row in rows.values()] == ["available", "available"]


async def test_many_queues(way: Way) -> None:
    ids = [
        await way.make.job(
            "scheduled", queue=f"queue {n % 17}", priority=1 + n % 4, scheduled_at=before(minutes=n)
        )
        for n in range(60)
    ]
    found = await way.executor.work.schedule(now=before(minutes=30), limit=1000)
    assert [row.id for row in found] == ids[30:]


# Rescue


async def test_rescue(way: Way) -> None:
    with cases() as case:
        for count, expected in (
            (None, 1),
            (4, 5),
            ("x", 1),
            ([1], 1),
            (1.5, 1),
            (10**30, 1),
            (-1, 0),
        ):
            with case(count):
                await way.make.connection.execute("delete from river_job")
                metadata = {"kept": 1} | ({} if count is None else {"river:rescue_count": count})
                old = factory.attempt_error(1, "old")
                ids = [
                    await way.make.job(
                        "running",
                        attempt=2,
                        attempted_at=before(hours=2),
                        errors=[old],
                        metadata=json.dumps(metadata),
                    )
                    for _ in range(2)
                ]
                rows = {job_id: await way.make.row(job_id) for job_id in ids}
                later = NOW + timedelta(hours=1)
                changed = await way.executor.work.rescue_many(
                    [
                        JobRescueParams(ids[0], JobState.RETRYABLE, ERROR, later),
                        JobRescueParams(ids[1], JobState.DISCARDED, ERROR, NOW, NOW),
                    ],
                    attempted_before=before(hours=1),
                )
                assert sorted(changed) == ids
                same = {
                    "errors": [old, json.loads(ERROR)],
                    "metadata": {"kept": 1, "river:rescue_count": expected},
                }
                assert await way.make.row(ids[0]) == rows[ids[0]] | same | {
                    "state": "retryable",
                    "scheduled_at": later,
                }
                assert await way.make.row(ids[1]) == rows[ids[1]] | same | {
                    "state": "discarded",
                    "scheduled_at": NOW,
                    "finalized_at": NOW,
                }


async def test_rescue_leaves_alone_what_moved_on(way: Way) -> None:
    ids = [
        await way.make.job(state, attempted_at=before(hours=2))
        for state in STATES
        if state != "running"
    ]
    ids.append(await way.make.job("running", attempted_at=before(minutes=1)))
    rows = [await way.make.row(job_id) for job_id in ids]
    rescues = [
        JobRescueParams(job_id, JobState.DISCARDED, ERROR, NOW, NOW)
        for job_id in [*ids, ids[-1] + 9]
    ]
    assert (
        list(await way.executor.work.rescue_many(rescues, attempted_before=before(hours=1))) == []
    )
    assert [await way.make.row(job_id) for job_id in ids] == rows
    assert list(await way.executor.work.rescue_many([], attempted_before=NOW)) == []


# Cleaning


async def test_delete_before(way: Way) -> None:
    horizons = {
        "cancelled": before(hours=1),
        "completed": before(hours=2),
        "discarded": before(hours=3),
    }
    old = {
        state: await way.make.job(state, finalized_at=at - timedelta(microseconds=1))
        for state, at in horizons.items()
    }
    kept = [await way.make.job(state, finalized_at=at) for state, at in horizons.items()]
    kept += [await way.make.job(state) for state in STATES]

    async def left() -> list[int]:
        return [row["id"] for row in await way.make.rows("select id from river_job order by id")]

    params: dict[str, Any] = {f"{state}_before": None for state in horizons} | {"limit": 100}
    assert await way.executor.work.delete_before(JobDeleteBeforeParams(**params)) == 0
    params["completed_before"] = horizons["completed"]
    assert await way.executor.work.delete_before(JobDeleteBeforeParams(**params)) == 1
    assert await left() == sorted([old["cancelled"], old["discarded"], *kept])
    for state, at in horizons.items():
        params[f"{state}_before"] = at
    assert await way.executor.work.delete_before(JobDeleteBeforeParams(**params)) == 2
    assert await left() == sorted(kept)


async def test_delete_before_of_some_queues_alone(way: Way) -> None:
    with cases() as case:
        for excluded in ((), ("b",)):
            with case(excluded):
                await way.make.connection.execute("delete from river_job")
                for queue in ("a", "b", "c"):
                    await way.make.job("completed", finalized_at=before(hours=1), queue=queue)
                params = JobDeleteBeforeParams(
                    cancelled_before=None,
                    completed_before=NOW,
                    discarded_before=None,
                    limit=100,
                    queues_excluded=excluded,
                    queues_included=("a", "b"),
                )
                assert await way.executor.work.delete_before(params) == 2 - len(excluded)
                rows = await way.make.rows("select queue from river_job order by queue")
                assert [row["queue"] for row in rows] == [*excluded, "c"]


async def test_what_is_retried_meanwhile_is_not_cleaned(driver: Driver, make: Make) -> None:
    job_id = await make.job("completed", finalized_at=before(hours=1))
    params = JobDeleteBeforeParams(
        cancelled_before=NOW, completed_before=NOW, discarded_before=NOW, limit=100
    )

    async def clean() -> int:
        async with driver.autocommit() as executor:
            return await executor.work.delete_before(params)

    async with driver.transaction() as transaction:
        await transaction.jobs.retry_many([job_id])
        cleaning = asyncio.create_task(clean())
        await asyncio.sleep(0.1)
        assert not cleaning.done()
    assert await cleaning == 0
    assert (await make.row(job_id))["state"] == "available"
