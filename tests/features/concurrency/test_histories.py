"""Limits in random histories: never exceeded, and no job is stuck."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import ConcurrencyConfig, PartitionConfig
from riverui.engine.client import Client
from riverui.engine.config import QueueConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.work.worker import Job
from riverui.features.concurrency import verbs as concurrency
from tests.features.histories import QUICK, SEEDS, Deed, History, Passing

BY_KEY = PartitionConfig(by_args=["key"])
BY_KIND = PartitionConfig(by_kind=True)
CONFIGURED = ConcurrencyConfig(global_limit=3, partition=BY_KEY)


class Gauge:
    """Works jobs, and counts those at work as each begins."""

    def __init__(self, history: History) -> None:
        self.began = 0
        self.fullest = 0
        """Most jobs at work at once."""
        self.history = history
        self.limits = [CONFIGURED]
        """Those of which one holds."""
        self.wrong: list[str] = []
        self._at_work: list[Deed] = []
        self._clients = 0
        self._working: list[Client] = []
        history.workers.work(Deed)(self._work)
        history.workers.work(Passing)(self._work)

    async def _work(self, job: Job[Any]) -> None:
        self._at_work.append(job.args)
        self.began += 1
        self.fullest = max(self.fullest, len(self._at_work))
        if not any(self._holds(limits, job.args) for limits in self.limits):
            self.wrong.append(f"{job.id} began beside {self._at_work} under {self.limits}")
        try:
            await self.history.act(job)
        finally:
            # By identity: others may be equal.
            self._at_work = [other for other in self._at_work if other is not job.args]

    def _holds(self, limits: ConcurrencyConfig, args: Deed) -> bool:
        """Return whether no more than that are at work of the partition that args are in."""
        partition = limits.partition
        beside = [
            other
            for other in self._at_work
            if (not partition.by_args or other.key == args.key)
            and (not partition.by_kind or other.kind == args.kind)
        ]
        return not limits.global_limit or len(beside) <= limits.global_limit

    async def insert(self) -> None:
        """Insert some jobs."""
        history, random = self.history, self.history.random
        results = await random.choice(history.clients).insert_many(
            [
                InsertManyParams(
                    history.deed(f"key {random.randrange(4)}", random.choice((Deed, Passing))),
                    InsertOpts(max_attempts=random.randint(1, 3), priority=random.randint(1, 4)),
                )
                for _ in range(random.randint(1, 12))
            ]
        )
        history.ids += [result.job.id for result in results]

    async def override(self) -> None:
        """Set other limits for the queue, or remove them again."""
        random, driver = self.history.random, self.history.client.driver
        limits = CONFIGURED
        if random.random() < 0.7:
            limits = ConcurrencyConfig(
                global_limit=random.randint(1, 6),
                partition=random.choice((PartitionConfig(), BY_KEY, BY_KIND)),
            )
        # Clients change over one after the other, and meanwhile count by different keys.
        self.limits.append(ConcurrencyConfig())
        if limits is CONFIGURED:
            await concurrency.remove_override(driver, "default")
        else:
            await concurrency.set_override(driver, "default", limits)

        async def heard() -> bool:
            rows = await self.history.rows(
                "select concurrency from riverui_producer where client_id = any(%s)",
                [client.id for client in self._working],
            )
            stored = [ConcurrencyConfig.read(row["concurrency"]) for row in rows]
            return stored == [limits] * len(self._working)

        await self.history.until(heard)
        # Each client counts what it has at work by the new limits when it next fetches: what ran
        # until then, and what began beside it, is not held to them.
        for _ in range(2):
            await self._next_generation()
        self.limits = [limits]

    async def replace(self) -> None:
        """Start another client, and stop the one that has been at work for longest."""
        await self.history.start(**self.settings())
        await self._working.pop(0).stop()
        self._working.append(self.history.client)

    async def start(self) -> None:
        """Start two clients with limits."""
        for _ in range(2):
            await self.history.start(**self.settings())
            self._working.append(self.history.client)

    def settings(self) -> dict[str, Any]:
        """Return those of the next client."""
        self._clients += 1
        queue = QueueConfig(max_workers=8, concurrency=CONFIGURED)
        return {
            "heartbeat_interval": timedelta(seconds=1),
            "id": f"client {self._clients}",
            "limits": QUICK,
            "queues": {"default": queue},
        }

    async def _next_generation(self) -> None:
        """Wait until all that is at work now has ended; jobs whose fetch was answered on a cut
        connection are given back by the heartbeat of their client.
        """
        running = "select id, attempt from river_job where state = 'running'"
        before = {(row["id"], row["attempt"]) for row in await self.history.rows(running)}

        async def over() -> bool:
            now = {(row["id"], row["attempt"]) for row in await self.history.rows(running)}
            return not before & now

        await self.history.until(over)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", SEEDS)
async def test_never_above_a_limit_and_none_stuck(
    connection: AsyncConnection[DictRow], database_url: str, seed: int
) -> None:
    history = await History.begun(connection, database_url, seed)
    gauge = Gauge(history)
    await gauge.start()
    await history.play(
        [(1, gauge.insert)],
        [(1, gauge.insert), (1, history.meddle), (1, history.lead)],
        [(6, gauge.override), (1, gauge.replace), (1, history.cut)],
        rounds=14,
    )
    await history.relieve(**gauge.settings())
    await history.quiet()
    assert gauge.wrong == []
    assert gauge.began > 40
    assert gauge.fullest > 2

    async def given_back() -> bool:
        return not await history.rows("select from riverui_limit where taken > 0")

    await history.until(given_back)
    await history.close()
