"""Cancel, retry and delete do to each row what River's client does, say what became of each id,
notify.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from riverui.actions.job_verbs import JOB_VERBS
from riverui.domain.jobs import JobState
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.postgres.driver import PostgresDriver
from tests.cases import cases
from tests.drivers import connect
from tests.factory import Make

WAITING = ("available", "pending", "retryable", "scheduled")
FINALIZED = ("cancelled", "completed", "discarded")
STATES = tuple(state.value for state in JobState)


GIVEN = {"move": {"queue": "other", "priority": 3}}


async def _act(driver: PostgresDriver, verb: str, *ids: int, **given: Any) -> JobChanges:
    async with driver.transaction() as transaction:
        call = getattr(transaction.jobs, f"{verb}_many")
        changes: JobChanges = await call(ids, **(given or GIVEN.get(verb, {})))
    asked = sorted(dict.fromkeys(ids))
    reported = [*changes.changed, *changes.requested, *(job_id for job_id, _ in changes.skipped)]
    assert sorted(reported) == asked, "every id in exactly one place"
    return changes


@asynccontextmanager
async def _heard(
    driver: PostgresDriver, make: Make, topic: str = "river_control"
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the payloads that arrive while the block runs."""
    listener = await driver.listener()
    heard: list[dict[str, Any]] = []
    ready = asyncio.Event()

    async def listen() -> None:
        async for name, payload in listener.notifications(topic, "test_end"):
            if name == "test_end":
                if payload == "ready":
                    ready.set()
                    continue
                return
            heard.append(json.loads(payload))

    task = asyncio.create_task(listen())
    while not ready.is_set():
        await make.notify("test_end", "ready")
        await asyncio.sleep(0.01)
    yield heard
    await make.notify("test_end", "end")
    await asyncio.wait_for(task, 10)
    await listener.close()


async def test_cancel(driver: PostgresDriver, make: Make) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    ids = {
        state: await make.job(state, queue=f"q_{state}", metadata={"kept": [1]}) for state in STATES
    }
    rows = {state: await make.row(job_id) for state, job_id in ids.items()}
    async with _heard(driver, make) as heard:
        changes = await _act(driver, "cancel", *ids.values(), 10**15)
    assert set(changes.changed) == {ids[state] for state in WAITING}
    assert changes.requested == (ids["running"],)
    assert dict(changes.skipped) == {
        **{ids[state]: SkipReason.FINALIZED for state in FINALIZED},
        10**15: SkipReason.NOT_FOUND,
    }
    for state, job_id in ids.items():
        row, was = await make.row(job_id), rows[state]
        if state in FINALIZED:
            assert row == was
            continue
        stamp = row["metadata"].pop("cancel_attempted_at")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d*[1-9])?Z", stamp)
        assert before <= datetime.fromisoformat(stamp)
        assert row["metadata"] == {"kept": [1]}
        changed = {name for name in row if row[name] != was[name] and name != "metadata"}
        if state == "running":
            assert changed == set()
        else:
            assert changed == {"state", "finalized_at"}
            assert row["state"] == "cancelled"
            assert before <= row["finalized_at"]
    expected = [
        {"action": "cancel", "job_id": ids[state], "queue": f"q_{state}"}
        for state in (*WAITING, "running")
    ]
    assert sorted(heard, key=str) == sorted(expected, key=str)


