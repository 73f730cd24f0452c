"""In a backlog of short jobs more are fetched than there are slots, and wait for a slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.config import NO_LIMIT, QueueConfig
from riverui.engine.notifier import CONTROL
from riverui.engine.work import slot_ledger
from riverui.engine.work.slot_ledger import SlotLedger
from riverui.engine.work.worker import Job, Worker
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.connect import connect
from tests.engine.conftest import Playground, Task
from tests.engine.test_producer import producer

SLOTS = 4
"""Of the client: few, so that its jobs often wait for them."""


class Mixed(Worker[Task]):
    """Jobs of five milliseconds, and others that end when they are let go."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.let_go = asyncio.Event()
        self.long = 0
        """Long jobs that run."""
        self.most = 0
        """Most jobs that ever ran at once."""
        self.running = 0

    def timeout(self, job: Job[Task]) -> timedelta | None:
        return NO_LIMIT if job.args.value == "long" else None

    async def work(self, job: Job[Task]) -> None:
        self.begun[job.id] += 1
        self.running += 1
        self.long += job.args.value == "long"
        self.most = max(self.most, self.running)
        try:
            if job.args.value == "long":
                await self.let_go.wait()
            else:
                await asyncio.sleep(float(job.args.value or 0.005))
        finally:
            self.running -= 1
            self.long -= job.args.value == "long"


