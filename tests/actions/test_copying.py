"""Jobs and queues go from one database to another, as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import riverui
from riverui.actions.copying import copy_all
from riverui.domain.jobs import JobRow, JobState
from riverui.domain.queues import QueueRow
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.testing import MemoryDatabase
from tests.contract.seeds import ENDS, ended, insert, job, running
from tests.drivers import connect


async def all_of(driver: Driver) -> tuple[list[JobRow], list[QueueRow]]:
    """Return all jobs and queues."""
    async with driver.reading() as executor:
        rows = await executor.jobs.row_list(JobSelectParams(limit=10_000))
        return list(rows), list(await executor.queues.row_list())


async def test_there_and_back(database_url: str) -> None:
    source, postgres, back = MemoryDatabase(), connect(database_url), MemoryDatabase()
    await insert(source, *[job(args=f'{{"n":{n}}}', tags=("a",)) for n in range(700)])
    await running(source, job("runs", queue="other"))
    for state in (*ENDS, JobState.RETRYABLE):
        await ended(source, state, job(f"is_{state}", queue=f"of_{state}"))
    async with source.transaction() as transaction:
        await transaction.queues.upsert("q")
        await transaction.queues.set_metadata_key("q", "a", "1")
        await transaction.queues.pause("q")
    steps: list[int] = []
    report = await copy_all(source, postgres, copied=steps.append)
    assert (report.complete, report.copied, steps) == (True, 705, [500, 205])
    report = await copy_all(postgres, back, copied=steps.append)
    assert report.complete
    rows, queues = await all_of(back)
    # Postgres prints JSON with spaces.
    before, queues_before = await all_of(source)
    assert [row._replace(args="", metadata="") for row in rows] == [
        row._replace(args="", metadata="") for row in before
    ]
    assert [row.args_dict for row in rows] == [row.args_dict for row in before]
    assert [queue.paused_at for queue in queues] == [queue.paused_at for queue in queues_before]
    await postgres.close()


async def test_a_copy_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    source, target = MemoryDatabase(), riverui.connect(f"sqlite:///{tmp_path}/jobs.db")
    await riverui.migrate(target)
    await insert(source, *[job()] * 1_200)

    def fail(copied: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await copy_all(source, target, copied=fail)
    with pytest.raises(BadRequest, match="--resume"):
        await copy_all(source, target, copied=fail)
    report = await copy_all(source, target, resume=True, copied=lambda _: None)
    assert (report.complete, report.copied) == (True, 700)
    await insert(target, job("own"))
    with pytest.raises(BadRequest, match="jobs of its own"):
        await copy_all(source, target, resume=True, copied=lambda _: None)
