"""Measure how many jobs per second are worked, with the output of River's `river bench`.

The settings are River's: 2,000 workers, a poll every 20 ms, a cooldown of 2 ms, inserts of 5,000
jobs. A job counts when its completion is written, not when it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.events import EventKind, Subscription
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import RiveruiError
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.stores.indexes import IndexStore

INSERT_BATCH = 5_000
"""Jobs in one statement, as River's own benchmark inserts them."""
MIN_JOBS = 75_000
"""Waiting jobs that continuous mode maintains; also the size of the queue of events."""
_ENDINGS = (EventKind.JOB_CANCELLED, EventKind.JOB_COMPLETED, EventKind.JOB_FAILED)
_PAUSE = 0.25
"""Seconds between two checks for too few waiting jobs."""
_PERIOD = 2.0
"""Seconds between two lines of output."""


class BenchRefused(RiveruiError):
    """The benchmark empties river_job, which is in use: pass --yes to delete the jobs in it."""


@dataclass(frozen=True, slots=True)
class BenchmarkArgs:
    """The args of a job: a number, as in River's benchmark."""

    kind: ClassVar[str] = "benchmark"
    num: int


class BenchmarkWorker(Worker[BenchmarkArgs]):
    """A worker that does nothing."""

    async def work(self, job: Job[BenchmarkArgs]) -> None:
        """Return at once."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts jobs: so far, and in total once the benchmark has ended."""

    inserted: int = 0
    worked: int = 0
    seconds: float = 0.0
    """From the client's start to the last completion."""
    cpu: float = 0.0
    """Seconds of this process in that time."""

    @property
    def left(self) -> int:
        """Return how many inserted jobs have not been worked yet."""
        return self.inserted - self.worked

    @property
    def per_second(self) -> float:
        """Return how many jobs were worked per second."""
        return self.worked / self.seconds if self.seconds else 0.0


class Benchmark:
    """Runs one benchmark, after `empty_table` has emptied river_job."""

    def __init__(
        self,
        driver: Driver,
        *,
        say: Callable[[str], None],
        min_jobs: int = MIN_JOBS,
        insert_batch: int = INSERT_BATCH,
    ) -> None:
        self._driver = driver
        self._insert_batch = insert_batch
        self._min_jobs = min_jobs
        self._say = say
        self._tally = Tally()
        self._last_at = 0.0
        self._over = asyncio.Event()
        workers = Workers()
        workers.add(BenchmarkWorker())
        self._client = Client(
            driver,
            ClientConfig(
                fetch_cooldown=timedelta(milliseconds=2),
                fetch_poll_interval=timedelta(milliseconds=20),
                log_jobs=False,
                queues={"default": QueueConfig(max_workers=2_000)},
                schema=driver.schema,
                workers=workers,
            ),
        )

    async def empty_table(self, *, consent: bool) -> None:
        """Empty river_job; without consent, raise BenchRefused if it has other jobs or a client is
        the leader.
        """
        async with self._driver.autocommit() as executor:
            if not consent:
                if set(await executor.jobs.kind_list(limit=2)) - {BenchmarkArgs.kind}:
                    raise BenchRefused
                if await executor.leader.get():
                    raise BenchRefused
            if IndexStore.supported(executor):
                await IndexStore(executor).job_truncate()
                return
            while await executor.jobs.delete_selected(JobSelectParams(limit=INSERT_BATCH)):
                pass

    async def run(self, *, total: int = 0, duration: float = 0.0) -> Tally:
        """Insert `total` jobs and work them; with 0, insert and work continuously.

        It ends after `duration` seconds (0 for never), or at a signal.
        """
        with _signals(self._over.set):
            await self._insert(total or self._min_jobs)
            supplying = None if total else asyncio.create_task(self._supply())
            try:
                if not self._over.is_set():
                    await self._work(total, duration or math.inf)
            finally:
                self._over.set()
                if supplying is not None:
                    await supplying
        return self._tally

    async def _work(self, total: int, duration: float) -> None:
        tally = self._tally
        counting = asyncio.create_task(
            self._count(self._client.subscribe(*_ENDINGS, size=self._min_jobs), total)
        )
        async with self._client:
            start, cpu = time.perf_counter(), time.process_time()
            self._tell(Tally(), 0.0)
            lap, lapped = start, replace(tally)
            for period in itertools.count(1):
                lap_end = start + min(period * _PERIOD, duration)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), lap_end - time.perf_counter())
                now = time.perf_counter()
                self._tell(lapped, now - lap)
                lap, lapped = now, replace(tally)
                if self._over.is_set() or lap_end >= start + duration:
                    break
            tally.seconds, tally.cpu = max(self._last_at - start, 0.0), time.process_time() - cpu
            self._say(
                f"bench: total jobs worked [ {tally.worked:10} ],"
                f" total jobs inserted [ {tally.inserted:10} ],"
                f" overall job/sec [ {tally.per_second:10.1f} ], running {tally.seconds:.3f}s"
            )
        await counting

    async def _count(self, endings: Subscription, total: int) -> None:
        async for event in endings:
            if event.kind is not EventKind.JOB_COMPLETED:
                self._say(f"bench: unexpected {event.kind} of job {event.job and event.job.id}")
            self._last_at = time.perf_counter()
            self._tally.worked += 1
            if self._tally.worked == total:
                self._over.set()

    async def _supply(self) -> None:
        while not self._over.is_set():
            await asyncio.sleep(_PAUSE)
            while self._tally.left < self._min_jobs and not self._over.is_set():
                await self._insert(self._insert_batch)

    async def _insert(self, jobs: int) -> None:
        while jobs > 0 and not self._over.is_set():
            batch = [BenchmarkArgs(num=number) for number in range(min(jobs, self._insert_batch))]
            await self._client.insert_many(batch)
            self._tally.inserted += len(batch)
            jobs -= len(batch)

    def _tell(self, since: Tally, seconds: float) -> None:
        worked, inserted = self._tally.worked - since.worked, self._tally.inserted - since.inserted
        self._say(
            f"bench: jobs worked [ {worked:10} ], inserted [ {inserted:10} ],"
            f" job/sec [ {worked / seconds if seconds else 0.0:10.1f} ] [{seconds:.3g}s]"
        )


@contextlib.contextmanager
def _signals(callback: Callable[[], None]) -> Iterator[None]:
    """Call back at the first SIGINT or SIGTERM; leave a second one to its default action."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def caught() -> None:
        callback()
        for each in signals:
            loop.remove_signal_handler(each)

    for each in signals:
        loop.add_signal_handler(each, caught)
    try:
        yield
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
