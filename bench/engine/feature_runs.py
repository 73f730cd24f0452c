"""What features of the engine cost, each run in its own process: burn-downs of the same no-op
jobs with features unused, in sequences and in workflows, and what large workflows take.

`python -m bench.engine.feature_runs COMMAND URL …` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, ClassVar

from bench.engine.drain import Drain, lap
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector
from riverui.engine.events import EventKind
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.pilot import Pilot
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.storage.migrations import migrate

_BATCH = 5_000
"""Jobs that one call inserts."""
_KEYS = 1_000
"""Sequences that the jobs are spread over."""
_LONGEST = 300.0
"""Seconds after which a run is given up."""


@dataclass(frozen=True, slots=True)
class Args:
    """As small as those of the benchmark."""

    kind: ClassVar[str] = "benchmark"
    num: int
    key: int = 0


async def bare(url: str, jobs: str) -> Drain:
    """Work jobs with a client that has no features."""
    return await _drain(url, [Args(num=number) for number in range(int(jobs))], bare=True)


async def plain(url: str, jobs: str) -> Drain:
    """Work jobs that no feature has to do with, all of them installed."""
    return await _drain(url, [Args(num=number) for number in range(int(jobs))])


async def sequences(url: str, jobs: str) -> Drain:
    """Work jobs of a thousand sequences."""
    opts = InsertOpts(sequence=SequenceOpts(by_args=["key"]))
    return await _drain(
        url,
        [
            InsertManyParams(Args(num=number, key=number % _KEYS), opts)
            for number in range(int(jobs))
        ],
    )


async def workflows(url: str, jobs: str) -> Drain:
    """Work tasks of workflows of four, each in the form of a diamond."""
    client = Client(url)
    tasks: list[InsertManyParams] = []
    for number in range(int(jobs) // 4):
        workflow = client.workflows.new()
        first = workflow.add("first", Args(num=number))
        left = workflow.add("left", Args(num=number), deps=[first])
        right = workflow.add("right", Args(num=number), deps=[first])
        workflow.add("last", Args(num=number), deps=[left, right])
        tasks += workflow.prepare()
    await client.driver.close()
    return await _drain(url, tasks)


async def join(url: str, tasks: str) -> dict[str, float]:
    """Return the seconds that a workflow of so many tasks under one join takes to be inserted, and
    those from the end of its last task to the start of the join.
    """
    ended: list[float] = []
    joined: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    workers = Workers()

    @workers.work(Args)
    async def work(job: Job[Args]) -> None:
        if job.args.num < 0:
            joined.set_result(time.perf_counter())
        else:
            ended.append(time.perf_counter())

    async with _client(url, workers) as client:
        workflow = client.workflows.new()
        workflow.map("page", [Args(num=number) for number in range(int(tasks))], then=Args(num=-1))
        with lap() as inserting:
            await workflow.insert()
        await client.start()
        at = await asyncio.wait_for(joined, _LONGEST)
    return {"inserting": inserting.seconds, "staging": at - max(ended)}


async def _drain(url: str, jobs: Sequence[Args | InsertManyParams], *, bare: bool = False) -> Drain:
    """Insert jobs and work them down, as fast as it goes."""
    workers = Workers()

    @workers.work(Args)
    async def work(job: Job[Args]) -> None:
        pass

    async with _client(url, workers) as client:
        if bare:
            client.pilot = Pilot()
        with lap() as inserting:
            for start in range(0, len(jobs), _BATCH):
                await client.insert_many(jobs[start : start + _BATCH])
        left = len(jobs)
        completions = client.subscribe(EventKind.JOB_COMPLETED, size=2 * left)
        cpu = time.process_time()
        with lap() as working:
            await client.start()
            async with asyncio.timeout(_LONGEST):
                async for _ in completions:
                    left -= 1
                    if not left:
                        break
        cpu = time.process_time() - cpu
    return Drain(jobs=len(jobs), inserting=inserting.seconds, working=working.seconds, cpu=cpu)


@asynccontextmanager
async def _client(url: str, workers: Workers) -> AsyncIterator[Client]:
    """Yield a client with the settings of `riverui bench`; stop it at the end."""
    config = ClientConfig(
        fetch_cooldown=timedelta(milliseconds=2),
        fetch_poll_interval=timedelta(milliseconds=20),
        log_jobs=False,
        queues={"default": QueueConfig(max_workers=2_000)},
        workers=workers,
    )
    client = Client(url, config)
    try:
        await migrate(client.driver, "up", line="riverui")
        yield client
    finally:
        await client.stop()


_COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {
    "bare": bare,
    "plain": plain,
    "sequences": sequences,
    "workflows": workflows,
    "join": join,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        answer = runner.run(_COMMANDS[name](*arguments))
    print(json.dumps(asdict(answer) if isinstance(answer, Drain) else answer))
