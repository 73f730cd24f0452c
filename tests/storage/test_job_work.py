"""What workers do to jobs: each statement leaves the rows that River's leaves."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface.engine_params import JobFetchParams, JobSetStateParams
from riverui.storage.postgres.driver import PostgresDriver
from tests import factory
from tests.cases import cases
from tests.drivers import connect
from tests.factory import Make
from tests.storage.conftest import NOW, Way, every_way

ERROR = '{"at":"2026-11-21T09:00:00.123456789Z","attempt":1,"error":"it broke","trace":""}'
STATES = tuple(state.value for state in JobState)
CANCEL_REQUESTED = {"cancel_attempted_at": "2026-11-21T09:00:00Z"}
NOT_RUNNING = tuple(state for state in STATES if state != "running")


def fetch(queue: str = "default", limit: int = 100, **params: Any) -> JobFetchParams:
    """Return a fetch by the client `me`."""
    return JobFetchParams(client_id="me", queue=queue, limit=limit, **params)


def ids_of(rows: Any) -> list[int]:
    """Return the ids in order."""
    return sorted(row.id for row in rows)


# Fetching


@every_way
async def test_fetch(way: Way) -> None:
    job_id = await way.make.job(
        kind="k",
        args={"a": [1, "x"]},
        metadata={"m": 1},
        tags=["t", "u,v"],
        priority=3,
        queue="q",
        max_attempts=9,
    )
    before = await way.make.row(job_id)
    started = datetime.now(UTC)
    (row,) = await way.executor.work.get_available(fetch("q"))
    after = await way.make.row(job_id)
    assert abs(after["attempted_at"] - started) < timedelta(seconds=5)
    assert after == {
        **before,
        "state": "running",
        "attempt": 1,
        "attempted_at": after["attempted_at"],
        "attempted_by": ["me"],
    }
    assert row == JobRow(
        id=job_id,
        state=JobState.RUNNING,
        attempt=1,
        max_attempts=9,
        attempted_at=after["attempted_at"],
        created_at=before["created_at"],
        finalized_at=None,
        scheduled_at=before["scheduled_at"],
        priority=3,
        args='{"a": [1, "x"]}',
        attempted_by=("me",),
        errors=(),
        kind="k",
        metadata='{"m": 1}',
        queue="q",
        tags=("t", "u,v"),
        unique_key=None,
        unique_states=None,
    )
    assert row == await way.executor.jobs.row_get(job_id)
    assert isinstance(row.state, JobState)


@every_way
async def test_fetch_of_a_job_with_a_past(way: Way) -> None:
    job_id = await way.make.job(
        attempt=2,
        attempted_at=NOW,
        attempted_by=["a", "b"],
        errors=[factory.attempt_error(1, "one"), factory.attempt_error(2, "two", trace="there")],
        unique_key=b"\x00\xff",
        unique_states="11110101",
    )
    (row,) = await way.executor.work.get_available(fetch())
    assert row.attempt == 3
    assert row.attempted_by == ("a", "b", "me")
    assert row.errors == (
        AttemptError(
            at=datetime(2026, 11, 21, 9, 0, 0, 123456, UTC), attempt=1, error="one", trace=""
        ),
        AttemptError(
            at=datetime(2026, 11, 21, 9, 0, 0, 123456, UTC), attempt=2, error="two", trace="there"
        ),
    )
    assert (row.unique_key, row.unique_states) == (b"\x00\xff", 245)
    assert row == await way.executor.jobs.row_get(job_id)


@every_way
async def test_fetch_of_some_kinds(way: Way) -> None:
    ids = [await way.make.job(kind=kind) for kind in ("a", "b", 'c"\\,{}', "b")]
    assert ids_of(await way.executor.work.get_available(fetch(kinds=()))) == []
    assert ids_of(await way.executor.work.get_available(fetch(kinds=("b", "unknown")))) == [
        ids[1],
        ids[3],
    ]
    assert ids_of(await way.executor.work.get_available(fetch(kinds=('c"\\,{}',)))) == [ids[2]]
    assert ids_of(await way.executor.work.get_available(fetch(kinds=None))) == [ids[0]]


async def test_fetch_skips_locked_jobs(driver: PostgresDriver, make: Make) -> None:
    held, free = await make.job(), await make.job()
    async with driver.transaction() as transaction:
        await transaction.jobs.cancel_many([held])
        async with driver.autocommit() as executor:
            assert ids_of(await executor.work.get_available(fetch())) == [free]


# asyncpg reads such times itself, and cannot.
@pytest.mark.parametrize("way_name", ["session", "schema", "autocommit"])
async def test_a_time_beyond_the_calendar_does_not_lose_jobs(way: Way) -> None:
    """They are running by the time that they are read: reading again would take others."""
    with cases() as case:
        for at in ("-infinity", "0044-03-15 BC"):
            with case(at):
                await way.make.connection.execute("delete from river_job")
                ids = [await way.make.job(scheduled_at=at) for _ in range(3)]
                rest = [await way.make.job() for _ in range(3)]
                found = await way.executor.work.get_available(fetch(limit=3))
                assert ids_of(found) == ids
                assert {row.scheduled_at for row in found} == {datetime.min.replace(tzinfo=UTC)}
                assert ids_of(await way.executor.work.get_available(fetch(limit=3))) == rest


async def test_errors_of_any_shape(way: Way) -> None:
    with cases() as case:
        for stored, expected in (
            ("5", AttemptError(at=None, attempt=0, error="5", trace="")),
            ('["x"]', AttemptError(at=None, attempt=0, error='["x"]', trace="")),
            ("{}", AttemptError(at=None, attempt=0, error="", trace="")),
            (
                '{"error": {"a": "ü"}, "attempt": "1"}',
                AttemptError(at=None, attempt=1, error='{"a":"ü"}', trace=""),
            ),
            ('{"at": 5, "attempt": true}', AttemptError(at=None, attempt=0, error="", trace="")),
        ):
            with case(stored):
                await way.make.connection.execute("delete from river_job")
                job_id = await way.make.job()
                await way.make.connection.execute(
                    "update river_job set errors = array[%s, %s]::jsonb[] where id = %s",
                    [stored, ERROR, job_id],
                )
                (row,) = await way.executor.work.get_available(fetch())
                assert row.errors[0] == expected
                assert row.errors[1].error == "it broke"
                assert row == await way.executor.jobs.row_get(job_id)


async def test_errors_that_python_does_not_read(way: Way) -> None:
    with cases() as case:
        for stored in ("1" * 5000, '{"attempt": 1' + "0" * 5000 + "}", "[" * 2000 + "]" * 2000):
            with case(stored[:20]):
                await way.make.connection.execute("delete from river_job")
                job_id = await way.make.job()
                await way.make.connection.execute(
                    "update river_job set errors = array[%s, %s]::jsonb[] where id = %s",
                    [stored, ERROR, job_id],
                )
                (row,) = await way.executor.work.get_available(fetch())
                assert len(row.errors) == 2
                assert row.errors[1].error == "it broke"


# The plain ending


@every_way
async def test_complete(way: Way) -> None:
    ids = {state: await way.make.job(state, errors=[factory.attempt_error()]) for state in STATES}
    before = {state: await way.make.row(job_id) for state, job_id in ids.items()}
    missing = max(ids.values()) + 1
    asked = [*reversed(ids.values()), missing]
    done = await way.executor.work.complete_many(asked, [NOW] * len(asked))
    assert list(done) == [ids["running"]]
    for state, job_id in ids.items():
        ended = {"state": "completed", "finalized_at": NOW} if state == "running" else {}
        assert await way.make.row(job_id) == before[state] | ended


@every_way
async def test_complete_each_at_its_time(way: Way) -> None:
    ids = [await way.make.job("running") for _ in range(30)]
    times = {job_id: NOW + timedelta(microseconds=37 * job_id) for job_id in ids}
    asked = [*ids[::2], *ids[::-2], 10**12]
    done = await way.executor.work.complete_many(
        asked, [times.get(job_id, NOW) for job_id in asked]
    )
    assert sorted(done) == ids
    assert {
        row["id"]: row["finalized_at"] for row in await way.make.rows("select * from river_job")
    } == times


async def test_complete_ignores_a_wish_to_cancel(way: Way) -> None:
    """As River's statement does: what has been done has been done."""
    job_id = await way.make.job("running", metadata=CANCEL_REQUESTED)
    await way.executor.work.complete_many([job_id], [NOW])
    assert (await way.make.row(job_id))["state"] == "completed"
    assert list(await way.executor.work.complete_many([], [])) == []


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
async def test_complete_at_the_right_attempt(way: Way, *, mixed: bool, at_once: bool) -> None:
    """Rescued from its first worker and at work again, a job is not ended by that one."""
    attempts = [1, 2, 3] if mixed else [1, 1, 1]
    again = [await way.make.job("running", attempt=each + 1) for each in attempts]
    still = [await way.make.job("running", attempt=each) for each in attempts]
    asked = [*again[::-1], *still[::-1]]
    times = [NOW] * 6 if at_once else [NOW + timedelta(seconds=n) for n in range(6)]
    before = [await way.make.row(job_id) for job_id in again]
    done = await way.executor.work.complete_many(
        asked, times, of_attempts=[*attempts[::-1], *attempts[::-1]]
    )
    assert sorted(done) == still
    assert [await way.make.row(job_id) for job_id in again] == before
    for job_id, at in zip(still[::-1], times[3:], strict=True):
        row = await way.make.row(job_id)
        assert (row["state"], row["finalized_at"]) == ("completed", at)


