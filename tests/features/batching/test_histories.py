"""Batches in random histories: each attempt is in one batch and ends once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.work.worker import BatchError, Job, JobCancel, JobSnooze
from tests.features.histories import QUICK, SEEDS, Deed, History

FULL = 7
"""Jobs in one batch at most."""


class Bulk:
    """Works batches, and checks that no attempt is in two of them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.seen: Counter[tuple[int, int, int]] = Counter()
        """In how many batches an attempt was, by job, attempt and snoozes before it."""
        self.sizes: Counter[int] = Counter()
        self.wrong: list[str] = []
        history.workers.work_many(
            Deed,
            by_args=["key"],
            max_count=FULL,
            max_delay=timedelta(milliseconds=60),
            poll_interval=timedelta(milliseconds=15),
        )(self._work)

    async def insert(self) -> None:
        """Insert some jobs."""
        history, random = self.history, self.history.random
        client = random.choice(history.clients)
        results = await client.insert_many(
            [
                InsertManyParams(
                    history.deed(f"key {random.randrange(3)}"),
                    InsertOpts(max_attempts=random.randint(1, 3)),
                )
                for _ in range(random.randint(1, 8))
            ]
        )
        history.ids += [result.job.id for result in results]

    async def _work(self, jobs: Sequence[Job[Deed]]) -> None:
        self.sizes[len(jobs)] += 1
        if len({job.args.key for job in jobs}) > 1 or len(jobs) > FULL:
            self.wrong.append(f"no batch: {[(job.id, job.args.key) for job in jobs]}")
        for job in jobs:
            self.seen[_attempt(job)] += 1
        await asyncio.sleep(self.history.random.random() * 0.01)
        ends = {job.id: _end(job) for job in jobs}
        if all(end == "fail" for end in ends.values()):
            raise ArithmeticError("as planned, for all")
        errors: dict[int, Exception] = {
            job_id: _ERRORS[end] for job_id, end in ends.items() if end != "well"
        }
        if errors:
            raise BatchError(errors)


_ERRORS: dict[str, Exception] = {
    "cancel": JobCancel("as planned"),
    "fail": ArithmeticError("as planned"),
    "snooze": JobSnooze(timedelta(0)),
}


def _attempt(job: Job[Any]) -> tuple[int, int, int]:
    return job.id, job.attempt, job.metadata_dict.get("snoozes", 0)


def _end(job: Job[Deed]) -> str:
    _, attempt, snoozes = _attempt(job)
    at = attempt - 1 + snoozes
    return job.args.ends[at] if at < len(job.args.ends) else "well"


def _expected(deed: Deed, max_attempts: int) -> tuple[str, int]:
    """Return how an undisturbed job ends, and in how many batches it is."""
    attempt = 1
    for number, end in enumerate([*deed.ends, "well"], 1):
        if end == "well":
            return "completed", number
        if end == "cancel":
            return "cancelled", number
        if end == "fail":
            if attempt == max_attempts:
                return "discarded", number
            attempt += 1
    raise AssertionError


@pytest.mark.scaled
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_attempt_is_in_one_batch_and_each_job_ends_as_it_should(
    connection: AsyncConnection[DictRow], database_url: str, seed: int
) -> None:
    history = await History.begun(connection, database_url, seed)
    bulk = Bulk(history)
    for number in range(2):
        await history.start(id=f"client {number}", limits=QUICK)
    people = [(4, history.meddle), (2, history.lead)]
    faults = [
        (4, history.crash), (2, history.bury), (2, history.haunt), (2, history.lead),
        (1, history.cut),
    ]  # fmt: skip
    await history.play([(1, bulk.insert)], people, faults, rounds=40)
    await history.relieve()
    await history.quiet()
    assert bulk.wrong == []
    assert max(bulk.seen.values()) == 1, "no attempt is in two batches"
    assert max(bulk.sizes) > 1
    times = Counter(job_id for job_id, _, _ in bulk.seen)
    rows = {row["id"]: row for row in await history.rows("select * from river_job")}
    assert rows.keys() | history.deleted >= set(history.ids)
    alone = [row for job_id, row in rows.items() if job_id not in history.meddled]
    assert len(alone) > 20
    for row in alone:
        found = row["state"], times[row["id"]]
        assert found == _expected(Deed(**row["args"]), row["max_attempts"]), row
    await history.close()
