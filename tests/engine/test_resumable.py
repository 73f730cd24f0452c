"""Jobs that go on where they failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from riverui.engine.work.resumable import (
    resumable_set_cursor,
    resumable_set_step_cursor_tx,
    resumable_set_step_tx,
    resumable_step,
    resumable_step_cursor,
    resumable_step_cursor_sync,
    resumable_step_sync,
)
from riverui.engine.work.worker import Job, JobSnooze
from riverui.errors import OutsideJob, ResumableError
from tests.engine.conftest import Playground, Task
from tests.engine.test_executor_ending import Hanging

STEP, CURSOR = "river:resumable_step", "river:resumable_cursor"


class Steps:
    """A job of three steps that records its steps, and fails at a given one."""

    def __init__(self, fail_in: str = "", error: BaseException | None = None) -> None:
        self.did: list[Any] = []
        self.error = error or ValueError(f"in {fail_in}")
        self.fail_in = fail_in

    def step(self, name: str) -> Callable[[], Awaitable[None]]:
        async def step() -> None:
            if name == self.fail_in:
                raise self.error
            self.did.append(name)

        return step

    async def __call__(self, job: Job[Task]) -> None:
        await resumable_step("one", self.step("one"))
        await resumable_step("two", self.step("two"))
        await resumable_step("three", self.step("three"))


async def test_all_steps_of_a_job_that_ends_well(play: Playground) -> None:
    steps = Steps()
    row = await play.work(steps)
    assert steps.did == ["one", "two", "three"]
    assert (row["state"], row["metadata"]) == ("completed", {})


@pytest.mark.parametrize("error", [None, JobSnooze(timedelta(hours=1))])
async def test_progress_is_kept_and_skipped(play: Playground, error: BaseException | None) -> None:
    steps = Steps("three", error)
    row = await play.work(steps)
    assert row["metadata"] == {STEP: "two"} | ({"snoozes": 1} if error else {})
    steps.fail_in = ""
    again = await play.work(metadata=row["metadata"])
    assert steps.did == ["one", "two", "three"]
    assert again["state"] == "completed"
    assert again["metadata"][STEP] == "two", "left as it is, as River leaves it"


async def test_a_failing_first_step_leaves_no_progress(play: Playground) -> None:
    row = await play.work(Steps("one"))
    assert row["metadata"] == {}


async def test_progress_of_an_interrupted_job(play: Playground) -> None:
    hanging = Hanging()

    async def work(job: Job[Task]) -> None:
        await resumable_step("one", lambda: None)
        await resumable_step("two", lambda: hanging.work(job))

    play.worker(work)
    client = await play.start()
    job_id = await play.insert()
    await hanging.begun.wait()
    await client.stop_and_cancel()
    assert (await play.row(job_id))["metadata"] == {STEP: "one"}


async def test_no_further_step_after_one_that_failed(play: Playground) -> None:
    did: list[str] = []

    async def work(job: Job[Task]) -> None:
        with pytest.raises(ValueError, match="x"):
            await resumable_step("one", _raise)
        await resumable_step("two", lambda: did.append("two"))

    row = await play.work(work)
    assert did == []
    assert (row["state"], row["errors"][0]["error"]) == ("available", "ValueError: x")


def _raise() -> None:
    raise ValueError("x")


async def test_a_step_that_was_removed(play: Playground) -> None:
    row = await play.work(Steps(), metadata={STEP: "zero"})
    assert "'zero'" in row["errors"][0]["error"]
    assert row["metadata"] == {STEP: "zero"}


async def test_steps_that_the_worker_does_not_have_at_all(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        pass

    row = await play.work(work, metadata={STEP: "one"})
    assert (row["state"], len(row["errors"])) == ("available", 1)


async def test_saved_cursors_that_are_no_object_end_the_attempt_before_its_work(
    play: Playground,
) -> None:
    begun: list[int] = []

    async def work(job: Job[Task]) -> None:
        begun.append(job.attempt)

    row = await play.work(work, metadata={CURSOR: []})
    assert begun == []
    assert row["errors"][0]["error"] == f"ResumableError: The metadata {CURSOR} is not an object."
    assert row["metadata"] == {CURSOR: []}


async def test_two_steps_of_one_name(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        await resumable_step("one", lambda: None)
        await resumable_step("one", lambda: None)

    row = await play.work(work)
    assert "duplicate resumable step: 'one'" in row["errors"][0]["error"]
    assert row["metadata"] == {STEP: "one"}


async def test_nested_steps(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        await resumable_step("outer", lambda: resumable_step("inner", lambda: None))

    row = await play.work(work)
    assert "cannot be nested" in row["errors"][0]["error"]
    assert row["metadata"] == {}


async def cursors(play: Playground, count_to: int, **columns: Any) -> tuple[list[int], Any]:
    """Return what a step with a cursor does that fails at `count_to`, and the row afterwards."""
    did: list[int] = []

    async def count(cursor: int) -> None:
        for number in range(cursor, 10):
            if number == count_to:
                raise ValueError("x")
            did.append(number)
            resumable_set_cursor(number + 1)

    async def work(job: Job[Task]) -> None:
        await resumable_step("before", lambda: None)
        await resumable_step_cursor("count", count, start=0)

    if play.workers.get("task") is None:
        play.worker(lambda job: play.current(job))  # type: ignore[attr-defined]
    play.current = work  # type: ignore[attr-defined]
    return did, await play.work(**columns)


async def test_cursor_goes_on_where_it_was(play: Playground) -> None:
    did, row = await cursors(play, 4)
    assert did == [0, 1, 2, 3]
    assert row["metadata"] == {STEP: "before", CURSOR: {"count": 4}}
    did, row = await cursors(play, 7, metadata=row["metadata"])
    assert did == [4, 5, 6]
    assert row["metadata"] == {STEP: "before", CURSOR: {"count": 7}}
    did, row = await cursors(play, 99, metadata=row["metadata"])
    assert did == [7, 8, 9]
    assert row["state"] == "completed"


async def test_used_up_cursor_is_cleared_by_a_later_failure(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        await resumable_step_cursor("count", lambda cursor: None)
        await resumable_step("after", _raise)

    row = await play.work(work, metadata={CURSOR: {"count": 4}})
    assert row["metadata"] == {STEP: "count", CURSOR: None}


async def test_cursor_of_the_first_step(play: Playground) -> None:
    got: list[Any] = []

    async def work(job: Job[Task]) -> None:
        await resumable_step_cursor("count", got.append)

    row = await play.work(work, metadata={CURSOR: {"count": {"at": [1, 2]}}})
    assert got == [{"at": [1, 2]}]
    assert row["state"] == "completed"


async def test_a_cursor_whose_step_was_removed(play: Playground) -> None:
    row = await play.work(Steps(), metadata={CURSOR: {"count": 4}})
    assert "'count'" in row["errors"][0]["error"]
    assert row["metadata"] == {CURSOR: {"count": 4}}, (
        "a completed step would make the cursor unreachable"
    )


async def test_cursor_for_a_step_without_one(play: Playground) -> None:
    row = await play.work(Steps(), metadata={CURSOR: {"two": 4}})
    assert "resumable_step_cursor" in row["errors"][0]["error"]


async def test_cursor_outside_of_a_step(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        resumable_set_cursor(1)

    row = await play.work(work)
    assert "inside a resumable step" in row["errors"][0]["error"]


async def test_cursor_that_is_no_json(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        await resumable_step_cursor("count", lambda cursor: resumable_set_cursor(object()))

    row = await play.work(work)
    assert "cannot be stored as JSON" in row["errors"][0]["error"]


async def test_outside_of_a_job() -> None:
    with pytest.raises(OutsideJob):
        await resumable_step("one", lambda: None)


@pytest.mark.parametrize("commits", [True, False])
async def test_step_in_a_transaction(play: Playground, commits: bool) -> None:
    seen: list[Any] = []

    async def work(job: Job[Task]) -> None:
        async def two() -> None:
            async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
                after = await resumable_set_step_tx(tx, job)
                seen.append(after.metadata)
                if not commits:
                    await tx.rollback()
            raise ValueError("x")

        await resumable_step("one", lambda: None)
        await resumable_step("two", two)

    row = await play.work(work)
    assert f'"{STEP}": "two"' in seen[0]
    # The end of the attempt does not restore what was rolled back.
    assert row["metadata"] == ({STEP: "two", CURSOR: None} if commits else {})


async def test_cursor_in_a_transaction(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        async def count(cursor: Any) -> None:
            async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
                await resumable_set_step_cursor_tx(tx, job, {"at": 7})
            raise ValueError("x")

        await resumable_step_cursor("count", count)

    row = await play.work(work)
    assert row["metadata"] == {STEP: "count", CURSOR: {"count": {"at": 7}}}


async def test_checkpoints_that_cannot_be(play: Playground) -> None:
    async def work(job: Job[Task]) -> None:
        async with await psycopg.AsyncConnection.connect(play.database_url) as tx:
            with pytest.raises(ResumableError, match="inside"):
                await resumable_set_step_tx(tx, job)
            row = job.row._replace(state="completed")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="running"):
                await resumable_set_step_tx(tx, Job(row, job.args))

            async def early() -> None:
                await resumable_set_step_tx(tx, job)

            await resumable_step("early", early)

    row = await play.work(work, metadata={CURSOR: {"count": 4}})
    assert "must come first" in row["errors"][0]["error"]


async def test_synchronous_jobs_go_on_where_they_failed(play: Playground) -> None:
    did: list[Any] = []

    def count(start: int) -> None:
        for number in range(start, 5):
            resumable_set_cursor(number + 1)
            did.append(number)
            if did == ["one", 0, 1, 2]:
                raise ValueError("halfway")

    def work(job: Job[Task]) -> None:
        resumable_step_sync("one", lambda: did.append("one"))
        resumable_step_cursor_sync("two", count, start=0)

    row = await play.work(work)
    assert row["metadata"] == {STEP: "one", CURSOR: {"two": 3}}
    await play.connection.execute("update river_job set state = 'available', scheduled_at = now()")
    await play.event(row["id"], number=2)
    assert did == ["one", 0, 1, 2, 3, 4]