# Any ending


async def _end(way: Way, *changes: JobSetStateParams) -> dict[int, JobRow]:
    """End jobs; return the rows answered, which are the rows stored."""
    rows = await way.executor.work.set_state_many(changes)
    assert [row.id for row in rows] == ids_of(rows)
    for row in rows:
        assert row == await way.executor.jobs.row_get(row.id)
    return {row.id: row for row in rows}


async def test_an_attempt_that_is_not_the_jobs_any_more_leaves_it_as_it_is(way: Way) -> None:
    """Its metadata too: they are the next attempt's now."""
    again = await way.make.job("running", attempt=2, metadata={"mine": 1})
    still = await way.make.job("running", attempt=2, metadata={"mine": 1})
    waiting = await way.make.job("retryable", attempt=2, metadata={"mine": 1})
    before = {job_id: await way.make.row(job_id) for job_id in (again, still, waiting)}
    ends = [
        JobSetStateParams(
            job_id,
            JobState.RETRYABLE,
            error=ERROR,
            scheduled_at=NOW,
            metadata='{"mine": 2}',
            of_attempt=1 if job_id == again else 2,
        )
        for job_id in before
    ]
    rows = await _end(way, *ends)
    assert [row.state for row in rows.values()] == ["running", "retryable", "retryable"]
    await _changed(way, again, before[again])
    # As River's statement does: the job is not worked again yet.
    await _changed(way, waiting, before[waiting], metadata={"mine": 2})
    assert (await way.make.row(still))["metadata"] == {"mine": 2}


