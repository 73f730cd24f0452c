"""A process that inserts, works or retries jobs in a SQLite file until it is killed:
`python -m tests.faults.sqlite_process insert|work|retry FILE JOURNAL`. The journal gets a line for
each insert that was acknowledged, and for each attempt that began.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from riverui import (
    Client,
    ClientConfig,
    Job,
    JobListParams,
    JsonArgs,
    QueueConfig,
    SyncClient,
    Workers,
)


def insert(url: str, journal: Path) -> None:
    """Insert jobs, one by one and in batches."""
    client = SyncClient(url)
    with journal.open("a", encoding="ascii") as lines:
        while True:
            batch = [JsonArgs("note", {"n": n}) for n in range(5)]
            inserted = [client.insert(batch[0]), *client.insert_many(batch[1:])]
            lines.writelines(f"{result.job.id}\n" for result in inserted)
            lines.flush()


async def work(url: str, journal: Path) -> None:
    """Work jobs, and lead if it is this client's turn."""
    workers = Workers()
    with journal.open("a", encoding="ascii") as lines:

        @workers.task(kind="note", pass_job=True)
        async def note(job: Job[object], n: int) -> None:
            lines.write(f"{job.id} {job.attempt}\n")
            lines.flush()
            await asyncio.sleep(0.001 * n)

        config = ClientConfig(
            queues={"default": QueueConfig(max_workers=20)},
            workers=workers,
            job_timeout=timedelta(seconds=5),
            rescue_stuck_jobs_after=timedelta(seconds=6),
        )
        async with Client(url, config):
            await asyncio.Event().wait()


async def retry(url: str) -> None:
    """Retry one of the newest jobs after the other, as a person does on a page."""
    client = Client(url)
    while True:
        for job in (await client.job_list(JobListParams(first=10, descending=True))).jobs:
            await client.job_retry(job.id)


if __name__ == "__main__":
    command, url, journal = sys.argv[1], f"sqlite:///{sys.argv[2]}", Path(sys.argv[3])
    if command == "insert":
        insert(url, journal)
    elif command == "retry":
        asyncio.run(retry(url))
    else:
        asyncio.run(work(url, journal))
