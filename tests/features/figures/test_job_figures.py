"""Reading figures from River's rows, normal and odd."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.errors import CheckViolation

from riverui.domain.figures import OTHER
from riverui.domain.jobs import JobState
from riverui.domain.sketch import GAMMA, Sketch
from riverui.features.figures.domain import Waiting
from riverui.features.figures.store import FailedAttempt, JobFigures, RollupStore
from riverui.storage.interface import Driver
from tests.cases import cases
from tests.factory import Make, attempt_error, job
from tests.features.both import SqliteMake, database, driver, driver_url, file, make, postgres_only
from tests.features.figures.conftest import Connection, ended

__all__ = ["database", "driver", "driver_url", "file", "make"]

AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
THIS = [(AT, AT + MINUTE)]


def same(one: Sketch, other: Sketch) -> bool:
    return (one.counts, one.sum_us, one.max_us) == (other.counts, other.sum_us, other.max_us)


async def test_ended_jobs_are_counted_by_minute_queue_kind_and_state(
    driver: Driver, make: Make | SqliteMake
) -> None:
    for at in (AT - MINUTE / 60, AT, AT + MINUTE - timedelta(milliseconds=1), AT + MINUTE):
        for state in ("completed", "cancelled", "discarded"):
            await ended(make, at, state, run=2, wait=1)
    await ended(make, AT, queue="other", kind="else", run=2, wait=1)
    await job(make, "running")
    async with driver.reading() as db:
        jobs = JobFigures(db)
        found = await jobs.job_ended_tally_list([*THIS, (AT + MINUTE, AT + 2 * MINUTE)])
        halves = await jobs.job_ended_tally_list(
            [(AT, AT + MINUTE / 2), (AT + MINUTE / 2, AT + MINUTE)]
        )
        assert await jobs.job_ended_tally_list([]) == {}
    assert {
        (at, *pair): (tally.completed, tally.cancelled, tally.discarded)
        for at, pairs in found.items()
        for pair, tally in pairs.items()
    } == {
        (AT, "default", "test_kind"): (2, 2, 2),
        (AT, "other", "else"): (1, 0, 0),
        (AT + MINUTE, "default", "test_kind"): (1, 1, 1),
    }
    for pairs in found.values():
        for tally in pairs.values():
            two = [timedelta(seconds=2)]
            assert same(tally.run, Sketch.from_spans(two * tally.completed))
            assert same(tally.failed_run, Sketch.from_spans(two * tally.discarded))
            assert same(tally.wait, Sketch.from_spans([timedelta(seconds=1)] * tally.ended))
    assert halves.keys() == {AT}
    assert halves[AT]["default", "test_kind"].run.n == 2


@postgres_only
async def test_postgres_finds_the_bins_that_python_finds(
    driver: Driver, connection: Connection
) -> None:
    """At the ends of bins, one microsecond beside them, at zero and beyond the last."""
    spans = {0, 1, 2, 999, 1_000, 1_001, 10**6, 10**9, 3 * 10**12, 10**15}
    for n in range(60, 300, 3):
        end = int(GAMMA**n)
        spans |= {end - 1, end, end + 1}
    for span in spans:
        began = AT - timedelta(microseconds=span)
        due = began - timedelta(microseconds=span)
        await ended(connection, AT, attempted_at=began, scheduled_at=due)
    async with driver.reading() as db:
        found = await JobFigures(db).job_ended_tally_list(THIS)
    tally = found[AT]["default", "test_kind"]
    expected = Sketch.from_spans(timedelta(microseconds=span) for span in spans)
    assert same(tally.run, expected)
    assert same(tally.wait, expected)


@postgres_only
async def test_odd_times_are_left_out_or_nothing(driver: Driver, connection: Connection) -> None:
    old = datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=400)
    begun = AT - timedelta(seconds=2)
    await ended(connection, AT, attempted_at=None)
    for odd in ("infinity", "-infinity"):
        await ended(connection, AT, attempted_at=odd)
        await ended(connection, AT, attempted_at=begun, scheduled_at=odd)
        await ended(connection, AT, finalized_at=odd)
    await ended(connection, AT, attempted_at=AT + MINUTE, scheduled_at=AT + 2 * MINUTE)
    await ended(connection, AT, "cancelled", attempted_at=AT, scheduled_at=AT + MINUTE)
    await ended(connection, AT, "discarded", attempted_at=old, scheduled_at="4000-01-01 BC")
    async with driver.reading() as db:
        found = await JobFigures(db).job_ended_tally_list(THIS)
    tally = found[AT]["default", "test_kind"]
    assert (tally.completed, tally.cancelled, tally.discarded) == (6, 1, 1)
    # Two whose due time is infinite ran for two seconds, one that began after its end for none.
    assert same(tally.run, Sketch.from_spans([timedelta(0), *[timedelta(seconds=2)] * 2]))
    assert tally.failed_run.counts == {287: 1}
    assert tally.wait.counts == {287: 1, 70: 1}


async def test_the_busiest_pairs_are_named(driver: Driver, make: Make | SqliteMake) -> None:
    for n in range(5):
        for _ in range(5 - n):
            await ended(make, AT, kind=f"kind_{n}", queue="q" if n < 3 else f"rare_{n}")
    async with driver.reading() as db:
        found = await JobFigures(db).job_ended_tally_list(THIS, pairs=2)
    assert {pair: tally.completed for pair, tally in found[AT].items()} == {
        ("q", "kind_0"): 5,
        ("q", "kind_1"): 4,
        ("q", OTHER): 3,
        (OTHER, OTHER): 3,
    }


@postgres_only
async def test_names_are_bounded(driver: Driver, connection: Connection) -> None:
    with pytest.raises(CheckViolation):
        await ended(connection, AT, kind="k" * 1000)
    await connection.execute(
        "alter table river_job drop constraint kind_length, drop constraint queue_length"
    )
    for length in (1000, 100_000):
        await ended(connection, AT, kind="k" * length, queue="q" * length)
    async with driver.reading() as db:
        found = await JobFigures(db).job_ended_tally_list(THIS)
    assert {pair: tally.completed for pair, tally in found[AT].items()} == {
        ("q" * 200, "k" * 200): 2
    }


async def test_failed_attempts_of_jobs_that_ended(driver: Driver, make: Make | SqliteMake) -> None:
    def error(n: int) -> dict[str, Any]:
        return attempt_error(attempt=n, at=(AT - (10 - n) * MINUTE).isoformat())

    many = [error(n) for n in range(1, 20)]
    once = await ended(make, AT, "discarded", run=2, errors=[error(1)])
    twice = await ended(make, AT, attempt=3, errors=[error(1), error(2)])
    often = await ended(make, AT, "cancelled", attempt=20, errors=many)
    await ended(make, AT)
    await ended(make, AT + MINUTE, attempt=2, errors=[error(1)])
    async with driver.reading() as db:
        found = await JobFigures(db).job_ended_failure_list(THIS)
        given_up = await JobFigures(db).job_ended_failure_list(THIS, states=[JobState.DISCARDED])
        assert await JobFigures(db).job_ended_failure_list([]) == []
    assert given_up == [FailedAttempt(once, 1, AT - timedelta(seconds=2), "default", "test_kind")]
    assert Counter((row.id, row.attempt) for row in found) == Counter(
        [(once, 1), (twice, 1), (twice, 2), *((often, n) for n in range(10, 20))]
    )
    (second,) = [row for row in found if (row.id, row.attempt) == (twice, 2)]
    assert second.at == AT - 8 * MINUTE


async def test_failed_attempts_of_jobs_that_go_on(driver: Driver, make: Make | SqliteMake) -> None:
    def failed(n: int) -> dict[str, Any]:
        return attempt_error(attempt=n, at=(AT + n * MINUTE).isoformat())

    async def fail(state: str, attempt: int, errors: Any, at: datetime | None = None) -> int:
        at = at or AT + 5 * MINUTE
        return await make.job(state, attempt=attempt, attempted_at=at, errors=errors)

    retryable = await fail("retryable", 2, [failed(1), failed(2)])
    first = await fail("retryable", 1, None)
    await fail("retryable", 2, [failed(1)], AT - MINUTE)
    running = await fail("running", 2, [failed(1)])
    await fail("running", 1, [])
    again = await fail("available", 1, [failed(1)])
    await make.job("available", attempt=0, attempted_at=None)
    async with driver.reading() as db:
        jobs = JobFigures(db)
        found = await jobs.job_unfinished_failure_list(AT)
        last = await jobs.job_unfinished_failure_list(AT, earlier=False)
        capped = await jobs.job_unfinished_failure_list(AT, cap=25, limit=1)
    expected = {(retryable, 2), (first, 1), (running, 1), (again, 1)}
    assert {(row.id, row.attempt) for row in found} == {*expected, (retryable, 1)}
    assert {(row.id, row.attempt) for row in last} == expected
    assert len({row.id for row in capped}) == 1


@postgres_only
async def test_errors_that_cannot_be_read_are_left_out(
    driver: Driver, connection: Connection
) -> None:
    odd = await ended(connection, AT, attempt=2)
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
                await connection.execute(
                    "update river_job set errors = %s::text[]::jsonb[] where id = %s", [errors, odd]
                )
                async with driver.reading() as db:
                    assert await JobFigures(db).job_ended_failure_list(THIS) == []


@postgres_only
async def test_inserted_jobs_are_read_from_the_newest(
    driver: Driver, connection: Connection
) -> None:
    ids = [
        await job(connection, created_at=AT + n * MINUTE / 2, queue=f"q{n % 2}", kind="k")
        for n in range(6)
    ]
    await job(connection, created_at="infinity")
    await job(connection, created_at="-infinity")
    async with driver.reading() as db:
        jobs = JobFigures(db)
        now, last_id = await jobs.figure_clock_get()
        found, first_id = await jobs.job_inserted_tally_list(upto=ids[-1], since=AT, limit=4)
        rest, _ = await jobs.job_inserted_tally_list(upto=first_id - 1, since=AT)
        late, _ = await jobs.job_inserted_tally_list(upto=last_id, since=AT + 2 * MINUTE)
        after, _ = await jobs.job_inserted_tally_list(after=ids[4], upto=ids[-1], since=AT)
        assert await jobs.job_inserted_tally_list(upto=0, since=AT) == ([], 0)
    assert last_id == ids[-1] + 2
    assert abs(now - datetime.now(UTC)) < MINUTE
    assert first_id == ids[2]
    assert {tuple(row) for row in found} == {
        (AT + MINUTE, "q0", "k", 1),
        (AT + MINUTE, "q1", "k", 1),
        (AT + 2 * MINUTE, "q0", "k", 1),
        (AT + 2 * MINUTE, "q1", "k", 1),
    }
    assert {tuple(row) for row in rest} == {(AT, "q0", "k", 1), (AT, "q1", "k", 1)}
    assert {row.at for row in late} == {AT + 2 * MINUTE}
    assert [row.jobs for row in after] == [1]


@postgres_only
async def test_what_waits_in_each_queue(driver: Driver, connection: Connection) -> None:
    for n in range(3):
        await job(connection, queue="b", scheduled_at=AT + n * MINUTE, priority=4 - n)
    await job(connection, queue="a", scheduled_at="-infinity")
    await job(connection, queue="c", scheduled_at=datetime.now(UTC) + timedelta(hours=1))
    await job(connection, "running", queue="d")
    now = AT + 5 * MINUTE
    async with driver.reading() as db:
        found = await JobFigures(db).queue_waiting_list(now=now, cap=10)
        capped = await JobFigures(db).queue_waiting_list(now=now, cap=2, limit=2)
    nothing = timedelta(0)
    assert found == {
        "a": Waiting(jobs=1, capped=False, oldest=nothing),
        "b": Waiting(jobs=3, capped=False, oldest=5 * MINUTE),
        "c": Waiting(jobs=1, capped=False, oldest=nothing),
    }
    assert capped == {"a": found["a"], "b": Waiting(jobs=2, capped=True, oldest=5 * MINUTE)}


async def test_the_oldest_completed_job_that_is_left(
    driver: Driver, make: Make | SqliteMake
) -> None:
    await ended(make, AT)
    await ended(make, AT + MINUTE)
    await ended(make, AT - MINUTE, "discarded")
    async with driver.reading() as db:
        jobs = JobFigures(db)
        assert await jobs.job_first_completed_at(AT - MINUTE) == AT
        assert await jobs.job_first_completed_at(AT + MINUTE / 2) == AT + MINUTE
        assert await jobs.job_first_completed_at(AT + 2 * MINUTE) is None


@postgres_only
async def test_of_too_many_rows_of_clients_the_newest_minutes_are_read(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(
        "insert into riverui_rollup (step, bucket, queue, kind, source, completed)"
        " select 60, %s - m * interval '1 min', 'q' || k, 'send', 'a@1', 1"
        " from generate_series(1, 3) m cross join generate_series(1, 9000) k",
        [AT],
    )
    async with driver.reading() as db:
        minutes = await RollupStore(db).rollup_client_list(AT - 9 * MINUTE, AT)
    assert {at: len(pairs) for at, pairs in minutes.items()} == {
        AT - 2 * MINUTE: 9000,
        AT - MINUTE: 9000,
    }