async def _changed(way: Way, job_id: int, before: DictRow, **columns: Any) -> None:
    assert await way.make.row(job_id) == before | columns


@every_way
async def test_end_as_completed_with_metadata(way: Way) -> None:
    job_id = await way.make.job("running", metadata={"kept": 1, "old": {"deep": 1}})
    before = await way.make.row(job_id)
    rows = await _end(
        way,
        JobSetStateParams(
            job_id,
            JobState.COMPLETED,
            finalized_at=NOW,
            metadata='{"output": [1], "old": {"new": null}}',
        ),
    )
    assert rows[job_id].state is JobState.COMPLETED
    await _changed(
        way,
        job_id,
        before,
        state="completed",
        finalized_at=NOW,
        metadata={"kept": 1, "old": {"new": None}, "output": [1]},
    )


async def test_each_ending_changes_its_columns_alone(way: Way) -> None:
    later = NOW + timedelta(hours=5)
    failed = {"error": ERROR, "errors": [json.loads(ERROR)]}
    endings: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("retryable", {}, failed | {"scheduled_at": later}),
        ("cancelled", CANCEL_REQUESTED, failed | {"finalized_at": NOW}),
        ("scheduled", {"snoozes": 4, "x": 1}, {"attempt": 2, "scheduled_at": later}),
        ("available", {}, {"attempt": 2, "scheduled_at": NOW}),
    )
    with cases() as case:
        for state, metadata, ending in endings:
            with case(state):
                job_id = await way.make.job("running", attempt=3, metadata=metadata)
                columns = await way.make.row(job_id) | ending | {"state": state}
                changed = {name: ending[name] for name in ending if name != "errors"}
                if "snoozes" in metadata:
                    changed["metadata"] = '{"snoozes": 5}'
                    columns["metadata"] = metadata | {"snoozes": 5}
                await _end(way, JobSetStateParams(job_id, JobState(state), **changed))
                columns.pop("error", None)
                assert await way.make.row(job_id) == columns


