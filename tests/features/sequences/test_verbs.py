"""Verbs on jobs of sequences, by a dashboard that knows no client: never two of a key at once, and
the next one gets its turn.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions import jobs
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.errors import BadRequest, NotFound
from riverui.features.sequences import verbs as sequences
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import SkipReason
from tests.cases import cases
from tests.factory import Make, job
from tests.features.both import (
    SqliteMake,
    database,
    driver,
    driver_url,
    file,
    make,
    postgres_only,
)
from tests.features.sequences.line import KEY, Line

__all__ = ["database", "driver", "driver_url", "file", "make"]


@pytest.fixture
async def line(driver: Driver, make: Make | SqliteMake) -> Line:
    return Line(driver, make)


CHANGES: list[tuple[str, Any, list[int], str]] = [
    ("running pending pending", RETRY, [2], "running pending pending"),
    ("discarded pending", RETRY, [0], "available pending"),
    ("cancelled pending pending", RETRY, [2], "cancelled available pending"),
    ("completed", RETRY, [0], "available"),
    ("retryable pending", RETRY, [0, 1], "available pending"),
    ("available pending pending", CANCEL, [0], "cancelled pending pending"),
    ("available pending pending", DELETE, [0, 1], "gone gone available"),
]
"""States of a sequence's jobs, a verb on some of them, and the states afterwards."""


async def test_a_change_leaves_one_job_at_the_head(line: Line) -> None:
    with cases() as case:
        for number, (before, verb, chosen, after) in enumerate(CHANGES):
            with case((before, verb.name, chosen)):
                ids = await line.make(*before.split(), key=f"key {number}")
                changes = await line.do(verb, *(ids[each] for each in chosen))
                assert sorted(changes.changed) == [ids[each] for each in chosen]
                assert await line.states(ids) == after.split()
        with case("a cancelled head that others need not wait for"):
            ids = await line.make("available", "pending", continue_on_cancelled=True)
            await line.do(CANCEL, ids[0])
            assert await line.states(ids) == ["cancelled", "available"]


async def test_a_completed_job_that_is_retried_waits_for_its_turn(line: Line) -> None:
    done = await line.make("completed")
    ids = [*done, *await line.make("running", "pending")]
    await line.do(RETRY, done[0])
    assert await line.states(ids) == ["pending", "running", "pending"]
    await line.insert.execute(
        "update river_job set state = 'discarded', finalized_at = %s where id = %s",
        [datetime.now(UTC), ids[1]],
    )
    # The next change of the key moves past the job that has ended.
    await line.do(DELETE, ids[1])
    assert await line.states(ids) == ["available", "gone", "pending"]


async def test_a_job_cancelled_in_line_halts_when_its_turn_comes(line: Line) -> None:
    ids = await line.make("available", "pending", "pending")
    await line.do(CANCEL, ids[1])
    await line.do(DELETE, ids[0])
    assert await line.states(ids) == ["gone", "cancelled", "pending"]
    async with line.driver.transaction() as executor:
        place = await SequenceStore(executor).sequence_place(ids[2])
    assert place is not None
    assert (place.head_id, place.head_state, place.ahead) == (ids[1], "cancelled", 0)
    assert place.waiting
    assert place.halted_at is not None
    await line.do(DELETE, ids[1])
    assert await line.states(ids) == ["gone", "gone", "available"]


async def test_a_scheduled_job_whose_turn_comes_waits_for_its_time(line: Line) -> None:
    ids = await line.make("available", "pending")
    later = datetime.now(UTC) + timedelta(hours=1)
    await line.insert.execute(
        "update river_job set scheduled_at = %s where id = %s", [later, ids[1]]
    )
    await line.do(DELETE, ids[0])
    assert await line.states(ids) == ["gone", "scheduled"]


async def test_jobs_of_other_keys_and_of_none_are_done_as_ever(line: Line) -> None:
    ids = await line.make("running", "pending")
    other = await line.make("discarded", "pending", key="another")
    plain = [await line.insert.job("discarded", metadata={"seq_key": KEY})]
    everything = [*ids, *other, *plain]
    changes = await line.do(RETRY, *everything)
    assert sorted(changes.changed) == sorted([ids[1], *other, *plain])
    assert changes.skipped == ((ids[0], SkipReason.RUNNING),)
    assert await line.states(everything) == [
        "running", "pending", "available", "pending", "available",
    ]  # fmt: skip


# Skip


