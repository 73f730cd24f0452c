"""Jobs that are worked together."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobRow
from riverui.engine.config import QueueConfig
from riverui.engine.events import EventKind
from riverui.engine.hooks import DoInner, Hook, Middleware
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.retention import Retention
from riverui.engine.work.context import (
    as_job,
    cancel_requested,
    current_job,
    job_complete_tx,
    metadata_set,
    record_output,
)
from riverui.engine.work.worker import BatchError, BatchWorker, Job, JobCancel, JobSnooze
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError, OutsideJob
from riverui.testing import rolled_back, work
from tests.engine.conftest import Playground, Task, until
from tests.engine.test_producer import producer

LOG = logging.getLogger("tests.batches")
ONE_SLOT = {"default": QueueConfig(max_workers=1)}
SOON = timedelta(milliseconds=50)
"""Seconds that batches wait for jobs inserted before: long enough to find them."""


@dataclass
class Mail:
    """Something that is sent to a customer, by the hundred."""

    kind: ClassVar[str] = "mail"
    customer: int = 0
    text: str = ""


class Plain:
    """A mail's args as a database may hold them."""

    def __init__(self, args: dict[str, Any]) -> None:
        vars(self).update(args)

    @property
    def kind(self) -> str:
        """The same as Mail's."""
        return Mail.kind


class Post(BatchWorker[Mail]):
    """Records its jobs, and does with them what a test says."""

    max_delay = SOON
    poll_interval = timedelta(milliseconds=10)

    def __init__(self, **settings: Any) -> None:
        for name, value in settings.items():
            setattr(self, name, value)
        self.batches: list[list[Job[Mail]]] = []
        self.does: Callable[[Sequence[Job[Mail]]], Any] | None = None
        self.gate: asyncio.Event | None = None
        self.deaf = False

    async def work_many(self, jobs: Sequence[Job[Mail]]) -> None:
        self.batches.append(list(jobs))
        while self.gate is not None and not self.gate.is_set():
            with suppress(asyncio.CancelledError) if self.deaf else nullcontext():
                await self.gate.wait()
        if self.does is not None:
            self.does(jobs)

    @property
    def ids(self) -> list[list[int]]:
        """The ids of the jobs of each batch."""
        return [[job.id for job in batch] for batch in self.batches]

    @property
    def all(self) -> list[int]:
        """The ids of all jobs worked, as often as they were."""
        return [job for batch in self.ids for job in batch]


async def mails(play: Playground, count: int, **columns: Any) -> list[int]:
    """Insert `count` jobs and return their ids."""
    return [await play.insert(Mail(customer=at % 3), **columns) for at in range(count)]


async def states(play: Playground) -> dict[str, int]:
    """Return how many jobs there are in each state."""
    rows = await play.rows("select state::text, count(*) from river_job group by 1")
    return {row["state"]: row["count"] for row in rows}


async def ended(play: Playground, ids: Sequence[int]) -> None:
    """Wait until each of the jobs has had its event."""
    for job_id in ids:
        await play.event(job_id)


async def test_all_waiting_jobs_are_worked_at_once_in_the_slot_of_one(play: Playground) -> None:
    post = Post(max_delay=timedelta(seconds=30), max_count=20)
    play.worker(post)
    ids = await mails(play, 20)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    assert [sorted(batch) for batch in post.ids] == [ids]
    assert await states(play) == {"completed": 20}
    assert play.client.running == 0


async def test_a_batch_waits_for_more_and_no_longer_than_it_may(play: Playground) -> None:
    post = Post(max_delay=timedelta(milliseconds=400))
    play.worker(post)
    first = await play.insert(Mail())
    await play.start(queues=ONE_SLOT)
    await until(lambda: play.client.running == 1)
    second = await play.insert(Mail())
    await until(lambda: play.client.running == 2)
    assert post.batches == []
    await ended(play, [first, second])
    assert post.ids == [[first, second]]


async def test_a_full_batch_does_not_wait(play: Playground) -> None:
    post = Post(max_delay=timedelta(hours=1), max_count=4)
    play.worker(post)
    ids = await mails(play, 12)
    await play.start()
    await ended(play, ids)
    assert sorted(map(len, post.ids)) == [4, 4, 4]
    assert sorted(post.all) == ids


