"""What jobs cost, beside what the server and the processor's clock say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import sleep, thread_time
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.domain.figures import Tally
from riverui.engine.work.cpu_time import CpuMeter, CpuTime, stepwise
from riverui.engine.work.worker import BatchWorker, Job, Worker
from riverui.features.costs.domain import JobSizes, StatementMeans, kind_cost, measured
from riverui.features.costs.store import CostStore
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground

Connection = AsyncConnection[Any]
JOBS = 1_000
"""Jobs of each kind whose WAL is compared."""
BURNT = 0.02
"""Seconds of processor time of a job."""
BURNERS = 5
"""Jobs of each kind that burn it."""


def burn(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


@dataclass
class Short:
    kind: ClassVar[str] = "short"
    number: int


@dataclass
class Long:
    kind: ClassVar[str] = "long"
    number: int
    text: str


@dataclass
class Huge:
    kind: ClassVar[str] = "huge"
    text: str


@dataclass
class InLoop:
    kind: ClassVar[str] = "in_loop"


@dataclass
class InThread:
    kind: ClassVar[str] = "in_thread"


@dataclass
class Together:
    kind: ClassVar[str] = "together"


@dataclass
class Apart:
    kind: ClassVar[str] = "apart"


async def in_loop(job: Job[InLoop]) -> None:
    burn(BURNT / 2)
    await asyncio.sleep(0.001)
    burn(BURNT / 2)
    raise ValueError("failed attempts count too")


def in_thread(job: Job[Any]) -> None:
    burn(BURNT)
    sleep(0.001)


class InBatches(BatchWorker[Together]):
    max_delay = timedelta(milliseconds=10)

    async def work_many(self, jobs: Sequence[Job[Together]]) -> None:
        burn(BURNT * len(jobs))


@pytest.mark.usefixtures("own_tables")
async def test_processor_time_is_near_what_jobs_burn(play: Playground) -> None:
    play.workers.work(InLoop)(in_loop)
    play.workers.work(InThread)(in_thread)
    play.workers.work(Apart, isolation="process")(in_thread)
    play.worker(InBatches())
    ids = [
        await play.insert(args(), max_attempts=1)
        for args in (InLoop, InThread, Apart, Together)
        for _ in range(BURNERS)
    ]
    client = await play.start(isolation_processes=1)
    for job_id in ids:
        await play.event(job_id)
    await client.stop()
    rows = await play.rows(
        "select kind, sum(cpu_us)::float8 / 1e6 as seconds, sum(cpu_attempts) as attempts"
        " from riverui_rollup where source <> '' group by kind"
    )
    found = {row["kind"]: row for row in rows}
    for kind in ("in_loop", "in_thread", "apart", "together"):
        assert found[kind]["attempts"] == BURNERS
        assert found[kind]["seconds"] == pytest.approx(BURNERS * BURNT, rel=0.1), kind


def test_at_busy_times_some_are_measured() -> None:
    meter = CpuMeter(lambda row, at, cpu: None)
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    for at in (begun, begun + timedelta(seconds=1)):
        chosen = [meter.begin("quick", at) is not None for _ in range(100)]
        assert chosen == [True] * 10 + [False] * 90
        assert meter.begin("other", at) is not None


async def test_later_steps_count_too() -> None:
    async def work() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        burn(BURNT)

    cpu = CpuTime()
    await stepwise(work(), cpu)
    # Others may run meanwhile, as the time on the loop counts.
    assert BURNT * 1e9 <= cpu.nanoseconds < 100 * BURNT * 1e9


async def test_an_interrupted_step_ends_as_it_would_without_a_meter() -> None:
    cpu, seen = CpuTime(), []

    async def work() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
        await asyncio.sleep(0)
        return 7

    task = asyncio.ensure_future(stepwise(work(), cpu))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 7
    assert seen == ["cancelled"]


def test_a_measurement_is_shared_by_the_size_of_rows() -> None:
    sizes = {
        "small": JobSizes(args=20, row=200, added=50, toasted=0, names=10, entries=50),
        "large": JobSizes(args=1_500, row=1_700, added=50, toasted=0, names=10, entries=50),
    }
    tallies = {kind: Tally(completed=100) for kind in sizes}
    mean = sum(size.wal() for size in sizes.values()) / 2
    compared = measured(StatementMeans(wal=2 * mean, seconds=0.001), tallies, sizes)
    costs = [kind_cost(kind, tallies[kind], sizes[kind], compared) for kind in sizes]
    assert [cost.wal for cost in costs] == [2 * size.wal() for size in sizes.values()]
    assert sum(cost.wal_total or 0 for cost in costs) == pytest.approx(200 * 2 * mean)
    assert costs[0].database_total == timedelta(seconds=0.1)
    retried = Tally(completed=100, failed=100, cpu_us=4_000, cpu_attempts=2)
    cost = kind_cost("small", retried, sizes["small"], None)
    assert (cost.rows, cost.cpu) == (5, timedelta(milliseconds=4))
    assert (cost.wal or 0) > 1.5 * sizes["small"].wal()
    assert measured(StatementMeans(wal=1, seconds=1), {}, {}) is None


class Nothing(Worker[Any]):
    async def work(self, job: Job[Any]) -> None:
        pass


@pytest.mark.long
async def test_wal_is_near_what_the_server_writes(play: Playground, driver: Driver) -> None:
    for args in (Short, Long, Huge):
        play.workers.add(Nothing(), args_type=args)
    made: dict[str, list[Any]] = {
        "short": [Short(n) for n in range(JOBS)],
        "long": [Long(n, os.urandom(500).hex()) for n in range(JOBS)],
        "huge": [Huge(os.urandom(3_000).hex()) for n in range(JOBS)],
    }
    client, written, done = play.make(), {}, 0
    await client.start()

    async def ended() -> bool:
        (row,) = await play.rows("select count(*) as n from river_job where state = 'completed'")
        return bool(row["n"] == done)

    for kind, jobs in made.items():
        (before,) = await play.rows("select pg_current_wal_insert_lsn()::text as at")
        for start in range(0, JOBS, 100):
            await client.insert_many(jobs[start : start + 100])
        done += JOBS
        await play.until(ended)
        (after,) = await play.rows(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)::float8 as bytes", before["at"]
        )
        written[kind] = after["bytes"] / JOBS
    async with driver.reading() as executor:
        sizes = await CostStore(executor).job_size_list([*made, "none"], jobs=10)
    assert sizes.keys() == made.keys()
    for kind, size in sizes.items():
        cost = kind_cost(kind, Tally(completed=JOBS), size, None)
        assert cost.wal == pytest.approx(written[kind], rel=0.1), kind
    assert sizes["huge"].args == pytest.approx(6_000, rel=0.05)


async def test_the_server_measures_inserts_and_changes_by_row(
    connection: Connection, driver: Driver
) -> None:
    # As the extension's view, which test servers need not have.
    await connection.execute(
        """
        create view pg_stat_statements as
        select d.oid as dbid, s.* from pg_database d cross join (values
          ('with i as (insert into "a".river_job (args) values ($1)) select', 1000.0, 4.0, 10),
          ('INSERT INTO river_job SELECT', 2000.0, 6.0, 10),
          ('update river_job j set state = $1', 300.0, 9.0, 3),
          ('UPDATE river_job_log set x = $1', 1e9, 1e9, 1),
          ('select * from river_job', 1e9, 1e9, 1)
        ) as s (query, wal_bytes, total_exec_time, rows)
        where d.datname = current_database()
        """
    )
    means = StatementMeans(wal=150 + 2 * 100, seconds=(0.5 + 2 * 3) / 1e3)
    try:
        async with driver.reading() as executor:
            assert await CostStore(executor).statement_mean_get() == means
    finally:
        await connection.execute("drop view pg_stat_statements")
    async with driver.reading() as executor:
        assert await CostStore(executor).statement_mean_get() is None