async def test_retry(driver: PostgresDriver, make: Make) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    stamped = {"cancel_attempted_at": "2026-11-21T09:00:00Z", "kept": 1}
    ids = {state: await make.job(state, metadata=stamped) for state in STATES}
    ids["later"] = await make.job(
        "available", metadata=stamped, scheduled_at=before + timedelta(hours=1)
    )
    rows = {state: await make.row(job_id) for state, job_id in ids.items()}
    async with _heard(driver, make) as heard:
        changes = await _act(driver, "retry", *ids.values(), 10**15)
    assert dict(changes.skipped) == {
        ids["running"]: SkipReason.RUNNING,
        ids["available"]: SkipReason.ALREADY_AVAILABLE,
        10**15: SkipReason.NOT_FOUND,
    }
    assert heard == []
    for state, job_id in ids.items():
        row, was = await make.row(job_id), rows[state]
        if state in ("running", "available"):
            assert row == was
            continue
        assert job_id in changes.changed
        assert row["state"] == "available"
        assert row["finalized_at"] is None
        assert before <= row["scheduled_at"] <= datetime.now(UTC) + timedelta(seconds=1)
        assert row["metadata"] == {"kept": 1}
        kept = {
            "attempt",
            "attempted_at",
            "attempted_by",
            "errors",
            "created_at",
            "args",
            "tags",
            "priority",
        }
        assert all(row[name] == was[name] for name in kept)