async def test_jobs_join_an_open_batch_and_give_their_slots_back(play: Playground) -> None:
    """With many slots the first answer brings more than one: one leads, all others join."""
    post = Post(max_delay=timedelta(milliseconds=300))
    post.gate = asyncio.Event()
    play.worker(post)
    ids = await mails(play, 8)
    client = await play.start(queues={"default": QueueConfig(max_workers=8)})
    await until(lambda: len(post.batches) == 1)
    assert client.running == 8
    post.gate.set()
    await ended(play, ids)
    assert [sorted(batch) for batch in post.ids] == [ids]


async def test_other_kinds_run_in_other_thread_a_batch_in_the_slots_that_it_gave_back(
    play: Playground,
) -> None:
    post = Post(max_delay=timedelta(milliseconds=20))
    post.gate = asyncio.Event()
    play.worker(post)
    play.worker(lambda job: None)
    ids = await mails(play, 6)
    await play.start(queues={"default": QueueConfig(max_workers=2)})
    await until(lambda: len(post.batches) == 1)
    other = await play.insert(Task())
    await play.event(other)
    assert len(post.ids[0]) == 6
    post.gate.set()
    await ended(play, ids)


@pytest.mark.parametrize("by_args", [("customer",), True])
@pytest.mark.parametrize("slots", [1, 10])
async def test_jobs_are_worked_with_those_alike_only(
    play: Playground, by_args: bool | Sequence[str], slots: int
) -> None:
    post = Post(by_args=by_args, max_count=4)
    play.worker(post)
    ids = await mails(play, 12)
    await play.start(queues={"default": QueueConfig(max_workers=slots)})
    await ended(play, ids)
    assert sorted(map(len, post.ids)) == [4, 4, 4]
    assert all(len({job.args.customer for job in batch}) == 1 for batch in post.batches)


async def test_a_job_without_the_arg_is_only_like_those_without(play: Playground) -> None:
    post = Post(by_args=["customer"], max_delay=timedelta(milliseconds=30))
    play.worker(post)
    bare = [await play.insert(Plain({"text": text})) for text in "ab"]
    null = [await play.insert(Plain({"customer": 0, "text": text})) for text in "ab"]
    await play.start(queues=ONE_SLOT)
    await ended(play, [*bare, *null])
    assert sorted(map(sorted, post.ids)) == [bare, null]


async def test_an_error_is_that_of_all(play: Playground) -> None:
    post = Post()
    post.does = _fail
    play.worker(post)
    ids = await mails(play, 3, max_attempts=1)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    assert await states(play) == {"discarded": 3}
    rows = [await play.row(job_id) for job_id in ids]
    assert {row["errors"][0]["error"] for row in rows} == {"ValueError: no post today"}
    traces = {row["errors"][0]["trace"] for row in rows}
    assert len(traces) == 1, "each has the trace of the error, and not that of its neighbours"
    assert "_fail" in traces.pop()


def _fail(jobs: Sequence[Job[Mail]]) -> None:
    raise ValueError("no post today")


async def test_a_batch_error_names_jobs_and_all_others_went_well(play: Playground) -> None:
    post = Post()
    play.worker(post)
    ids = await mails(play, 5, max_attempts=1)

    def partly(jobs: Sequence[Job[Mail]]) -> None:
        raise BatchError(
            {
                ids[0]: ValueError("no such street"),
                ids[1]: JobCancel("moved"),
                ids[2]: JobSnooze(timedelta(hours=1)),
            }
        )

    post.does = partly
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    rows = [await play.row(job_id) for job_id in ids]
    assert [row["state"] for row in rows] == [
        "discarded",
        "cancelled",
        "scheduled",
        "completed",
        "completed",
    ]
    assert rows[0]["errors"][0]["error"] == "ValueError: no such street"
    assert [row["attempt"] for row in rows] == [1, 1, 0, 1, 1]
    assert [(await play.event(job_id)).kind for job_id in ids] == [
        EventKind.JOB_FAILED,
        EventKind.JOB_CANCELLED,
        EventKind.JOB_SNOOZED,
        EventKind.JOB_COMPLETED,
        EventKind.JOB_COMPLETED,
    ]


