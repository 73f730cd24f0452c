"""riverui's engine in its own process.

`python -m bench.engine.ours COMMAND URL …` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, ClassVar

from bench.engine.drain import Drain, Latency, lap
from riverui.cli.bench_runs import Benchmark
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.storage.connect import connect

_SLEEPS_SECONDS = 2.0
"""Seconds for which tasks sleep without a queue."""


@dataclass(frozen=True, slots=True)
class Args:
    """As small as those of the benchmark."""

    kind: ClassVar[str] = "benchmark"
    num: int


@dataclass(frozen=True, slots=True)
class Noop:
    """Args of the job that Go's worker knows by this name, as of the next one."""

    kind: ClassVar[str] = "noop"


@dataclass(frozen=True, slots=True)
class Sleep:
    """Args of a job that takes so long."""

    kind: ClassVar[str] = "sleep"
    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Args of a job that needs so much of the processor."""

    kind: ClassVar[str] = "compute"
    seconds: float


@dataclass(frozen=True, slots=True)
class Timed:
    """Args of a job that knows when it was inserted."""

    kind: ClassVar[str] = "timed"
    at: float


class Stamp(Worker[Args]):
    """Records when it started a job."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[float] = asyncio.Queue()

    async def work(self, job: Job[Args]) -> None:
        """Record the time."""
        self.started.put_nowait(time.perf_counter())


async def burn_down(url: str, jobs: str) -> Drain:
    """Run `riverui bench -n`, beside the finished jobs of the database."""
    driver = connect(url)
    tally = await Benchmark(driver, say=_quiet).run(total=int(jobs))
    await driver.close()
    return Drain(jobs=tally.worked, working=tally.seconds, cpu=tally.cpu)


async def continuous(url: str, seconds: str) -> Drain:
    """Run `riverui bench --duration`."""
    driver = connect(url)
    tally = await Benchmark(driver, say=_quiet).run(duration=float(seconds))
    await driver.close()
    return Drain(jobs=tally.worked, working=tally.seconds, cpu=tally.cpu)


async def insert(url: str, jobs: str, batch: str, method: str) -> float:
    """Return the jobs a second inserted by `insert_many` or `insert_many_fast`."""
    client = Client(url, ClientConfig())
    call: Callable[[list[Args]], Coroutine[Any, Any, object]] = getattr(client, method)
    await call([Args(num=0)])
    with lap() as inserting:
        for start in range(0, int(jobs), int(batch)):
            await call([Args(num=number) for number in range(start, start + int(batch))])
    await client.driver.close()
    return int(jobs) / inserting.seconds


async def latency(url: str, samples: str, pause: str, eager: str) -> dict[str, float]:
    """Return the times from calling `insert` until `work` runs, in one process; `eager` is with a
    cooldown of 2 ms.
    """
    worker, workers = Stamp(), Workers()
    workers.add(worker)
    config = ClientConfig(queues={"default": QueueConfig(max_workers=10)}, workers=workers)
    if eager == "eager":
        config = ClientConfig(
            fetch_cooldown=timedelta(milliseconds=2),
            fetch_poll_interval=timedelta(milliseconds=20),
            queues=config.queues,
            workers=workers,
        )
    times = []
    async with Client(url, config) as client:
        for number in range(-10, int(samples)):
            start = time.perf_counter()
            await client.insert(Args(num=number))
            took = await worker.started.get() - start
            if number >= 0:
                times.append(took)
            await asyncio.sleep(float(pause))
    return asdict(Latency.from_seconds(times))


class Nothing(Worker[Noop]):
    """Does nothing."""

    async def work(self, job: Job[Noop]) -> None:
        """Return at once."""


class Sleeper(Worker[Sleep]):
    """Waits as long as the job says."""

    async def work(self, job: Job[Sleep]) -> None:
        """Sleep."""
        await asyncio.sleep(job.args.seconds)


class Computer(Worker[Compute]):
    """Keeps the processor busy as long as the job says."""

    async def work(self, job: Job[Compute]) -> None:
        """Loop until this thread has had that much time."""
        until = time.thread_time() + job.args.seconds
        while time.thread_time() < until:
            pass


async def loaded(url: str, rate: str, seconds: str) -> dict[str, float]:
    """Return the times from calling `insert` in another process, so often a second, until `work`
    runs.
    """
    times: list[float] = []
    workers = Workers()

    @workers.work(Timed)
    async def work(job: Job[Timed]) -> None:
        times.append(time.time() - job.args.at)

    config = ClientConfig(queues={"default": QueueConfig(max_workers=100)}, workers=workers)
    async with Client(url, config):
        inserting = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.engine.ours", "steadily", url, rate, seconds
        )
        await inserting.wait()
    return asdict(Latency.from_seconds(times[len(times) // 10 :]))


async def steadily(url: str, rate: str, seconds: str) -> None:
    """Insert so many jobs a second."""
    loop = asyncio.get_running_loop()
    client = Client(url, ClientConfig())
    await client.insert(Timed(at=time.time()))
    began = loop.time()
    for number in range(int(int(rate) * float(seconds))):
        await asyncio.sleep(began + number / int(rate) - loop.time())
        await client.insert(Timed(at=time.time()))
    await client.driver.close()


async def sleeps(slots: str, seconds: str) -> float:
    """Return how often a second so many tasks can sleep that long, without any queue."""
    loop, count = asyncio.get_running_loop(), 0
    until = loop.time() + _SLEEPS_SECONDS

    async def sleep() -> None:
        nonlocal count
        while loop.time() < until:
            await asyncio.create_task(asyncio.sleep(float(seconds)))
            count += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(int(slots)):
            group.create_task(sleep())
    return count / _SLEEPS_SECONDS


async def idle(url: str, clients: str = "1", slots: str = "10") -> None:
    """Let clients with default settings wait for jobs until standard input ends."""
    workers = Workers()
    for worker in (Stamp(), Nothing(), Sleeper(), Computer()):
        workers.add(worker)
    config = ClientConfig(queues={"default": QueueConfig(max_workers=int(slots))}, workers=workers)
    async with AsyncExitStack() as stack:
        for _ in range(int(clients)):
            await stack.enter_async_context(Client(url, config))
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _quiet(line: str) -> None:
    pass


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        answer = runner.run(globals()[name](*arguments))
    print(json.dumps(asdict(answer) if isinstance(answer, Drain) else answer))
