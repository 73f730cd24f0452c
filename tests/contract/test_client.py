"""A client on each kind of database: one test body for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

import riverui
from riverui import (
    Client,
    ClientConfig,
    InsertOpts,
    Job,
    JobCancel,
    JobListOrder,
    JobListParams,
    JobRow,
    JobSnooze,
    JobState,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    UniqueOpts,
    Worker,
    Workers,
)
from riverui.storage.interface import WorkingDriver
from tests.contract.seeds import job, row_of, running
from tests.engine.conftest import until

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@dataclass
class Do:
    """Args that name what the worker does."""

    kind: ClassVar[str] = "do"
    what: str = "well"


@dataclass
class Tick:
    """A periodic job."""

    kind: ClassVar[str] = "tick"


class Doer(Worker[Do]):
    """Does what the args name, and records it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.stopped = asyncio.Event()

    async def work(self, job: Job[Do]) -> None:
        self.done.append(job.args.what)
        match job.args.what:
            case "fail":
                raise ValueError("no luck")
            case "fail once" if job.attempt == 1:
                raise ValueError("no luck")
            case "snooze":
                raise JobSnooze(HOUR)
            case "cancel":
                raise JobCancel("not wanted")
            case "record":
                riverui.record_output({"rows": 3})
            case "hang":
                try:
                    await asyncio.Event().wait()
                finally:
                    self.stopped.set()

    def next_retry(self, job: Job[Do]) -> datetime | None:
        assert job.attempted_at is not None
        return job.attempted_at if job.args.what == "fail once" else job.attempted_at + HOUR


class Ticker(Worker[Tick]):
    """Does nothing."""

    async def work(self, job: Job[Tick]) -> None:
        return None


@dataclass
class Workshop:
    """A database, and clients on it that are stopped when the test ends."""

    driver: WorkingDriver
    doer: Doer
    workers: Workers
    clients: list[Client]

    def client(self, **settings: Any) -> Client:
        """Return a client quick to fetch, one job at a time."""
        given: dict[str, Any] = {
            "fetch_cooldown": timedelta(milliseconds=1),
            "fetch_poll_interval": timedelta(milliseconds=20),
            "queues": {"default": QueueConfig(max_workers=1)},
            "workers": self.workers,
        }
        self.clients.append(Client(self.driver, ClientConfig(**(given | settings))))
        return self.clients[-1]

    async def state(self, job_id: int, wanted: JobState) -> JobRow:
        """Wait until a job is in that state; return it."""

        async def reached() -> bool:
            return (await row_of(self.driver, job_id)).state is wanted

        await until(reached)
        return await row_of(self.driver, job_id)

    async def ends(self, what: str, state: JobState, opts: InsertOpts | None = None) -> JobRow:
        """Insert a job, have it worked, and return it once it is in that state."""
        client = self.client(leader_election_disabled=True)
        inserted = await client.insert(Do(what), opts)
        async with client:
            return await self.state(inserted.job.id, state)


@pytest.fixture
async def shop(driver: WorkingDriver) -> AsyncIterator[Workshop]:
    """Lend a workshop."""
    workers, doer = Workers(), Doer()
    workers.add(doer)
    workers.add(Ticker())
    made = Workshop(driver, doer, workers, [])
    yield made
    for client in made.clients:
        await client.stop_and_cancel()


async def test_a_job_is_worked_and_completed(shop: Workshop) -> None:
    row = await shop.ends("record", JobState.COMPLETED)
    assert (row.attempt, row.errors, row.output) == (1, (), {"rows": 3})
    assert row.attempted_at is not None
    assert row.finalized_at is not None
    assert row.attempted_by == (shop.clients[0].id,)


async def test_an_error_leads_to_another_attempt(shop: Workshop) -> None:
    row = await shop.ends("fail", JobState.RETRYABLE)
    assert row.attempted_at is not None
    assert row.scheduled_at == row.attempted_at + HOUR
    assert (row.attempt, row.finalized_at) == (1, None)
    assert [(error.attempt, error.error) for error in row.errors] == [(1, "ValueError: no luck")]
    assert "no luck" in row.errors[0].trace


