"""Takes part in the public comparison of job queues on Postgres, as its adapter for riverui.

Its harness starts this process with settings in the environment, and reads JSON from standard
output: a descriptor at the start, then a line for each measured value. See README.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import uvloop

from riverui import (
    Client,
    ClientConfig,
    Job,
    QueueConfig,
    Worker,
    Workers,
    __version__ as version,
    connect,
    migrate,
)

log = logging.getLogger("comparison")

_WINDOW = 30
"""Seconds of latencies that one sample describes."""
_STEP = math.log(1.005)
"""Latencies are counted in steps of half a percent, as precise as three figures."""
_LEAST = 0.01
"""Milliseconds; smaller latencies count as this."""
_DEPTH_PAUSE = 0.2
"""Seconds between two looks at the depth of the queue, as with other adapters."""
_FULL_PAUSE = 0.05
"""Seconds that the producer waits while enough jobs wait, or none are wanted."""


@dataclass(frozen=True, slots=True)
class Args:
    """The args of a job, padded to the size that the harness asks for."""

    kind: ClassVar[str] = "long_horizon_job"
    seq: int
    padding: str


class Latencies:
    """Counts the latencies of the last seconds; its size does not depend on how many there are."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, Counter[int]]] = deque(maxlen=_WINDOW)

    def add(self, milliseconds: float) -> None:
        """Count one latency."""
        now = int(time.monotonic())
        if not self._seconds or self._seconds[-1][0] != now:
            self._seconds.append((now, Counter()))
        self._seconds[-1][1][round(math.log(max(milliseconds, _LEAST)) / _STEP)] += 1

    def percentile(self, share: float) -> float:
        """Return the milliseconds that this share of the latencies took at most; 0 without any."""
        since = int(time.monotonic()) - _WINDOW
        steps: Counter[int] = Counter()
        for second, counts in self._seconds:
            if second > since:
                steps.update(counts)
        left = share * steps.total()
        for step, count in sorted(steps.items()):
            left -= count
            if left <= 0:
                return math.exp(step * _STEP)
        return 0.0


@dataclass(slots=True)
class Bench:
    """The settings of the harness, and what was counted so far."""

    url: str
    depth_target: int | None
    """Jobs that should wait, instead of a rate."""
    rate: int
    """Jobs to insert in a second, unless the harness's file says otherwise."""
    rate_file: Path | None
    batch_most: int
    batch_seconds: float
    workers: int
    padding: str
    work_seconds: float
    sample_seconds: int
    instance: int
    """The number of this process among the replicas; only the first reports the queue's depth."""
    inserted: int = 0
    completed: int = 0
    depth: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    def offered(self) -> int:
        """Return the current rate of jobs per second."""
        if self.depth_target is not None:
            return 0
        try:
            return int(float(self.rate_file.read_text())) if self.rate_file else self.rate
        except (OSError, ValueError):
            # The harness is writing it.
            return self.rate

    def emit(self, **record: object) -> None:
        """Write one record for the harness."""
        print(json.dumps({"system": "riverui", "instance_id": self.instance, **record}), flush=True)


