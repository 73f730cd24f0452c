"""A client works queues that hold every odd row there is: each ends somehow, and none keeps the others waiting."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.config import QueueConfig
from riverui.engine.context import metadata_set
from riverui.engine.worker import Job, JobSnooze
from tests.engine.conftest import JOB_EVENTS, PATIENCE, Playground, Task
from tests.odd_rows import insert_odd_rows

LONGEST = 3 * PATIENCE
KIND = {"kind": "'task'"}


async def well(job: Job[Task]) -> None:
    metadata_set("seen", True)


async def badly(job: Job[Task]) -> None:
    logging.getLogger("job").warning("about to fail")
    raise ValueError("no")


async def later(job: Job[Task]) -> None:
    raise JobSnooze(timedelta(hours=1))


@pytest.mark.parametrize("work", [well, badly, later])
async def test_a_queue_of_odd_rows_is_worked_and_so_is_what_stands_behind_them(
    work: Any, play: Playground
) -> None:
    play.worker(work)
    odd = await insert_odd_rows(play.connection, ("available",), large_in=("available",), **KIND)
    behind = await play.insert()
    client = play.make()
    with client.subscribe(*JOB_EVENTS, size=1000):
        await client.start()
        async with asyncio.timeout(LONGEST):
            await play.until(lambda: _left(play) if False else _attempted(play, behind))
            await play.until(lambda: _none_left(play))
    rows = {row["id"]: row for row in await play.rows("select id, state, attempt from river_job")}
    for (name, _), id in odd.items():
        if name in _ELSEWHERE:
            continue
        assert rows[id]["state"] in ("available", "cancelled", "completed", "discarded", "retryable", "scheduled"), name


async def _attempted(play: Playground, job_id: int) -> bool:
    return bool((await play.row(job_id))["attempted_by"])


async def _none_left(play: Playground) -> bool:
    (row,) = await play.rows(
        "select count(*) as left from river_job where kind = 'task' and queue = 'default'"
        " and (state = 'running' or (state = 'available' and scheduled_at < now() and errors is null))"
    )
    return row["left"] == 0
