"""What Go River writes is shown as it is: errors, panics, logs, outputs, snoozes, times of any
kind.
"""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import httpx2
import psycopg
import pytest

from riverui.domain.jobs import JobShowRow, JobState
from riverui.storage.interface import Driver
from tests.interop.conftest import StartWorker

pytestmark = pytest.mark.interop


async def _text(page: httpx2.AsyncClient, path: str) -> str:
    """Return what a reader of the page sees: no tags, spaces as one."""
    response = await page.get(path)
    assert response.status_code == 200, f"{path} answered {response.status_code}"
    body = re.sub(r"<(script|style)\b.*?</\1>", "", response.text, flags=re.DOTALL)
    body = re.sub(r"</t[dh]>", " ", body)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", body)))


async def _job(driver: Driver, job_id: int) -> JobShowRow:
    async with driver.reading() as executor:
        job = await executor.jobs.get(job_id)
    assert job is not None
    return job


@pytest.mark.short
async def test_errors_of_several_attempts(
    page: httpx2.AsyncClient, start_worker: StartWorker, driver: Driver
) -> None:
    message = 'upstream said <b>"no"</b> & closed: 日本'
    async with start_worker("-utc-offset=-3h30m") as go:
        since = datetime.now(UTC)
        opts = {"max_attempts": 3}
        job_id = await go.insert("flaky", opts=opts, message=message, failures=3, retry_in=0.05)
        for attempt in (1, 2, 3):
            await go.wait("job_failed", id=job_id, attempt=attempt)
        job = await _job(driver, job_id)
        assert job.state is JobState.DISCARDED
        assert [error.attempt for error in job.errors] == [1, 2, 3]
        assert [error.error for error in job.errors] == [
            f"{message} (attempt {n})" for n in (1, 2, 3)
        ]
        for error in job.errors:
            # Go wrote nanoseconds and its own offset.
            assert error.at is not None
            assert (
                since - timedelta(seconds=2) < error.at < datetime.now(UTC) + timedelta(seconds=2)
            )
        text = await _text(page, f"/jobs/{job_id}")
        for attempt in (1, 2, 3):
            assert f"{message} (attempt {attempt})" in text
        assert f"{message} (attempt 3)" in await _text(page, "/jobs?state=discarded")


async def test_a_panic_and_its_trace(page: httpx2.AsyncClient, start_worker: StartWorker) -> None:
    async with start_worker() as go:
        job_id = await go.insert("fail", message="index out of luck", panic=True, retry_in=3600)
        assert (await go.wait("job_failed", id=job_id)).state == "retryable"
        text = await _text(page, f"/jobs/{job_id}")
        for part in ("index out of luck", "main.workFail", "kinds.go:", "runtime.goexit"):
            assert part in text


@pytest.mark.short
async def test_logs_of_each_attempt(
    page: httpx2.AsyncClient, start_worker: StartWorker, driver: Driver
) -> None:
    async with start_worker() as go:
        job_id = await go.insert("log", message="step <1>", lines=3, failures=1, retry_in=0.05)
        await go.wait("job_completed", id=job_id)
        job = await _job(driver, job_id)
        assert [log.attempt for log in job.logs] == [1, 2]
        text = await _text(page, f"/jobs/{job_id}")
        for attempt in (1, 2):
            for line in (1, 2, 3):
                assert f'msg="step <1>" line={line} attempt={attempt}' in text
        raw = (await page.get(f"/jobs/{job_id}/log/2")).text
        assert raw.count("attempt=2") == 3
        assert "attempt=1" not in raw


@pytest.mark.short
async def test_output_to_the_digit(
    page: httpx2.AsyncClient, start_worker: StartWorker, driver: Driver
) -> None:
    async with start_worker() as go:
        value = {"id": 12345678901234567890, "note": "</script>", "rows": [1, None, True]}
        job_id = await go.insert("output", value=value)
        await go.wait("job_completed", id=job_id)
        job = await _job(driver, job_id)
        assert job.output is not None
        assert "12345678901234567890" in job.output.text
        assert "output" not in job.metadata.text
        text = await _text(page, f"/jobs/{job_id}")
        assert "12345678901234567890" in text
        assert "</script>" in text
        assert "12345678901234567890" in (await page.get(f"/jobs/{job_id}/raw/output")).text


