"""Go inserts, works, retries, snoozes and cancels in a queue that ours fetches from behind removed
rows: nothing waits for longer than until the next full look.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.partitions import PartitionConfig
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.features.concurrency.domain import ConcurrencyConfig
from tests.interop.conftest import StartWorker
from tests.interop.kinds import Bench
from tests.interop.look import eventually
from tests.interop.worker import Peer
from tests.scale import scaled

pytestmark = pytest.mark.interop

_KINDS = ("noop", "flaky", "snooze", "cancel", "sleep")
_LONGEST = 15.0
"""Seconds that a due job may wait: with some ten thousand entries a full look comes every two."""
_REMOVED = 5_000
"""Rows that were worked before, and are kept by an old transaction."""
_SECONDS = 5.0
"""How long Go works, and as long it does not."""
_WAITING = 50
"""Due jobs above which nothing is inserted: a job may not wait for others alone."""
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limit": {
        "concurrency": ConcurrencyConfig(global_limit=2, partition=PartitionConfig(by_args=["n"]))
    },
}
"""Settings of our queue by name."""

Connection = AsyncConnection[DictRow]


class History:
    """Random operations of a Go client, and how long due jobs wait."""

    def __init__(self, go: Peer, connection: Connection, seed: int) -> None:
        self._connection = connection
        self._dice = random.Random(seed)
        self._go = go
        self._ids: list[int] = []
        self._since: dict[tuple[int, int, Any], float] = {}
        """When each due job was first seen waiting, by id, attempt and due time."""

    async def goes_on(self) -> None:
        """Do operations for a while, none while many jobs wait."""
        operations: tuple[Callable[[], Awaitable[None]], ...] = (
            self.insert,
            self.insert,
            self.insert_many,
            self.change,
        )
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if await self.waiting() < _WAITING:
                await self._dice.choice(operations)()

    async def insert(self) -> None:
        """Insert a job whose place may have been passed long ago, or is still to come."""
        opts = {"scheduled_in": self._dice.choice((0, 0, 0, -0.5, -5, -60, -4000, 0.5))}
        args = {"failures": 1, "retry_in": 0.2, "times": 1, "seconds": 0.1}
        kind = self._dice.choice(_KINDS)
        self._ids.append(await self._go.insert(kind, opts=opts | self._opts(), **args, n=self._n))

    async def insert_many(self) -> None:
        """Insert some jobs at once, by COPY."""
        jobs = [
            {"kind": "noop", "args": {"n": self._n}, "opts": self._opts()}
            for _ in range(self._dice.randrange(1, 20))
        ]
        await self._go.ask("insert_many", jobs=jobs, fast=True)

    async def change(self) -> None:
        """Retry or cancel one of the jobs, whatever it does."""
        if self._ids:
            op = self._dice.choice(("retry", "retry", "cancel"))
            await self._go.ask(op, id=self._dice.choice(self._ids))

    async def waiting(self) -> int:
        """Return how many due jobs wait; none of them has waited for too long."""
        cursor = await self._connection.execute(
            "select id, attempt, scheduled_at from river_job"
            " where state = 'available' and scheduled_at <= now()"
        )
        now = time.monotonic()
        found = {tuple(row.values()) for row in await cursor.fetchall()}
        self._since = {job: self._since.get(job, now) for job in found}
        late = {job: now - since for job, since in self._since.items() if now - since > _LONGEST}
        assert late == {}
        return len(found)

    async def unfinished(self) -> int:
        """Return how many jobs are not finished; those that wait have not waited for too long."""
        await self.waiting()
        cursor = await self._connection.execute(
            "select count(*) as count from river_job where finalized_at is null"
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row["count"])

    @property
    def _n(self) -> int:
        return self._dice.randrange(5)

    def _opts(self) -> dict[str, Any]:
        return {"priority": self._dice.choice((1, 1, 1, 2, 3, 4))}


@pytest.mark.parametrize("seed", range(scaled(1, 4)))
@pytest.mark.parametrize("way", WAYS)
async def test_no_job_of_go_is_passed_over(
    start_worker: StartWorker,
    connection: Connection,
    database_url: str,
    own_tables: None,
    way: str,
    seed: int,
) -> None:
    bench = Bench(say=lambda *_, **__: None, journal=None, quiet=True)
    queue = QueueConfig(max_workers=10, **WAYS[way])
    config = ClientConfig(queues={"default": queue}, workers=bench.workers(_KINDS))
    async with await AsyncConnection.connect(database_url) as holder:
        await holder.execute("set transaction isolation level repeatable read")
        await holder.execute("select from river_job")
        await connection.execute(
            "insert into river_job (kind, args, max_attempts, scheduled_at) select 'noop', '{}', 1,"
            " now() - interval '1 minute' from generate_series(1, %s)",
            [_REMOVED],
        )
        await connection.execute("update river_job set state = 'completed', finalized_at = now()")
        async with (
            Client(database_url, config) as client,
            start_worker(queues={"default": 2}, kinds=_KINDS, quiet=True) as go,
        ):
            await client.start()
            assert client.runtime is not None
            start = client.runtime.producers["default"].fetcher.start
            history = History(go, connection, seed)
            await history.goes_on()
            # Go's fetches find everything: then ours must alone.
            await go.ask("stop")
            await history.goes_on()
            assert start.later
            await eventually(history.unfinished, fits=lambda left: left == 0, within=60)