async def test_the_last_error_discards_the_job(shop: Workshop) -> None:
    row = await shop.ends("fail", JobState.DISCARDED, InsertOpts(max_attempts=1))
    assert row.finalized_at is not None
    assert len(row.errors) == 1


async def test_the_second_attempt_may_go_well(shop: Workshop) -> None:
    row = await shop.ends("fail once", JobState.COMPLETED)
    assert (row.attempt, len(row.errors)) == (2, 1)
    assert shop.doer.done == ["fail once", "fail once"]


async def test_a_snoozed_job_gets_its_attempt_back(shop: Workshop) -> None:
    row = await shop.ends("snooze", JobState.SCHEDULED)
    assert (row.attempt, row.errors, row.metadata_dict["snoozes"]) == (0, (), 1)
    assert row.scheduled_at > datetime.now(UTC) + HOUR / 2


async def test_a_job_may_cancel_itself(shop: Workshop) -> None:
    row = await shop.ends("cancel", JobState.CANCELLED)
    assert row.finalized_at is not None
    assert len(row.errors) == 1


async def test_a_waiting_job_is_cancelled_at_once(shop: Workshop) -> None:
    client = shop.client()
    inserted = await client.insert(Do())
    row = await client.job_cancel(inserted.job.id)
    assert row.state is JobState.CANCELLED
    assert "cancel_attempted_at" in row.metadata_dict
    row = await client.job_retry(inserted.job.id)
    assert (row.state, row.finalized_at) == (JobState.AVAILABLE, None)
    assert "cancel_attempted_at" not in row.metadata_dict


async def test_a_running_job_is_asked_to_stop(shop: Workshop) -> None:
    client = shop.client(leader_election_disabled=True)
    inserted = await client.insert(Do("hang"))
    async with client:
        await until(lambda: shop.doer.done == ["hang"])
        assert (await client.job_cancel(inserted.job.id)).state is JobState.RUNNING
        row = await shop.state(inserted.job.id, JobState.CANCELLED)
    assert shop.doer.stopped.is_set()
    assert row.finalized_at is not None


async def test_a_unique_job_is_inserted_once_until_it_is_done(shop: Workshop) -> None:
    waiting = UniqueOpts(
        by_args=True,
        by_state=[
            JobState.AVAILABLE,
            JobState.PENDING,
            JobState.RUNNING,
            JobState.RETRYABLE,
            JobState.SCHEDULED,
        ],
    )
    opts = InsertOpts(unique_opts=waiting)
    client = shop.client(leader_election_disabled=True)
    first = await client.insert(Do("well"), opts)
    again = await client.insert(Do("well"), opts)
    other = await client.insert(Do("record"), opts)
    assert [each.unique_skipped_as_duplicate for each in (first, again, other)] == [
        False,
        True,
        False,
    ]
    assert again.job.id == first.job.id
    async with client:
        await shop.state(first.job.id, JobState.COMPLETED)
    assert not (await client.insert(Do("well"), opts)).unique_skipped_as_duplicate


async def test_a_scheduled_job_has_its_time(shop: Workshop) -> None:
    client = shop.client()
    later = InsertOpts(scheduled_at=client.clock() + SECOND / 5)
    inserted = await client.insert(Do(), later)
    far = await client.insert(Do(), InsertOpts(scheduled_at=client.clock() + HOUR))
    assert inserted.job.state is JobState.SCHEDULED
    async with client:
        row = await shop.state(inserted.job.id, JobState.COMPLETED)
    assert row.attempted_at is not None
    assert row.attempted_at >= row.scheduled_at
    assert (await row_of(shop.driver, far.job.id)).state is JobState.SCHEDULED


async def test_the_lowest_priority_number_goes_first(shop: Workshop) -> None:
    client = shop.client(leader_election_disabled=True)
    for priority in (4, 1, 3, 2):
        last = await client.insert(Do(str(priority)), InsertOpts(priority=priority))
    async with client:

        async def all_done() -> bool:
            return len(shop.doer.done) == 4

        await until(all_done)
        await shop.state(last.job.id, JobState.COMPLETED)
    assert shop.doer.done == ["1", "2", "3", "4"]


