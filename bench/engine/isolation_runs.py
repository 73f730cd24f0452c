"""Jobs in threads and in their own processes, by one client in its own process.

`python -m bench.engine.isolation_runs thread|process|alone|apart URL JOBS LOOPS` prints one
line of JSON.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.engine.drain import Drain, lap
from bench.engine.isolation_work import Loops, loop, workers
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector

_AT_ONCE = 2
"""Threads or processes: as many as the smallest machine that is measured has cores."""
_SLOTS = 2_000
"""Jobs fetched at once, so that the database is not what is measured."""
_FIRST = 20
"""Jobs worked before, so that processes are there and warm."""


async def run(how: str, url: str, jobs: int, loops: int) -> Drain:
    """Work so many jobs, inserted at once, and return how long it took."""
    config = ClientConfig(
        isolation_processes=_AT_ONCE,
        queues={"default": QueueConfig(max_workers=_SLOTS)},
        threads=_AT_ONCE,
        workers=workers("process" if how == "process" else None),
    )
    async with Client(url, config) as client:
        with client.subscribe("job_completed", size=jobs + _FIRST) as events:

            async def work(number: int) -> None:
                await client.insert_many([Loops(loops)] * number)
                for _ in range(number):
                    await anext(events)

            await work(_FIRST)
            cpu = time.process_time()
            with lap() as working:
                await work(jobs)
            cpu = time.process_time() - cpu
    return Drain(jobs=jobs, working=working.seconds, cpu=cpu)


def bare(how: str, jobs: int, loops: int) -> Drain:
    """Do the same without any queue: what the machine gives, alone or by two processes."""
    processes = _AT_ONCE if how == "apart" else 1
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(loop, [loops] * _FIRST))
        with lap() as working:
            list(pool.map(loop, [loops] * jobs))
    return Drain(jobs=jobs, working=working.seconds)


if __name__ == "__main__":
    spare_collector()
    how, url, jobs, loops = sys.argv[1:]
    if how in ("alone", "apart"):
        print(bare(how, int(jobs), int(loops)).to_json())
        sys.exit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(runner.run(run(how, url, int(jobs), int(loops))).to_json())
