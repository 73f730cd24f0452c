"""A job's row after an attempt, by outcome: River's table of outcomes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.jobs import JobRow
from riverui.engine.config import QueueConfig
from riverui.engine.events import Event
from riverui.engine.hooks import Hook
from riverui.engine.work.context import metadata_set
from riverui.engine.work.worker import ErrorResult, Job, JobCancel, JobSnooze, Worker
from tests.cases import cases
from tests.engine.conftest import Playground, Task, about


def raising(error: BaseException) -> Callable[[Job[Task]], Any]:
    """Return a worker that fails."""

    async def work(job: Job[Task]) -> None:
        raise error

    return work


def fourth_power(failures: int) -> timedelta:
    return timedelta(seconds=failures**4)


EARLIER = {"at": "2026-11-21T09:00:00Z", "attempt": 1, "error": "before", "trace": ""}

CANCELLED = {"cancel_attempted_at": "2026-11-21T09:00:00Z"}
X = ValueError("x")
ENOUGH = JobCancel("enough")
HOUR = timedelta(hours=1)
GROUP = ExceptionGroup("several", [X, ExceptionGroup("inner", [ENOUGH])])
AGAIN: tuple[Any, ...] = ("available", 1, 1, fourth_power(1), {}, "job_failed")
STOPPED: tuple[Any, ...] = ("cancelled", 1, 1, None, {}, "job_cancelled")

# name, what the job raises, columns before → state, attempt, number of errors, delay until
# scheduled_at (None: as it was), metadata, event
OUTCOMES: list[tuple[str, BaseException | None, dict[str, Any], tuple[Any, ...]]] = [
    ("success", None, {}, ("completed", 1, 0, None, {}, "job_completed")),
    ("success keeps errors", None, {"attempt": 1, "errors": [EARLIER]},
     ("completed", 2, 1, None, {}, "job_completed")),
    ("first failure, retried at once", X, {}, AGAIN),
    ("second failure, retried by the scheduler", X, {"attempt": 1, "errors": [EARLIER]},
     ("retryable", 2, 2, fourth_power(2), {}, "job_failed")),
    ("errors count, attempts do not", X, {"attempt": 7},
     ("available", 8, 1, fourth_power(1), {}, "job_failed")),
    ("last failure", X, {"max_attempts": 1}, ("discarded", 1, 1, None, {}, "job_failed")),
    ("cancelled from within", ENOUGH, {}, STOPPED),
    ("cancelled from within at the last attempt", ENOUGH, {"max_attempts": 1}, STOPPED),
    ("short snooze", JobSnooze(timedelta(seconds=5)), {},
     ("available", 0, 0, timedelta(seconds=5), {"snoozes": 1}, "job_snoozed")),
    ("no snooze at all", JobSnooze(timedelta(0)), {"metadata": {"snoozes": 4}, "max_attempts": 1},
     ("available", 0, 0, timedelta(0), {"snoozes": 5}, "job_snoozed")),
    ("long snooze", JobSnooze(HOUR), {"attempt": 3, "metadata": {"a": 1}},
     ("scheduled", 3, 0, HOUR, {"a": 1, "snoozes": 1}, "job_snoozed")),
    ("snooze at the last attempt", JobSnooze(HOUR), {"max_attempts": 1},
     ("scheduled", 0, 0, HOUR, {"snoozes": 1}, "job_snoozed")),
    ("snoozes that are no number", JobSnooze(HOUR), {"metadata": {"snoozes": "many"}},
     ("scheduled", 0, 0, HOUR, {"snoozes": 1}, "job_snoozed")),
    # A cancellation that came before the row was written:
    ("an error, cancelled meanwhile", X, {"metadata": CANCELLED},
     ("cancelled", 1, 1, None, CANCELLED, "job_cancelled")),
    ("a snooze, cancelled meanwhile", JobSnooze(HOUR), {"metadata": CANCELLED},
     ("cancelled", 1, 0, None, CANCELLED | {"snoozes": 1}, "job_cancelled")),
    ("success, cancelled meanwhile", None, {"metadata": CANCELLED},
     ("completed", 1, 0, None, CANCELLED, "job_completed")),
    ("a group of errors with a cancellation in it", GROUP, {}, STOPPED),
    ("SystemExit", SystemExit(1), {}, AGAIN),
    ("KeyboardInterrupt", KeyboardInterrupt(), {}, AGAIN),
    ("a CancelledError of its own", asyncio.CancelledError(), {}, AGAIN),
]  # fmt: skip


async def test_row_after_an_attempt(play: Playground) -> None:
    worked: set[int] = set()

    async def once(job: Job[Task]) -> None:
        # What is available again at once must not be worked again.
        if job.id in worked:
            await asyncio.Event().wait()
        worked.add(job.id)
        error = OUTCOMES[job.args.number][1]
        if error is not None:
            raise error

    play.worker(once)
    ids = [
        await play.insert(Task(number=number), **columns)
        for number, (_, _, columns, _) in enumerate(OUTCOMES)
    ]
    before = [await play.row(job_id) for job_id in ids]
    began = datetime.now(UTC)
    await play.start(queues={"default": QueueConfig(max_workers=2 * len(ids))})
    with cases() as case:
        for job_id, row, (name, _, _, expected) in zip(ids, before, OUTCOMES, strict=True):
            event = await play.event(job_id)
            with case(name):
                _check_outcome(event, row, began, expected)
                assert event.job is not None
                assert event.job.attempted_by == (play.client.id,)


def _check_outcome(
    event: Event, before: dict[str, Any], began: datetime, expected: tuple[Any, ...]
) -> None:
    state, attempt, errors, delay, metadata, kind = expected
    # The row of the event: a job that is available again may run again by now.
    after, stats = event.job, event.stats
    assert after is not None
    assert stats is not None
    assert event.kind == kind
    assert (after.state, after.attempt, len(after.errors)) == (state, attempt, errors)
    assert after.metadata_dict == metadata
    assert (after.finalized_at is not None) == (state in ("cancelled", "completed", "discarded"))
    if after.finalized_at is not None:
        assert about(after.finalized_at, datetime.now(UTC))
    if delay is None:
        assert after.scheduled_at == before["scheduled_at"]
    else:
        assert about(after.scheduled_at, began + delay, 2 + delay.total_seconds() * 0.1)
    if errors > len(before["errors"] or ()):
        assert after.errors[-1].attempt == before["attempt"] + 1
        assert after.errors[-1].at is not None
        assert about(after.errors[-1].at, datetime.now(UTC))
    assert stats.queue_wait_duration >= timedelta(seconds=19)
    assert timedelta(0) <= stats.run_duration < timedelta(seconds=10)
    assert timedelta(0) <= stats.complete_duration < timedelta(seconds=10)


def deep(job: Job[Task]) -> None:
    """Fails with a cause, some frames down."""

    def fail() -> None:
        raise KeyError("inner")

    try:
        fail()
    except KeyError as error:
        raise ValueError("outer") from error


async def test_error_has_rivers_shape_and_a_traceback_of_the_job_alone(play: Playground) -> None:
    row = await play.work(deep)
    (error,) = row["errors"]
    assert set(error) == {"at", "attempt", "error", "trace"}
    assert error["at"].endswith("Z")
    assert datetime.fromisoformat(error["at"]) >= row["attempted_at"] - timedelta(seconds=1)
    assert error["error"] == "ValueError: outer"
    assert "KeyError: 'inner'" in error["trace"]
    assert "in deep" in error["trace"]
    assert "riverui/engine" not in error["trace"]


class Silent(Exception):
    """Says nothing, not even when asked."""

    def __init__(self, instead: BaseException | None = None) -> None:
        self._instead = instead or RuntimeError("no words")

    def __str__(self) -> str:
        raise self._instead


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


async def test_text_of_an_error(play: Playground) -> None:
    texts = {
        ValueError("x"): "ValueError: x",
        KeyError("x"): "KeyError: 'x'",
        ValueError(): "ValueError",
        Silent(): "Silent",
        JobCancel("enough"): "JobCancelError: enough",
        JobCancel(): "JobCancelError: job cancelled",
        Silent(SystemExit()): "Silent",
        caused(JobCancel(), Silent(SystemExit())): "JobCancelError: job cancelled",
        caused(JobCancel(), ValueError("why")): "JobCancelError: why",
        GeneratorExit(): "GeneratorExit",
        SystemExit("out"): "SystemExit: out",
        asyncio.CancelledError(): "CancelledError",
        ValueError("a NUL \0, half a pair \ud800"): "ValueError: a NUL \ufffd, half a pair \ufffd",
        ValueError("é \U0001f600 <&>\u2028"): "ValueError: é \U0001f600 <&>\u2028",
    }
    errors = list(texts)

    async def work(job: Job[Task]) -> None:
        raise errors[job.args.number]

    play.worker(work)
    with cases() as case:
        for number, (error, text) in enumerate(texts.items()):
            with case(repr(text)):
                row = await play.work(args=Task(number=number), max_attempts=1)
                assert row["errors"][0]["error"] == text, error


async def test_a_huge_error_loses_its_middle(play: Playground) -> None:
    row = await play.work(raising(ValueError("a" * 5_000_000 + "z" * 5_000_000)))
    text = row["errors"][0]["error"]
    assert len(text) < 101_000
    assert text.startswith("ValueError: aaa")
    assert "9,900,012 characters left out" in text
    assert text.endswith("zzz")
    assert len(row["errors"][0]["trace"]) < 101_000


async def test_endless_recursion_is_an_error(play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        work(job)

    row = await play.work(work)
    assert "recursion" in row["errors"][0]["error"]


async def test_a_kind_without_a_worker_fails(play: Playground) -> None:
    await play.start(fetch_only_known_kinds=False)
    row = await play.work(kind="unheard_of")
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert "unheard_of" in row["errors"][0]["error"]


async def test_args_that_do_not_fit_fail_without_asking_the_worker(play: Playground) -> None:
    asked: list[str] = []

    class Unfit(Worker[Task]):
        async def work(self, job: Job[Task]) -> None:
            asked.append("work")

        def next_retry(self, job: Job[Task]) -> datetime | None:
            asked.append("next_retry")
            return None

    row = await play.work(Unfit(), Task(number="seven"))  # type: ignore[arg-type]
    assert row["state"] == "available"
    assert "number" in row["errors"][0]["error"]
    assert asked == []


LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)


class Insistent(Worker[Task]):
    """Fails, and knows when to try again."""

    def __init__(self, when: Any) -> None:
        self.when = when

    async def work(self, job: Job[Task]) -> None:
        raise ValueError("x")

    def next_retry(self, job: Job[Task]) -> datetime | None:
        if isinstance(self.when, Exception):
            raise self.when
        assert isinstance(job.args, Task)
        when: datetime | None = self.when
        return when


async def test_the_worker_says_when_to_retry(play: Playground) -> None:
    row = await play.work(Insistent(LATER))
    assert (row["state"], row["scheduled_at"]) == ("retryable", LATER)


@pytest.mark.parametrize(
    "when",
    [datetime.now(UTC) - timedelta(days=1), datetime.now(), "tomorrow", RuntimeError("no idea")],  # noqa: DTZ005
    ids=["past", "naive", "nonsense", "failing"],
)
async def test_rivers_policy_decides_where_the_worker_cannot(play: Playground, when: Any) -> None:
    row = await play.work(Insistent(when))
    assert row["state"] == "available"
    assert about(row["scheduled_at"], datetime.now(UTC) + timedelta(seconds=1))


async def test_the_client_has_a_retry_policy(play: Playground) -> None:
    play.worker(Insistent(None))
    await play.start(retry_policy=lambda row: LATER + timedelta(days=len(row.errors)))
    row = await play.work(attempt=1, errors=[EARLIER])
    assert (row["state"], row["scheduled_at"]) == ("retryable", LATER + timedelta(days=1))


@pytest.mark.parametrize("is_async", [True, False])
async def test_error_handler_may_cancel(play: Playground, is_async: bool) -> None:
    seen: list[tuple[int, str]] = []

    def handle(row: Any, error: BaseException) -> Any:
        seen.append((row.id, str(error)))
        result = ErrorResult(set_cancelled=True)

        async def later() -> ErrorResult:
            return result

        return later() if is_async else result

    play.worker(raising(ValueError("x")))
    await play.start(error_handler=handle)
    row = await play.work()
    assert seen == [(row["id"], "x")]
    assert (row["state"], len(row["errors"])) == ("cancelled", 1)
    assert row["errors"][0]["error"] == "ValueError: x"


async def test_a_job_that_cancels_its_own_task_has_an_outcome(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise ValueError("x")

    async def handle(row: Any, error: BaseException) -> ErrorResult:
        await asyncio.sleep(0.01)
        return ErrorResult()

    play.worker(work)
    await play.start(error_handler=handle)
    row = await play.work()
    assert (row["state"], row["errors"][0]["error"]) == ("available", "ValueError: x")


@pytest.mark.parametrize("error", [JobCancel("x"), JobSnooze(timedelta(hours=1))])
async def test_error_handler_is_not_asked_about_decisions(
    play: Playground, error: Exception
) -> None:
    def handle(row: Any, error: BaseException) -> ErrorResult:
        raise AssertionError("not an error")

    play.worker(raising(error))
    await play.start(error_handler=handle)
    row = await play.work()
    assert row["state"] in ("cancelled", "scheduled")


async def test_a_snooze_beyond_the_calendar_is_an_error(play: Playground) -> None:
    row = await play.work(raising(JobSnooze(timedelta(days=9_999_999))))
    assert (row["state"], row["attempt"], len(row["errors"])) == ("available", 1, 1)


async def test_metadata_is_kept_however_it_ends(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        metadata_set("seen", {"n": job.args.number})
        raise ValueError("x")

    row = await play.work(work, Task(number=7), metadata={"a": 1})
    assert row["metadata"] == {"a": 1, "seen": {"n": 7}}


async def test_a_job_deleted_while_it_runs_is_forgotten(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        await play.connection.execute("delete from river_job where id = %s", [job.id])
        if job.args.number:
            raise ValueError("x")

    play.worker(work)
    await play.start()
    await play.insert(Task(number=0))
    await play.insert(Task(number=1))

    async def gone() -> bool:
        return not await play.rows("select 1 from river_job") and not play.client.running

    await play.until(gone)


async def test_stopping_the_process_from_a_thread_stops_only_that_job(play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        if job.args.number:
            raise SystemExit(os.EX_SOFTWARE)

    play.worker(work)
    await play.start()
    first = await play.work(args=Task(number=1))
    second = await play.work(args=Task(number=0))
    assert (first["state"], first["errors"][0]["error"]) == (
        "available",
        f"SystemExit: {os.EX_SOFTWARE}",
    )
    assert second["state"] == "completed"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_generator_s_exit_is_an_error_like_others(is_async: bool, play: Playground) -> None:
    def work(job: Job[Task]) -> None:
        raise GeneratorExit

    ended: list[BaseException | None] = []

    class Ending(Hook):
        def work_end(self, job: JobRow, error: BaseException | None) -> BaseException | None:
            ended.append(error)
            return error

    play.worker(raising(GeneratorExit()) if is_async else work)
    await play.start(hooks=[Ending()])
    row = await play.work()
    assert row["errors"][0]["error"] == "GeneratorExit"
    assert isinstance(ended[0], GeneratorExit)


@pytest.mark.parametrize(
    "error",
    [RuntimeError(), SystemExit(), KeyboardInterrupt(), GeneratorExit(), Silent(SystemExit())],
)
async def test_an_error_handler_ends_no_process(
    error: BaseException, play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(job: JobRow, failed: BaseException) -> None:
        raise error

    play.worker(raising(ValueError("x")))
    await play.start(error_handler=handler)
    row = await play.work()
    assert row["errors"][0]["error"] == "ValueError: x"
    assert "the error handler failed" in caplog.text


async def test_a_retry_policy_ends_no_process(play: Playground) -> None:
    def policy(job: JobRow) -> datetime:
        raise SystemExit

    play.worker(raising(ValueError("x")))
    await play.start(retry_policy=policy)
    row = await play.work()
    assert (row["state"], len(row["errors"])) == ("available", 1)


async def test_a_snooze_says_what_it_wants(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        raise JobSnooze(5)  # type: ignore[arg-type]

    row = await play.work(work)
    assert row["errors"][0]["error"] == (
        "TypeError: JobSnooze takes a timedelta, such as JobSnooze(timedelta(seconds=5)), not 5"
    )