async def test_a_paused_queue_waits(shop: Workshop) -> None:
    queues = {"default": QueueConfig(max_workers=1), "other": QueueConfig(max_workers=1)}
    client = shop.client(leader_election_disabled=True, queues=queues)
    async with shop.driver.transaction() as transaction:
        await transaction.queues.upsert("default")
    await client.queue_pause("default")
    held = await client.insert(Do())
    async with client:
        free = await client.insert(Do(), InsertOpts(queue="other"))
        await shop.state(free.job.id, JobState.COMPLETED)
        assert (await row_of(shop.driver, held.job.id)).state is JobState.AVAILABLE
        await client.queue_resume("default")
        await shop.state(held.job.id, JobState.COMPLETED)
    queue = await client.queue_get("default")
    assert queue.paused_at is None


async def test_the_leader_inserts_periodic_jobs(shop: Workshop) -> None:
    periodic = PeriodicJob(PeriodicInterval(HOUR), Tick, run_on_start=True)
    client = shop.client(periodic_jobs=[periodic])
    async with client:

        async def ticked() -> bool:
            found = await client.job_list(JobListParams(kinds=["tick"]))
            return [row.state for row in found.jobs] == [JobState.COMPLETED]

        await until(ticked)
        assert client.is_leader


async def test_the_leader_rescues_what_is_stuck(shop: Workshop) -> None:
    long_ago = datetime.now(UTC) - 3 * HOUR
    (stuck,) = await running(shop.driver, job("do", scheduled_at=long_ago), at=long_ago)
    async with shop.client(queues={"other": QueueConfig(max_workers=1)}):
        row = await shop.state(stuck, JobState.RETRYABLE)
    assert len(row.errors) == 1
    assert row.metadata_dict["river:rescue_count"] == 1


@pytest.mark.parametrize("order", [JobListOrder.ID, JobListOrder.SCHEDULED_AT])
@pytest.mark.parametrize("descending", [False, True])
async def test_a_list_is_read_in_pages(
    shop: Workshop, order: JobListOrder, descending: bool
) -> None:
    client = shop.client()
    now = client.clock()
    ids = [
        (await client.insert(Do(), InsertOpts(scheduled_at=now + HOUR + n // 2 * SECOND))).job.id
        for n in range(5)
    ]
    found: list[int] = []
    after = None
    while True:
        page = await client.job_list(
            JobListParams(
                first=2,
                after=after,
                order_by=order,
                descending=descending,
                states=[JobState.SCHEDULED],
            )
        )
        if not page.jobs:
            break
        found += [row.id for row in page.jobs]
        after = str(page.last_cursor)
    assert found == (ids[::-1] if descending else ids)


async def test_jobs_are_changed_and_removed(shop: Workshop) -> None:
    client = shop.client()
    first, second = [(await client.insert(Do())).job.id for _ in range(2)]
    moved = await client.job_move(first, queue="slow", priority=3)
    assert (moved.queue, moved.priority) == ("slow", 3)
    await client.job_delete(second)
    left = (await client.job_list()).jobs
    assert [(row.id, row.queue) for row in left] == [(first, "slow")]


async def insert_and_fail(shop: Workshop) -> None:
    """Insert a job in a transaction, and leave that with an exception."""
    async with shop.driver.transaction() as transaction:
        await shop.client().insert_tx(transaction, Do())
        raise ZeroDivisionError


async def test_a_transaction_that_is_rolled_back_leaves_nothing(shop: Workshop) -> None:
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail(shop)
    client = shop.client()
    assert (await client.job_list()).jobs == []
    async with shop.driver.transaction() as transaction:
        await client.insert_tx(transaction, Do())
        assert (await client.job_list()).jobs == []
    assert len((await client.job_list()).jobs) == 1


async def test_two_clients_share_the_work_and_one_leads(shop: Workshop) -> None:
    first, second = shop.client(id="first"), shop.client(id="second")
    ids = [(await first.insert(Do())).job.id for _ in range(20)]
    async with first, second:
        rows = [await shop.state(each, JobState.COMPLETED) for each in ids]

        async def one_leads() -> bool:
            return first.is_leader or second.is_leader

        await until(one_leads)
        assert not (first.is_leader and second.is_leader)
    assert {row.attempt for row in rows} == {1}
    assert len(shop.doer.done) == 20
