"""Jobs of sequences that their workers complete in their own transactions."""

from __future__ import annotations

import psycopg

from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, SequenceOpts
from riverui.engine.queue_config import QueueConfig
from riverui.engine.sync_client import SyncClient
from riverui.engine.work.context import job_complete_tx
from riverui.engine.work.worker import Job
from tests.engine.conftest import Playground, Task
from tests.own_tables import OWN_TABLES


async def test_a_job_completed_in_a_transaction_lets_the_next_run_when_that_commits(
    play: Playground,
) -> None:
    await play.connection.execute(OWN_TABLES)
    seen: list[list[str]] = []
    river = SyncClient()
    query = "select state::text from river_job order by id"

    def complete(job: Job[Task]) -> None:
        with psycopg.connect(play.database_url) as tx, psycopg.connect(play.database_url) as other:
            river.job_complete_tx(tx, job)
            seen.append([row[0] for row in other.execute(query)])
            tx.commit()
            seen.append([row[0] for row in tx.execute(query)])

    play.worker(complete)
    queues = {"default": QueueConfig(max_workers=1)}
    in_line = InsertOpts(sequence=SequenceOpts(by_args=["value"]))
    client = play.make(queues={})
    jobs = await client.insert_many([InsertManyParams(Task("a"), in_line)] * 2)
    await play.start(queues=queues)
    await play.in_state(jobs[-1].job.id, "completed")
    assert seen[:2] == [["running", "pending"], ["completed", "available"]]


async def test_a_job_that_completes_itself_in_a_transaction_lets_the_next_run(
    play: Playground,
) -> None:
    await play.connection.execute(OWN_TABLES)

    async def work(job: Job[Task]) -> None:
        async with await psycopg.AsyncConnection.connect(play.database_url) as connection:
            await job_complete_tx(connection, job)

    play.worker(work)
    client = await play.start()
    in_line = InsertOpts(sequence=SequenceOpts())
    jobs = await client.insert_many([InsertManyParams(Task(), in_line)] * 3)
    for result in jobs:
        await play.in_state(result.job.id, "completed")
