"""Other Python queues on Postgres, in their documented fast settings: each works off so many no-op
jobs.

`python -m bench.engine.peers NAME URL JOBS` does it in its own process, on an empty
database, and prints a Drain as JSON. The clock runs from starting the worker until the last job's
end is committed; inserting is timed apart. All of them get uvloop, with which most are a little
faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from bench.engine.drain import Drain, Lap, lap
from bench.engine.limit_runs import AtWork
from bench.engine.rate_runs import Begun, told_of

_BATCH = 1000
"""Jobs of one insert, where a peer can insert several."""
_RATE_SECONDS = 60
"""For which a peer's rate limit is looked at."""


class _Countdown:
    """Knows when the last job ran; module-wide, as chancy finds its jobs by their import path."""

    def __init__(self) -> None:
        self.left = 0
        self.over = asyncio.Event()

    def start(self, jobs: int) -> None:
        self.left = jobs

    def tick(self) -> None:
        self.left -= 1
        if not self.left:
            self.over.set()


_countdown = _Countdown()


async def pgqueuer(url: str, jobs: int) -> Drain:
    """Measure pgqueuer on asyncpg's pool and in batches of 1,000. It deletes each job and writes a
    line of log instead.
    """
    import asyncpg
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.models import Job
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    async with asyncpg.create_pool(url, min_size=4, max_size=8) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        with lap() as inserting:
            for count in _batches(jobs):
                await queries.enqueue(["noop"] * count, [b"{}"] * count, [0] * count)
        manager = QueueManager(queries)

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            pass

        with lap() as working:
            await manager.run(batch_size=_BATCH, mode=QueueExecutionMode.drain)
        left = await pool.fetchval("select count(*) from pgqueuer")
    return _drain(jobs, left, inserting, working)


async def chancy(url: str, jobs: int) -> Drain:
    """Measure chancy with its asyncio executor, 1,000 jobs at once, eager polling, endings written
    every 50 ms instead of 1 s.
    """
    from chancy import Chancy, Job, Queue, Worker

    log = logging.getLogger("chancy.quiet")
    log.setLevel(logging.WARNING)
    async with Chancy(url, log=log) as app:
        await app.migrate()
        await app.declare(
            Queue("bench", concurrency=1000, executor=Chancy.Executor.Async, eager_polling=True)
        )
        job = Job.from_func(chancy_noop, queue="bench")
        with lap() as inserting:
            for count in _batches(jobs):
                async for _ in app.push_many([job] * count):
                    pass
        worker = Worker(app, register_signal_handlers=False)
        worker.send_outgoing_interval = 0.05
        _countdown.start(jobs)
        with lap() as working:
            await worker.start()
            await _countdown.over.wait()
            left = await _unfinished(
                app.pool,
                "select count(*) from chancy_jobs where state <> 'succeeded'",
                worker.flush,
            )
        await worker.stop()
    return _drain(jobs, left, inserting, working)


async def chancy_noop() -> None:
    """Found by its import path."""
    _countdown.tick()


async def saq(url: str, jobs: int) -> Drain:
    """100 jobs at once. It cannot insert several jobs in one call, so 20 inserts run beside one
    another.
    """
    from psycopg_pool import AsyncConnectionPool
    from saq import Worker
    from saq.queue.postgres import PostgresQueue

    logging.getLogger("saq").setLevel(logging.WARNING)

    async def noop(context: Any) -> None:
        _countdown.tick()

    async with AsyncConnectionPool(url, min_size=4, max_size=20, open=False) as pool:
        queue = PostgresQueue(pool=pool)
        await queue.connect()
        with lap() as inserting:
            for start in range(0, jobs, 20):
                await asyncio.gather(
                    *(queue.enqueue("noop") for _ in range(start, min(start + 20, jobs)))
                )
        worker: Worker[Any] = Worker(queue, functions=[("noop", noop)], concurrency=100)
        _countdown.start(jobs)
        with lap() as working:
            running = asyncio.create_task(worker.start())
            await _countdown.over.wait()
            left = await _unfinished(
                pool, "select count(*) from saq_jobs where status in ('queued', 'active')"
            )
        worker.event.set()
        await running
        await queue.disconnect()
    return _drain(jobs, left, inserting, working)


async def procrastinate(url: str, jobs: int) -> Drain:
    """100 jobs at once on 20 connections."""
    from procrastinate import App, PsycopgConnector

    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=20))

    @app.task(name="noop")
    async def noop() -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with lap() as inserting:
            for count in _batches(jobs):
                await noop.batch_defer_async(*({} for _ in range(count)))
        with lap() as working:
            await app.run_worker_async(concurrency=100, wait=False, install_signal_handlers=False)
        left = await app.connector.execute_query_one_async(
            "select count(*) from procrastinate_jobs where status <> 'succeeded'"
        )
    return _drain(jobs, left["count"], inserting, working)