@pytest.mark.parametrize("state", ["cancelled", "discarded"])
async def test_a_skipped_head_stays_as_it_is_and_the_next_runs(line: Line, state: str) -> None:
    ids = await line.make(state, "pending", "pending")
    place = await sequences.skip(line.driver, ids[0])
    assert await line.states(ids) == [state, "available", "pending"]
    assert place is not None
    assert (place.head_id, place.halted_at, place.waiting) == (ids[1], None, False)
    with pytest.raises(BadRequest, match="does not halt its sequence"):
        await sequences.skip(line.driver, ids[0])
    await line.do(RETRY, ids[0])
    assert await line.states(ids) == ["pending", "available", "pending"], "it is put back in line"


async def test_a_job_that_would_halt_later_is_skipped_before_its_turn(line: Line) -> None:
    ids = await line.make("running", "pending", "pending")
    await line.do(CANCEL, ids[1])
    place = await sequences.skip(line.driver, ids[1])
    assert place is not None
    assert (place.waiting, place.head_id) == (False, ids[0])
    assert await line.states(ids) == ["running", "cancelled", "pending"], "one at a time"
    await line.insert.execute(
        "update river_job set state = 'completed', finalized_at = %s where id = %s",
        [datetime.now(UTC), ids[0]],
    )
    async with line.driver.transaction() as executor:
        await SequenceStore(executor).sequence_advance([KEY])
    assert await line.states(ids) == ["completed", "cancelled", "available"]


async def test_a_skip_past_one_halted_job_stops_at_the_next(line: Line) -> None:
    ids = await line.make("discarded", "cancelled", "pending")
    place = await sequences.skip(line.driver, ids[0])
    assert place is not None
    assert place.head_id == ids[1]
    assert place.halted_at is not None
    await sequences.skip(line.driver, ids[1])
    assert await line.states(ids) == ["discarded", "cancelled", "available"]


async def test_the_last_of_a_sequence_is_skipped(line: Line) -> None:
    ids = await line.make("discarded")
    place = await sequences.skip(line.driver, ids[0])
    assert place is not None
    assert (place.head_id, place.halted_at) == (None, None)


async def test_a_job_that_will_run_is_not_skipped(line: Line) -> None:
    for state in ("available", "running", "retryable", "scheduled"):
        ids = await line.make(state, "pending", key=state)
        for each in ids:
            with pytest.raises(BadRequest, match="does not halt its sequence"):
                await sequences.skip(line.driver, each)
        assert await line.states(ids) == [state, "pending"]


async def test_what_is_in_no_sequence_is_not_skipped(line: Line) -> None:
    with pytest.raises(NotFound):
        await sequences.skip(line.driver, 404)
    with pytest.raises(BadRequest, match="in no sequence"):
        await sequences.skip(line.driver, await line.insert.job("discarded"))
    pros = await line.insert.job("discarded", metadata={"seq_key": KEY})
    with pytest.raises(BadRequest, match="River Pro"):
        await sequences.skip(line.driver, pros)


# On a database with River Pro's sequences


async def pro_keys(connection: AsyncConnection[Any]) -> list[str]:
    rows = await connection.execute("select key from river_job_sequence")
    return [row["key"] for row in await rows.fetchall()]


@postgres_only
@pytest.mark.parametrize(
    "columns", ["key text primary key", "key text, at timestamptz default now()"]
)
async def test_a_job_of_pro_becomes_pending_and_its_key_is_handed_over(
    driver: Driver, connection: AsyncConnection[Any], columns: str
) -> None:
    await connection.execute(f"create table river_job_sequence ({columns})".encode())
    line = Line(driver, Make(connection))
    sequence = {"metadata": {"seq_key": "k"}}
    ids = [await job(connection, "discarded", **given) for given in (sequence, {})]
    changes = await line.do(RETRY, *ids)
    assert sorted(changes.changed) == ids
    assert await line.states(ids) == ["pending", "available"]
    assert await pro_keys(connection) == ["k"]
    await connection.execute("delete from river_job_sequence")
    await line.do(DELETE, *ids)
    assert await line.states(ids) == ["gone", "gone"]
    assert await pro_keys(connection) == ["k"]


@postgres_only
@pytest.mark.parametrize("columns", ["", "key bytea", "key text, shard int not null"])
async def test_a_job_of_pro_whose_key_cannot_be_handed_over_is_left_alone(
    driver: Driver, connection: AsyncConnection[Any], columns: str
) -> None:
    await connection.execute(f"create table river_job_sequence ({columns})".encode())
    line = Line(driver, Make(connection))
    ids = [await job(connection, "discarded", metadata={"seq_key": "k"})]
    changes = await line.do(RETRY, *ids)
    assert changes.skipped == ((ids[0], SkipReason.SEQUENCE),)
    assert await line.states(ids) == ["discarded"]
    with pytest.raises(BadRequest, match="in a sequence of River Pro"):
        await jobs.apply_whole(driver, RETRY, ids, pilot=line.pilot)
    await line.do(DELETE, *ids)
    assert await line.states(ids) == ["gone"]
