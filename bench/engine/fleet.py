"""What many clients ask of one Postgres: a hundred that wait, and ten that work."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.engine.idle import cpu_of, running
from bench.engine.ours import Args
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig

_PROCESSES = 10
"""Processes that share the waiting clients."""
_EACH = 10
"""Clients in each of them, and of the working ones."""
_SETTLE = 20.0
"""Seconds until all have started and one leads."""
_BATCH = 10
"""Jobs of an insert."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What the clients of one run ask of Postgres."""

    clients: int
    jobs: int
    """Jobs worked in a second; 0 if all wait."""
    connections: int
    statements: float
    """Committed transactions in a second: nearly all are single statements."""
    server: float
    """CPU of Postgres's sessions, in milliseconds of each second."""
    python: float
    """CPU of the clients' processes, in milliseconds of each second."""


async def measure_fleet(url: str, *, seconds: float, rate: int) -> tuple[Load, Load]:
    """Return the load of clients that wait, and of fewer that work jobs at this rate."""
    async with _fleet(url, _PROCESSES) as pids:
        waiting = await _load(url, pids, seconds)
    async with _fleet(url, 1) as pids, Client(url, ClientConfig()) as client:
        inserts = asyncio.create_task(_insert(client, rate))
        working = await _load(url, pids, seconds)
        inserts.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await inserts
    return waiting, working


@contextlib.asynccontextmanager
async def _fleet(url: str, processes: int) -> AsyncIterator[list[int]]:
    """Run clients in so many processes; yield the processes' ids."""
    command = [sys.executable, "-m", "bench.engine.ours", "idle", url, str(_EACH)]
    async with contextlib.AsyncExitStack() as stack:
        pids = [await stack.enter_async_context(running(command)) for _ in range(processes)]
        await asyncio.sleep(_SETTLE)
        yield pids


async def _load(url: str, pids: list[int], seconds: float) -> Load:
    """Return what the processes ask of the server in so many seconds."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def row(query: bytes) -> Any:
            return await (await connection.execute(query)).fetchone()

        async def seen() -> tuple[float, int, int, dict[int, float], float]:
            sessions = await connection.execute(
                b"select pid from pg_stat_activity where datname = current_database()"
                b" and backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
            used: dict[int, float] = {}
            for (pid,) in await sessions.fetchall():
                # A session may end meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    used[pid] = cpu_of(pid)
            (commits,) = await row(
                b"select xact_commit from pg_stat_database where datname = current_database()"
            )
            (jobs,) = await row(b"select count(*) from river_job where state = 'completed'")
            return time.monotonic(), commits, jobs, used, sum(map(cpu_of, pids))

        start, commits, jobs, used, python = await seen()
        await asyncio.sleep(seconds)
        end, commits_now, jobs_now, used_now, python_now = await seen()
    span = end - start
    server = sum(cpu - used.get(pid, 0.0) for pid, cpu in used_now.items())
    return Load(
        clients=len(pids) * _EACH,
        jobs=round((jobs_now - jobs) / span),
        connections=len(used_now),
        statements=(commits_now - commits) / span,
        server=server / span * 1000,
        python=(python_now - python) / span * 1000,
    )


async def _insert(client: Client, rate: int) -> None:
    """Insert jobs at a rate until cancelled."""
    start, inserted = time.monotonic(), 0
    while True:
        if inserted < rate * (time.monotonic() - start):
            await client.insert_many([Args(num=inserted + n) for n in range(_BATCH)])
            inserted += _BATCH
        else:
            await asyncio.sleep(_BATCH / rate)