class Backlog:
    """A client with default settings and four slots, and jobs for it."""

    def __init__(self, play: Playground) -> None:
        self.fetches = 0
        self.play = play
        self.worker = Mixed()
        play.worker(self.worker)

    @property
    def slots(self) -> SlotLedger:
        return producer(self.play).slots

    @property
    def waiting(self) -> Sequence[int]:
        """The jobs that wait for a slot."""
        return [job_id for job_id, attempt in self.slots.attempts.items() if not attempt.working]

    async def start(self, jobs: int, value: str = "", **settings: Any) -> None:
        await self.insert(jobs, value, priority=2)
        driver = connect(self.play.database_url, watch=lambda name, *_: self._saw(name))
        queue = QueueConfig(max_workers=SLOTS)
        given = {"fetch_cooldown": None, "queues": {"default": queue}}
        await self.play.start(database=driver, **(given | settings))

    async def insert(self, jobs: int, value: str, priority: int) -> None:
        await self.play.rows(
            "insert into river_job (kind, args, max_attempts, priority)"
            " select 'task', jsonb_build_object('value', %s::text), 25, %s"
            " from generate_series(1, %s) returning 1",
            value,
            priority,
            jobs,
        )

    async def behind_long_ones(self) -> None:
        """Return when all slots have long jobs, and others wait behind them."""
        while True:
            await self.play.until(lambda: bool(self.waiting))
            await self.insert(SLOTS, "long", priority=1)
            await self.play.until(lambda: self.worker.long == SLOTS and not self.slots.expecting)
            if self.waiting:
                return
            self.worker.let_go.set()
            await self.play.until(lambda: not self.worker.long)
            self.worker.let_go.clear()

    async def counts(self) -> dict[tuple[str, int], int]:
        """Return how many jobs are in each state, by attempt."""
        rows = await self.play.rows(
            "select state, attempt, count(*) as jobs from river_job group by state, attempt"
        )
        return {(row["state"], row["attempt"]): row["jobs"] for row in rows}

    def _saw(self, statement: str) -> None:
        self.fetches += statement == "job_get_available"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs wait for slots as long as it takes."""
    monkeypatch.setattr(slot_ledger, "_LONGEST_WAIT", 60.0)


async def test_short_jobs_wait_for_slots_and_never_run_without(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(1_000)
    await play.until(lambda: bool(backlog.waiting) and not backlog.slots.beginning)
    assert backlog.slots.usage == (SLOTS, SLOTS)
    assert play.client.running_by_queue == {"default": SLOTS}
    await play.until(lambda: len(backlog.worker.begun) == 1_000 and not backlog.slots.running)
    assert backlog.worker.most == SLOTS
    assert set(backlog.worker.begun.values()) == {1}
    assert backlog.fetches <= 500, "each fetches several jobs"
    await play.client.stop()
    assert await backlog.counts() == {("completed", 1): 1_000}


@pytest.mark.parametrize(
    "settings",
    [
        {"fetch_cooldown": timedelta(milliseconds=1)},
        {
            "queues": {
                "default": QueueConfig(
                    max_workers=SLOTS,
                    rate_limit=RateLimit(limit=100_000, per=timedelta(seconds=1)),
                )
            }
        },
    ],
    ids=["cooldown", "limit"],
)
async def test_nothing_waits_with_a_cooldown_or_a_limit(
    play: Playground, own_tables: None, settings: dict[str, Any]
) -> None:
    backlog = Backlog(play)
    await backlog.start(400, **settings)
    waited = 0

    def done() -> bool:
        nonlocal waited
        waited += backlog.slots.free < 0
        return len(backlog.worker.begun) == 400

    await play.until(done)
    assert waited == 0


async def test_longer_jobs_are_fetched_into_free_slots_only(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(40, "0.05")
    least = SLOTS

    def done() -> bool:
        nonlocal least
        least = min(least, backlog.slots.free)
        return len(backlog.worker.begun) == 40

    await play.until(done)
    assert least >= 0


async def test_jobs_that_wait_behind_long_ones_are_left_to_other_clients(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000)
    await backlog.behind_long_ones()
    waiting = backlog.waiting
    rows = "select id, state, attempt, errors, scheduled_at from river_job where id = any(%s)"
    rows += " order by id"
    before = await play.rows(rows, list(waiting))
    assert {(await play.event(job_id)).kind for job_id in waiting} == {"job_interrupted"}
    given_back = {"state": "available", "attempt": 0}
    assert await play.rows(rows, list(waiting)) == [row | given_back for row in before]
    assert not any(backlog.worker.begun[job_id] for job_id in waiting)
    assert backlog.slots.free == 0, "no more are fetched"
    first = play.client
    await play.start(id="another")
    total = sum((await backlog.counts()).values())
    await play.until(lambda: len(backlog.worker.begun) == total)
    assert backlog.worker.long == SLOTS
    backlog.worker.let_go.set()
    await first.stop()
    await play.client.stop()
    assert await backlog.counts() == {("completed", 1): total}
    assert set(backlog.worker.begun.values()) == {1}


async def test_a_job_that_waits_can_be_cancelled(play: Playground, patient: None) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000)
    await backlog.behind_long_ones()
    job_id = backlog.waiting[-1]
    # A notification by way of the database might come a moment too late.
    message = {"action": "cancel", "queue": "default", "job_id": job_id}
    producer(play)._on_control(message)  # noqa: SLF001
    backlog.worker.let_go.set()
    assert (await play.event(job_id)).kind == "job_cancelled"
    assert (await play.row(job_id))["state"] == "cancelled"
    assert job_id not in backlog.worker.begun


async def test_time_limits_count_from_the_start(play: Playground, patient: None) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000, job_timeout=timedelta(seconds=0.5))
    await backlog.behind_long_ones()
    waiting = backlog.waiting
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.6
    await play.until(lambda: loop.time() > until)
    backlog.worker.let_go.set()
    assert {(await play.event(job_id)).kind for job_id in waiting} == {"job_completed"}


async def test_a_client_that_stops_works_the_jobs_that_wait(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000)
    await play.until(lambda: bool(backlog.waiting))
    waiting = backlog.waiting
    await play.client.stop()
    assert all(backlog.worker.begun[job_id] for job_id in waiting)
    worked = len(backlog.worker.begun)
    counts = {("completed", 1): worked, ("available", 0): 2_000 - worked}
    assert await backlog.counts() == counts


async def test_a_queue_that_is_paused_leaves_none_waiting(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000)
    await play.until(lambda: bool(backlog.waiting))
    await play.notify(CONTROL, '{"action": "pause", "queue": "default"}')
    await play.until(lambda: producer(play).paused and not backlog.slots.running)
    worked = len(backlog.worker.begun)
    assert not backlog.slots.expecting
    assert worked < 2_000
    await play.client.stop()
    assert await backlog.counts() == {("completed", 1): worked, ("available", 0): 2_000 - worked}


async def test_a_client_that_cancels_its_jobs_gives_back_those_that_wait(play: Playground) -> None:
    backlog = Backlog(play)
    await backlog.start(2_000)
    await backlog.behind_long_ones()
    waiting = backlog.waiting
    await play.client.stop_and_cancel()
    assert not any(backlog.worker.begun[job_id] for job_id in waiting)
    assert {state for state, _ in await backlog.counts()} == {"available", "completed"}
    rows = await play.rows("select attempt from river_job where state = 'available'")
    assert {row["attempt"] for row in rows} == {0}
