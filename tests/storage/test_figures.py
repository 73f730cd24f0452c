"""What figures are made of, read from plain and from odd rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.errors import CheckViolation

from riverui.domain.figures import OTHER
from riverui.domain.jobs import JobState
from riverui.domain.sketch import GAMMA, Sketch, bin_of
from riverui.storage.interface.figures import FailedAttempt, TimeSlice
from riverui.storage.postgres.driver import PostgresDriver
from tests.cases import cases
from tests.factory import Make, attempt_error

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVER = TimeSlice(
    7, datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=1), datetime(9999, 1, 1, tzinfo=UTC)
)


async def ended(make: Make, at: datetime, state: str = "completed", **columns: Any) -> int:
    """Insert a job that ended then, after a run of two seconds and a wait of one."""
    given: dict[str, Any] = {
        "attempt": 1,
        "attempted_at": at - timedelta(seconds=2),
        "errors": [],
        "finalized_at": at,
        "scheduled_at": at - timedelta(seconds=3),
    }
    return await make.job(state, **(given | columns))


def same(one: Sketch, other: Sketch) -> bool:
    return (one.counts, one.sum_us, one.max_us) == (other.counts, other.sum_us, other.max_us)


async def test_what_ended_is_told_by_slice_queue_kind_and_state(
    driver: PostgresDriver, make: Make
) -> None:
    for at in (AT - MINUTE / 60, AT, AT + MINUTE - timedelta(microseconds=1), AT + MINUTE):
        for state in ("completed", "cancelled", "discarded"):
            await ended(make, at, state)
    await ended(make, AT, queue="other", kind="else")
    await make.job("running")
    slices = [TimeSlice(1, AT, AT + MINUTE), TimeSlice(2, AT + MINUTE, AT + 2 * MINUTE)]
    async with driver.reading() as db:
        found = await db.job_ended_tally_list(slices)
        apart = await db.job_ended_tally_list(
            [TimeSlice(9, AT, AT + MINUTE / 2), TimeSlice(9, AT + MINUTE / 2, AT + MINUTE)]
        )
        assert await db.job_ended_tally_list([]) == []
    told = {(row.place, row.queue, row.kind, row.state.value): row.jobs for row in found}
    assert told == {
        (1, "default", "test_kind", "completed"): 2,
        (1, "default", "test_kind", "cancelled"): 2,
        (1, "default", "test_kind", "discarded"): 2,
        (1, "other", "else", "completed"): 1,
        (2, "default", "test_kind", "completed"): 1,
        (2, "default", "test_kind", "cancelled"): 1,
        (2, "default", "test_kind", "discarded"): 1,
    }
    for row in found:
        runs = 0 if row.state is JobState.CANCELLED else row.jobs
        assert same(row.run, Sketch.of([timedelta(seconds=2)] * runs))
        assert same(row.wait, Sketch.of([timedelta(seconds=1)] * row.jobs))
    assert {(row.place, *row[1:5]) for row in apart} == {
        (9, *row[1:5]) for row in found if row.place == 1
    }


async def test_postgres_finds_the_bins_that_python_finds(
    driver: PostgresDriver, make: Make
) -> None:
    """At the ends of bins, one microsecond beside them, at nothing and beyond the last."""
    spans = {0, 1, 2, 999, 1_000, 1_001, 10**6, 10**9, 3 * 10**12, 10**15}
    for n in range(60, 300, 3):
        end = int(GAMMA**n)
        spans |= {end - 1, end, end + 1}
    for span in spans:
        microseconds = timedelta(microseconds=span)
        await ended(make, AT, attempted_at=AT - microseconds, scheduled_at=AT - 2 * microseconds)
    async with driver.reading() as db:
        (row,) = await db.job_ended_tally_list([TimeSlice(0, AT, AT + MINUTE)])
    expected = Counter(map(bin_of, spans))
    assert row.run.counts == expected
    assert row.wait.counts == expected
    assert row.run.max_us == 10**15
    assert row.run.sum_us == sum(spans)


async def test_odd_times_are_left_out_or_none(driver: PostgresDriver, make: Make) -> None:
    old = datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=400)
    await ended(make, AT, attempted_at=None)
    for odd in ("infinity", "-infinity"):
        await ended(make, AT, attempted_at=odd)
        await ended(make, AT, scheduled_at=odd)
        await ended(make, AT, finalized_at=odd)
    await ended(make, AT, attempted_at=AT + MINUTE, scheduled_at=AT + 2 * MINUTE)
    await ended(make, AT, "cancelled", attempted_at=AT, scheduled_at=AT + MINUTE)
    await ended(make, AT, "discarded", attempted_at=old, scheduled_at="4000-01-01 BC")
    async with driver.reading() as db:
        rows = {row.state: row for row in await db.job_ended_tally_list([EVER])}
    completed = rows[JobState.COMPLETED]
    assert completed.jobs == 6
    # Two whose due time is infinite ran for two seconds, one that began after its end for none.
    assert same(completed.run, Sketch.of([timedelta(0), *[timedelta(seconds=2)] * 2]))
    assert same(completed.wait, Sketch.of([timedelta(0)]))
    cancelled = rows[JobState.CANCELLED]
    assert (cancelled.jobs, cancelled.run.n, cancelled.wait.n) == (1, 0, 0)
    discarded = rows[JobState.DISCARDED]
    assert discarded.run.counts == {287: 1}
    assert discarded.wait.counts == {287: 1}


async def test_pairs_beyond_the_most_are_told_together(driver: PostgresDriver, make: Make) -> None:
    for n in range(5):
        for _ in range(5 - n):
            await ended(make, AT, kind=f"kind_{n}", queue="q" if n < 3 else f"rare_{n}")
    async with driver.reading() as db:
        rows = await db.job_ended_tally_list([TimeSlice(0, AT, AT + MINUTE)], pairs=2)
    assert {(row.queue, row.kind): row.jobs for row in rows} == {
        ("q", "kind_0"): 5,
        ("q", "kind_1"): 4,
        ("q", OTHER): 3,
        (OTHER, OTHER): 3,
    }
    assert sum(row.run.n for row in rows) == 15


async def test_failed_attempts_of_jobs_that_ended(driver: PostgresDriver, make: Make) -> None:
    def error(n: int, **keys: Any) -> dict[str, Any]:
        at = AT - timedelta(minutes=10 - n)
        return attempt_error(attempt=n, **{"at": at.isoformat(), **keys})

    once = await ended(make, AT, "discarded", attempt=1, errors=[error(1)])
    twice = await ended(make, AT, attempt=3, errors=[error(1), error(2)])
    many = await ended(make, AT, "cancelled", attempt=20, errors=[error(n) for n in range(1, 20)])
    await ended(make, AT)
    await ended(make, AT + MINUTE, attempt=2, errors=[error(1)])
    slices = [TimeSlice(0, AT, AT + MINUTE)]
    async with driver.reading() as db:
        found = await db.job_ended_failure_list(slices)
        given_up = await db.job_ended_failure_list(slices, states=[JobState.DISCARDED])
    last = FailedAttempt(once, 1, AT - timedelta(seconds=2), "default", "test_kind")
    assert given_up == [last]
    assert Counter((row.id, row.attempt) for row in found) == Counter(
        [(once, 1), (twice, 1), (twice, 2), *((many, n) for n in range(10, 20))]
    )
    (second,) = [row for row in found if (row.id, row.attempt) == (twice, 2)]
    assert second.at == AT - timedelta(minutes=8)


async def test_failed_attempts_of_jobs_that_go_on(driver: PostgresDriver, make: Make) -> None:
    def failed(n: int) -> dict[str, Any]:
        return attempt_error(attempt=n, at=(AT + n * MINUTE).isoformat())

    now = AT + 5 * MINUTE
    retryable = await make.job(
        "retryable", attempt=2, attempted_at=now, errors=[failed(1), failed(2)]
    )
    first = await make.job("retryable", attempt=1, attempted_at=now, errors=None)
    await make.job("retryable", attempt=2, attempted_at=AT - MINUTE, errors=[failed(1)])
    running = await make.job("running", attempt=2, attempted_at=now, errors=[failed(1)])
    await make.job("running", attempt=1, attempted_at=now)
    again = await make.job("available", attempt=1, attempted_at=now, errors=[failed(1)])
    await make.job("available", attempt=0, attempted_at=None)
    async with driver.reading() as db:
        found = await db.job_unfinished_failure_list(AT)
        last = await db.job_unfinished_failure_list(AT, earlier=False)
        capped = await db.job_unfinished_failure_list(AT, cap=25, limit=1)
    assert {(row.id, row.attempt) for row in found} == {
        (retryable, 1),
        (retryable, 2),
        (first, 1),
        (running, 1),
        (again, 1),
    }
    assert {(row.id, row.attempt) for row in last} == {
        (retryable, 2),
        (first, 1),
        (running, 1),
        (again, 1),
    }
    assert len({row.id for row in capped}) == 1


async def test_errors_that_nobody_can_read_are_left_out(driver: PostgresDriver, make: Make) -> None:
    job = await ended(make, AT, attempt=2)
    with cases() as case:
        for errors in (
            ["null", "1", '"text"', "[]", "{}"],
            [
                '{"at": null, "attempt": 1}',
                '{"at": {}, "attempt": 1}',
                '{"at": "soon", "attempt": 1}',
            ],
            ['{"at": "2026-11-21T09:00:00", "attempt": 1}'],
            ['{"at": "2026-11-21T09:00:00Z", "attempt": "x"}', '{"at": "2026-11-21T09:00:00Z"}'],
            ['{"at": "9999-12-31T23:59:59-23:00", "attempt": 1}'],
            ['{"at": "0001-01-01T00:00:00+23:00", "attempt": 1}'],
            ['{"at": "2026-11-21T09:00:00Z", "attempt": -1}'],
            ['{"at": "%s", "attempt": 1}' % ("9" * 100_000)],
        ):
            with case(str(errors)[:80]):
                await make.connection.execute(
                    "update river_job set errors = %s::text[]::jsonb[] where id = %s", [errors, job]
                )
                async with driver.reading() as db:
                    assert await db.job_ended_failure_list([TimeSlice(0, AT, AT + MINUTE)]) == []


async def test_inserted_jobs_are_read_from_the_newest(driver: PostgresDriver, make: Make) -> None:
    ids = [
        await make.job(created_at=AT + n * MINUTE / 2, queue=f"q{n % 2}", kind="k")
        for n in range(6)
    ]
    await make.job(created_at="infinity")
    await make.job(created_at="-infinity")
    async with driver.reading() as db:
        clock = await db.figure_clock_get()
        assert clock.last_id == ids[-1] + 2
        assert abs(clock.now - datetime.now(UTC)) < MINUTE
        page = await db.job_inserted_tally_list(upto=ids[-1], since=AT, limit=4)
        rest = await db.job_inserted_tally_list(upto=page.first_id - 1, since=AT)
        since = await db.job_inserted_tally_list(upto=ids[-1] + 2, since=AT + 2 * MINUTE)
        after = await db.job_inserted_tally_list(after=ids[4], upto=ids[-1], since=AT)
        none = await db.job_inserted_tally_list(upto=0, since=AT)
    assert page.first_id == ids[2]
    assert {tuple(row) for row in page.tallies} == {
        (AT + MINUTE, "q0", "k", 1),
        (AT + MINUTE, "q1", "k", 1),
        (AT + 2 * MINUTE, "q0", "k", 1),
        (AT + 2 * MINUTE, "q1", "k", 1),
    }
    assert {tuple(row) for row in rest.tallies} == {(AT, "q0", "k", 1), (AT, "q1", "k", 1)}
    assert {row.at for row in since.tallies} == {AT + 2 * MINUTE}
    assert [row.jobs for row in after.tallies] == [1]
    assert (none.tallies, none.first_id) == ([], 0)


async def test_what_waits_in_each_queue(driver: PostgresDriver, make: Make) -> None:
    for n in range(3):
        await make.job(queue="b", scheduled_at=AT + n * MINUTE, priority=4 - n)
    await make.job(queue="a", scheduled_at="-infinity")
    await make.job(queue="c", scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    await make.job("running", queue="d")
    async with driver.reading() as db:
        found = await db.queue_waiting_list(cap=10)
        capped = await db.queue_waiting_list(cap=2, limit=2)
    assert [tuple(row) for row in found] == [("a", 1, None), ("b", 3, AT), ("c", 1, None)]
    assert [tuple(row) for row in capped] == [("a", 1, None), ("b", 2, AT)]


async def test_the_first_completed_job_that_is_left(driver: PostgresDriver, make: Make) -> None:
    await ended(make, AT)
    await ended(make, AT + MINUTE)
    await ended(make, AT - MINUTE, "discarded")
    async with driver.reading() as db:
        assert await db.job_first_completed_at(AT - MINUTE) == AT
        assert await db.job_first_completed_at(AT + MINUTE / 2) == AT + MINUTE
        assert await db.job_first_completed_at(AT + 2 * MINUTE) is None


async def test_names_are_bounded(driver: PostgresDriver, make: Make) -> None:
    with pytest.raises(CheckViolation):
        await ended(make, AT, kind="k" * 1000)
    await make.connection.execute(
        "alter table river_job drop constraint kind_length; alter table river_job drop constraint"
        " queue_length"
    )
    await ended(make, AT, kind="k" * 100_000, queue="q" * 100_000)
    await ended(make, AT, kind="k" * 1000, queue="q" * 1000)
    async with driver.reading() as db:
        (row,) = await db.job_ended_tally_list([TimeSlice(0, AT, AT + MINUTE)])
    assert (row.queue, row.kind, row.jobs) == ("q" * 200, "k" * 200, 2)
