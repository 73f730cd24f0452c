"""A client works a queue of every odd row there is: each ends somehow, and none keeps the others
waiting.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from riverui.engine.work.context import metadata_set, record_output
from riverui.engine.work.set_aside import is_rows_fault
from riverui.engine.work.worker import Job, JobSnooze
from riverui.errors import DatabaseError
from tests.engine.conftest import LONGEST_WAIT, Playground, Task, until
from tests.engine.test_producer import producer
from tests.interop.look import eventually
from tests.odd_rows import insert_odd_rows

LONGEST = 6 * LONGEST_WAIT
NO_TASKS = ("args that are", "args nested deep", "args of many digits")
"""What no worker can read: these attempts fail whatever the worker does."""


async def well(job: Job[Task]) -> None:
    metadata_set("seen", True)
    record_output({"seen": True})


async def badly(job: Job[Task]) -> None:
    logging.getLogger("job").warning("about to fail")
    raise ValueError("no")


async def later(job: Job[Task]) -> None:
    raise JobSnooze(timedelta(hours=1))


@pytest.mark.parametrize(
    ("work", "ends"),
    [
        (well, {"completed"}),
        (badly, {"available", "retryable", "discarded"}),
        (later, {"scheduled"}),
    ],
)
async def test_every_odd_row_is_worked_and_so_is_the_job_behind_them(
    work: Any, ends: set[str], play: Playground
) -> None:
    play.worker(work)
    odd = await insert_odd_rows(
        play.connection, ("available",), large_in=("available",), kind="'task'", max_attempts="30"
    )
    behind = await play.insert()
    client = await play.start()
    due = (
        "kind = 'task' and queue = 'default' and created_at > '2000-01-01' and scheduled_at <="
        " now()"
    )

    async def looked() -> list[dict[str, Any]]:
        return await play.rows(
            f"select id, state, {due} and (state = 'running'"
            " or not coalesce(%s = any(attempted_by), false)) as to_be_worked"
            f" from river_job where {due} or state <> 'available'",
            client.id,
        )

    # In one look, as those that failed are soon tried again.
    found = await eventually(
        looked, fits=lambda rows: not any(row["to_be_worked"] for row in rows), within=LONGEST
    )
    rows = {row["id"]: row["state"] for row in found}
    # It is not among them while it is to be tried again in a moment.
    assert rows.get(behind, "available") in ends
    for (name, _), job_id in odd.items():
        unread = (
            {"available", "retryable", "discarded", "cancelled"}
            if name.startswith(NO_TASKS)
            else set()
        )
        cancelled = {"cancelled"} if "cancel" in name or "River's keys" in name else set()
        assert rows.get(job_id, "not due") in {*ends, *unread, *cancelled, "not due"}, name


async def test_attempts_and_workers_are_counted_as_far_as_they_go(play: Playground) -> None:
    play.worker(well)
    last = await play.insert(attempt=32767, max_attempts=32767)
    nested = await play.insert(attempted_by=[["a", "b"], ["c", "d"]])
    shifted = await play.insert(attempted_by=["a"])
    await play.connection.execute(
        "update river_job set attempted_by = '[2147483646:2147483646]={a}' where id = %s",
        [shifted],
    )
    client = await play.start()
    for job_id in (last, nested, shifted):
        await play.event(job_id)
    assert (await play.row(last))["attempt"] == 32767
    assert (await play.row(nested))["attempted_by"] == ["a", "b", "c", "d", client.id]
    assert (await play.row(shifted))["attempted_by"] == ["a", client.id]


async def test_errors_are_added_to_whatever_stands_there(play: Playground) -> None:
    play.worker(badly)
    nested = await play.insert()
    await play.connection.execute(
        "update river_job set errors = array[array['1', '2'], array['3', '4']]::jsonb[] where id"
        " = %s",
        [nested],
    )
    await play.start()
    await play.event(nested)
    errors = (await play.row(nested))["errors"]
    assert errors[:4] == [1, 2, 3, 4]
    assert errors[4]["error"] == "ValueError: no"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("null", {"seen": True, "output": {"seen": True}}),
        ("7", 7),
        ('"cancel_attempted_at"', "cancel_attempted_at"),
        ('["cancel_attempted_at"]', ["cancel_attempted_at"]),
    ],
)
async def test_metadata_that_is_no_object_stays_as_it_is(
    before: str, after: object, play: Playground
) -> None:
    row = await play.work(well, metadata=before)
    assert (row["state"], row["metadata"]) == ("completed", after)


async def test_a_text_in_the_place_of_metadata_cancels_nothing(play: Playground) -> None:
    row = await play.work(later, metadata='"cancel_attempted_at"')
    assert row["state"] == "scheduled"


async def test_a_job_that_cannot_be_fetched_is_logged_and_left_and_the_others_are_worked(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    play.worker(well)
    ids = [await play.insert() for _ in range(20)]
    await play.connection.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not this one'; end $$"
    )
    for poison in (ids[0], ids[11]):
        await play.connection.execute(
            f"create trigger refuse_{poison} before update on river_job"
            f" for each row when (old.id = {poison}) execute function refuse()".encode()
        )
    client = await play.start()
    for job_id in ids:
        if job_id not in (ids[0], ids[11]):
            await play.event(job_id)
    found = await play.rows("select id from river_job where state = 'available' order by id")
    assert [row["id"] for row in found] == [ids[0], ids[11]]

    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]

    await until(lambda: len(messages()) == 2)
    assert f"queue default: job {ids[0]} cannot be processed" in messages()[0]
    assert "not this one" in messages()[0]
    assert client.last_fetched_at is not None
    assert producer(play).slots.running == 0


async def test_a_job_whose_key_another_has_while_it_runs_waits_alone(play: Playground) -> None:
    """Its key counts only in running jobs, as no client writes it, so that two of a key can be
    available.
    """
    gate = asyncio.Event()

    async def wait(job: Job[Task]) -> None:
        if job.args.value == "first":
            await gate.wait()

    play.worker(wait)
    unique: dict[str, Any] = {"unique_key": b"k" * 32, "unique_states": "01000000"}
    first = await play.insert(Task(value="first"), **unique)
    second = await play.insert(Task(value="second"), **unique)
    third = await play.insert(Task(value="third"))
    await play.start()
    await play.event(third)
    assert [(await play.row(job_id))["state"] for job_id in (first, second)] == [
        "running",
        "available",
    ]
    gate.set()
    await play.event(first)


def test_a_database_without_room_is_no_row_s_fault() -> None:
    full = DatabaseError("could not extend file")
    full.sqlstate = "53100"
    assert not is_rows_fault(full), "else every job would be set aside, one after the other"
