"""The engine's benchmark itself still runs: each contender but the peers, on few jobs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest

from bench.engine import floors, river
from bench.engine.databases import Databases, with_parts
from bench.engine.drain import Drain, Latency
from bench.engine.held_runs import run_go, worked
from bench.engine.measure import (
    child,
    feature_run,
    held_run,
    isolation_run,
    limit_run,
    rate_run,
)
from bench.engine.wiretap import wiretap
from tests.interop.worker import build

JOBS = 200
"""Jobs of a run: enough to see that it works."""


@pytest.fixture
def url(admin_url: str) -> Iterator[str]:
    databases = Databases(admin_url)
    try:
        with databases.fresh(finished=50) as url:
            yield url
    finally:
        databases.close()


def test_works_jobs_and_inserts_them(url: str) -> None:
    drain = Drain(**child("burn_down", url, JOBS))
    assert drain.jobs == JOBS
    assert drain.per_second > 0
    assert drain.cpu_per_job > 0
    for method in ("insert_many", "insert_many_fast"):
        assert child("insert", url, JOBS, 50, method) > 0
    assert _states(url) == {"available": 2 * (JOBS + 1), "completed": JOBS + 50}


def test_tells_latencies(url: str) -> None:
    assert 0 < Latency(**child("latency", url, 5, 0.0, "eager")).p50 < 5000
    assert asyncio.run(floors.listen_loop(url, samples=5, pause=0.0)).p99 < 5000
    assert _states(url) == {"completed": 5 + 10 + 50, "running": 5}


def test_the_floors_hold_jobs(url: str) -> None:
    assert floors.sql_loop(url, JOBS).jobs == JOBS
    assert floors.raw_copy(url, JOBS, batch=150) > 0
    assert _states(url) == {"available": JOBS, "completed": JOBS + 50}


def test_works_jobs_beside_an_old_transaction(url: str) -> None:
    with worked(url, 1_000, held=True):
        run = held_run(url, 100, 50, JOBS)
    assert run.per_second > 0
    assert 0 < run.p50 <= run.p99
    assert run.entries >= 3
    assert run_go(build("worker"), url, 10, seconds=30, jobs=20).per_second > 0


@pytest.mark.parametrize("how", ["thread", "process"])
def test_works_jobs_in_threads_and_processes(how: str, url: str) -> None:
    drain = Drain(**isolation_run(how, url, JOBS, 10))
    assert drain.jobs == JOBS
    assert drain.per_second > 0
    assert _states(url) == {"completed": JOBS + 20 + 50}


@pytest.mark.parametrize("how", ["alone", "apart"])
def test_the_floors_of_isolation(how: str) -> None:
    assert Drain(**isolation_run(how, "", 20, 10)).per_second > 0


@pytest.mark.interop
def test_runs_the_real_river(url: str) -> None:
    assert river.burn_down(build("river"), url, JOBS).jobs == JOBS


async def test_hears_every_statement(admin_url: str) -> None:
    async with wiretap(admin_url) as (url, tap):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            tap.clear()
            for _ in range(7):  # from the sixth on, it is prepared
                await connection.execute("select 1")
            await connection.execute("select %s", ["x"])
            assert tap.statements == {"select 1": 7, "select $1": 1}
        direct = await asyncpg.connect(url)
        tap.clear()
        assert await direct.fetchval("select 2") == 2
        assert tap.statements["select 2"] == 1
        await direct.close()
    assert tap.total == 1


async def test_an_idle_client_ends_with_its_input(url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.engine.ours", "idle", url), stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(60):
        assert await process.wait() == 0


def test_addresses_are_urls() -> None:
    url = with_parts("host=/tmp port=5433 user=me password='p@ss/word' dbname=a", dbname="b c")
    assert url == "postgresql://me:p%40ss%2Fword@/b%20c?host=%2Ftmp&port=5433"


def _states(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute("select state::text, count(*) from river_job group by 1").fetchall()
        )


@pytest.mark.parametrize("command", ["bare", "plain", "sequences", "workflows"])
def test_features_are_measured_by_jobs_that_are_all_worked(url: str, command: str) -> None:
    assert feature_run(command, url, 40)["jobs"] == 40
    assert _states(url) == {"completed": 40 + 50}


def test_a_join_is_measured(url: str) -> None:
    found = feature_run("join", url, 20)
    assert found["inserting"] > 0
    assert _states(url) == {"completed": 21 + 50}


@pytest.mark.parametrize("command", ["unlimited", "whole", "partitions"])
def test_limits_are_measured_by_jobs_that_count_themselves(url: str, command: str) -> None:
    assert limit_run(command, url, 60)["jobs"] == 60


def test_rates_are_measured(url: str) -> None:
    found = rate_run("rate", url, 50, 1)
    assert abs(found["off"]) < 20
    assert found["beyond"] < 20
