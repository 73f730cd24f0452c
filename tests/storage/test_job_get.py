"""One job: all that a row can hold, exact, cut where it is long, tolerant of what others have
written.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.domain.jobs import AttemptError, JobLog, JobShowRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from tests.cases import cases
from tests.factory import Make


async def _get(driver: Driver, job_id: int, **options: Any) -> JobShowRow:
    async with driver.reading() as executor:
        job = await executor.jobs.get(job_id, **options)
    assert job is not None
    return job


async def _text(driver: Driver, job_id: int, field: str) -> str | None:
    async with driver.reading() as executor:
        piece = await executor.jobs.text_piece(job_id, field, size=1_000_000)
    return None if piece is None else piece.data.decode()


async def _log(driver: Driver, job_id: int, attempt: int) -> str | None:
    async with driver.reading() as executor:
        piece = await executor.jobs.log_piece(job_id, attempt, size=1_000_000)
    return None if piece is None else piece.data.decode()


async def test_every_column(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        "running",
        kind="mail",
        queue="q",
        priority=2,
        attempt=3,
        max_attempts=9,
        args={"to": "x"},
        attempted_by=["w1", "w2"],
        tags=["a"],
        unique_key=b"\x00\xff",
        unique_states="11110101",
        metadata={
            "output": {"rows": 1},
            "river:log": [{"attempt": 1, "log": "one\n"}],
            "snoozes": 4,
            "river:rescue_count": 2,
            "cancel_attempted_at": "2026-11-21T10:00:00.987654321+02:00",
            "mine": True,
        },
        errors=[
            {
                "at": "2026-11-21T09:00:00.123456789Z",
                "attempt": 1,
                "error": "boom",
                "trace": "main.go:1",
            },
            {"at": "2026-11-21T09:00:01-05:30", "attempt": 2, "error": "bang", "trace": ""},
        ],
    )
    row = await make.row(job_id)
    job = await _get(driver, job_id)
    assert job.state is JobState.RUNNING
    assert (job.kind, job.queue, job.priority, job.attempt, job.max_attempts) == (
        "mail",
        "q",
        2,
        3,
        9,
    )
    for name in ("created_at", "scheduled_at", "attempted_at", "finalized_at"):
        assert getattr(job, name) == row[name]
    assert job.attempted_by == ("w1", "w2")
    assert job.tags == ("a",)
    assert job.args.text == '{"to": "x"}'
    assert job.args.complete
    assert job.output is not None
    assert job.output.text == '{"rows": 1}'
    assert set(json.loads(job.metadata.text)) == {
        "snoozes",
        "river:rescue_count",
        "cancel_attempted_at",
        "mine",
    }
    assert job.logs == (JobLog(attempt=1, log="one\n", size=4),)
    assert (job.snoozes, job.rescues) == (4, 2)
    assert job.cancel_attempted_at == datetime(2026, 11, 21, 8, 0, 0, 987654, UTC)
    assert job.unique_key == b"\x00\xff"
    assert set(job.unique_states) == set(JobState) - {JobState.CANCELLED, JobState.DISCARDED}
    assert job.errors == (
        AttemptError(
            at=datetime(2026, 11, 21, 9, 0, 0, 123456, UTC),
            attempt=1,
            error="boom",
            trace="main.go:1",
        ),
        AttemptError(
            at=datetime(2026, 11, 21, 14, 30, 1, 0, UTC), attempt=2, error="bang", trace=""
        ),
    )


async def test_least_of_a_job(driver: Driver, make: Make) -> None:
    job = await _get(driver, await make.job("pending"))
    assert (job.errors, job.logs, job.attempted_by, job.unique_states) == ((), (), (), ())
    assert job.output is None
    assert job.unique_key is None
    assert job.cancel_attempted_at is None
    assert (job.snoozes, job.rescues) == (0, 0)


async def test_unknown_id(driver: Driver) -> None:
    with cases() as case:
        for job_id in (0, -1, 10**15, 2**63 - 1, 2**63, -(2**63) - 1, 10**40):
            with case(job_id):
                async with driver.reading() as executor:
                    assert await executor.jobs.get(job_id) is None
                    assert await executor.jobs.log_piece(job_id, 1, size=10) is None
                    assert await executor.jobs.text_piece(job_id, "args", size=10) is None


@pytest.mark.parametrize("state", list(JobState))
async def test_unique_states_follow_rivers_bits(
    driver: Driver, make: Make, state: JobState
) -> None:
    bits = [
        "scheduled",
        "running",
        "retryable",
        "pending",
        "discarded",
        "completed",
        "cancelled",
        "available",
    ]
    mask = "".join("1" if bit == state else "0" for bit in bits)
    job = await _get(driver, await make.job(unique_states=mask, unique_key=b"k"))
    assert job.unique_states == (state,)
    (row,) = await make.rows("select river_job_state_in_bitmask(unique_states, s) as set, s from river_job,"  # noqa: E501
                             f" unnest(array['{state.value}']::river_job_state[]) s")  # fmt: skip
    assert row["set"]


NUMBERS = (
    '{"big": 9007199254740993, "long": 0.1000000000000000055511151231257827, "e":'
    " 100000000000000000000000}"
)


async def test_numbers_stay_exact(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        args=NUMBERS, metadata=f'{{"output": {NUMBERS}, "n": 12345678901234567890}}'
    )
    job = await _get(driver, job_id)
    assert job.args.text == await _text(driver, job_id, "args")
    for number in (
        "9007199254740993",
        "0.1000000000000000055511151231257827",
        "100000000000000000000000",
    ):
        assert number in job.args.text
        assert job.output is not None
        assert number in job.output.text
        assert number in (await _text(driver, job_id, "job") or "")
    assert job.metadata.text == '{"n": 12345678901234567890}'


@pytest.mark.parametrize(
    "metadata",
    ["[]", "1", "null", '"text"', "[[]]", '{"river:log": {}}',
     '{"river:log": 5, "output": null, "snoozes": "x"}',
     '{"snoozes": 1e400, "river:rescue_count": -1.5, "cancel_attempted_at": 7}',
     '{"snoozes": null, "river:rescue_count": [], "cancel_attempted_at": "9999-99-99T99:99:99Z"}',
     '{"cancel_attempted_at": "0001-01-01T00:00:00+14:00", "snoozes": 99999999999999999999}'],
)  # fmt: skip
async def test_odd_metadata(driver: Driver, make: Make, metadata: str) -> None:
    job = await _get(driver, await make.job(metadata=metadata))
    assert job.cancel_attempted_at is None
    assert job.logs == ()
    assert job.snoozes == 0
    assert job.rescues == 0


async def test_odd_errors(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        "discarded",
        errors=[
            {},
            "text",
            7,
            None,
            [1],
            {"at": 5, "attempt": "x", "error": {"a": 1}, "trace": ["t"]},
            {"at": "2026-11-21T09:00:00.1234567891Z", "attempt": 1e30, "error": "", "trace": None},
            {"at": "2026-11-21T23:59:60Z", "attempt": "3", "error": "e", "more": 1},
        ],
    )
    errors = (await _get(driver, job_id)).errors
    assert [error.error for error in errors] == [
        "",
        '"text"',
        "7",
        "null",
        "[1]",
        '{"a": 1}',
        "",
        "e",
    ]
    assert [error.attempt for error in errors] == [0, 0, 0, 0, 0, 0, 0, 3]
    assert all(error.at is None for error in errors)
    assert errors[5].trace == '["t"]'


async def test_odd_logs(driver: Driver, make: Make) -> None:
    log: list[Any] = [
        1,
        None,
        [],
        {"attempt": "1"},
        {"log": 5, "attempt": 2},
        {"attempt": 2, "log": "b", "x": 1},
    ]
    job_id = await make.job(metadata={"river:log": log})
    logs = (await _get(driver, job_id)).logs
    assert [(entry.attempt, entry.log) for entry in logs] == [(1, ""), (2, "5"), (2, "b")]
    assert await _log(driver, job_id, 2) == "5\nb"
    assert await _log(driver, job_id, 3) is None


async def test_long_values_are_cut(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        "discarded",
        args={"a": "ä" * 5000},
        metadata={
            "output": "o" * 5000,
            "m": "m" * 5000,
            "river:log": [{"attempt": 1, "log": "x" * 4999 + "E"}],
        },
        errors=[{"at": None, "attempt": 1, "error": "e" * 5000, "trace": "t" * 5000}],
    )
    job = await _get(driver, job_id, cut=100)
    assert len(job.args.text) == 100
    assert job.args.size == 5009
    assert not job.args.complete
    assert job.output is not None
    assert (len(job.output.text), job.output.size) == (100, 5002)
    assert (len(job.metadata.text), job.metadata.complete) == (100, False)
    assert job.logs[0].size == 5000
    assert job.logs[0].log == "x" * 99 + "E"
    assert (len(job.errors[0].error), len(job.errors[0].trace)) == (100, 100)
    assert len(await _log(driver, job_id, 1) or "") == 5000
    assert len(await _text(driver, job_id, "args") or "") == 5009


async def test_many_long_errors_and_logs_stay_small(driver: Driver, make: Make) -> None:
    errors = [{"attempt": n, "error": f"{n} " + "e" * 3000} for n in range(300)]
    log = [{"attempt": n, "log": "l" * 3000} for n in range(300)]
    job_id = await make.job("discarded", errors=errors, metadata={"river:log": log})
    job = await _get(driver, job_id, cut=3000)
    assert len(job.errors) == 300
    assert sum(len(error.error) for error in job.errors) < 30_000
    assert job.errors[-1].error.startswith("299 e")
    assert job.errors[0].error == "…"
    assert sum(len(entry.log) for entry in job.logs) < 30_000
    assert all(entry.size == 3000 for entry in job.logs)
    assert job.logs[-1].log == "l" * 3000


async def test_whole_texts(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        args=[1], metadata={"output": None}, errors=None, unique_key=b"\x01\x02"
    )
    assert await _text(driver, job_id, "args") == "[1]"
    assert await _text(driver, job_id, "metadata") == '{"output": null}'
    assert await _text(driver, job_id, "output") == "null"
    assert await _text(driver, job_id, "errors") == "[]"
    whole = json.loads(await _text(driver, job_id, "job") or "")
    assert whole["id"] == job_id
    assert whole["state"] == "available"
    assert whole["unique_key"] == "0102"
    assert await _text(driver, await make.job(), "output") is None
    with pytest.raises(BadRequest):
        await _text(driver, job_id, "id; drop table river_job")


async def test_deep_and_strange_texts(driver: Driver, make: Make) -> None:
    deep = "[" * 3000 + "]" * 3000
    job_id = await make.job(
        args=deep, metadata={"output": "\u202e<script>\u2028", "k\u0001": "\x7f"}
    )
    job = await _get(driver, job_id)
    assert job.args.text == deep
    assert job.output is not None
    assert json.loads(job.output.text) == "\u202e<script>\u2028"


async def test_arrays_of_odd_shape(driver: Driver, make: Make) -> None:
    job_id = await make.job()
    await make.connection.execute(
        "update river_job set tags = '[5:6]={a,b}', attempted_by = '{{x,y},{z,null}}',"
        " errors = '[3:3]={\"{\\\"error\\\": \\\"e\\\"}\"}' where id = %s", [job_id]
    )  # fmt: skip
    job = await _get(driver, job_id)
    assert job.tags == ("a", "b")
    assert job.attempted_by == ("x", "y", "z")
    assert [error.error for error in job.errors] == ["e"]


async def test_times_beyond_the_calendar(driver: Driver, make: Make) -> None:
    job_id = await make.job("scheduled", scheduled_at="infinity", created_at="4713-01-01 BC")
    job = await _get(driver, job_id)
    assert job.scheduled_at == datetime.max.replace(tzinfo=UTC)
    assert job.created_at == datetime.min.replace(tzinfo=UTC)
    assert job.scheduled_at.utcoffset() == timedelta(0)
    assert "infinity" in (await _text(driver, job_id, "job") or "")
