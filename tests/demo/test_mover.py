"""The demo's stand-in for River's workers moves jobs by River's rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.demo.mover import Mover
from riverui.storage.interface import Driver
from tests import factory

Connection = AsyncConnection[DictRow]
NOW = datetime.now(UTC)


@asynccontextmanager
async def moving(url: str) -> AsyncIterator[None]:
    task = asyncio.create_task(Mover(url, Random(1)).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(happened: Callable[[], Awaitable[object]], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not await happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.1)


async def job(connection: Connection, job_id: int) -> dict[str, Any]:
    row = await (await connection.execute("select * from river_job where id = %s", [job_id])).fetchone()
    assert row is not None
    return row


def is_in(connection: Connection, job_id: int, *states: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return (await job(connection, job_id))["state"] in states

    return look


async def test_an_available_job_is_worked(database_url: str, connection: Connection) -> None:
    job_id = await factory.job(
        connection, kind="push_notification", queue="mailers", metadata={"trace_id": "a"}
    )
    async with moving(database_url):
        await until(is_in(connection, job_id, "completed"))
    row = await job(connection, job_id)
    assert row["attempt"] == 1
    assert row["attempted_by"][0].startswith(("shop-worker-", "ip-10-"))
    assert row["finalized_at"] >= row["attempted_at"]
    assert row["metadata"]["river:log"][0]["attempt"] == 1


async def test_new_jobs_arrive(database_url: str, connection: Connection) -> None:
    async def arrived() -> bool:
        row = await (await connection.execute("select count(*) as n from river_job")).fetchone()
        return row is not None and row["n"] > 40

    async with moving(database_url):
        await until(arrived)


async def test_a_paused_queue_rests_until_it_is_resumed(
    database_url: str, connection: Connection, driver: Driver
) -> None:
    await factory.queue(connection, "default")
    await factory.queue(connection, "mailers")
    async with driver.transaction() as db:
        await db.queue_pause("mailers")
    resting = await factory.job(connection, kind="email_send", queue="mailers")
    other = await factory.job(connection, kind="search_index_update", queue="default")
    async with moving(database_url):
        await until(is_in(connection, other, "completed", "retryable", "running"))
        assert (await job(connection, resting))["attempt"] == 0
        async with driver.transaction() as db:
            await db.queue_resume("mailers")
        await until(is_in(connection, resting, "running", "completed"))


async def test_a_cancelled_running_job_stops(
    database_url: str, connection: Connection, driver: Driver
) -> None:
    job_id = await factory.job(connection, kind="video_transcode", queue="media", metadata={"trace_id": "b"})
    async with moving(database_url):
        await until(is_in(connection, job_id, "running"))
        async with driver.transaction() as db:
            assert (await db.job_cancel_many([job_id])).requested == (job_id,)
        await until(is_in(connection, job_id, "cancelled"))
    row = await job(connection, job_id)
    assert row["errors"][-1]["error"] == "JobCancelError: job cancelled remotely"
    assert row["finalized_at"]


async def test_a_retried_job_is_worked_again(
    database_url: str, connection: Connection, driver: Driver
) -> None:
    job_id = await factory.job(
        connection, "discarded", kind="push_notification", queue="mailers", metadata={"trace_id": "c"}
    )
    async with moving(database_url):
        async with driver.transaction() as db:
            assert (await db.job_retry_many([job_id])).changed == (job_id,)
        await until(is_in(connection, job_id, "completed"))
    row = await job(connection, job_id)
    assert row["attempt"] == row["max_attempts"] == 26


async def test_due_jobs_become_available_and_are_worked(database_url: str, connection: Connection) -> None:
    due = [
        await factory.job(
            connection,
            state,
            kind="push_notification",
            queue="mailers",
            metadata={"trace_id": state},
            scheduled_at=NOW - timedelta(seconds=1),
        )
        for state in ("scheduled", "retryable")
    ]
    async with moving(database_url):
        for job_id in due:
            await until(is_in(connection, job_id, "running", "completed"))


async def test_a_lost_job_is_rescued_but_not_one_without_a_time_limit(
    database_url: str, connection: Connection
) -> None:
    old = {"attempted_at": NOW - timedelta(hours=2), "attempted_by": ["gone"]}
    lost = await factory.job(connection, "running", kind="email_send", queue="mailers", **old)
    slow = await factory.job(connection, "running", kind="video_transcode", queue="media", **old)
    cancelled = await factory.job(
        connection,
        "running",
        kind="video_transcode",
        queue="media",
        metadata={"cancel_attempted_at": "2026-11-21T09:00:00Z"},
        **old,
    )
    async with moving(database_url):
        await until(is_in(connection, cancelled, "cancelled"))
    row = await job(connection, lost)
    assert row["errors"][0]["error"] == "Stuck job rescued by JobRescuer"
    assert row["metadata"]["river:rescue_count"] == 1
    assert (await job(connection, slow))["state"] == "running"


async def test_someone_leads_until_the_end(database_url: str, connection: Connection, driver: Driver) -> None:
    async def led() -> bool:
        async with driver.reading() as db:
            return await db.leader_get() is not None

    async with moving(database_url):
        await until(led)
    assert not await led()


async def test_running_jobs_are_handed_back_at_the_end(database_url: str, connection: Connection) -> None:
    job_id = await factory.job(connection, kind="video_transcode", queue="media", metadata={"trace_id": "d"})
    async with moving(database_url):
        await until(is_in(connection, job_id, "running"))
    row = await job(connection, job_id)
    assert (row["state"], row["attempt"]) == ("available", 0)


async def test_the_database_may_go_away_and_come_back(
    database_url: str, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with moving(database_url):
        first = await factory.job(connection, kind="push_notification", queue="mailers")
        await until(is_in(connection, first, "running", "completed"))
        await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        second = await factory.job(connection, kind="push_notification", queue="mailers")
        await until(is_in(connection, second, "running", "completed"))
