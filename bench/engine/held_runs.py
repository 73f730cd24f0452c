"""Working a queue while an old transaction keeps the index entries of all jobs worked before.

`python -m bench.engine.held_runs SLOTS URL PACED BURST` prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import psycopg

from bench.engine.drain import Latency
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.event_loop import loop_factory, spare_collector
from riverui.engine.events import EventKind
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers

_BATCH = 250_000
"""Jobs that one round of statements makes as if they had been worked."""
_PACED_PER_SLOT = 5
"""Jobs a second for each slot, of those that come one by one."""
_PACED_MOST = 300
"""The most of them a second, so that no machine is busy with inserting."""
_SETTLE = 2.5
"""Seconds in which processes report their statistics."""

_WORK = (
    "insert into river_job (kind, args, max_attempts, created_at, scheduled_at)"
    " select 'benchmark', '{\"num\": 0}', 25, at, at from (select now() - (%(n)s - i) * interval"
    " '1 ms' as at from generate_series(1, %(n)s) i) jobs",
    "update river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by ="
    " '{bench}' where state = 'available'",
    "update river_job set state = 'completed', finalized_at = now() where state = 'running'",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldRun:
    """What one client did."""

    per_second: float
    """Jobs of a backlog."""
    entries: float
    """Index entries of river_job that were read for each job."""
    p50: float = 0.0
    p99: float = 0.0
    """Milliseconds from insert to start of jobs that come one by one."""


@dataclass(frozen=True, slots=True)
class Args:
    """As small as those of the benchmark."""

    kind: ClassVar[str] = "benchmark"
    num: int


@contextlib.contextmanager
def worked(url: str, jobs: int, *, held: bool) -> Iterator[None]:
    """Fill the table with worked jobs, all of whose removed rows stay if `held`."""
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as connection:
        holder.execute("set transaction isolation level repeatable read")
        if held:
            holder.execute("select from river_job limit 1")
        for done in range(0, jobs, _BATCH):
            for statement in _WORK:
                connection.execute(statement, {"n": min(_BATCH, jobs - done)})
        if not held:
            connection.execute("vacuum river_job")
        connection.execute("analyze river_job")
        connection.execute("checkpoint")
        yield


def entries_read(url: str) -> int:
    """Return the index entries of river_job that were read so far."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select sum(idx_tup_read)::bigint from pg_stat_user_indexes where relname = 'river_job'"
        ).fetchone()
    assert row is not None
    return int(row[0])


async def run(url: str, slots: int, paced: int, burst: int) -> HeldRun:
    """Work jobs that come one by one, then a backlog; the leader's maintenance is left out."""
    started: dict[int, float] = {}
    workers = Workers()

    @workers.work(Args)
    async def work(job: Job[Args]) -> None:
        started[job.args.num] = time.perf_counter()

    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=slots)},
        workers=workers,
        leader_election_disabled=True,
        log_jobs=False,
    )
    sent: dict[int, float] = {}
    client = Client(url, config)
    ends = client.subscribe(EventKind.JOB_COMPLETED, size=100_000)
    async with client:
        await client.insert(Args(-1))
        await anext(aiter(ends))
        await asyncio.sleep(_SETTLE)
        before = await asyncio.to_thread(entries_read, url)
        began = time.perf_counter()
        rate = min(slots * _PACED_PER_SLOT, _PACED_MOST)
        for number in range(paced):
            sent[number] = time.perf_counter()
            await client.insert(Args(number))
            await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.perf_counter()))
        for _ in range(paced):
            await anext(aiter(ends))
        latency = Latency.from_seconds([started[number] - sent[number] for number in sent])
        for start in range(0, burst, 5_000):
            await client.insert_many(
                [Args(paced + n) for n in range(start, min(start + 5_000, burst))]
            )
        began = time.perf_counter()
        left = sum(1 for number in range(paced, paced + burst) if number not in started)
        for _ in range(burst):
            await anext(aiter(ends))
        seconds = time.perf_counter() - began
    read = await asyncio.to_thread(entries_read, url) - before
    return HeldRun(
        per_second=left / seconds, entries=read / (paced + burst), p50=latency.p50, p99=latency.p99
    )


def run_go(program: Path, url: str, slots: int, *, seconds: float, jobs: int) -> HeldRun:
    """Let Go River work a backlog for so many seconds."""
    count = "select count(*) from river_job where id > %s and state = 'completed'"
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select max(id) from river_job").fetchone()
        assert row is not None
        connection.execute(
            "insert into river_job (kind, args, max_attempts) select 'noop', '{}', 25 from"
            " generate_series(1, %s)",
            [jobs],
        )
        before = entries_read(url)
        command = [str(program), f"-database-url={url}", f"-queues=default={slots}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL) as go:
            assert go.stdin is not None
            go.stdin.write(b'{"op": "start", "ref": "1"}\n')
            go.stdin.flush()
            began, done = time.perf_counter(), 0
            while done < jobs and time.perf_counter() - began < seconds:
                time.sleep(0.2)
                found = connection.execute(count, row).fetchone()
                assert found is not None
                done = int(found[0])
            took = time.perf_counter() - began
        # Its connections report as they end.
        time.sleep(_SETTLE)
        return HeldRun(per_second=done / took, entries=(entries_read(url) - before) / max(done, 1))


if __name__ == "__main__":
    slots, url, paced, burst = sys.argv[1:]
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        found = runner.run(run(url, int(slots), int(paced), int(burst)))
    print(json.dumps(asdict(found)))
