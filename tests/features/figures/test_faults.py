"""Charts of a worker that is killed: the same as the rows."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.figures import WINDOWS, Tally
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.engine.conftest import until
from tests.factory import job
from tests.web.stand_ins import Later

Connection = AsyncConnection[DictRow]

_WORKER = """
import asyncio, sys
from dataclasses import dataclass
from datetime import timedelta
from riverui import Client, ClientConfig, Job, JobSnooze, QueueConfig, Workers
from riverui.engine.limits import EngineLimits

@dataclass
class Task:
    kind = "task"
    value: str = ""

workers = Workers()

@workers.work
async def work(job: Job[Task]) -> None:
    if job.metadata_dict.get("snoozes", 0) < 1:
        raise JobSnooze(timedelta(0))

async def main() -> None:
    config = ClientConfig(queues={"default": QueueConfig(max_workers=5)}, workers=workers)
    client = Client(sys.argv[1], config, limits=EngineLimits(figures_seconds=0.2))
    await client.start()
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
"""Snoozes every job once, and writes its figures five times a second."""


async def begin_worker(tmp_path: Path, database_url: str) -> Process:
    script = tmp_path / "worker.py"
    script.write_text(_WORKER)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, str(script), database_url, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"started\n"
    return worker


async def insert(connection: Connection, number: int, **columns: Any) -> None:
    for _ in range(number):
        await job(connection, **({"kind": "task", "args": {"value": ""}} | columns))


async def one(connection: Connection, query: str) -> int:
    found = await (await connection.execute(query.encode())).fetchone()
    assert found is not None
    return int(found["n"] or 0)


async def counted(connection: Connection) -> int:
    return await one(
        connection, "select sum(completed) as n from riverui_rollup where source <> ''"
    )


async def completed(connection: Connection) -> int:
    return await one(connection, "select count(*) as n from river_job where state = 'completed'")


async def charts(driver: Driver) -> Tally:
    """Return the figures of the last hour once it has settled."""
    later = Later(driver)
    later.by = timedelta(minutes=5)
    figures = FigureReader(later, DashboardConfig())
    await figures.collector.tick()
    while await figures.collector.fill():
        pass
    total = (await figures.known(WINDOWS["1h"])).total
    await figures.close()
    return total


@pytest.mark.usefixtures("own_tables")
async def test_a_killed_worker_loses_what_it_had_not_written_and_charts_lose_nothing(
    connection: Connection, database_url: str, driver: Driver, tmp_path: Path
) -> None:
    worker = await begin_worker(tmp_path, database_url)
    await insert(connection, 30)

    async def all_counted() -> bool:
        return await counted(connection) == 30

    await until(all_counted)
    assert (await charts(driver)).snoozed == 30
    await insert(connection, 10)

    async def some_completed() -> bool:
        return await completed(connection) > 30

    await until(some_completed)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    assert 30 <= await counted(connection) <= await completed(connection)
    shown = await charts(driver)
    assert shown.completed == await completed(connection)
    assert 30 <= shown.snoozed <= 40
