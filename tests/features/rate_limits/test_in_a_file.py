"""Rate limits, and limits of the jobs of a key, in a SQLite file that two clients work at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import riverui
from tests.features.both import file

__all__ = ["file"]


@dataclass
class Call:
    """A job that calls somebody."""

    kind: ClassVar[str] = "call"
    to: str


async def test_jobs_begin_no_faster_than_their_limits_allow(file: Path) -> None:
    began: dict[str, list[float]] = {}
    running: Counter[str] = Counter()
    done, most = asyncio.Semaphore(0), Counter[str]()
    workers = riverui.Workers()

    @workers.work(Call)
    async def work(job: riverui.Job[Call]) -> None:
        to = job.args.to
        began.setdefault(to, []).append(time.monotonic())
        running[to] += 1
        most[to] = max(most[to], running[to])
        await asyncio.sleep(0.02)
        running[to] -= 1
        done.release()

    by_args = riverui.PartitionConfig(by_args=["to"])
    rate = riverui.RateLimit(limit=10, per=timedelta(seconds=1), burst=2, partition=by_args)
    one = riverui.ConcurrencyConfig(local_limit=1, partition=by_args)
    configs = [
        riverui.ClientConfig(
            queues={"default": riverui.QueueConfig(max_workers=8, rate_limit=rate)},
            workers=workers,
        ),
        riverui.ClientConfig(
            queues={"limited": riverui.QueueConfig(max_workers=8, concurrency=one)},
            workers=workers,
        ),
    ]
    clients = [riverui.Client(f"sqlite:///{file}", config) for config in configs[:1] * 2]
    clients.append(riverui.Client(f"sqlite:///{file}", configs[1]))
    for to, number in (("ann", 12), ("bob", 3)):
        await clients[0].insert_many([Call(to)] * number)
    limited = riverui.InsertOpts(queue="limited")
    await clients[0].insert_many([riverui.InsertManyParams(Call("eve"), limited)] * 6)
    for client in clients:
        await client.start()
    async with asyncio.timeout(30):
        for _ in range(12 + 3 + 6):
            await done.acquire()
    for client in clients:
        await client.stop()
    assert {to: len(times) for to, times in began.items()} == {"ann": 12, "bob": 3, "eve": 6}
    assert most["eve"] == 1
    for to in ("ann", "bob"):
        for first, since in enumerate(began[to]):
            for number, at in enumerate(began[to][first:], 1):
                assert number <= 10 * (at - since + 0.25) + 2 + 1
    assert began["ann"][-1] - began["ann"][0] >= 0.7