async def test_retry_of_the_last_attempt_gives_one_more(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for attempt, max_attempts, after in (
            (25, 25, 26),
            (24, 25, 25),
            (26, 25, 25),
            (32767, 32767, 32767),
        ):
            with case((attempt, max_attempts)):
                job_id = await make.job("discarded", attempt=attempt, max_attempts=max_attempts)
                await _act(driver, "retry", job_id)
                assert (await make.row(job_id))["max_attempts"] == after


async def test_move(driver: PostgresDriver, make: Make) -> None:
    ids = {state: await make.job(state, metadata={"kept": [1]}) for state in STATES}
    ids["there"] = await make.job("available", queue="other", priority=3)
    ids["nearly"] = await make.job("available", queue="other")
    rows = {name: await make.row(job_id) for name, job_id in ids.items()}
    async with _heard(driver, make, "river_insert") as heard:
        changes = await _act(driver, "move", *ids.values(), 10**15)
    moved = {*WAITING, "nearly"}
    assert set(changes.changed) == {ids[name] for name in moved}
    assert changes.requested == ()
    assert dict(changes.skipped) == {
        **{ids[state]: SkipReason.FINALIZED for state in FINALIZED},
        ids["running"]: SkipReason.RUNNING,
        ids["there"]: SkipReason.UNCHANGED,
        10**15: SkipReason.NOT_FOUND,
    }
    for name, job_id in ids.items():
        expected = rows[name] | ({"queue": "other", "priority": 3} if name in moved else {})
        assert await make.row(job_id) == expected, name
    assert heard == [{"queue": "other"}], "once, as River notifies of an insert"


@pytest.mark.parametrize(
    ("given", "after"),
    [({"queue": "other"}, ("other", 2)), ({"priority": 4}, ("default", 4)), ({}, ("default", 2))],
)
async def test_a_move_leaves_what_it_was_not_given(
    driver: PostgresDriver, make: Make, given: dict[str, Any], after: tuple[str, int]
) -> None:
    job_id = await make.job("available", priority=2)
    async with driver.transaction() as transaction:
        changes = await transaction.jobs.move_many([job_id], **given)
    assert changes.changed == ((job_id,) if given else ())
    row = await make.row(job_id)
    assert (row["queue"], row["priority"]) == after


async def test_a_move_notifies_of_available_jobs_only(driver: PostgresDriver, make: Make) -> None:
    later = [await make.job(state) for state in ("pending", "retryable", "scheduled")]
    running, target = await make.job("running"), await make.job("available")
    async with _heard(driver, make, "river_insert") as heard:
        await _act(driver, "move", *later, running, queue="other")
        await _act(driver, "move", target, priority=4)
        await _act(driver, "move", target, queue="default")
    assert heard == []


async def test_a_move_leaves_the_unique_key(driver: PostgresDriver, make: Make) -> None:
    unique = {"unique_key": b"k" * 32, "unique_states": "11110101"}
    job_id = await make.job("available", **unique)
    await make.job("completed", queue="other", **(unique | {"unique_states": "10000000"}))
    assert (await _act(driver, "move", job_id)).changed == (job_id,)
    row = await make.row(job_id)
    assert (row["queue"], row["unique_key"]) == ("other", b"k" * 32)


async def test_ids_that_cannot_be(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for verb in JOB_VERBS:
            with case(verb):
                job_id = await make.job("scheduled")
                odd = (2**63, -(2**63) - 1, 2**100, -5, 0)
                changes = await _act(driver, verb, job_id, job_id, *odd)
                assert changes.changed == (job_id,)
                assert dict(changes.skipped) == dict.fromkeys(odd, SkipReason.NOT_FOUND)
                assert await _act(driver, verb) == JobChanges()


async def test_metadata_that_is_no_object(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for verb in ("cancel", "retry"):
            for metadata in ("[]", '"text"', "null", "1"):
                with case((verb, metadata)):
                    odd = await make.job("scheduled", metadata=metadata)
                    fine = await make.job("scheduled")
                    changes = await _act(driver, verb, odd, fine)
                    assert set(changes.changed) == {odd, fine}
                    assert (await make.row(odd))["metadata"] == json.loads(metadata)


@pytest.mark.parametrize("verb", JOB_VERBS)
async def test_locked_rows_are_skipped(database_url: str, make: Make, verb: str) -> None:
    held, free = await make.job("scheduled"), await make.job("scheduled")
    driver = connect(database_url, lock_timeout=timedelta(milliseconds=100))
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("select from river_job where id = %s for update", [held])
        changes = await _act(driver, verb, held, free)
        await other.rollback()
    assert changes.changed == (free,)
    assert changes.skipped == ((held, SkipReason.LOCKED),)
    await driver.close()


@pytest.mark.parametrize("verb", JOB_VERBS)
async def test_other_orders_do_not_deadlock(driver: PostgresDriver, make: Make, verb: str) -> None:
    async with make.connection.transaction():
        ids = [await make.job("scheduled") for _ in range(100)]
    results = await asyncio.gather(
        *(_act(driver, verb, *(ids if n % 2 else reversed(ids))) for n in range(4)),
        return_exceptions=True,
    )
    assert [r for r in results if isinstance(r, BaseException)] == []


async def test_uncommitted_changes(driver: PostgresDriver, make: Make, database_url: str) -> None:
    """A job that a worker fetches just before us is asked to stop, not cancelled under its feet."""
    job_id = await make.job("available")
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("update river_job set state = 'running' where id = %s", [job_id])
        acting = asyncio.create_task(_act(driver, "cancel", job_id))
        await asyncio.sleep(0.2)
        await other.commit()
    changes = await acting
    assert changes.requested == (job_id,)
    row = await make.row(job_id)
    assert row["state"] == "running"
    assert row["finalized_at"] is None


async def test_a_thousand_at_once(driver: PostgresDriver, make: Make) -> None:
    await make.connection.execute(
        "insert into river_job (kind, args, state, scheduled_at)"
        " select 'k', '{}', 'scheduled', now() + interval '1 hour' from generate_series(1, 1000)"
    )
    ids = [row["id"] for row in await make.rows("select id from river_job order by id")]
    async with _heard(driver, make) as heard:
        assert (await _act(driver, "cancel", *ids)).changed == tuple(ids)
    assert len(heard) == 1000
    assert (await _act(driver, "retry", *ids)).changed == tuple(ids)
    assert (await _act(driver, "move", *ids)).changed == tuple(ids)
    assert (await _act(driver, "delete", *ids)).changed == tuple(ids)


async def test_a_rollback_keeps_nothing(driver: PostgresDriver, make: Make) -> None:
    job_id = await make.job("scheduled")

    async def fail() -> None:
        async with driver.transaction() as transaction:
            await transaction.jobs.cancel_many([job_id])
            raise RuntimeError

    async with _heard(driver, make) as heard:
        with pytest.raises(RuntimeError):
            await fail()
    assert (await make.row(job_id))["state"] == "scheduled"
    assert heard == []
