"""Sequences in random histories: never two of a key at once, in order, no job stuck."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.engine.work.worker import Job
from riverui.features.sequences.engine.opts import SequenceOpts
from tests.features.histories import SEEDS, Deed, History, Passing

KEYS = 4
"""Sequences of a history: few, so that jobs wait for one another."""


class Lines:
    """Jobs in few sequences, each of which looks, as it begins, at those ahead of it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.began: list[int] = []
        self.wrong: list[str] = []
        self._at_work: dict[str, int] = {}
        self._calls = 0
        self._called: dict[int, int] = {}
        """When the insert of a job was begun, and …"""
        self._returned: dict[int, int] = {}
        """… when it was known to be there, as numbers of one row."""
        history.workers.work(Deed)(self._work)
        history.workers.work(Passing)(self._work)

    async def insert(self) -> None:
        """Insert some jobs, by themselves or in a transaction that takes its time."""
        history, random = self.history, self.history.random
        some = sorted(
            (self._made_up() for _ in range(random.randint(1, 5))), key=lambda job: str(job.args)
        )
        called = self._next()
        client = random.choice(history.clients)
        if random.random() < 0.3:
            async with await AsyncConnection.connect(history.database_url) as connection:
                results = await client.insert_many_tx(connection, some)
                await asyncio.sleep(random.random() * 0.01)
                if random.random() < 0.2:
                    await connection.rollback()
                    return
        else:
            results = await client.insert_many(some)
        returned = self._next()
        for result in results:
            self._called[result.job.id] = called
            self._returned[result.job.id] = returned
            history.ids.append(result.job.id)

    def _made_up(self) -> InsertManyParams:
        random = self.history.random
        opts = SequenceOpts(
            by_args=["key"],
            exclude_kind=True,
            continue_on_cancelled=random.random() < 0.5,
            continue_on_discarded=random.random() < 0.5,
        )
        args = self.history.deed(
            f"key {random.randrange(KEYS)}", Passing if random.random() < 0.2 else Deed
        )
        return InsertManyParams(args, InsertOpts(sequence=opts, max_attempts=random.randint(1, 3)))

    def _next(self) -> int:
        self._calls += 1
        return self._calls

    async def _work(self, job: Job[Any]) -> None:
        key = job.args.key
        if key in self._at_work:
            self.wrong.append(f"{job.id} began while {self._at_work[key]} was at work")
        self._at_work[key] = job.id
        self.began.append(job.id)
        try:
            await self._look(job)
            await self.history.act(job)
        finally:
            del self._at_work[key]

    async def _look(self, job: Job[Any]) -> None:
        """Look at the other jobs of the key."""
        others = await self.history.rows(
            "select id, state::text from river_job where finalized_at is null"
            " and metadata ->> 'seq_key' = %s and id <> %s and (id < %s or state = 'running')",
            job.metadata_dict["seq_key"], job.id, job.id,
        )  # fmt: skip
        for other in others:
            first, second = self._returned.get(other["id"]), self._called.get(job.id)
            ahead = other["id"] < job.id and (
                first is not None and (second is None or first < second)
            )
            if other["state"] == "running" or (ahead and other["id"] not in self.history.retried):
                self.wrong.append(f"{job.id} began before {other['id']}, {other['state']}")


@pytest.mark.scaled
@pytest.mark.parametrize("seed", SEEDS)
async def test_never_two_at_once_always_in_order_and_none_stuck(
    connection: AsyncConnection[DictRow], database_url: str, seed: int
) -> None:
    history = await History.begun(connection, database_url, seed)
    lines = Lines(history)
    for number in range(2):
        await history.start(id=f"client {number}")
    people = [(6, history.meddle), (3, history.lead)]
    faults = [(4, history.crash), (2, history.bury), (2, history.haunt), (2, history.lead)]
    await history.play([(1, lines.insert)], [(1, lines.insert)], people, faults, rounds=28)

    mended: Counter[int] = Counter()

    async def mend() -> None:
        """Retry or remove what holds others up; nothing else may."""
        halting = await history.rows(
            "select j.id, j.state::text, j.metadata -> 'riverui:sequence' as options"
            " from riverui_sequence s join river_job j on j.id = s.head_id"
            " where s.halted_at is not null"
        )
        for row in halting:
            assert row["state"] in ("cancelled", "discarded")
            assert not row["options"].get(f"continue_on_{row['state']}")
            history.ids = [row["id"]]
            await history.meddle(verb=DELETE if mended[row["id"]] else RETRY)
            mended[row["id"]] += 1

    await history.quiet(also=mend)
    assert lines.wrong == []
    assert len(lines.began) > 50
    await history.lead()
    assert await history.count("riverui_sequence_job") == 0
    await history.close()
