"""Settings of a worker, for all jobs or for each: time limits and middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from riverui.domain.jobs import JobRow
from riverui.engine.config import NO_LIMIT
from riverui.engine.hooks import Middleware
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from riverui.errors import ConfigError
from tests.engine.conftest import Playground, Task

A_MOMENT = timedelta(milliseconds=50)
"""A time limit that is soon over, and yet longer than it takes a job to begin."""


class Noting(Middleware):
    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def work(self, job: JobRow, do_inner: Callable[[], Awaitable[None]]) -> None:
        self.notes.append(self.name)
        await do_inner()


def worker_with(**settings: Any) -> Worker[Task]:
    async def work(self: object, job: Job[Task]) -> None: ...

    made: type[Worker[Task]] = type("TaskWorker", (Worker,), {"work": work, **settings})
    return made()


async def an_async_one(self: object, job: object) -> None: ...


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"timeout": 30},
            r"TaskWorker.timeout must be a timedelta such as timedelta\(seconds=30\).* not 30",
        ),
        ({"timeout": "30s"}, "not '30s'"),
        ({"timeout": timedelta(seconds=-5)}, "must not be negative: use NO_LIMIT"),
        (
            {"timeout": lambda self: timedelta(1)},
            "TaskWorker.timeout must take one argument, the job",
        ),
        ({"timeout": an_async_one}, "TaskWorker.timeout must not be async"),
        ({"middleware": Middleware()}, "must be a list of Middleware"),
        ({"middleware": Middleware}, "must be a list of Middleware"),
        ({"middleware": [Middleware]}, "instances of Middleware"),
        ({"middleware": an_async_one}, "TaskWorker.middleware must not be async"),
        ({"next_retry": an_async_one}, "TaskWorker.next_retry must not be async"),
        ({"next_retry": lambda self: None}, "TaskWorker.next_retry must take one argument"),
    ],
)
def test_what_cannot_be_used_is_refused_at_registration(
    settings: dict[str, Any], words: str
) -> None:
    workers = Workers()
    with pytest.raises(ConfigError, match=words):
        workers.add(worker_with(**settings), args_type=Task)
    assert workers.kinds == ()


def test_a_function_s_timeout_is_checked_as_well() -> None:
    with pytest.raises(ConfigError, match=r"resize.timeout must be a timedelta.* not 300"):

        @Workers().work(Task, timeout=cast(timedelta, 300))
        def resize(job: Job[Task]) -> None: ...


@pytest.mark.parametrize(
    "timeout", [None, timedelta(0), A_MOMENT, NO_LIMIT, lambda self, job: None]
)
def test_what_can_be_used(timeout: Any) -> None:
    Workers().add(worker_with(timeout=timeout), args_type=Task)


class Limited(Worker[Task]):
    """Hangs; its jobs say how long they may."""

    def timeout(self, job: Job[Task]) -> timedelta | None:
        return {"client's": None, "zero": timedelta(0), "none": NO_LIMIT}.get(
            job.args.value, A_MOMENT
        )

    async def work(self, job: Job[Task]) -> None:
        await asyncio.sleep(0.3 if job.args.value == "none" else 3600)


@pytest.mark.parametrize(
    ("value", "limit", "error"),
    [
        ("short", NO_LIMIT, "0.05 s"),
        ("zero", timedelta(milliseconds=70), "0.07 s"),
        ("client's", timedelta(milliseconds=70), "0.07 s"),
    ],
)
async def test_each_job_has_its_own_limit(
    value: str, limit: timedelta, error: str, play: Playground
) -> None:
    play.worker(Limited())
    await play.start(job_timeout=limit)
    row = await play.work(args=Task(value=value))
    assert (
        row["errors"][0]["error"]
        == f"JobTimedOut: The job took longer than its time limit of {error}."
    )


async def test_a_job_without_a_limit_goes_on_past_the_client_s(play: Playground) -> None:
    play.worker(Limited())
    await play.start(job_timeout=timedelta(milliseconds=70))
    assert (await play.work(args=Task(value="none")))["state"] == "completed"


async def test_a_limit_of_zero_is_the_client_s(play: Playground) -> None:
    play.worker(worker_of_zero())
    await play.start(job_timeout=timedelta(milliseconds=60))
    assert "0.06 s" in (await play.work())["errors"][0]["error"]


def worker_of_zero() -> Worker[Task]:
    class Zero(Worker[Task]):
        timeout = timedelta(0)

        async def work(self, job: Job[Task]) -> None:
            await asyncio.sleep(3600)

    return Zero()


async def test_an_invalid_limit_fails_the_attempt(play: Playground) -> None:
    class Wrong(Worker[Task]):
        def timeout(self, job: Job[Task]) -> timedelta | None:
            return 30  # type: ignore[return-value]

        async def work(self, job: Job[Task]) -> None: ...

    row = await play.work(Wrong())
    assert (
        row["errors"][0]["error"]
        == "TypeError: Wrong.timeout returned 30, where a timedelta was expected"
    )


async def test_each_job_has_its_own_middleware(play: Playground) -> None:
    notes: list[str] = []

    class Choosing(Worker[Task]):
        def middleware(self, row: JobRow) -> Sequence[Middleware]:
            return (
                [Noting(f"{row.queue} outer", notes), Noting("inner", notes)]
                if row.priority == 1
                else ()
            )

        async def work(self, job: Job[Task]) -> None:
            notes.append("work")

        def next_retry(self, job: Job[Task]) -> datetime | None:
            return None

    play.worker(Choosing())
    await play.start(middleware=[Noting("client's", notes)])
    await play.work()
    assert notes == ["default outer", "inner", "client's", "work"]
    notes.clear()
    await play.work(priority=2)
    assert notes == ["client's", "work"]


async def test_invalid_middleware_fails_the_attempt(play: Playground) -> None:
    class Wrong(Worker[Task]):
        def middleware(self, row: JobRow) -> Sequence[Middleware]:
            return [Middleware]  # type: ignore[list-item]

        async def work(self, job: Job[Task]) -> None: ...

    row = await play.work(Wrong())
    assert "Wrong.middleware returned" in row["errors"][0]["error"]
