"""How exact rate limits and fair shares are, each run in its own process.

`python -m bench.engine.rate_runs COMMAND URL …` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from riverui.domain.partitions import Partition
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.features.fair_shares.domain import FairShare
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.migrations import migrate
from riverui.storage.stores.candidates import CandidateStore

_BATCH = 5_000
"""Jobs that one call inserts."""
_CLIENTS = 2
"""Clients that share a limit, or deal the same jobs."""
_HEAVIEST = 5
"""The largest weight, of which there are all from 1 on."""
_KEYS = 1_000
"""Keys that have waiting jobs at all times."""
_LONGEST = 600.0
"""Seconds after which a run is given up."""
_MAX_PER_SECOND = 8_000
"""Jobs that are worked in a second at most: so many are inserted."""


@dataclass(frozen=True, slots=True)
class Args:
    """As small as those of the benchmark."""

    kind: ClassVar[str] = "benchmark"
    key: int = 0


class Begun:
    """When jobs began, and of which keys."""

    def __init__(self) -> None:
        self.jobs: list[tuple[float, int]] = []
        self._reached = asyncio.Event()
        self._wanted = 0

    def add(self, key: int) -> None:
        """Record a job that begins now."""
        self.jobs.append((time.perf_counter(), key))
        if len(self.jobs) >= self._wanted:
            self._reached.set()

    async def reach(self, wanted: int) -> None:
        """Wait until so many jobs have begun."""
        self._wanted = wanted
        if len(self.jobs) < wanted:
            self._reached.clear()
            await self._reached.wait()


async def rate(url: str, per_second: str, seconds: str) -> dict[str, float]:
    """Return by how many percent the jobs that begin in so many seconds differ from the limit, once
    the bucket has been emptied; and how many began in the busiest second beyond limit and burst,
    in percent.
    """
    limit, burst = float(per_second), max(1.0, float(per_second) / 10)
    config = QueueConfig(max_workers=2_000, rate_limit=RateLimit(limit=limit, burst=burst))
    jobs = int(limit * (float(seconds) + 2) + 2 * burst)
    async with _working(url, config, [Args()] * jobs) as begun:
        await begun.reach(int(burst) + 1)
        first = len(begun.jobs)
        await asyncio.sleep(float(seconds))
        times = [at for at, _ in begun.jobs[first - 1 :]]
    return told_of(times, limit, burst)


def told_of(times: Sequence[float], limit: float, burst: float) -> dict[str, float]:
    """Return by how many percent jobs that began at these times differ from a limit; and how many
    began in the busiest second beyond limit and burst.
    """
    busiest, start = 0, 0
    for place, at in enumerate(times):
        while at - times[start] >= 1:
            start += 1
        busiest = max(busiest, place - start + 1)
    return {
        "off": ((len(times) - 1) / (times[-1] - times[0]) / limit - 1) * 100,
        "beyond": (busiest / (limit + burst) - 1) * 100,
    }


async def shares(url: str, indexed: str, seconds: str) -> dict[str, float]:
    """Return by how many percent the shares of a thousand keys in so many seconds differ from their
    weights at most, and in the mean; and the jobs worked in a second. Weights are 1 to 5, and one
    key's jobs stand before those of all others.
    """
    chance = random.Random(0)
    weights = {str(key): chance.randint(1, _HEAVIEST) for key in range(_KEYS)}
    partition = Partition(by_args=("key",))
    turns = max(2, int(float(seconds) * _MAX_PER_SECOND / sum(weights.values())))
    later = [Args(key=key) for key in range(_KEYS) for _ in range(weights[str(key)] * turns)]
    chance.shuffle(later)
    jobs = [Args(key=0)] * len(later[: _KEYS * turns]) + later
    share = FairShare(partition=partition, weights=weights)
    config = QueueConfig(max_workers=100, fair_share=share)
    index = partition if int(indexed) else None
    async with _working(url, config, jobs, index=index) as begun:
        await begun.reach(1)
        await asyncio.sleep(float(seconds))
        counts = Counter(key for _, key in begun.jobs)
    for key in range(_KEYS):
        if counts[key] >= weights[str(key)] * turns > 0 and key:
            raise SystemExit(f"all {counts[key]} jobs of key {key} were worked: insert more")
    each = counts.total() / sum(weights.values())
    off = [abs(counts[key] / (each * weights[str(key)]) - 1) * 100 for key in range(_KEYS)]
    return {
        "off": max(off),
        "mean": sum(off) / _KEYS,
        "per_second": counts.total() / float(seconds),
        "turns": each,
    }


@asynccontextmanager
async def _working(
    url: str, config: QueueConfig, jobs: Sequence[Args], *, index: Partition | None = None
) -> AsyncIterator[Begun]:
    """Yield a record of the jobs that begin; stop all clients at the end."""
    workers = Workers()
    begun = Begun()

    @workers.work(Args)
    async def work(job: Job[Args]) -> None:
        begun.add(job.args.key)

    settings = ClientConfig(log_jobs=False, queues={"default": config}, workers=workers)
    clients = [Client(url, settings) for _ in range(_CLIENTS)]
    try:
        await migrate(clients[0].driver, "up", line="riverui")
        for start in range(0, len(jobs), _BATCH):
            await clients[0].insert_many_fast(jobs[start : start + _BATCH])
        if index is not None:
            async with clients[0].driver.session(timeout=timedelta(seconds=_LONGEST)) as session:  # type: ignore[attr-defined]
                await CandidateStore(session).partition_index_create(index)
        async with asyncio.timeout(_LONGEST):
            for client in clients:
                await client.start()
            yield begun
    finally:
        for client in clients:
            await client.stop_and_cancel()


_COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {"rate": rate, "shares": shares}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        answer = runner.run(_COMMANDS[name](*arguments))
    print(json.dumps(answer))
