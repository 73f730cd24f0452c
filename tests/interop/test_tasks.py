"""Jobs of tasks next to the real Go River: the fields of its struct are a function's parameters."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import Client, ClientConfig, QueueConfig, Workers
from riverui.storage.interface import Driver
from tests.interop.conftest import StartWorker
from tests.interop.look import eventually, jobs

pytestmark = pytest.mark.interop

workers = Workers()
called: list[tuple[Any, ...]] = []


@workers.task
async def log(message: str, lines: int = 1, *, retry_in: float = 0) -> None:
    called.append((message, lines, retry_in))


@workers.task
async def output(value: dict[str, Any]) -> dict[str, Any]:
    return value


@pytest.mark.short
async def test_go_reads_what_a_task_has_inserted(
    start_worker: StartWorker, driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    client = Client(driver)
    logged = await log.insert(client, "héllo <b>", lines=3, retry_in=1.5)
    put_out = await output.insert(client, {"rows": [1, 2.5, "<&>"], "none": None})
    async with start_worker() as go:
        for inserted in (logged, put_out):
            await go.wait("job_completed", id=inserted.job.id)
    first, second = await jobs(connection)
    assert first["metadata"]["river:log"][0]["log"].count("héllo <b>") == 3
    assert second["metadata"]["output"] == {"rows": [1, 2.5, "<&>"], "none": None}


@pytest.mark.short
async def test_a_task_is_called_with_what_go_has_inserted(
    start_worker: StartWorker, database_url: str, connection: AsyncConnection[DictRow]
) -> None:
    called.clear()
    async with start_worker(start=False) as go:
        await go.insert("log", message="héllo <b>", lines=3, n=7)
        await go.insert("output", value={"a": [1, None]})
    config = ClientConfig(queues={"default": QueueConfig(max_workers=2)}, workers=workers)
    async with Client(database_url, config):
        rows = await eventually(
            lambda: jobs(connection),
            fits=lambda rows: [row["state"] for row in rows] == ["completed"] * 2,
        )
    assert called == [("héllo <b>", 3, 0)]
    assert rows[1]["metadata"]["output"] == {"a": [1, None]}
