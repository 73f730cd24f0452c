"""Hooks, middleware and plugins around the work of a job: their order and effects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from riverui.domain.jobs import JobRow
from riverui.engine import hooks
from riverui.engine.client import client_from_context
from riverui.engine.hooks import Hook, Middleware, Plugin
from riverui.engine.work.context import metadata_set
from riverui.engine.work.worker import Job, JobSnooze, Worker
from tests import factory
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging

DoInner = Callable[[], Awaitable[None]]


class Noting(Plugin):
    """Notes each call in a list that all of them share."""

    def __init__(self, name: str, notes: list[str], *, is_async: bool = False) -> None:
        self.name = name
        self.notes = notes
        self.is_async = is_async

    def work_begin(self, job: JobRow) -> Any:
        return self._note("begin", None)

    def work_end(self, job: JobRow, error: BaseException | None) -> Any:
        return self._note("end", error)

    async def work(self, job: JobRow, do_inner: DoInner) -> None:
        self.notes.append(f"{self.name} enters")
        try:
            await do_inner()
        finally:
            self.notes.append(f"{self.name} leaves")

    def _note(self, what: str, result: Any) -> Any:
        self.notes.append(f"{self.name} {what}")

        async def later() -> Any:
            return result

        return later() if self.is_async else result


NOTES: list[str] = []


@dataclass
class Noted:
    """Args that bring plugins along."""

    kind: ClassVar[str] = "noted"
    hooks: ClassVar[Sequence[Hook]] = (Noting("args hook", NOTES),)
    plugins: ClassVar[Sequence[Plugin]] = (Noting("args plugin", NOTES),)


class NotingWorker(Worker[Noted]):
    """Notes that it works."""

    middleware = (Noting("worker", NOTES),)

    async def work(self, job: Job[Noted]) -> None:
        NOTES.append("work")


async def test_order_is_rivers(play: Playground) -> None:
    NOTES.clear()
    play.worker(NotingWorker())
    await play.start(
        hooks=[Noting("hook", NOTES)],
        middleware=[Noting("middleware", NOTES)],
        plugins=[Noting("plugin", NOTES, is_async=True)],
    )
    row = await play.work(args=Noted())
    assert row["state"] == "completed"
    entering = ["worker", "plugin", "middleware", "args plugin"]
    begins = NOTES[NOTES.index("args plugin enters") + 1 : NOTES.index("work")]
    assert [f"{name} enters" for name in entering] == NOTES[: len(entering)]
    assert [f"{name} leaves" for name in reversed(entering)] == NOTES[-len(entering) :]
    assert begins[:2] == ["plugin begin", "hook begin"]
    assert set(begins[2:]) == {"args hook begin", "args plugin begin"}
    ends = NOTES[NOTES.index("work") + 1 : -len(entering)]
    assert [note.replace("end", "begin") for note in ends] == begins


async def test_begin_may_refuse(play: Playground) -> None:
    class Refusing(Hook):
        def work_begin(self, job: JobRow) -> None:
            raise PermissionError("not today")

        def work_end(self, job: JobRow, error: BaseException | None) -> BaseException | None:
            raise AssertionError("the work never began")

    worked: list[int] = []
    play.worker(lambda job: worked.append(job.id))
    await play.start(hooks=[Refusing()])
    row = await play.work()
    assert (row["errors"][0]["error"], worked) == ("PermissionError: not today", [])


async def test_work_end_decides_the_outcome(play: Playground) -> None:
    seen: list[BaseException | None] = []

    class Forgiving(Hook):
        def work_end(self, job: JobRow, error: BaseException | None) -> BaseException | None:
            seen.append(error)
            return None if error is not None else ValueError("too good to be true")

    async def work(job: Job[Task]) -> None:
        if job.args.number:
            raise KeyError("x")

    play.worker(work)
    await play.start(hooks=[Forgiving()])
    failed, went_well = await play.work(args=Task(number=1)), await play.work(args=Task(number=0))
    assert failed["state"] == "completed"
    assert went_well["errors"][0]["error"] == "ValueError: too good to be true"
    assert [type(error) for error in seen] == [KeyError, type(None)]


async def test_each_end_sees_what_the_one_before_gave(play: Playground) -> None:
    class Wrapping(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def work_end(self, job: JobRow, error: BaseException | None) -> BaseException | None:
            return ValueError(f"{self.name}({error})")

    async def work(job: Job[Task]) -> None:
        raise ValueError("x")

    play.worker(work)
    await play.start(hooks=[Wrapping("a"), Wrapping("b")])
    assert (await play.work())["errors"][0]["error"] == "ValueError: b(a(x))"


async def test_middleware_may_decide(play: Playground) -> None:
    class Deciding(Middleware):
        async def work(self, job: JobRow, do_inner: DoInner) -> None:
            metadata_set("seen", job.attempt)
            assert client_from_context() is play.client
            try:
                await do_inner()
            except ValueError:
                raise JobSnooze(_HOUR) from None

    async def work(job: Job[Task]) -> None:
        raise ValueError("x")

    play.worker(work)
    await play.start(middleware=[Deciding()])
    row = await play.work()
    assert (row["state"], row["metadata"]) == ("scheduled", {"seen": 1, "snoozes": 1})


async def test_middleware_sees_a_time_limit_as_an_error(play: Playground) -> None:
    seen: list[BaseException] = []

    class Seeing(Middleware):
        async def work(self, job: JobRow, do_inner: DoInner) -> None:
            try:
                await do_inner()
            except Exception as error:
                seen.append(error)
                raise

    play.worker(Hanging(timeout=_MOMENT))
    await play.start(middleware=[Seeing()])
    await play.work()
    assert [isinstance(error, TimeoutError) for error in seen] == [True]


async def test_middleware_may_leave_out_the_work(play: Playground) -> None:
    class Skipping(Middleware):
        async def work(self, job: JobRow, do_inner: DoInner) -> None:
            await asyncio.sleep(0)

    play.worker(lambda job: 1 / 0)
    await play.start(middleware=[Skipping()])
    assert (await play.work())["state"] == "completed"


_HOUR = timedelta(hours=1)
_MOMENT = timedelta(milliseconds=20)
"""A time limit that is soon over."""


class Renaming(Middleware):
    """Turns the args of version 1 into those of version 2."""

    def __init__(self, *, times: int = 1) -> None:
        self.times = times

    async def work(self, job: JobRow, do_inner: hooks.DoInner) -> None:
        args = json.loads(job.args)
        if "name" in args:
            args["value"] = args.pop("name") + "!"
        for _ in range(self.times):
            await do_inner(job._replace(args=json.dumps(args)))


@pytest.mark.parametrize("where", ["client", "worker"])
async def test_middleware_may_change_the_args(where: str, play: Playground) -> None:
    seen: list[object] = []

    class Last(Hook):
        def work_begin(self, job: JobRow) -> None:
            seen.append(json.loads(job.args))

    class TaskWorker(Worker[Task]):
        middleware = [Renaming()] if where == "worker" else ()

        async def work(self, job: Job[Task]) -> None:
            seen.append((job.args, json.loads(job.row.args)))

    play.worker(TaskWorker())
    await play.start(hooks=[Last()], middleware=[Renaming()] if where == "client" else [])
    job_id = await factory_job(play)
    event = await play.event(job_id)
    after = {"value": "old!"}
    assert seen == [after, (Task(value="old!"), after)]
    assert (await play.row(job_id))["args"] == {"name": "old"}, "the row keeps its own"
    assert event.job is not None
    assert json.loads(event.job.args) == {"name": "old"}


async def factory_job(play: Playground) -> int:
    return await factory.job(play.connection, kind="task", args={"name": "old"})


async def test_middleware_that_goes_on_twice_begins_twice_with_its_own_row(
    play: Playground,
) -> None:
    values: list[str] = []

    class Twice(Middleware):
        async def work(self, job: JobRow, do_inner: hooks.DoInner) -> None:
            await do_inner()
            await do_inner()

    async def work(job: Job[Task]) -> None:
        values.append(job.args.value)

    play.worker(work)
    await play.start(middleware=[Twice(), Renaming()])
    await play.event(await factory_job(play))
    assert values == ["old!", "old!"]


async def test_middleware_may_not_go_on_with_another_job(play: Playground) -> None:
    class Confused(Middleware):
        async def work(self, job: JobRow, do_inner: hooks.DoInner) -> None:
            await do_inner(job._replace(id=job.id + 1))

    await play.start(middleware=[Confused()])
    row = await play.work()
    assert "continued with job" in row["errors"][0]["error"]
