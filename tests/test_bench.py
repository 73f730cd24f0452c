"""`riverui bench`: its counts, its lines, and that it empties no table that somebody needs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.cli.bench_runs import Benchmark, BenchRefused
from riverui.storage.interface import Driver
from riverui.storage.interface.params import JobFilter
from riverui.testing import MemoryDatabase
from tests import factory

_ROOT = Path(__file__).parents[1]
_LAP = re.compile(
    r"bench: jobs worked \[ +\d+ \], inserted \[ +\d+ \], job/sec \[ +[\d.]+ \] \[[\d.]+s\]"
)
_TOTAL = re.compile(
    r"bench: total jobs worked \[ +(\d+) \], total jobs inserted \[ +(\d+) \],"
    r" overall job/sec \[ +[\d.]+ \], running [\d.]+s"
)


async def test_works_so_many_jobs_down(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    said: list[str] = []
    benchmark = Benchmark(driver, say=said.append)
    await benchmark.empty_table(consent=False)
    tally = await benchmark.run(total=300)
    assert (tally.inserted, tally.worked, tally.left) == (300, 300, 0)
    assert tally.per_second == pytest.approx(300 / tally.seconds)
    *laps, total = said
    assert len(laps) >= 2
    assert all(_LAP.fullmatch(line) for line in laps)
    assert (match := _TOTAL.fullmatch(total))
    assert match.groups() == ("300", "300")
    rows = await (
        await connection.execute("select state::text, count(*) from river_job group by 1")
    ).fetchall()
    assert rows == [{"state": "completed", "count": 300}]


async def test_goes_on_until_its_time_is_over(driver: Driver) -> None:
    benchmark = Benchmark(driver, say=_nowhere, min_jobs=500, insert_batch=100)
    tally = await benchmark.run(duration=1.0)
    assert tally.worked > 500, "it inserts while it works"
    assert 0 < tally.seconds <= 2


async def test_empties_only_a_table_of_its_own(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await Benchmark(driver, say=_nowhere).run(total=10)
    await Benchmark(driver, say=_nowhere).empty_table(consent=False)
    assert await _jobs(connection) == 0

    await factory.job(connection, kind="mail")
    with pytest.raises(BenchRefused):
        await Benchmark(driver, say=_nowhere).empty_table(consent=False)
    assert await _jobs(connection) == 1
    await Benchmark(driver, say=_nowhere).empty_table(consent=True)
    assert await _jobs(connection) == 0


async def test_measures_a_sqlite_file() -> None:
    database = MemoryDatabase()
    for jobs in (20, 10):
        benchmark = Benchmark(database, say=_nowhere)
        await benchmark.empty_table(consent=False)
        assert (await benchmark.run(total=jobs)).worked == jobs
    async with database.reading() as executor:
        assert (await executor.jobs.count(JobFilter(), cap=100)).value == 10


async def test_leaves_a_database_alone_where_a_client_leads(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await factory.leader(connection)
    with pytest.raises(BenchRefused):
        await Benchmark(driver, say=_nowhere).empty_table(consent=False)
    await Benchmark(driver, say=_nowhere).empty_table(consent=True)


async def test_ctrl_c_ends_it_with_a_summary(database_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "riverui", "bench", "--database-url", database_url),
        cwd=_ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert _LAP.fullmatch((await process.stdout.readline()).decode().strip())
            process.send_signal(signal.SIGINT)
            *_, last = (await process.stdout.read()).decode().strip().splitlines()
            assert _TOTAL.fullmatch(last)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _nowhere(line: str) -> None:
    pass


async def _jobs(connection: AsyncConnection[DictRow]) -> int:
    row = await (await connection.execute("select count(*) from river_job")).fetchone()
    assert row is not None
    return int(row["count"])