@every_way
async def test_errors_are_appended(way: Way) -> None:
    first = factory.attempt_error(1, "first")
    job_id = await way.make.job("running", errors=[first])
    before = await way.make.row(job_id)
    await _end(way, JobSetStateParams(job_id, JobState.DISCARDED, error=ERROR, finalized_at=NOW))
    await _changed(
        way, job_id, before, state="discarded", finalized_at=NOW, errors=[first, json.loads(ERROR)]
    )


async def test_who_should_be_cancelled_is_not_worked_again(way: Way) -> None:
    with cases() as case:
        for state in ("available", "retryable", "scheduled"):
            with case(state):
                job_id = await way.make.job("running", attempt=3, metadata=CANCEL_REQUESTED)
                before = await way.make.row(job_id)
                later = NOW + timedelta(hours=5)
                rows = await _end(
                    way,
                    JobSetStateParams(
                        job_id,
                        JobState(state),
                        attempt=2,
                        error=ERROR,
                        scheduled_at=later,
                        metadata='{"snoozes": 1}',
                    ),
                )
                assert rows[job_id].state is JobState.CANCELLED
                after = await way.make.row(job_id)
                assert abs(after["finalized_at"] - datetime.now(UTC)) < timedelta(seconds=5)
                await _changed(
                    way,
                    job_id,
                    before,
                    state="cancelled",
                    finalized_at=after["finalized_at"],
                    errors=[json.loads(ERROR)],
                    metadata={**CANCEL_REQUESTED, "snoozes": 1},
                )


async def test_what_does_not_run_only_takes_metadata(way: Way) -> None:
    with cases() as case:
        for state in NOT_RUNNING:
            for metadata in (None, '{"output": 5}'):
                with case((state, metadata)):
                    job_id = await way.make.job(state)
                    before = await way.make.row(job_id)
                    rows = await _end(
                        way,
                        JobSetStateParams(
                            job_id,
                            JobState.DISCARDED,
                            attempt=9,
                            error=ERROR,
                            finalized_at=NOW,
                            scheduled_at=NOW,
                            metadata=metadata,
                        ),
                    )
                    assert rows[job_id].state.value == state
                    await _changed(way, job_id, before, metadata=json.loads(metadata or "{}"))


