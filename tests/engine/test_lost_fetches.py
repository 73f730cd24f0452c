"""Which jobs a client gives back that it does not have. Real cuts are in tests/faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from riverui.domain.jobs import JobRow
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import Feature, Inner, JobEnd
from riverui.engine.work.lost_fetches import LostFetches
from riverui.errors import DatabaseError, DatabaseUnavailable
from riverui.storage.connect import connect
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobSelectParams
from tests.engine.conftest import Playground


class Ends(Feature):
    """Writes down which jobs it is asked about."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        self.ids += [end.job.id for end in ends]
        return await do_inner(ends)


class Queue:
    """A queue whose jobs the test begins itself."""

    def __init__(self) -> None:
        self.attempts: set[int] = set()
        self.coming: list[JobRow] = []
        """What is being fetched while jobs are looked for."""
        self.lost: LostFetches
        self.woken = False

    @property
    def slots(self) -> Queue:
        return self

    async def landed(self) -> None:
        self.lost.begun(self.coming)

    def given_back(self) -> None:
        self.woken = True


async def test_what_the_client_has_or_gets_or_has_worked_is_left_alone(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    ends, queue = Ends(), Queue()
    client = play.make(id="me", features=[ends])
    unwritten: list[int] = []
    queue.lost = found = LostFetches(
        client.context(), cast(Any, {"default": queue}), lambda: unwritten
    )

    async def running(**columns: Any) -> int:
        given = {"attempt": 3, "attempted_by": ["other", "me"], "attempted_at": datetime.now(UTC)}
        return await play.insert(state="running", **(given | columns))

    # What the database has refused it has not done.
    with suppress(DatabaseError), found.fetching():
        # Longer ago than a statement takes on a busy machine.
        refused = await running(attempted_at=datetime.now(UTC) - timedelta(seconds=5))
        raise DatabaseError
    assert not await found.finish()

    with suppress(DatabaseError), found.fetching():
        lost = [await running(), await running(metadata={"a": 1})]
        held, coming = await running(), await running()
        unwritten.append(await running())
        others = await running(attempted_by=["me", "other"])
        cancelled = await running(metadata={"cancel_attempted_at": "2026-11-21T09:00:00Z"})
        raise DatabaseUnavailable
    async with client.driver.autocommit() as executor:
        rows = {row.id: row for row in await executor.jobs.row_list(JobSelectParams())}
    queue.attempts, queue.coming = {held}, [rows[coming]]
    assert not await found.finish()
    states = {row["id"]: row["state"] for row in await play.rows("select * from river_job")}
    assert states == {
        **dict.fromkeys(lost, "available"),
        **dict.fromkeys([refused, held, coming, *unwritten, others], "running"),
        cancelled: "cancelled",
    }
    row = await play.row(lost[1])
    assert (row["attempt"], row["errors"], row["metadata"]) == (2, None, {"a": 1})
    assert row["scheduled_at"] == rows[lost[1]].scheduled_at
    assert ends.ids == [*lost, cancelled]
    assert queue.woken
    assert [record.getMessage() for record in caplog.records] == [
        "2 jobs of queue default were fetched by a request whose answer never arrived; they are"
        " available again"
    ]

    # Where it cannot be known, others are to look.
    await play.connection.execute("alter table river_job rename to gone")
    assert await found.finish()
    await play.connection.execute("alter table gone rename to river_job")


@pytest.mark.parametrize("seconds", [300.0, 0.05])
async def test_it_looks_again_and_again_for_a_while(play: Playground, seconds: float) -> None:
    looks: list[str] = []
    client = play.make(
        database=connect(play.database_url, watch=lambda block, *_: looks.append(block)),
        id="me",
        limits=EngineLimits(look_for_lost_seconds=seconds, look_for_lost_most_seconds=0.01),
    )
    found = LostFetches(client.context(), {}, lambda: ())
    task = asyncio.create_task(found.run())
    with suppress(DatabaseError), found.fetching():
        raise DatabaseUnavailable
    await play.until(lambda: "job_running_list" in looks)
    if seconds > 1:
        # The statement was carried out only now.
        late = await play.insert(
            state="running", attempted_by=["me"], attempted_at=datetime.now(UTC)
        )

        async def given_back() -> bool:
            return bool((await play.row(late))["state"] == "available")

        await play.until(given_back)
    else:
        await play.until(lambda: not found.looking)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
