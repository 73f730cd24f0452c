"""A short test of all of riverui on each major version of Postgres that is supported.

All other tests run on the newest, so that the oldest is what a quick run adds.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from psycopg.rows import dict_row

import riverui
from riverui import (
    Client,
    ClientConfig,
    InsertOpts,
    JobState,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    SyncClient,
    UniqueOpts,
    Workers,
)
from riverui.demo.postgres import EmbeddedPostgres
from riverui.storage.migrations import migrate, validate
from tests.drivers import connect
from tests.interop.look import eventually, settled
from tests.needs import need
from tests.scale import FULL
from tests.web.stand_ins import browser

OLDEST = 13
"""The oldest major version that is supported: Postgres no longer supports the one before."""
MAJORS = range(OLDEST, 18) if FULL else (OLDEST,)
"""Those that are tried: with `RIVERUI_FULL=1` all but the newest."""
PAGES = (
    "/",
    "/jobs",
    "/jobs?state=completed",
    "/jobs?q=kind%3Awork+args.n%3A1",
    "/jobs?q=error%3Abroke",
    "/kinds",
    "/kinds/work",
    "/queues",
    "/queues/default",
    "/errors",
    "/workers",
    "/periodic",
    "/workflows",
    "/operations",
    "/database",
    "/dead-letters",
    "/about",
    "/help",
    "/api/jobs",
    "/api/jobs?state=completed&limit=5",
    "/api/queues",
    "/api/states",
    "/api/health-report",
    "/metrics",
)


@pytest.fixture(params=MAJORS, ids=lambda major: f"Postgres {major}")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a server of one major version."""
    programs = Path(need(f"Postgres {request.param}"))
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(prefix="riverui-", dir=place) as folder:
        Path(folder).chmod(0o711)
        data = Path(folder) / "data"
        with EmbeddedPostgres(data, durable=False, binaries=programs) as started:
            yield started.url


@dataclass
class Work:
    """The args of a job."""

    n: int
    kind = "work"


@asynccontextmanager
async def client(url: str, attempts: list[int]) -> AsyncIterator[Client]:
    """Yield a client at work, which fails the first attempt of each odd job."""
    workers = Workers()

    @workers.task(kind="work")
    async def work(n: int) -> None:
        attempts.append(n)
        if n % 2 and attempts.count(n) == 1:
            raise RuntimeError("it broke")

    @workers.task(kind="tick")
    async def tick() -> None:
        attempts.append(-1)

    config = ClientConfig(
        fetch_poll_interval=timedelta(milliseconds=100),
        periodic_jobs=[
            PeriodicJob(PeriodicInterval(timedelta(hours=1)), tick.args, run_on_start=True)
        ],
        queues={"default": QueueConfig(max_workers=10)},
        retry_policy=lambda job: datetime.now(UTC),
        workers=workers,
    )
    async with Client(url, config) as started:
        yield started


async def test_riverui_works_on(server: str) -> None:
    await works_on(server)


async def works_on(server: str) -> None:
    """Migrate an empty database, work its jobs, look at its pages and migrate it away again."""
    driver = connect(server)
    for line in ("main", "riverui"):
        await migrate(driver, "up", line=line)
        assert await validate(driver, line=line) == []
    attempts: list[int] = []
    async with (
        await AsyncConnection.connect(server, autocommit=True, row_factory=dict_row) as connection,
        client(server, attempts) as river,
    ):
        unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
        first = await river.insert(Work(0), unique)
        assert (await river.insert(Work(0), unique)).unique_skipped_as_duplicate
        many = await river.insert_many([Work(n) for n in range(1, 6)])
        assert await river.insert_many_fast([Work(n) for n in range(6, 9)]) == 3
        with SyncClient(server) as sync:
            late = sync.insert(Work(100), InsertOpts(scheduled_at=_tomorrow()))
        for result in (first, *many):
            row = await settled(connection, result.job.id, "completed")
            assert row["attempt"] == 1 + row["args"]["n"] % 2
        await eventually(lambda: _leads(connection))
        await eventually(lambda: _ticked(attempts))
        cancelled = await river.job_cancel(late.job.id)
        assert cancelled.state is JobState.CANCELLED
        assert (await river.job_retry(late.job.id)).state is JobState.AVAILABLE
        await settled(connection, late.job.id, "completed")
        await _pages(server, late.job.id)
    await migrate(driver, "down", target_version=-1, line="riverui")
    await migrate(driver, "down", target_version=-1)
    await driver.close()


async def _pages(url: str, job_id: int) -> None:
    app = riverui.create_app(url, no_auth=True)
    async with browser(app) as visitor:
        for path in (*PAGES, f"/jobs/{job_id}", f"/api/jobs/{job_id}"):
            answer = await visitor.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text[:2000]}"
            assert "The database returned an error" not in answer.text, path
        assert len((await visitor.get("/api/jobs?q=kind:work+args.n:1")).json()["data"]) == 1
        await eventually(lambda: _figures(visitor))
        report = (await visitor.get("/api/health-report")).json()
        assert report["sections"][0]["level"] == "ok", report
        form = {"ids": str(job_id), "confirmed": "1"}
        assert (await visitor.post("/jobs/retry", data=form)).status_code == 303
        assert (await visitor.post("/jobs/delete", data=form)).status_code == 303
    await app.state.dashboard.close()


async def _figures(visitor: AsyncClient) -> bool:
    """Return whether charts know of the jobs that have completed."""
    answer = await visitor.get("/metrics")
    return 'river_queue_jobs{queue="default",state="available"}' in answer.text


async def _leads(connection: AsyncConnection[dict[str, object]]) -> bool:
    found = await connection.execute("select 1 from river_leader where expires_at > now()")
    return await found.fetchone() is not None


async def _ticked(attempts: list[int]) -> bool:
    return -1 in attempts


def _tomorrow() -> datetime:
    return datetime.now(UTC) + timedelta(days=1)