async def test_the_trace_of_an_error_shared_by_jobs_and_batches_does_not_grow(
    play: Playground,
) -> None:
    post, shared = Post(), ValueError("no post today")
    play.worker(post)

    def together(jobs: Sequence[Job[Mail]]) -> None:
        raise BatchError(dict.fromkeys([job.id for job in jobs], shared))

    post.does = together
    ids = await mails(play, 20, max_attempts=1)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    later = await mails(play, 20, max_attempts=1)
    await ended(play, later)
    traces = {(await play.row(job_id))["errors"][0]["trace"] for job_id in [*ids, *later]}
    assert len(traces) == 1


async def test_a_batch_error_about_other_jobs_fails_all(play: Playground) -> None:
    post = Post()
    play.worker(post)
    ids = await mails(play, 2, max_attempts=1)

    def astray(jobs: Sequence[Job[Mail]]) -> None:
        raise BatchError({ids[0]: ValueError("x"), 999_999: ValueError("y")})

    post.does = astray
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    assert await states(play) == {"discarded": 2}
    assert "999999" in (await play.row(ids[1]))["errors"][0]["error"]


def test_a_batch_error_needs_errors_by_id() -> None:
    with pytest.raises(TypeError, match=r"by the ids of their jobs"):
        BatchError({1: "no error"})  # type: ignore[dict-item]


async def test_a_snooze_and_a_cancellation_can_be_that_of_all(play: Playground) -> None:
    post = Post()
    play.worker(post)
    ids = await mails(play, 2)

    def later(jobs: Sequence[Job[Mail]]) -> None:
        raise JobSnooze(timedelta(hours=1))

    post.does = later
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    assert await states(play) == {"scheduled": 2}


async def test_functions_work_batches_async_or_in_a_thread(play: Playground) -> None:
    threads: list[str] = []

    @play.workers.work_many(Mail, max_delay=SOON, max_count=3)
    def send(jobs: Sequence[Job[Mail]]) -> None:
        threads.append(threading.current_thread().name)
        for job in jobs:
            with as_job(job):
                record_output(job.args.customer)

    ids = await mails(play, 3)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    assert [(await play.row(job_id))["metadata"]["output"] for job_id in ids] == [0, 1, 2]
    assert len(threads) == 1
    assert threads[0].startswith("riverui-worker")


async def test_what_is_said_of_a_job_is_said_as_that_job(play: Playground) -> None:
    post = Post()
    said: list[str] = []

    def record(jobs: Sequence[Job[Mail]]) -> None:
        LOG.info("for the first")
        for call in (lambda: record_output(1), current_job, lambda: metadata_set("a", 1)):
            with pytest.raises(OutsideJob, match="as_job"):
                call()
        for job in jobs:
            with as_job(job):
                assert current_job() is job
                LOG.info("for %s", job.id)
                record_output({"id": job.id})
                metadata_set("mine", job.id)
        with pytest.raises(OutsideJob), as_job(Job(jobs[0].row._replace(id=0), Mail())):
            said.append("never")

    post.does = record
    play.worker(post)
    ids = await mails(play, 2)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    rows = [await play.row(job_id) for job_id in ids]
    assert [row["state"] for row in rows] == ["completed", "completed"], rows
    assert [row["metadata"]["output"]["id"] for row in rows] == ids
    assert [row["metadata"]["mine"] for row in rows] == ids
    logs = [row["metadata"]["river:log"][0]["log"] for row in rows]
    assert f"for {ids[0]}" in logs[0]
    assert f"for {ids[1]}" not in logs[0]
    assert f"for {ids[1]}" in logs[1]
    assert f"for {ids[0]}" not in logs[1]
    assert "for the first" in logs[0]
    assert "for the first" not in logs[1]
    assert said == []