class LongHorizonWorker(Worker[Args]):
    """Works a job as all adapters do: by waiting."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def work(self, job: Job[Args]) -> None:
        """Count how long the job waited, and wait."""
        waited = datetime.now(UTC) - job.created_at
        self._bench.latencies.add(waited.total_seconds() * 1000)
        await asyncio.sleep(self._bench.work_seconds)
        self._bench.completed += 1


def bench_from_environment() -> Bench:
    """Return the settings that the harness has given, with its defaults."""

    def number(name: str, default: int) -> int:
        return int(os.environ.get(name, default))

    by_depth = os.environ.get("PRODUCER_MODE") == "depth-target"
    rate_file = os.environ.get("PRODUCER_RATE_CONTROL_FILE")
    return Bench(
        url=os.environ["DATABASE_URL"],
        depth_target=number("TARGET_DEPTH", 1000) if by_depth else None,
        rate=number("PRODUCER_RATE", 800),
        rate_file=Path(rate_file) if rate_file else None,
        batch_most=number("PRODUCER_BATCH_MAX", 128),
        batch_seconds=number("PRODUCER_BATCH_MS", 10) / 1000,
        workers=number("WORKER_COUNT", 32),
        padding="x" * max(0, number("JOB_PAYLOAD_BYTES", 256) - 32),
        work_seconds=number("JOB_WORK_MS", 1) / 1000,
        sample_seconds=number("SAMPLE_EVERY_S", 5),
        instance=number("BENCH_INSTANCE_ID", 0),
    )


async def produce(bench: Bench, client: Client) -> None:
    """Insert jobs at the offered rate, by the time that has really passed, or up to a depth."""
    credit, credited_at = 0.0, time.monotonic()
    seq = 0
    while True:
        if bench.depth_target is not None:
            batch = min(bench.depth_target - bench.depth, bench.batch_most)
            if batch <= 0:
                await asyncio.sleep(_FULL_PAUSE)
                continue
        else:
            await asyncio.sleep(bench.batch_seconds - (time.monotonic() - credited_at))
            now = time.monotonic()
            credit += bench.offered() * (now - credited_at)
            credited_at = now
            batch = min(int(credit), bench.batch_most)
            if not batch:
                continue
            credit -= batch
        try:
            await client.insert_many(
                [Args(seq=seq + number, padding=bench.padding) for number in range(batch)]
            )
        except Exception as error:
            # The harness takes the database away for a while, and looks at what happens then.
            log.warning("jobs were not inserted: %s", error)
            await asyncio.sleep(_FULL_PAUSE)
        else:
            bench.inserted += batch
            seq += batch


async def watch_depth(bench: Bench) -> None:
    """Count the available jobs again and again."""
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(bench.url, autocommit=True) as own:
                while True:
                    rows = await own.execute(
                        "select count(*) from river_job where state = 'available'"
                    )
                    ((bench.depth,),) = await rows.fetchall()
                    await asyncio.sleep(_DEPTH_PAUSE)
        except psycopg.Error as error:
            log.warning("the queue's depth is unknown: %s", error)
            await asyncio.sleep(_DEPTH_PAUSE)


async def sample(bench: Bench) -> None:
    """Write samples at the full intervals of the clock, so that those of all systems match."""
    every = bench.sample_seconds
    await asyncio.sleep(every - time.time() % every)
    inserted, completed, before = bench.inserted, bench.completed, time.monotonic()
    while True:
        await asyncio.sleep(every - time.time() % every)
        now = time.monotonic()
        seconds, before = now - before, now
        values = {
            "claim_p50_ms": (bench.latencies.percentile(0.50), _WINDOW),
            "claim_p95_ms": (bench.latencies.percentile(0.95), _WINDOW),
            "claim_p99_ms": (bench.latencies.percentile(0.99), _WINDOW),
            "enqueue_rate": ((bench.inserted - inserted) / seconds, every),
            "completion_rate": ((bench.completed - completed) / seconds, every),
        }
        if bench.instance == 0:
            values |= {
                "queue_depth": (bench.depth, 0),
                "producer_target_rate": (bench.offered(), 0),
            }
        inserted, completed = bench.inserted, bench.completed
        at = _iso_now()
        for metric, (value, window) in values.items():
            bench.emit(
                t=at,
                kind="adapter",
                subject_kind="adapter",
                subject="",
                metric=metric,
                value=float(value),
                window_s=float(window),
            )


async def main() -> None:
    """Insert and work jobs until SIGTERM."""
    bench = bench_from_environment()
    driver = connect(bench.url)
    await migrate(driver)
    await driver.close()
    bench.emit(
        kind="descriptor",
        event_tables=["public.river_job"],
        extensions=[],
        version=version,
        schema_version="main",
        db_name=psycopg.conninfo.conninfo_to_dict(bench.url)["dbname"],
        started_at=_iso_now(),
    )
    stop = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    workers = Workers()
    workers.add(LongHorizonWorker(bench))
    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=bench.workers)}, workers=workers
    )
    async with Client(bench.url, config) as client:
        parts: list[Coroutine[Any, Any, object]] = [
            stop.wait(),
            produce(bench, client),
            sample(bench),
        ]
        if bench.instance == 0:
            parts.append(watch_depth(bench))
        tasks = [asyncio.create_task(part) for part in parts]
        ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for task in ended:
            task.result()


def _iso_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    if (scenario := os.environ.get("SCENARIO", "long_horizon")) != "long_horizon":
        sys.exit(f"SCENARIO must be long_horizon, not {scenario}")
    uvloop.run(main())
