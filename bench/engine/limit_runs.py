"""What limits of jobs at once cost, each run in its own process: four clients with ten workers
each work the same jobs of 50 ms, which count themselves.

`python -m bench.engine.limit_runs COMMAND URL JOBS` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, ClassVar

from bench.engine.drain import Drain, lap
from riverui import ConcurrencyConfig, PartitionConfig
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.migrations import migrate

_BATCH = 5_000
"""Jobs that one call inserts."""
_CLIENTS = 4
"""Clients that share a limit."""
_KEYS = 1_000
"""Partitions that the jobs are spread over, without any order."""
_LONGEST = 300.0
"""Seconds after which a run is given up."""
_SECONDS = 0.05
"""For which a job runs."""
_WORKERS = 10
"""Workers of each client."""


@dataclass(frozen=True, slots=True)
class Args:
    """As small as those of the benchmark."""

    kind: ClassVar[str] = "benchmark"
    key: int = 0


class AtWork:
    """Counts the jobs at work, and raises if there are too many."""

    def __init__(self, jobs: int, *, most: int, most_of_key: int) -> None:
        self.over = asyncio.Event()
        self._keys: Counter[int] = Counter()
        self._left = jobs
        self._most = most
        self._most_of_key = most_of_key

    async def work(self, key: int) -> None:
        """Work one job."""
        keys = self._keys
        keys[key] += 1
        if keys[key] > self._most_of_key or keys.total() > self._most:
            raise SystemExit(f"{keys.total()} jobs at once, {keys[key]} of key {key}")
        await asyncio.sleep(_SECONDS)
        keys[key] -= 1
        if not keys[key]:
            del keys[key]
        self._left -= 1
        if not self._left:
            self.over.set()


async def unlimited(url: str, jobs: str) -> Drain:
    """Work jobs of a queue without limits."""
    return await _drain(url, int(jobs), None)


async def whole(url: str, jobs: str) -> Drain:
    """Work jobs of a queue whose limit is as many as there are workers."""
    limit = ConcurrencyConfig(global_limit=_CLIENTS * _WORKERS)
    return await _drain(url, int(jobs), limit)


async def partitions(url: str, jobs: str) -> Drain:
    """Work jobs of a queue that runs one of each key at once."""
    by = PartitionConfig(by_args=["key"])
    return await _drain(url, int(jobs), ConcurrencyConfig(global_limit=1, partition=by))


async def _drain(url: str, jobs: int, limit: ConcurrencyConfig | None) -> Drain:
    keyed = limit is not None and not limit.partition.whole
    at_work = AtWork(
        jobs,
        most=_CLIENTS * _WORKERS,
        most_of_key=limit.global_limit if limit is not None and keyed else jobs,
    )
    workers = Workers()

    @workers.work(Args)
    async def work(job: Job[Args]) -> None:
        await at_work.work(job.args.key)

    clients = [Client(url, _config(workers, limit)) for _ in range(_CLIENTS)]
    try:
        await migrate(clients[0].driver, "up", line="riverui")
        with lap() as inserting:
            keys = random.Random(0)
            args = [Args(key=keys.randrange(_KEYS)) for _ in range(jobs)]
            for start in range(0, jobs, _BATCH):
                await clients[0].insert_many_fast(args[start : start + _BATCH])
        with lap() as working:
            await asyncio.gather(*(client.start() for client in clients))
            async with asyncio.timeout(_LONGEST):
                await at_work.over.wait()
    finally:
        for client in clients:
            await client.stop()
    return Drain(jobs=jobs, inserting=inserting.seconds, working=working.seconds, cpu=working.cpu)


def _config(workers: Workers, limit: ConcurrencyConfig | None) -> ClientConfig:
    """Return settings in which nothing but the limit holds jobs up."""
    return ClientConfig(
        fetch_cooldown=timedelta(milliseconds=2),
        fetch_poll_interval=timedelta(milliseconds=20),
        log_jobs=False,
        queues={"default": QueueConfig(max_workers=_WORKERS, concurrency=limit)},
        workers=workers,
    )


_COMMANDS: dict[str, Callable[[str, str], Coroutine[Any, Any, Drain]]] = {
    "unlimited": unlimited,
    "whole": whole,
    "partitions": partitions,
}


def main(arguments: Sequence[str]) -> None:
    """Print what a command gives."""
    name, url, jobs = arguments
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(asdict(runner.run(_COMMANDS[name](url, jobs)))))


if __name__ == "__main__":
    main(sys.argv[1:])