async def pgqueuer_unlimited(url: str, jobs: int) -> Drain:
    """Measure four of pgqueuer's workers with ten jobs of 50 ms each at once."""
    return await _pgqueuer_slow(url, jobs, 0)


async def pgqueuer_limited(url: str, jobs: int) -> Drain:
    """Measure the same under its own limit of 40 for all workers; it has none by args."""
    return await _pgqueuer_slow(url, jobs, 40)


async def _pgqueuer_slow(url: str, jobs: int, limit: int) -> Drain:
    import asyncpg
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.models import Job
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    at_work = AtWork(jobs, most=40, most_of_key=jobs)
    async with contextlib.AsyncExitStack() as stack:
        managers = []
        for _ in range(4):
            pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=2, max_size=4))
            queries = Queries(AsyncpgPoolDriver(pool))
            manager = QueueManager(queries)

            @manager.entrypoint("slow", concurrency_limit=limit)
            async def slow(job: Job) -> None:
                await at_work.work(0)

            managers.append(manager)
        await queries.install()
        with lap() as inserting:
            for count in _batches(jobs):
                await queries.enqueue(["slow"] * count, [b"{}"] * count, [0] * count)
        with lap() as working:
            # Its batch is at most half of the jobs at once.
            await asyncio.gather(
                *(
                    manager.run(
                        batch_size=5, max_concurrent_tasks=10, mode=QueueExecutionMode.drain
                    )
                    for manager in managers
                )
            )
        left = await pool.fetchval("select count(*) from pgqueuer")
    return _drain(jobs, left, inserting, working)


async def chancy_rate(url: str, per_second: int) -> str:
    """Measure chancy's rate limit over a minute, for which two workers share it; return JSON of how
    far off it is, as `rate_runs` does.
    """
    from chancy import Chancy, Job, Queue, Worker

    log = logging.getLogger("chancy.quiet")
    log.setLevel(logging.WARNING)
    async with Chancy(url, log=log) as app:
        await app.migrate()
        await app.declare(
            Queue(
                "bench",
                concurrency=1000,
                executor=Chancy.Executor.Async,
                eager_polling=True,
                polling_interval=1,
                rate_limit=per_second,
                rate_limit_window=1,
            )
        )
        job = Job.from_func(chancy_begin, queue="bench")
        for count in _batches(per_second * (_RATE_SECONDS + 5)):
            async for _ in app.push_many([job] * count):
                pass
        workers = [Worker(app, register_signal_handlers=False) for _ in range(2)]
        for worker in workers:
            await worker.start()
        await _begun.reach(1)
        await asyncio.sleep(_RATE_SECONDS)
        times = [at for at, _ in _begun.jobs]
        for worker in workers:
            await worker.stop()
    return json.dumps(told_of(times, per_second, per_second))


async def chancy_begin() -> None:
    """Found by its import path."""
    _begun.add(0)


_begun = Begun()
"""When jobs of a limited rate began; module-wide as `_countdown` is."""

LIMITED: dict[str, Callable[[str, int], Coroutine[Any, Any, Drain | str]]] = {
    peer.__name__: peer for peer in (pgqueuer_unlimited, pgqueuer_limited, chancy_rate)
}

PEERS: dict[str, Callable[[str, int], Coroutine[Any, Any, Drain]]] = {
    peer.__name__: peer for peer in (pgqueuer, chancy, saq, procrastinate)
}


async def _unfinished(
    pool: Any,
    query: str,
    flush: Callable[[], Coroutine[Any, Any, None]] | None = None,
    *,
    within: int = 2000,
) -> int:
    """Return how many jobs have not ended, once that is none or does not become fewer any more."""
    left = -1
    async with pool.connection() as connection:
        for _ in range(within):
            if flush is not None:
                await flush()
            (left,) = await (await connection.execute(query)).fetchone()
            if not left:
                break
            await asyncio.sleep(0.005)
    return left


def _batches(jobs: int) -> list[int]:
    return [min(_BATCH, jobs - done) for done in range(0, jobs, _BATCH)]


def _drain(jobs: int, left: int, inserting: Lap, working: Lap) -> Drain:
    if left:
        raise SystemExit(f"{left} of {jobs} jobs were not worked")
    return Drain(jobs=jobs, inserting=inserting.seconds, working=working.seconds, cpu=working.cpu)


if __name__ == "__main__":
    name, url, jobs = sys.argv[1:]
    found = uvloop.run({**PEERS, **LIMITED}[name](url, int(jobs)))
    print(found if isinstance(found, str) else found.to_json())
