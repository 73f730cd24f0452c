"""What figures cost the database and the process: while jobs end, and for the hour before."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from riverui.domain.figures import WINDOWS
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.web.stand_ins import Later

RATES = (1_000, 20_000)
"""Jobs that end in a second: a busy service, and as many as the engine of one machine works."""
_SETTLING = 130
"""Seconds of jobs before those that are measured: figures are read again until they settle."""

_FILL = """
insert into river_job (kind, queue, args, max_attempts, state, attempt, attempted_at, created_at,
  scheduled_at, finalized_at, errors)
select 'kind_' || mod(n * 7, 40), 'queue_' || mod(n, 8), '{}', 25,
  case when mod(n, 50) = 0 then 'discarded' else 'completed' end::river_job_state,
  case when mod(n, 50) = 0 then 25 else 1 end,
  at - mod(n * 31, 977) * interval '1 millisecond', at - interval '5 seconds',
  at - mod(n * 31, 977) * interval '1 millisecond' - mod(n * 17, 499) * interval '1 millisecond',
  at,
  case when mod(n, 50) = 0 then array[jsonb_build_object('at', at, 'attempt', 25, 'error', 'no')]
  end
from generate_series(1, %(jobs)s) as n
cross join lateral (select %(since)s::timestamptz + n * %(apart)s as at) t
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What the collector cost while jobs ended, in shares of one processor."""

    rate: int
    postgres: float
    process: float
    sampled: int
    longest: float
    """Milliseconds of the longest tick."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BackFill:
    """What it took to read the hour before the newest job that ended."""

    jobs: int
    postgres: float
    """Seconds of processor time."""
    process: float
    elapsed: float
    """Seconds that all slices took, by the clock."""
    slices: int
    longest: float
    """Milliseconds."""
    window: float
    """Milliseconds to assemble the window."""


async def measure_figures(
    url: str, *, rates: tuple[int, ...] = RATES, seconds: int = 60
) -> list[Load]:
    """Measure an empty database in which jobs end at these rates, as if so many seconds passed."""
    return [await _load(url, rate, seconds) for rate in rates]


async def _load(url: str, rate: int, seconds: int) -> Load:
    since = datetime.now(UTC) - timedelta(hours=1)
    span = _SETTLING + seconds + 10
    async with _server(url) as (driver, plain, cpu):
        await _fill(plain, since, rate, span)
        later = Later(driver)
        start = since + timedelta(seconds=_SETTLING) - datetime.now(UTC)
        clock = _Passing()
        reader = FigureReader(later, DashboardConfig(), clock=clock)
        collector = reader.collector
        later.by = start
        await collector.tick()
        while await collector.fill():
            pass
        before, own, longest = await cpu(), time.process_time(), 0.0
        for _ in range(0, seconds, 10):
            later.by += timedelta(seconds=10)
            clock.passed += 10
            began = time.perf_counter()
            await collector.tick()
            longest = max(longest, time.perf_counter() - began)
            while await collector.fill():
                pass
        spent = time.process_time() - own
        used = await cpu() - before
        figures = await reader.known(WINDOWS["1h"])
        assert not figures.trouble, figures.trouble
        assert figures.total.ended > rate * seconds / 2
    return Load(
        rate=rate,
        postgres=used / seconds,
        process=spent / seconds,
        sampled=figures.sampled,
        longest=longest * 1000,
    )


async def measure_back_fill(url: str) -> BackFill:
    """Measure the hour before the newest completed job of a filled database."""
    async with _server(url) as (driver, plain, cpu):
        cursor = await plain.execute(
            "select finalized_at from river_job where state = 'completed' and finalized_at < now()"
            " and finalized_at is not null order by finalized_at desc limit 1"
        )
        row = await cursor.fetchone()
        assert row is not None
        found = []
        for _ in range(2):
            later = Later(driver)
            later.by = row[0] - datetime.now(UTC)
            reader = FigureReader(later, DashboardConfig())
            collector = reader.collector
            await collector.tick()
            laps = []
            before, own = await cpu(), time.process_time()
            more = True
            while more:
                began = time.perf_counter()
                more = await collector.fill()
                laps.append(time.perf_counter() - began)
            used, spent = await cpu() - before, time.process_time() - own
            began = time.perf_counter()
            figures = await reader.known(WINDOWS["1h"])
            found.append(
                BackFill(
                    jobs=figures.total.ended,
                    postgres=used,
                    process=spent,
                    elapsed=sum(laps),
                    slices=len(laps),
                    longest=max(laps) * 1000,
                    window=(time.perf_counter() - began) * 1000,
                )
            )
    return found[-1]


def loads(figures: list[Load]) -> list[str]:
    """Return the figures of the load as a sentence."""
    return [
        f"{one.rate:,} ends/s: {one.postgres:.2%} of a processor in Postgres, {one.process:.2%} in"
        f" the dashboard, longest tick {one.longest:.0f} ms"
        + (f", one in {one.sampled} read" if one.sampled > 1 else "")
        for one in figures
    ]


def back_fill(one: BackFill) -> str:
    """Return the figures of the hour as a sentence."""
    return (
        f"the last hour, {one.jobs:,} ended jobs: {one.postgres:.2f} s of a processor in Postgres,"
        f" {one.process:.2f} s in the dashboard; {one.elapsed:.2f} s in {one.slices} slices, the"
        f" longest {one.longest:.0f} ms; put together in {one.window:.0f} ms"
    )


class _Passing:
    """A clock that is set forward."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.passed


Cpu = Callable[[], Any]


@asynccontextmanager
async def _server(
    url: str,
) -> AsyncIterator[tuple[Driver, psycopg.AsyncConnection[TupleRow], Cpu]]:
    """Yield a driver, a plain connection, and a function that returns the seconds of processor time
    used by the driver's connections: the server must be on this machine.
    """
    driver = connect(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as plain:
        own = plain.info.backend_pid

        async def cpu() -> float:
            cursor = await plain.execute(
                "select pid from pg_stat_activity where datname = current_database() and pid <> %s"
                " and backend_type = 'client backend'",
                [own],
            )
            return sum(_spent(pid) for (pid,) in await cursor.fetchall())

        yield driver, plain, cpu
    await driver.close()


def _spent(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _fill(
    plain: psycopg.AsyncConnection[TupleRow], since: datetime, rate: int, span: int
) -> None:
    await plain.execute("truncate river_job")
    cursor = await plain.execute(
        "select indexname, indexdef from pg_indexes where tablename = 'river_job' and indexname <>"
        " 'river_job_pkey'"
    )
    indexes = await cursor.fetchall()
    for name, _ in indexes:
        await plain.execute(f"drop index {name}".encode())
    apart = timedelta(seconds=1) / rate
    await plain.execute(_FILL, {"jobs": rate * span, "since": since, "apart": apart})
    for _, definition in indexes:
        await plain.execute(definition.encode())
    await plain.execute("vacuum analyze river_job")
