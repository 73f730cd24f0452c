"""Whole clients and PgBouncer in transaction mode, which does not support LISTEN."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import psycopg

from riverui.engine.client import Client
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.worker import Job
from tests.engine.conftest import Playground, Task


async def test_inserted_through_the_pooler_and_worked_directly(
    play: Playground, bouncer_url: str
) -> None:
    worked = asyncio.Event()

    async def work(job: Job[Task]) -> None:
        worked.set()

    play.worker(work)
    # Only the notification that comes through the pooler is quick enough.
    await play.start(fetch_poll_interval=timedelta(minutes=10))
    inserting = Client(bouncer_url)
    for insert in (
        lambda: inserting.insert(Task(value="alone")),
        lambda: inserting.insert_many([Task(), Task()]),
        lambda: inserting.insert_many_fast([Task()]),
        lambda: _in_a_transaction(inserting, bouncer_url),
        lambda: asyncio.to_thread(_synchronously, bouncer_url),
    ):
        worked.clear()
        # Each has wake-ups of its own, but one client sends none within a cooldown.
        inserting.notify_limiter.take_back(["default"])
        await insert()
        await asyncio.wait_for(worked.wait(), 10)
    await inserting.stop()


async def test_worked_through_the_pooler_by_polling(play: Playground, bouncer_url: str) -> None:
    play.worker(lambda job: None)
    poll = timedelta(milliseconds=20)
    config = replace(play.config(), poll_only=True, fetch_poll_interval=poll)
    async with Client(bouncer_url, config) as client:
        with client.subscribe("job_completed") as completed:
            jobs = [(await client.insert(Task(number=number))).job.id for number in range(50)]
            done = [(await anext(completed)).job for _ in jobs]
    assert sorted(job.id for job in done if job) == jobs


async def _in_a_transaction(client: Client, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, prepare_threshold=None) as connection:
        await client.insert_tx(connection, Task())


def _synchronously(url: str) -> None:
    with SyncClient(url) as client:
        client.insert(Task())
