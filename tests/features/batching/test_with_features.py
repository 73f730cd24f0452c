"""Batches together with features that affect which jobs are fetched and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from riverui import ConcurrencyConfig, PartitionConfig
from riverui.engine.config import QueueConfig
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from tests.engine.conftest import Playground
from tests.own_tables import OWN_TABLES


@dataclass
class Row:
    """Something that is written by the hundred."""

    kind: ClassVar[str] = "row"
    number: int = 0


class Bulk:
    """Works batches, and counts how many there are at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.most = 0
        self.numbers: list[int] = []
        self._now = 0

    def workers(self) -> Workers:
        """Return workers of their own for another client."""
        workers = Workers()
        workers.work_many(
            Row, max_count=10, max_delay=timedelta(seconds=1), poll_interval=timedelta(seconds=0.05)
        )(self._work)
        return workers

    async def _work(self, jobs: Sequence[Job[Row]]) -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.005)
        self._now -= 1
        self.sizes.append(len(jobs))
        self.numbers += [job.args.number for job in jobs]


async def test_a_limit_of_one_by_kind_makes_one_full_batch_at_a_time(play: Playground) -> None:
    """River's advice against batches that overlap: a batch counts as the job that leads it."""
    await play.connection.execute(OWN_TABLES)
    bulk = Bulk()
    limit = ConcurrencyConfig(global_limit=1, partition=PartitionConfig(by_kind=True))
    queues = {"default": QueueConfig(max_workers=5, concurrency=limit)}
    play.workers = bulk.workers()
    await play.make().insert_many([Row(number) for number in range(60)])
    for number in range(2):
        play.workers = bulk.workers()
        await play.start(queues=queues, id=f"c{number}")
    await play.until(lambda: len(bulk.numbers) >= 60)
    assert sorted(bulk.numbers) == list(range(60))
    assert bulk.most == 1
    assert bulk.sizes == [10] * 6


async def test_tasks_of_a_workflow_are_worked_in_batches(play: Playground) -> None:
    await play.connection.execute(OWN_TABLES)
    bulk = Bulk()
    play.workers = bulk.workers()
    client = await play.start(queues={"default": QueueConfig(max_workers=1)})
    workflow = client.workflows.new(name="bulk")
    first = [workflow.add(f"first {number}", Row(number)) for number in range(10)]
    for number in range(10, 20):
        workflow.add(f"then {number}", Row(number), deps=first)
    await workflow.insert()
    await play.until(lambda: len(bulk.numbers) >= 20)
    assert sorted(bulk.numbers[:10]) == list(range(10)), "none before its dependencies"
    assert sorted(bulk.numbers) == list(range(20))
    assert bulk.sizes == [10, 10]