async def test_a_job_of_a_batch_completes_itself_in_a_transaction(play: Playground) -> None:
    async def first_by_itself(jobs: Sequence[Job[Mail]]) -> None:
        async with await AsyncConnection.connect(play.database_url) as tx:
            with as_job(jobs[0]):
                metadata_set("by", "itself")
            await job_complete_tx(tx, jobs[0])
        raise ValueError("the others fail")

    play.workers.work_many(Mail, max_delay=SOON)(first_by_itself)
    ids = await mails(play, 2, max_attempts=1)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    rows = [await play.row(job_id) for job_id in ids]
    assert [row["state"] for row in rows] == ["completed", "discarded"]
    assert rows[0]["metadata"] == {"by": "itself"}


SEEN: ContextVar[int] = ContextVar("seen", default=0)


class Watching(Hook, Middleware):
    """Records which jobs it sees, and changes them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.left_by: set[int] = set()
        """Jobs whose context variables others began with."""

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        self.left_by.add(SEEN.get())
        SEEN.set(job.id)
        self.seen.append(f"in {job.id}")
        await do_inner(job._replace(args='{"customer": 7}'))
        self.seen.append(f"out {job.id}")


async def test_middleware_surrounds_each_job(play: Playground) -> None:
    post = Post()
    play.worker(post)
    watching = Watching()
    ids = await mails(play, 3)
    await play.start(queues=ONE_SLOT, middleware=[watching])
    await ended(play, ids)
    assert sorted(watching.seen) == sorted(
        word for job_id in ids for word in (f"in {job_id}", f"out {job_id}")
    )
    assert [job.args.customer for job in post.batches[0]] == [7, 7, 7]
    assert watching.left_by == {0}


async def test_args_that_do_not_fit_are_no_part_of_a_batch(play: Playground) -> None:
    post = Post()
    play.worker(post)
    good = await mails(play, 2)
    bad = await play.insert(Plain({"customer": "nobody"}), max_attempts=1)
    await play.start(queues=ONE_SLOT)
    await ended(play, [*good, bad])
    assert post.ids == [good]
    assert (await play.row(bad))["state"] == "discarded"


async def test_a_time_limit_ends_the_batch(play: Playground) -> None:
    post = Post(timeout=timedelta(milliseconds=20), max_delay=timedelta(milliseconds=60))
    post.gate = asyncio.Event()
    play.worker(post)
    ids = await mails(play, 3, max_attempts=1)
    await play.start(queues=ONE_SLOT)
    await ended(play, ids)
    rows = [await play.row(job_id) for job_id in ids]
    assert {row["errors"][0]["error"] for row in rows} == {
        "JobTimedOut: The job took longer than its time limit of 0.02 s."
    }
    assert len(post.batches) == 1, "waiting for more jobs is no part of it"


async def test_a_job_cancelled_while_its_batch_gathers_leaves_it(play: Playground) -> None:
    post = Post(max_delay=timedelta(seconds=30), max_count=4)
    play.worker(post)
    ids = await mails(play, 3)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: client.running == 3)
    leader = next(iter(producer(play).slots.attempts))
    await client.job_cancel(leader)
    assert (await play.event(leader)).kind is EventKind.JOB_CANCELLED
    others = [job_id for job_id in ids if job_id != leader]
    more = await mails(play, 2)
    await ended(play, [*others, *more])
    assert [sorted(batch) for batch in post.ids] == [sorted([*others, *more])]
    assert producer(play).slots.usage == (1, 0)


async def test_a_batch_ends_early_only_once_all_its_jobs_are_cancelled(play: Playground) -> None:
    post = Post()
    post.gate = asyncio.Event()
    play.worker(post)
    ids = await mails(play, 2)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: len(post.batches) == 1)
    await client.job_cancel(ids[0])
    attempts = producer(play).slots.attempts.values()
    await until(lambda: any(attempt.asked_to_end for attempt in attempts))
    assert client.running == 2
    await client.job_cancel(ids[1])
    await ended(play, ids)
    assert await states(play) == {"cancelled": 2}


async def test_a_job_that_was_cancelled_too_late_has_gone_well(play: Playground) -> None:
    post = Post()
    post.gate = asyncio.Event()
    asked: list[bool] = []

    def ask(jobs: Sequence[Job[Mail]]) -> None:
        asked.append(cancel_requested())
        for job in jobs:
            with as_job(job):
                asked.append(cancel_requested())

    post.does = ask
    play.worker(post)
    ids = await mails(play, 2)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: len(post.batches) == 1)
    await client.job_cancel(ids[1])
    attempts = producer(play).slots.attempts.values()
    await until(lambda: any(attempt.asked_to_end for attempt in attempts))
    post.gate.set()
    await ended(play, ids)
    assert asked == [False, False, True]
    assert await states(play) == {"completed": 2}


async def test_a_soft_stop_works_what_was_gathered_at_once(play: Playground) -> None:
    post = Post(max_delay=timedelta(hours=1))
    play.worker(post)
    ids = await mails(play, 3)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: client.running == 3)
    await client.stop()
    assert [sorted(batch) for batch in post.ids] == [ids]
    assert await states(play) == {"completed": 3}


async def test_a_hard_stop_gives_all_jobs_back(play: Playground) -> None:
    post = Post()
    post.gate = asyncio.Event()
    play.worker(post)
    await mails(play, 3)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: len(post.batches) == 1)
    await client.stop_and_cancel()
    rows = await play.rows("select state::text, attempt from river_job")
    assert rows == [{"state": "available", "attempt": 0}] * 3


async def test_a_hard_stop_while_it_gathers_gives_all_jobs_back(play: Playground) -> None:
    post = Post(max_delay=timedelta(hours=1))
    play.worker(post)
    await mails(play, 3)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: client.running == 3)
    await client.stop_and_cancel()
    rows = await play.rows("select state::text, attempt from river_job")
    assert rows == [{"state": "available", "attempt": 0}] * 3
    assert post.batches == []


async def test_the_jobs_of_a_killed_client_are_rescued_and_worked_again(play: Playground) -> None:
    """Killed between the fetch and the end of a batch: leader and followers alike."""
    killed = Post(max_delay=timedelta(0))
    killed.gate, killed.deaf = asyncio.Event(), True
    play.worker(killed)
    ids = await mails(play, 4)
    client = await play.start(queues=ONE_SLOT)
    await until(lambda: len(killed.batches) == 1)
    await client.stop_and_abandon()
    assert await states(play) == {"running": 4}
    await play.connection.execute("update river_job set attempted_at = now() - interval '2 hours'")
    play.workers = Workers()
    post = Post()
    play.worker(post)
    await play.start(queues=ONE_SLOT)
    context = ServiceContext(
        driver=play.client.driver, clock=play.client.clock, logger=LOG, retention=Retention()
    )
    await JobRescuer(context, play.client.config, pilot=play.client.pilot).run_once()
    # Retryable jobs are due once a leader has scheduled them.
    await play.connection.execute(
        "update river_job set state = 'available', scheduled_at = now() where state = 'retryable'"
    )
    await until(lambda: sorted(post.all) == ids)
    # The outcome of the first attempt comes too late, and changes nothing.
    killed.gate.set()
    await ended(play, ids)
    rows = [await play.row(job_id) for job_id in ids]
    assert [(row["state"], row["attempt"]) for row in rows] == [("completed", 2)] * 4


async def test_a_test_works_a_batch_of_one(play: Playground) -> None:
    post = Post(max_delay=timedelta(hours=1))
    async with rolled_back(play.database_url) as river:
        result = await work(river, post, Mail(customer=3))
    assert result.event is EventKind.JOB_COMPLETED
    assert [job.args for job in post.batches[0]] == [Mail(customer=3)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_count": 0}, "max_count must be a whole number from 1"),
        ({"max_count": True}, "max_count"),
        ({"max_delay": 5}, "max_delay must be a timedelta"),
        ({"max_delay": timedelta(seconds=-1)}, "max_delay"),
        ({"poll_interval": timedelta(0)}, "poll_interval must be a timedelta of at least 10 ms"),
        ({"by_args": "customer"}, "by_args must be True, or a list"),
        ({"by_args": []}, "by_args must be True, or a list"),
        ({"by_args": ["custommer"]}, "Mail has no args 'custommer'"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], words: str) -> None:
    workers = Workers()
    with pytest.raises(ConfigError, match=words):
        workers.add(Post(**settings))
    with pytest.raises(ConfigError, match=words):
        workers.work_many(Mail, **settings)(_fail)
    assert workers.kinds == ()
