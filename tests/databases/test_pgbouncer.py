"""PgBouncer in transaction mode, for everything but working jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

import riverui
from riverui import Client, ClientConfig, QueueConfig, SyncClient, Workers
from tests.databases.test_versions import PAGES, Work
from tests.interop.look import settled
from tests.web.stand_ins import browser


async def test_the_dashboard_shows_and_changes(
    bouncer_url: str, connection: AsyncConnection[DictRow]
) -> None:
    async with Client(bouncer_url) as river:
        job = (await river.insert(Work(1))).job
    with SyncClient(bouncer_url) as sync:
        other = sync.insert(Work(2)).job
    app = riverui.create_app(bouncer_url, no_auth=True)
    async with browser(app) as visitor:
        # Without the line riverui, workflows are not shown.
        for path in (*[path for path in PAGES if path != "/workflows"], f"/jobs/{job.id}"):
            answer = await visitor.get(path)
            assert answer.status_code == 200, path
            assert "The database returned an error" not in answer.text, path
        for verb, state in (("cancel", "cancelled"), ("retry", "available")):
            form = {"ids": str(job.id), "confirmed": "1"}
            assert (await visitor.post(f"/jobs/{verb}", data=form)).status_code == 303
            assert (await settled(connection, job.id, state))["state"] == state
        form = {"ids": str(other.id), "confirmed": "1"}
        assert (await visitor.post("/jobs/delete", data=form)).status_code == 303
        assert (await visitor.get(f"/jobs/{other.id}")).status_code == 404
    await app.state.dashboard.close()


@pytest.mark.parametrize("poll_only", [False, True])
async def test_a_worker_behind_it_is_told_to_poll(
    bouncer_url: str,
    connection: AsyncConnection[DictRow],
    caplog: pytest.LogCaptureFixture,
    *,
    poll_only: bool,
) -> None:
    workers = Workers()

    @workers.task(kind="work")
    async def work(n: int) -> None:
        return None

    config = ClientConfig(
        fetch_poll_interval=timedelta(milliseconds=100),
        poll_only=poll_only,
        queues={"default": QueueConfig(max_workers=5)},
        workers=workers,
    )
    async with Client(bouncer_url, config) as river:
        job = (await river.insert(Work(1))).job
        await settled(connection, job.id, "completed")
    warnings = [record.message for record in caplog.records if "a pooler" in record.message]
    assert len(warnings) == (0 if poll_only else 1)
