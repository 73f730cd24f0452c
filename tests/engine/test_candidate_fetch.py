"""Fetches in which features choose among the waiting jobs, in turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.domain.partitions import WHOLE, Partition
from riverui.domain.queues import QueueRow
from riverui.engine.config import QueueConfig
from riverui.engine.pilot import Feature
from riverui.engine.work.candidate_fetch import Chooser
from riverui.engine.work.producer import Producer
from riverui.engine.work.worker import Job
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.stores.candidates import Candidate, CandidateStore
from tests.engine.conftest import Playground, Task

BY_VALUE = Partition(by_args=("value",))


class AtMost(Chooser):
    """Lets so many jobs of each key that it hears of run at once."""

    active = True

    def __init__(self, most: int, partition: Partition) -> None:
        self.most = most
        self.partition = partition
        self.blind = partition.whole
        self.taken: Counter[str] = Counter()
        self.keys: dict[tuple[int, int], str] = {}
        self.started: list[str] = []
        self.stopped = 0
        self.told_lost: set[int] = set()

    @property
    def full(self) -> Collection[str]:
        return [key for key, taken in self.taken.items() if taken >= self.most]

    async def start(self, row: QueueRow) -> None:
        self.started.append(row.name)

    async def stop(self) -> None:
        self.stopped += 1

    async def choose(self, candidates: Sequence[Candidate], room: int) -> Sequence[Candidate]:
        chosen: list[Candidate] = []
        for candidate in candidates:
            key = candidate.keys[self.partition]
            if len(chosen) < room and self.taken[key] < self.most:
                self.taken[key] += 1
                chosen.append(candidate)
        return chosen

    def give_back(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            self.taken[candidate.keys[self.partition]] -= 1

    def lost(self, candidates: Sequence[Candidate]) -> None:
        self.told_lost |= {candidate.id for candidate in candidates}

    def begun(self, candidate: Candidate, row: JobRow) -> None:
        self.keys[row.id, row.attempt] = candidate.keys[self.partition]

    def ended(self, row: JobRow) -> None:
        if (key := self.keys.pop((row.id, row.attempt), None)) is not None:
            self.taken[key] -= 1


class Limiting(Feature):
    """Has one chooser."""

    def __init__(self, most: int, partition: Partition) -> None:
        self.made = AtMost(most, partition)

    def chooser(self, work: Producer) -> Chooser | None:
        return self.made if work.name == "default" else None


class LimitingAgain(Limiting):
    """Has another chooser."""


class Transacting(Feature):
    """Takes part in fetches, which has them run in transactions."""

    fail = False

    async def get_available(self, executor: Executor, params: JobFetchParams, do_inner: Any) -> Any:
        rows = await do_inner(params)
        if self.fail and rows:
            self.fail = False
            raise RuntimeError("the transaction is undone")
        return rows


class Watched:
    """Jobs that count how many of each value run at once."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_together = 0

    async def work(self, job: Job[Task]) -> None:
        self.running[job.args.value] += 1
        self.most[job.args.value] = max(self.most[job.args.value], self.running[job.args.value])
        self.most_together = max(self.most_together, self.running.total())
        await asyncio.sleep(0.002)
        self.running[job.args.value] -= 1


async def _work_all(play: Playground, *features: Feature) -> Watched:
    watched = Watched()
    play.worker(watched.work)
    jobs = [await play.insert(Task(value=value)) for value in "aaaaaaaaaabbbbbc"]
    await play.start(features=features)
    for job_id in jobs:
        assert (await play.event(job_id)).kind == "job_completed"
    return watched


async def test_candidates_are_chosen_by_key(play: Playground) -> None:
    limiting = Limiting(2, BY_VALUE)
    watched = await _work_all(play, limiting)
    assert dict(watched.most) == {"a": 2, "b": 2, "c": 1}
    await play.until(lambda: limiting.made.taken.total() == 0)
    assert limiting.made.started == ["default"]
    await play.client.stop()
    assert limiting.made.stopped == 1


async def test_a_blind_chooser_only_chooses_how_many(play: Playground) -> None:
    limiting = Limiting(3, WHOLE)
    watched = await _work_all(play, limiting)
    assert watched.most_together == 3
    await play.until(lambda: limiting.made.taken.total() == 0)


async def test_choosers_choose_one_after_the_other(play: Playground) -> None:
    first, second = Limiting(2, BY_VALUE), LimitingAgain(3, WHOLE)
    watched = await _work_all(play, first, second)
    assert max(watched.most.values()) == 2
    assert watched.most_together == 3
    await play.until(lambda: first.made.taken.total() == second.made.taken.total() == 0)


async def test_a_chooser_within_a_transaction(play: Playground) -> None:
    transacting, limiting = Transacting(), Limiting(2, BY_VALUE)
    transacting.fail = True
    watched = await _work_all(play, transacting, limiting)
    assert max(watched.most.values()) == 2
    assert not transacting.fail
    await play.until(lambda: limiting.made.taken.total() == 0)


async def test_jobs_behind_those_of_a_full_key(play: Playground) -> None:
    """They are found by the partition's index, however many precede them."""
    limiting = Limiting(1, BY_VALUE)
    await play.rows(
        "insert into river_job (kind, args, max_attempts, priority) select 'task', '{\"value\":"
        ' "full"}\', 1, 1 from generate_series(1, 10100) returning null'
    )
    limiting.made.taken['{"value": "full"}'] = 1
    behind = [await play.insert(Task(value=value), priority=4) for value in "xyx"]
    async with play.make().driver.autocommit() as executor:
        await CandidateStore(executor).partition_index_create(BY_VALUE)
    await play.start(features=[limiting], queues={"default": QueueConfig(max_workers=3)})
    for job_id in behind:
        await play.event(job_id)


async def test_an_inactive_chooser_has_no_say(play: Playground) -> None:
    limiting = Limiting(0, BY_VALUE)
    limiting.made.active = False
    await play.work()
    assert limiting.made.taken.total() == 0


async def test_choosers_hear_of_jobs_that_another_client_takes(play: Playground) -> None:
    limiting = Limiting(2, BY_VALUE)
    watched = Watched()
    play.worker(watched.work)
    jobs = [await play.insert(Task(value=value)) for value in "abc"]
    async with play.make().driver.transaction() as other:
        assert await CandidateStore(other).job_claim(
            JobFetchParams("other", "default", 1), jobs[:1]
        )
        await play.start(features=[limiting])
        for job_id in jobs[1:]:
            await play.event(job_id)
    assert limiting.made.told_lost == {jobs[0]}
    await play.until(lambda: limiting.made.taken.total() == 0)