@every_way
async def test_many_endings_at_once(way: Way) -> None:
    running = [await way.make.job("running") for _ in range(4)]
    waiting = await way.make.job("available")
    later = NOW + timedelta(hours=5)
    missing = waiting + 1000
    rows = await _end(
        way,
        JobSetStateParams(missing, JobState.COMPLETED, finalized_at=NOW, metadata='{"a": 1}'),
        JobSetStateParams(running[3], JobState.COMPLETED, finalized_at=later),
        JobSetStateParams(running[0], JobState.RETRYABLE, error=ERROR, scheduled_at=later),
        JobSetStateParams(waiting, JobState.COMPLETED, finalized_at=NOW),
        JobSetStateParams(running[1], JobState.CANCELLED, error=ERROR, finalized_at=NOW),
    )
    assert {job_id: row.state.value for job_id, row in rows.items()} == {
        running[0]: "retryable",
        running[1]: "cancelled",
        running[3]: "completed",
        waiting: "available",
    }
    assert (await way.make.row(running[2]))["state"] == "running"
    assert rows[running[3]].finalized_at == later
    assert list(await way.executor.work.set_state_many([])) == []


@every_way
async def test_errors_with_any_text(way: Way) -> None:
    for text in ('"', "\\", "{},NULL", "line\nbreak", "null", "🦆", "'"):
        job_id = await way.make.job("running")
        error = json.dumps(
            {"at": "", "attempt": 1, "error": text, "trace": text}, ensure_ascii=False
        )
        rows = await _end(
            way, JobSetStateParams(job_id, JobState.RETRYABLE, error=error, metadata=error)
        )
        assert rows[job_id].errors[0].error == text
        assert json.loads(rows[job_id].metadata)["trace"] == text


async def test_errors_that_cannot_be_stored(way: Way) -> None:
    with cases() as case:
        for error in ('{"error": "\0"}', '{"error": "\\u0000"}', '{"error": "\ud800"}', "{"):
            with case(repr(error)):
                job_id = await way.make.job("running")
                with pytest.raises(BadRequest):
                    await way.executor.work.set_state_many(
                        [JobSetStateParams(job_id, JobState.RETRYABLE, error=error)]
                    )
                assert (await way.make.row(job_id))["state"] == "running"


# Looking at jobs


@every_way
async def test_no_such_job(way: Way) -> None:
    for job_id in (1, 2**63, -(2**63) - 1, 10**30):
        assert await way.executor.jobs.row_get(job_id) is None
        assert await way.executor.jobs.update(job_id, metadata="{}") is None


@every_way
async def test_numbers_stay_exact(way: Way) -> None:
    text = '{"a": 12345678901234567890.123456789, "b": 1e400}'
    job_id = await way.make.job(args=text)
    row = await way.executor.jobs.row_get(job_id)
    assert row is not None
    assert row.args == '{"a": 12345678901234567890.123456789, "b": 1' + "0" * 400 + "}"


@pytest.mark.parametrize("hosted", [False, True], ids=["own pool", "host's pool"])
async def test_times_are_utc_in_any_zone(make: Make, database_url: str, hosted: bool) -> None:
    (row,) = await make.rows("select quote_ident(current_database()) as name")
    for setting in ("timezone = 'America/New_York'", "datestyle = 'SQL, DMY'"):
        await make.connection.execute(f"alter database {row['name']} set {setting}".encode())
    job_id = await make.job(scheduled_at=NOW)
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        database_url, min_size=0, max_size=1, open=False
    )
    async with pool:
        driver = connect(pool=pool) if hosted else connect(database_url)
        async with driver.autocommit() as executor:
            zone = await executor.ask("zone", "show timezone", ())
            # The sessions of a pool that is the host's keep its settings.
            assert zone.value() == ("America/New_York" if hosted else "UTC")
            found = await executor.jobs.row_get(job_id)
            queue = await executor.queues.upsert("q")
            (fetched,) = await executor.work.get_available(fetch())
        await driver.close()
    assert found is not None
    assert (found.scheduled_at, found.scheduled_at.tzinfo) == (NOW, UTC)
    assert fetched.scheduled_at.tzinfo is fetched.created_at.tzinfo is UTC
    assert queue.created_at is not None
    assert queue.created_at.tzinfo is UTC
