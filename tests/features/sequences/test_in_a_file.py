"""Sequences in a SQLite file that two clients work at once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import riverui
from riverui.features.sequences.engine.opts import SequenceOpts
from tests.features.both import file

__all__ = ["file"]

KEYS, JOBS = 6, 60
"""Few enough that many wait for one another, for some seconds."""


@dataclass
class Step:
    """One job of a sequence."""

    kind: ClassVar[str] = "step"
    key: str
    number: int
    fails: bool


async def test_jobs_of_a_key_run_one_at_a_time_and_in_order(file: Path) -> None:
    dice, workers = random.Random(7), riverui.Workers()
    began: dict[str, list[int]] = {}
    at_work: set[str] = set()
    done, wrong = asyncio.Semaphore(0), list[str]()

    @workers.work(Step)
    async def work(job: riverui.Job[Step]) -> None:
        key = job.args.key
        if key in at_work:
            wrong.append(f"{job.id} began while another was at work")
        at_work.add(key)
        began.setdefault(key, []).append(job.args.number)
        await asyncio.sleep(dice.random() * 0.004)
        at_work.remove(key)
        done.release()
        if job.args.fails:
            raise riverui.JobCancel("no more")

    config = riverui.ClientConfig(
        queues={"default": riverui.QueueConfig(max_workers=8)}, workers=workers
    )
    clients = [riverui.Client(f"sqlite:///{file}", config) for _ in range(2)]
    opts = riverui.InsertOpts(
        sequence=SequenceOpts(by_args=["key"], exclude_kind=True, continue_on_cancelled=True)
    )
    for client in clients:
        await client.start()
    number = 0
    while number < JOBS:
        some = []
        for _ in range(dice.randint(1, 6)):
            step = Step(key=f"k{dice.randrange(KEYS)}", number=number, fails=dice.random() < 0.2)
            some.append(riverui.InsertManyParams(step, opts))
            number += 1
        await dice.choice(clients).insert_many(some)
    async with asyncio.timeout(60):
        for _ in range(number):
            await done.acquire()
    for client in clients:
        await client.stop()
    assert wrong == []
    assert sum(map(len, began.values())) == number
    assert [numbers for numbers in began.values() if numbers != sorted(numbers)] == []
