"""What the tests' several processes work: jobs that count themselves while they are at work."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from riverui import Client, ClientConfig, Job, QueueConfig, Workers

workers = Workers()
memory: list[bytes] = []


class Args:
    """Anything."""

    kind: ClassVar[str]

    @classmethod
    def from_json(cls, text: str) -> Args:
        return cls()


class Short(Args):
    kind = "short"


class Long(Args):
    kind = "long"


class Greedy(Args):
    kind = "greedy"


class Spin(Args):
    kind = "spin"


@asynccontextmanager
async def at_work(job: Job[Any]) -> AsyncIterator[None]:
    """Note in the database that the job runs, in which process, and among how many."""
    async with await connected() as connection:
        # A lock for the count: what begins at the same time is counted one after the other.
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(7)")
            await connection.execute(
                "insert into at_work select %s, %s, pg_backend_pid(), now(),"
                " (select count(*) + 1 from at_work join pg_stat_activity a on a.pid = backend"
                " where ended_at is null)",
                [job.id, os.getpid()],
            )
        try:
            yield
        finally:
            await connection.execute(
                "update at_work set ended_at = clock_timestamp() where backend = pg_backend_pid()"
            )


async def connected() -> Any:
    import psycopg

    return await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True)


@workers.work(Short)
async def short(job: Job[Any]) -> None:
    async with at_work(job):
        await asyncio.sleep(0.02)


@workers.work(Long)
async def long(job: Job[Any]) -> None:
    """Go on until somebody writes that it may end."""
    async with at_work(job), await connected() as connection:
        while True:
            found = await connection.execute("select 1 from may_end where id = %s", [job.id])
            if await found.fetchone():
                return
            await asyncio.sleep(0.02)


@workers.work(Greedy)
async def greedy(job: Job[Any]) -> None:
    """Take 64 MB and keep them."""
    memory.append(b"x" * 64 * 1024 * 1024)


@workers.work(Spin)
async def spin(job: Job[Any]) -> None:
    """Block the event loop for a while."""
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass


config = ClientConfig(
    id=os.environ.get("CLIENT_ID"),
    queues={
        "default": QueueConfig(max_workers=int(os.environ.get("SLOTS", "5"))),
        "other": QueueConfig(max_workers=1),
    },
    workers=workers,
)
client = Client(os.environ.get("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none"), config)

TABLES = """
create table at_work
    (id bigint, pid int, backend int, began_at timestamptz, together int, ended_at timestamptz);
create table may_end (id bigint);
"""
