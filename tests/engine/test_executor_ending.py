"""How attempts are brought to an end: cancelled, too slow, stuck, deaf in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.rows import DictRow

from riverui.actions import jobs as actions
from riverui.actions.job_verbs import CANCEL
from riverui.engine.client import Client
from riverui.engine.config import NO_LIMIT, QueueConfig
from riverui.engine.limits import EngineLimits
from riverui.engine.work.attempt import running
from riverui.engine.work.context import cancel_requested, current_job, raise_if_cancelled
from riverui.engine.work.log_capture import JobOfRecord
from riverui.engine.work.worker import Job, JobSnooze, StuckJob, StuckResult, Worker
from tests.engine.conftest import Playground, Task

A_MOMENT = timedelta(milliseconds=50)
"""A time limit that is soon over, and yet longer than it takes a job to begin."""


class Hanging(Worker[Task]):
    """Waits for ever, and does as instructed when it is cancelled."""

    def __init__(
        self,
        then: Callable[[], Any] | None = None,
        *,
        timeout: timedelta | None = None,
        deaf: bool = False,
    ) -> None:
        self.timeout = timeout
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.let_go = asyncio.Event()
        self._deaf = deaf
        self._then = then

    async def work(self, job: Job[Task]) -> None:
        self.begun.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            if self._deaf:
                await self.let_go.wait()
            elif self._then is None:
                raise
            if self._then is not None:
                self._then()


def fail(error: BaseException) -> Callable[[], None]:
    def then() -> None:
        raise error

    return then


async def at_work(play: Playground, worker: Hanging, **settings: Any) -> tuple[Client, int]:
    """Return a client and the id of the job that it is at work on."""
    play.worker(worker)
    client = await play.start(**settings)
    job_id = await play.insert()
    await worker.begun.wait()
    return client, job_id


async def cancelled(play: Playground, worker: Hanging, **settings: Any) -> DictRow:
    """Return the row of a job that was cancelled remotely while it ran."""
    _, job_id = await at_work(play, worker, **settings)
    await actions.apply(play.client.driver, CANCEL, [job_id], pilot=play.client.pilot)
    event = await play.event(job_id)
    row = await play.row(job_id)
    assert event.kind == f"job_{row['state']}"
    return row


@pytest.mark.parametrize(
    "then",
    [None, fail(ValueError("x")), fail(JobSnooze(timedelta(hours=1)))],
    ids=["cancelled", "error", "snooze"],
)
async def test_remote_cancel_cancels_whatever_the_job_raises(
    play: Playground, then: Callable[[], None] | None
) -> None:
    row = await cancelled(play, Hanging(then))
    assert (row["state"], row["attempt"]) == ("cancelled", 1)
    assert row["errors"][0]["error"] == "JobCancelError: job cancelled remotely"
    assert row["errors"][0]["trace"] == ""
    assert row["metadata"].keys() == {"cancel_attempted_at"}


async def test_remote_cancel_leaves_a_job_that_ends_well(play: Playground) -> None:
    row = await cancelled(play, Hanging(lambda: None))
    assert (row["state"], row["errors"]) == ("completed", None)


async def test_a_cancel_without_notifications_is_found_by_polling(play: Playground) -> None:
    limits = EngineLimits(look_seconds_without_notifier=0.05)
    row = await cancelled(play, Hanging(), poll_only=True, limits=limits)
    assert row["state"] == "cancelled"


async def test_time_limit_of_the_worker(play: Playground) -> None:
    row = await play.work(Hanging(timeout=A_MOMENT))
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert (
        row["errors"][0]["error"]
        == "JobTimedOut: The job took longer than its time limit of 0.05 s."
    )
    assert "let_go.wait()" in row["errors"][0]["trace"], "it shows where the job was"


async def test_time_limit_of_the_client(play: Playground) -> None:
    play.worker(Hanging())
    await play.start(job_timeout=A_MOMENT)
    assert "time limit" in (await play.work())["errors"][0]["error"]


async def test_no_time_limit_for_a_worker_that_wants_none(play: Playground) -> None:
    worker = Hanging(timeout=NO_LIMIT)
    play.worker(worker)
    await play.start(job_timeout=timedelta(milliseconds=1))
    job_id = await play.insert()
    await worker.begun.wait()
    worker.let_go.set()
    assert (await play.event(job_id)).kind == "job_completed"


async def test_an_error_after_the_time_limit_is_the_jobs_own(play: Playground) -> None:
    row = await play.work(Hanging(fail(ValueError("gave up")), timeout=A_MOMENT))
    assert row["errors"][0]["error"] == "ValueError: gave up"


async def test_a_job_that_ends_well_after_its_time_limit_is_completed(play: Playground) -> None:
    row = await play.work(Hanging(lambda: None, timeout=A_MOMENT))
    assert (row["state"], row["errors"]) == ("completed", None)


async def test_time_limits_of_many_jobs(play: Playground) -> None:
    class Mixed(Worker[Task]):
        timeout = timedelta(milliseconds=500)

        async def work(self, job: Job[Task]) -> None:
            if job.args.number % 2:
                await asyncio.Event().wait()

    play.worker(Mixed())
    ids = [await play.insert(Task(number=number)) for number in range(40)]
    await play.start(queues={"default": QueueConfig(max_workers=100)})
    kinds = [(await play.event(job_id)).kind for job_id in ids]
    assert kinds == ["job_completed", "job_failed"] * 20


async def test_a_stuck_job_is_reported_and_its_slot_can_be_given_away(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    reported: list[StuckJob] = []
    called_in: list[object] = []

    def handle(stuck: StuckJob) -> StuckResult:
        reported.append(stuck)
        called_in.append(running.get(None))
        return StuckResult(add_worker_slot=True)

    caplog.set_level(logging.INFO, "riverui.engine")
    caplog.handler.addFilter(note := JobOfRecord())
    deaf = Hanging(deaf=True, timeout=A_MOMENT)
    play.worker(deaf)
    await play.start(
        queues={"default": QueueConfig(max_workers=1)},
        job_stuck_threshold=A_MOMENT,
        stuck_handler=handle,
    )
    first = await play.insert()
    await deaf.cancelled.wait()
    second = await play.insert()
    await play.until(lambda: len(reported) == 2)
    assert [stuck.id for stuck in reported] == [first, second]
    assert [stuck.total_stuck_jobs for stuck in reported] == [1, 2]
    assert (reported[0].kind, reported[0].queue) == ("task", "default")
    assert called_in == [None, None], "in no job's context"
    assert play.client.running == 2
    deaf.let_go.set()
    assert (await play.event(first)).kind == "job_completed"
    assert (await play.event(second)).kind == "job_completed"
    caplog.handler.removeFilter(note)
    for words in ("seems to be stuck", "is no longer stuck"):
        records = [record for record in caplog.records if words in record.getMessage()]
        assert sorted((vars(each)["job_id"], vars(each)["job_kind"]) for each in records) == [
            (first, "task"),
            (second, "task"),
        ]
    third = await play.work()
    assert third["state"] == "completed"
    assert play.client.running == 0


@pytest.mark.parametrize("result", [StuckResult(), None, RuntimeError("x")])
async def test_stuck_job_keeps_its_slot(play: Playground, result: Any) -> None:
    reported = asyncio.Event()

    def handle(stuck: StuckJob) -> StuckResult | None:
        reported.set()
        if isinstance(result, Exception):
            raise result
        given: StuckResult | None = result
        return given

    deaf = Hanging(deaf=True, timeout=A_MOMENT)
    play.worker(deaf)
    await play.start(
        queues={"default": QueueConfig(max_workers=1)},
        job_stuck_threshold=A_MOMENT,
        stuck_handler=handle,
    )
    await play.insert()
    second = await play.insert()
    await reported.wait()
    assert (await play.row(second))["state"] == "available"
    deaf.let_go.set()


TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


async def test_synchronous_worker_runs_in_a_thread_with_its_context(play: Playground) -> None:
    seen: list[Any] = []

    def work(job: Job[Task]) -> None:
        seen.append(
            (
                threading.current_thread() is threading.main_thread(),
                current_job() is job,
                TENANT.get(),
            )
        )
        TENANT.set("me")

    TENANT.set("somebody")
    play.worker(work)
    await play.start()
    await play.work()
    await play.work()
    assert seen == [(False, True, "somebody")] * 2, "nothing leaks from job to job"


async def test_async_workers_do_not_share_a_context(play: Playground) -> None:
    seen: list[str] = []

    async def work(job: Job[Task]) -> None:
        seen.append(TENANT.get())
        TENANT.set("me")

    await play.work(work)
    await play.work()
    assert seen == ["nobody", "nobody"]


async def test_decorated_coroutine_that_looks_synchronous(play: Playground) -> None:
    ran = []

    async def inner(job: Job[Task]) -> None:
        await asyncio.sleep(0)
        ran.append(job.id)

    row = await play.work(lambda job: inner(job))
    assert (row["state"], ran) == ("completed", [row["id"]])


async def test_synchronous_worker_notices_its_cancellation(play: Playground) -> None:
    begun = threading.Event()

    def work(job: Job[Task]) -> None:
        assert not cancel_requested()
        begun.set()
        while True:
            raise_if_cancelled()

    play.worker(work)
    await play.start()
    job_id = await play.insert()
    await play.until(begun.is_set)
    await actions.apply(play.client.driver, CANCEL, [job_id], pilot=play.client.pilot)
    assert (await play.event(job_id)).kind == "job_cancelled"


async def test_synchronous_worker_that_takes_too_long_counts_until_it_returns(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()

    class Slow(Worker[Task]):
        timeout = A_MOMENT

        def work(self, job: Job[Task]) -> None:
            let_go.wait()
            raise_if_cancelled()

    reported = asyncio.Event()
    play.worker(Slow())
    await play.start(job_stuck_threshold=A_MOMENT, stuck_handler=lambda stuck: reported.set())
    job_id = await play.insert()
    await reported.wait()
    assert (await play.row(job_id))["state"] == "running"
    assert play.client.running == 1
    late, stuck = caplog.records
    let_go.set()
    await play.event(job_id)
    assert "time limit" in (await play.row(job_id))["errors"][0]["error"]
    assert late.getMessage() == (
        f"job {job_id} (task) is past its time limit of 0.05 s: its thread cannot be interrupted,"
        " and runs on until the job calls raise_if_cancelled() or ends"
    )
    assert "seems to be stuck" in stuck.getMessage()


async def test_job_waiting_for_a_thread_can_be_cancelled(play: Playground) -> None:
    let_go = threading.Event()
    begun: list[int] = []

    def work(job: Job[Task]) -> None:
        begun.append(job.id)
        let_go.wait()

    play.worker(work)
    await play.start(threads=1)
    first = await play.insert()
    await play.until(lambda: begun == [first])
    second = await play.insert()
    await play.in_state(second, "running")
    await actions.apply(play.client.driver, CANCEL, [second], pilot=play.client.pilot)
    assert (await play.event(second)).kind == "job_cancelled"
    assert begun == [first]
    let_go.set()
    assert (await play.event(first)).kind == "job_completed"


async def test_more_synchronous_jobs_than_threads(play: Playground) -> None:
    names: set[str] = set()

    def work(job: Job[Task]) -> None:
        names.add(threading.current_thread().name)
        if job.args.number == 5:
            raise StopIteration

    play.worker(work)
    ids = [await play.insert(Task(number=number)) for number in range(30)]
    await play.start(threads=3)
    kinds = [(await play.event(job_id)).kind for job_id in ids]
    assert kinds.count("job_completed") == 29  # type: ignore[arg-type]
    assert len(names) <= 3
    assert all(name.startswith("riverui-worker-") for name in names)


async def test_the_time_limit_interrupts_a_task_group_cleanly(play: Playground) -> None:
    class Grouped(Worker[Task]):
        timeout = A_MOMENT

        async def work(self, job: Job[Task]) -> None:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())

    row = await play.work(Grouped())
    assert "time limit" in row["errors"][0]["error"]


async def test_a_job_that_blocks_the_event_loop_is_logged(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:

    async def work(job: Job[Task]) -> None:
        time.sleep(0.05)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.05)

    play.worker(work)
    await play.start(limits=EngineLimits(loop_check_seconds=0.001, loop_blocked_seconds=0.02))
    await play.work()
    assert "the event loop was blocked" in caplog.text
    assert "async jobs running: task" in caplog.text
