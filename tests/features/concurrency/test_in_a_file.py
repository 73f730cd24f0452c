"""A limit of all clients together, in a SQLite file that two of them work at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import riverui
from riverui.features.concurrency.store import LimitStore
from tests.features.both import file

__all__ = ["file"]


@dataclass
class Call:
    """A job that calls somebody."""

    kind: ClassVar[str] = "call"
    to: str


async def test_no_more_jobs_run_than_the_limit_allows(file: Path) -> None:
    running, most = Counter[str](), Counter[str]()
    done, workers = asyncio.Semaphore(0), riverui.Workers()

    @workers.work(Call)
    async def work(job: riverui.Job[Call]) -> None:
        to = job.args.to
        running[to] += 1
        most[to] = max(most[to], running[to])
        await asyncio.sleep(0.03)
        running[to] -= 1
        done.release()

    limits = riverui.ConcurrencyConfig(
        global_limit=2, partition=riverui.PartitionConfig(by_args=["to"])
    )
    queue = riverui.QueueConfig(max_workers=8, concurrency=limits)
    config = riverui.ClientConfig(queues={"default": queue}, workers=workers)
    clients = [riverui.Client(f"sqlite:///{file}", config) for _ in range(2)]
    await clients[0].insert_many([Call(to) for to in ("ann", "bob") * 16])
    for client in clients:
        await client.start()
    async with asyncio.timeout(30):
        for _ in range(32):
            await done.acquire()
    for client in clients:
        await client.stop()
    assert most == {"ann": 2, "bob": 2}
    async with clients[0].driver.reading() as executor:
        assert await LimitStore(executor).limit_list("default", cap=9, limit=9) == []