async def test_snoozes(page: httpx2.AsyncClient, start_worker: StartWorker, driver: Driver) -> None:
    async with start_worker() as go:
        job_id = await go.insert("snooze", times=2, seconds=0.01)
        await go.wait("job_completed", id=job_id)
        job = await _job(driver, job_id)
        assert (job.snoozes, job.attempt, len(job.attempted_by)) == (2, 1, 3)
        assert "snooze" in (await _text(page, f"/jobs/{job_id}")).lower()
        later = await go.insert("snooze", times=1, seconds=3600)
        assert (await go.wait("job_snoozed", id=later)).state == "scheduled"
        assert "snooze" in (await _text(page, f"/jobs/{later}")).lower()


async def test_a_running_job_and_its_worker(
    page: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        job_id = await go.insert("sleep", seconds=600, opts={"tags": ["vip"], "priority": 3})
        await go.wait("started", id=job_id)
        text = await _text(page, f"/jobs/{job_id}")
        assert go.client_id in text
        queries = (
            "state=running",
            "q=kind:sleep",
            "q=tag:vip",
            "q=priority:3",
            f"q=worker:{go.client_id}",
        )
        for query in queries:
            assert f'/jobs/{job_id}"' in (await page.get(f"/jobs?{query}")).text, query
        assert f'/jobs/{job_id}"' not in (await page.get("/jobs?q=-kind:sleep")).text
        await go.ask("cancel", id=job_id)
        await go.wait("job_cancelled", id=job_id)


async def test_search_by_args_of_a_go_job(
    page: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker(start=False) as go:
        wanted = await go.insert("noop", n=4711)
        other = await go.insert("noop", n=4712)
        listed = (await page.get("/jobs?q=args.n:4711")).text
        assert f"/jobs/{wanted}" in listed
        assert f"/jobs/{other}" not in listed


async def test_queues_that_go_serves(page: httpx2.AsyncClient, start_worker: StartWorker) -> None:
    async with start_worker() as go:
        await go.wait("job_completed", id=await go.insert("noop", opts={"queue": "second"}))
        await go.ask("pause", queue="second")
        await go.wait("queue_paused", queue="second")
        text = await _text(page, "/queues")
        assert re.search(r"\bsecond\W+paused\b.*\bResume\b.*\bdefault\b.*\bPause\b", text)
        assert "Resume" in await _text(page, "/queues/second")
        about = await _text(page, "/about")
        assert go.client_id in about  # it leads: nobody else is there


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-21T09:00:00.123456789Z", "2026-11-21T09:00:00.123456+00:00"),
        ("2026-11-21T09:00:00.1-03:30", "2026-11-21T12:30:00.1+00:00"),
        ("2026-11-21T09:00:00+05:45", "2026-11-21T03:15:00+00:00"),
        ("2026-11-21T09:00:00.000000001+14:00", "2026-11-20T19:00:00+00:00"),
        ("yesterday", None),
        ("0001-01-01T00:00:00Z", None),
    ],
)
async def test_times_as_go_and_others_write_them(
    written: str, read: str | None, page: httpx2.AsyncClient, driver: Driver, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        cursor = await connection.execute(
            "insert into river_job (args, kind, max_attempts, attempt, state, errors)"
            " values ('{}', 'timed', 25, 1, 'retryable', array[jsonb_build_object("
            " 'at', %s::text, 'attempt', 1, 'error', 'boom', 'trace', '')]) returning id",
            [written],
        )
        row = await cursor.fetchone()
    assert row is not None
    (error,) = (await _job(driver, row[0])).errors
    if read is None:
        assert error.at is None or error.at.year == 1
    else:
        assert error.at == datetime.fromisoformat(read)
    assert "boom" in await _text(page, f"/jobs/{row[0]}")
