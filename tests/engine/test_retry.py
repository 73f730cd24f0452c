"""Retry: precedence, errors that end a job, times of retries, and log messages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

import pytest

from riverui import Retry, SyncClient, exponential, fixed, fourth_power, linear
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work.worker import BatchError, ErrorResult, Job, JobSnooze, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from riverui.features.error_groups.domain.fingerprints import error_signature
from tests.engine.conftest import Playground, Task, about
from tests.features.conftest import Step, Workshop, shop as shop

HOUR = timedelta(hours=1)


@dataclass
class Parcel:
    """Args that say how they are tried again."""

    kind: ClassVar[str] = "parcel"
    retry: ClassVar[Retry] = Retry(max_attempts=4, wait=fixed(2 * HOUR), never=(KeyError,))
    number: int = 0


@dataclass
class Odd:
    """Args with a field of that name."""

    kind: ClassVar[str] = "odd"
    retry: int = 3


def raising(error: BaseException) -> Callable[[Job[Any]], Any]:
    async def work(job: Job[Any]) -> None:
        raise error

    return work


def due_in(row: Any, wait: timedelta) -> bool:
    return about(row["scheduled_at"], datetime.now(UTC) + wait)


@pytest.mark.parametrize(
    ("retry", "wait"),
    [
        (Retry(wait=exponential(2, first=HOUR, jitter=0)), 4 * HOUR),
        (Retry(wait=linear(HOUR, jitter=0)), 3 * HOUR),
        (Retry(wait=[HOUR, 5 * HOUR]), 5 * HOUR),
        (Retry(wait=fourth_power(jitter=0)), timedelta(seconds=81)),
        (Retry(), timedelta(days=1)),
    ],
    ids=["exponential", "linear", "list", "fourth_power", "the client's policy"],
)
async def test_a_job_is_retried_when_its_worker_s_retry_says(
    play: Playground, retry: Retry, wait: timedelta
) -> None:
    play.workers.work(Task, retry=retry)(raising(ValueError("x")))
    await play.start(retry_policy=lambda row: datetime.now(UTC) + timedelta(days=1))
    error = {"at": "2026-11-21T09:00:00Z", "attempt": 1, "error": "before", "trace": ""}
    row = await play.work(attempt=2, errors=[error, error])
    assert row["state"] == "retryable"
    assert due_in(row, wait)


async def test_whose_word_counts(play: Playground) -> None:
    """The worker's method, its Retry, that of the args, the client's; the nearest, as a whole."""

    class Planned(Worker[Task]):
        retry = Retry(wait=HOUR, never=(ValueError,))

        async def work(self, job: Job[Task]) -> None:
            raise KeyError(job.args.value) if job.args.value == "key" else ValueError("x")

        def next_retry(self, job: Job[Task]) -> datetime | None:
            return datetime.now(UTC) + 9 * HOUR if job.args.number else None

    @dataclass
    class Plain:
        kind: ClassVar[str] = "plain"

    play.worker(Planned())
    play.worker(raising(OSError("x")), Parcel)
    play.worker(raising(KeyError("x")), Plain)
    await play.start(retry=Retry(wait=3 * HOUR, on=(KeyError,)))
    assert due_in(await play.work(args=Task(value="key", number=1)), 9 * HOUR)
    assert due_in(await play.work(args=Task(value="key")), HOUR)
    assert (await play.work(args=Task(number=1)))["state"] == "discarded"
    assert due_in(await play.work(args=Parcel()), 2 * HOUR)
    assert due_in(await play.work(args=Plain()), 3 * HOUR)


async def test_an_error_that_is_never_tried_again_discards_the_job_and_says_why(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    play.workers.work(Task, retry=Retry(never=(LookupError,)))(raising(KeyError("shelf")))
    with caplog.at_level(logging.INFO, "riverui.engine"):
        row = await play.work()
    assert (row["state"], row["attempt"], row["max_attempts"]) == ("discarded", 1, 25)
    assert row["finalized_at"] is not None
    (error,) = row["errors"]
    assert error["error"] == (
        "KeyError: 'shelf'\nNot tried again: its Retry never tries KeyError again"
    )
    assert error["trace"].endswith("KeyError: 'shelf'\n")
    assert error_signature(error["error"], error["trace"]) == error_signature(
        "KeyError: 'shelf'", error["trace"]
    ), "the same error is one group, whether it ends the job or not"
    (record,) = (record for record in caplog.records if hasattr(record, "job_id"))
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        f"job {row['id']} (task) in queue default failed at attempt 1 of 25 and was discarded, as"
        " its Retry never tries KeyError again: KeyError: 'shelf'"
    )
    event = await play.event(row["id"])
    assert event.job is not None
    assert (event.kind, event.job.state) == ("job_failed", "discarded")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (TimeoutError("x"), "retryable"),
        (ValueError("x"), "discarded"),
        (SystemExit(1), "discarded"),
        (JobSnooze(HOUR), "scheduled"),
    ],
    ids=repr,
)
async def test_only_errors_that_it_names_are_tried_again(
    play: Playground, error: BaseException, state: str
) -> None:
    play.workers.work(Task, retry=Retry(on=(OSError,), wait=HOUR))(raising(error))
    assert (await play.work())["state"] == state


async def test_a_timeout_is_an_error_as_others_are(play: Playground) -> None:
    async def slow(job: Job[Any]) -> None:
        await asyncio.sleep(60)

    limit = timedelta(milliseconds=20)
    play.workers.work(Task, timeout=limit, retry=Retry(on=(TimeoutError,), wait=HOUR))(slow)
    play.workers.work(Parcel, timeout=limit, retry=Retry(never=(TimeoutError,)))(slow)
    row = await play.work()
    assert row["state"] == "retryable"
    assert due_in(row, HOUR)
    assert (await play.work(args=Parcel()))["state"] == "discarded"


async def test_args_that_do_not_fit_are_an_error_as_others_are(play: Playground) -> None:
    play.workers.work(Task, retry=Retry(on=(OSError,)))(raising(OSError("x")))
    row = await play.work(args=Task(number="seven"))  # type: ignore[arg-type]
    assert row["state"] == "discarded"
    assert row["errors"][0]["error"].endswith("its Retry does not try ArgsError again")


async def test_a_kind_without_a_worker_is_left_to_others(play: Playground) -> None:
    await play.start(fetch_only_known_kinds=False, retry=Retry(max_attempts=1, on=()))
    row = await play.work(kind="unheard_of")
    assert (row["state"], len(row["errors"])) == ("available", 1)


async def test_an_error_handler_is_asked_first(play: Playground) -> None:
    play.workers.work(Task, retry=Retry(never=(ValueError,)))(raising(ValueError("x")))
    await play.start(error_handler=lambda row, error: ErrorResult(set_cancelled=True))
    row = await play.work()
    assert (row["state"], row["errors"][0]["error"]) == ("cancelled", "ValueError: x")


@pytest.mark.parametrize(
    ("columns", "state", "why", "attempts"),
    [
        ({"attempt": 1}, "available", "", "2 of 3"),
        ({"attempt": 2}, "discarded", "\nNot tried again: its Retry allows 3 attempts", "3 of 3"),
        ({"attempt": 9}, "discarded", "\nNot tried again: its Retry allows 3 attempts", "10 of 10"),
        # The job allows no more by itself: that needs no words.
        ({"attempt": 1, "max_attempts": 2}, "discarded", "", "2 of 2"),
        ({"attempt": 2, "max_attempts": 3}, "discarded", "", "3 of 3"),
    ],
)
async def test_a_job_has_as_many_attempts_as_both_it_and_its_retry_allow(
    play: Playground,
    caplog: pytest.LogCaptureFixture,
    columns: dict[str, Any],
    state: str,
    why: str,
    attempts: str,
) -> None:
    """As inserted by Go, or by a program that does not know the worker."""
    play.workers.work(Task, retry=Retry(max_attempts=3))(raising(ValueError("x")))
    with caplog.at_level(logging.INFO, "riverui.engine"):
        row = await play.work(**columns)
    assert f"failed at attempt {attempts} and " in caplog.text
    assert (row["state"], row["errors"][-1]["error"]) == (state, f"ValueError: x{why}")


async def test_a_discarded_job_that_is_retried_by_hand_has_one_more_attempt(
    play: Playground,
) -> None:
    play.workers.work(Task, retry=Retry(max_attempts=1))(raising(ValueError("x")))
    row = await play.work()
    assert row["state"] == "discarded"
    await play.client.job_retry(row["id"])
    await play.event(row["id"], 2)
    row = await play.row(row["id"])
    assert (row["state"], row["attempt"], len(row["errors"])) == ("discarded", 2, 2)


async def test_jobs_are_inserted_with_the_attempts_of_their_retry(
    play: Playground, database_url: str
) -> None:
    play.workers.work(Task, retry=Retry(max_attempts=7))(raising(ValueError("x")))
    play.workers.work(Odd)(raising(ValueError("x")))
    knows = play.make(max_attempts=20)
    others = Client(database_url, ClientConfig(retry=Retry(max_attempts=5), max_attempts=20))

    async def inserted(client: Client, args: Any, opts: InsertOpts | None = None) -> int:
        found = (await client.insert(args, opts)).job.max_attempts
        with SyncClient(database_url, client.config) as sync:
            assert sync.insert(args, opts).job.max_attempts == found
        return found

    assert await inserted(knows, Task()) == 7
    assert await inserted(knows, Task(), InsertOpts(max_attempts=9)) == 9
    assert await inserted(knows, Odd()) == 20
    assert await inserted(others, Task()) == 5, "it does not know the worker"
    assert await inserted(others, Parcel()) == 4, "the args say it wherever they are inserted"
    await others.stop()


@pytest.mark.parametrize(
    "wait", [lambda failures: -HOUR, lambda failures: 5, lambda failures: [][failures]]
)
async def test_a_wait_that_cannot_be_used_is_rivers(play: Playground, wait: Any) -> None:
    play.workers.work(Task, retry=Retry(wait=wait))(raising(ValueError("x")))
    row = await play.work()
    assert row["state"] == "available"
    assert due_in(row, timedelta(seconds=1))


async def test_jobs_of_a_batch_end_each_by_its_own_error(play: Playground) -> None:
    async def work(jobs: Sequence[Job[Task]]) -> None:
        raise BatchError({job.id: {"key": KeyError(), "os": OSError()}[job.args.value]
                          for job in jobs if job.args.value})  # fmt: skip

    play.workers.work_many(
        Task,
        max_delay=timedelta(milliseconds=10),
        poll_interval=timedelta(milliseconds=10),
        retry=Retry(never=(KeyError,), wait=HOUR),
    )(work)
    ids = [await play.insert(Task(value=value)) for value in ("", "key", "os")]
    await play.start()
    for job_id in ids:
        await play.event(job_id)
    states = [(await play.row(job_id))["state"] for job_id in ids]
    assert states == ["completed", "discarded", "retryable"]


async def test_a_task_of_a_workflow_moves_others_as_a_discard_does(shop: Workshop) -> None:
    shop.workers.work(Task, retry=Retry(never=(ValueError,)))(raising(ValueError("x")))
    client = await shop.start()
    workflow = client.workflows.new()
    first = workflow.add("first", Task())
    workflow.add("second", Step(), deps=[first])
    prepared = await workflow.insert()
    assert prepared is not None
    assert await shop.ended() == {"first": "discarded", "second": "cancelled"}


def test_what_is_not_a_retry_is_refused() -> None:
    @dataclass
    class Wrong:
        kind: ClassVar[str] = "wrong"
        retry: ClassVar[int] = 5

    @dataclass
    class Method:
        kind: ClassVar[str] = "method"

        def retry(self) -> None: ...

    workers = Workers()
    with pytest.raises(ConfigError, match=r"ship.retry must be a Retry, such as .*, not 5"):

        @workers.work(Task, retry=cast(Retry, 5))
        async def ship(job: Job[Task]) -> None: ...

    with pytest.raises(ConfigError, match=r"Wrong.retry must be a Retry"):
        workers.work(Wrong)(raising(ValueError("x")))
    with pytest.raises(ConfigError, match="retry must be a Retry"):
        ClientConfig(retry=cast(Retry, 5))
    with pytest.raises(ConfigError, match="retry_policy and the wait of retry both say when"):
        ClientConfig(retry=Retry(wait=HOUR), retry_policy=lambda row: datetime.now(UTC))
    assert workers.kinds == ()
    workers.work(Method)(raising(ValueError("x")))
    assert json.dumps(workers.kinds) == '["method"]'
