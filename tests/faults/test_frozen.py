"""A database that stands still, or whose answers are lost, while it takes jobs for a client that
has given up by then: the client gives back what it does not have.

The quick form has short time limits; the full one those that clients have, and a PgBouncer too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.client import Client
from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.storage.options import ConnectOptions
from riverui.storage.postgres.connect import connect
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from tests.faults.server import Server
from tests.interop.look import eventually, jobs
from tests.pgbouncer import bouncer_url
from tests.scale import FULL, scaled
from tests.storage.tcp_proxy import TcpProxy

__all__ = ["bouncer_url"]

Connection = AsyncConnection[DictRow]

pytestmark = pytest.mark.timeout(scaled(60, 3600))

_ANSWER = 0.2
"""Seconds that statements and their answers may take in the quick form."""
_JOBS = 30
"""Jobs of the fetch that is lost."""
_ROUNDS = scaled(1, 3)
"""How often each fault is made; 3 rounds of each take 15 minutes."""
_NEVER = timedelta(hours=1)
"""Between two polls: longer than the test, which says itself when to fetch."""
_WITHIN = 10.0
"""Seconds after which all jobs must be done once the server answers again."""


@dataclass
class Quick:
    """The args of the jobs."""

    kind: ClassVar[str] = "quick"


@dataclass
class Bench:
    """What the jobs did."""

    attempts: Counter[int] = field(default_factory=Counter)
    at_work: set[int] = field(default_factory=set)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first job, which then waits for `let_go`."""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    twice: set[int] = field(default_factory=set)

    async def work(self, job: Job[Quick]) -> None:
        """Write down whether another attempt at the job is under way."""
        self.attempts[job.id] += 1
        if job.id in self.at_work:
            self.twice.add(job.id)
        self.at_work.add(job.id)
        if self.held.is_set():
            await asyncio.sleep(0.02)
        else:
            self.held.set()
            await self.let_go.wait()
        self.at_work.discard(job.id)


@asynccontextmanager
async def working(url: str, database: Connection, bench: Bench) -> AsyncIterator[Client]:
    """Yield a client at work, connected and with nothing to do."""
    workers = Workers()
    workers.work(Quick)(bench.work)
    limits, engine, options = LIMITS, EngineLimits(), ConnectOptions()
    if not FULL:
        span = timedelta(seconds=_ANSWER)
        limits = PostgresLimits(grace_seconds=_ANSWER)
        engine = EngineLimits(statement_timeout=span, look_for_lost_most_seconds=_ANSWER)
        options = ConnectOptions(action_timeout=span)
    driver = connect(url, None, options, limits)
    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=100)},
        workers=workers,
        job_timeout=NO_LIMIT,
        leader_election_disabled=not FULL,
        fetch_poll_interval=timedelta(seconds=1) if FULL else _NEVER,
        poll_only=not FULL,
    )
    client = Client(driver, config, limits=engine)
    await database.execute("truncate river_job")
    await insert(database, 1)
    await client.start()
    try:
        # It is connected, and fetches no more unless it is woken.
        await bench.held.wait()
        yield client
    finally:
        bench.let_go.set()
        await client.stop()
        await driver.close()


async def insert(database: Connection, count: int = _JOBS) -> None:
    await database.execute(
        "insert into river_job (kind, args, max_attempts)"
        " select 'quick', '{}', 25 from generate_series(1, %s)",
        [count],
    )


async def completed(database: Connection, count: int, **others: int) -> None:
    """Wait until so many jobs are completed, and only so many others are there, by state."""

    async def states() -> Counter[str]:
        return Counter(row["state"] for row in await jobs(database))

    await eventually(
        states, fits=lambda found: found == {"completed": count, **others}, within=_WITHIN
    )


async def all_done(database: Connection, bench: Bench, client: Client) -> None:
    """Check that all jobs are done soon, with one attempt that counts, and none twice at once; and
    that the one at work all the time was left alone.
    """
    await completed(database, _JOBS, running=1)
    bench.let_go.set()
    await completed(database, _JOBS + 1)
    rows = await jobs(database)
    assert {(row["attempt"], row["attempted_by"][-1], row["errors"]) for row in rows} == {
        (1, client.id, None)
    }
    assert not bench.twice
    assert bench.attempts == dict.fromkeys([row["id"] for row in rows], 1)


@pytest.fixture
def database_url(server: Server) -> str:
    """Return where PgBouncer leads to."""
    return server.url


async def test_a_fetch_whose_answer_is_lost_on_the_wire(
    server: Server, database: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    answering = asyncio.Event()
    answering.set()
    proxy = TcpProxy(server.url, answering=answering)

    async def gives_up() -> bool:
        return "no jobs can be fetched" in caplog.text

    await proxy.open()
    try:
        for _ in range(_ROUNDS):
            caplog.clear()
            bench = Bench()
            async with working(proxy.url, database, bench) as client:
                answering.clear()
                await insert(database)
                await client.queues.scale("default", 99)
                await eventually(
                    lambda: jobs(database, "state = 'running'"),
                    fits=lambda rows: len(rows) == _JOBS + 1,
                )
                answering.set()
                await eventually(gives_up)
                await all_done(database, bench, client)
            (told,) = [
                record.getMessage()
                for record in caplog.records
                if record.levelno == logging.WARNING and "never arrived" in record.getMessage()
            ]
            assert told == (
                f"{_JOBS} jobs of queue default were fetched by a request whose answer never"
                " arrived; they are available again"
            )
    finally:
        await proxy.shut()


@pytest.mark.parametrize("pooled", (False, True) if FULL else (False,))
@pytest.mark.parametrize("seconds", (8.0, 25.0, 60.0) if FULL else (1.0,))
async def test_a_server_that_stands_still(
    server: Server,
    database: Connection,
    seconds: float,
    pooled: bool,
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue("bouncer_url") if pooled else server.url
    for _ in range(_ROUNDS):
        bench = Bench()
        async with working(url, database, bench) as client:
            await insert(database)
            with server.frozen():
                # It fetches at once.
                await client.queues.scale("default", 99)
                await asyncio.sleep(seconds)
            began = time.monotonic()
            await all_done(database, bench, client)
            print(f"frozen for {seconds} s, done after {time.monotonic() - began:.1f} s")
