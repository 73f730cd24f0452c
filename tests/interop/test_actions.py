"""What riverui does to a row is what Go River's own client does to its twin, and Go workers act on
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from secrets import token_bytes
from typing import Any, TypeAlias

import httpx2
import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.interop.conftest import StartWorker, page_on
from tests.interop.worker import DEADLINE, Peer, PeerError

pytestmark = pytest.mark.interop

Row: TypeAlias = dict[str, Any]
Connection: TypeAlias = psycopg.AsyncConnection[DictRow]

_HOUR = timedelta(hours=1)
_FINALIZED = {"cancelled", "completed", "discarded"}

# Every state, and within a state what changes the outcome: case → columns besides the defaults of
# `_insert`.
_CASES: dict[str, Row] = {
    "available": {"state": "available"},
    "available, due later": {"state": "available", "scheduled_at": _HOUR},
    "pending": {"state": "pending"},
    "scheduled": {"state": "scheduled", "scheduled_at": _HOUR},
    "scheduled, overdue": {"state": "scheduled"},
    "retryable": {"state": "retryable", "attempt": 3, "scheduled_at": _HOUR},
    "retryable, last attempt": {"state": "retryable", "attempt": 25, "scheduled_at": _HOUR},
    "retryable, cancel attempted": {
        "state": "retryable",
        "attempt": 3,
        "metadata": (
            '{"cancel_attempted_at": "2026-11-01T12:00:00.5+05:45", "kept": {"a": [1, null]}}'
        ),
    },
    "running": {"state": "running", "attempt": 1},
    "running, cancel attempted": {
        "state": "running",
        "attempt": 1,
        "metadata": '{"cancel_attempted_at": "2026-11-01T12:00:00.123456789Z"}',
    },
    "completed": {"state": "completed", "attempt": 1},
    "cancelled": {"state": "cancelled", "attempt": 1},
    "cancelled by request": {
        "state": "cancelled",
        "metadata": '{"cancel_attempted_at": "2026-11-01T12:00:00Z"}',
    },
    "discarded, attempts left": {"state": "discarded", "attempt": 3},
    "discarded, last attempt": {"state": "discarded", "attempt": 25},
    "discarded, beyond the last attempt": {"state": "discarded", "attempt": 25, "max_attempts": 24},
    "unique, free": {"state": "discarded", "attempt": 25, "unique": True},
    "unique, taken": {"state": "discarded", "attempt": 25, "unique": True, "rival": True},
    "priority, tags and queue": {
        "state": "completed",
        "priority": 4,
        "tags": ["a-b", "vip"],
        "queue": "second",
    },
}

_DEFAULTS: Row = {
    "attempt": 0,
    "max_attempts": 25,
    "metadata": "{}",
    "priority": 1,
    "queue": "default",
    "tags": [],
}
_ERROR = '{"at": "2026-11-01T12:00:00.123456789+02:00", "attempt": 1, "error": "boom", "trace": ""}'


async def _insert(connection: Connection, case: Row) -> int:
    """Insert one row as given; its instants lie in the past, so that what an action sets stands
    out.
    """
    columns = {
        "attempt": 0,
        "max_attempts": 25,
        "metadata": "{}",
        "priority": 1,
        "queue": "default",
        "tags": [],
        **case,
    }
    unique, rival = columns.pop("unique", False), columns.pop("rival", False)
    now = datetime.now(UTC)
    columns |= {
        "args": '{"id": 12345678901234567890, "amount": 1.10}',
        "kind": "twin",
        "created_at": now - 3 * _HOUR,
        "scheduled_at": now + columns.get("scheduled_at", -2 * _HOUR),
    }
    if columns["attempt"]:
        columns["attempted_at"] = now - _HOUR
        columns["attempted_by"] = ["some_host_2026_11_01T12_00_00_000000"]
        columns["errors"] = [
            '{"at": "2026-11-01T12:00:00.1+02:00", "attempt": 1, "error": "boom", "trace": ""}'
        ]
    if columns["state"] in _FINALIZED:
        columns["finalized_at"] = now - _HOUR / 2
    if unique:
        columns |= {"unique_key": token_bytes(32), "unique_states": "11110101"}
    job_id = await _insert_columns(connection, columns)
    if rival:
        await _insert_columns(connection, {**columns, "state": "available", "finalized_at": None})
    return job_id


async def _insert_cases(connection: Connection) -> dict[str, int]:
    return {name: await _insert(connection, case) for name, case in _CASES.items()}


async def _insert_columns(connection: Connection, columns: Row) -> int:
    casts = {"errors": "%s::jsonb[]", "unique_states": "%s::bit(8)", "tags": "%s::varchar[]"}
    names, values = ", ".join(columns), ", ".join(casts.get(name, "%s") for name in columns)
    statement = f"insert into river_job ({names}) values ({values}) returning id".encode()
    cursor = await connection.execute(statement, list(columns.values()))
    row = await cursor.fetchone()
    assert row is not None
    found: int = row["id"]
    return found


async def _row(connection: Connection, id: int) -> Row | None:
    # Text of the JSON columns: equal means equal to the digit.
    cursor = await connection.execute(
        "select *, args::text, metadata::text, errors::text from river_job where id = %s", [id]
    )
    return await cursor.fetchone()


_RFC3339_NANO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,8}[1-9])?(Z|[+-]\d\d:\d\d)")


def _outcome(before: Row | None, after: Row | None, since: datetime) -> Row | str:
    """Return what changed in a row, without what differs between twins; instants of the action read
    as "now".
    """
    assert before is not None
    if after is None:
        return "gone"
    now = datetime.now(UTC)

    def instant(value: datetime) -> bool:
        return since - timedelta(seconds=2) <= value <= now + timedelta(seconds=2)

    changes: Row = {}
    for name in after.keys() - {"id"}:
        if before[name] == after[name]:
            continue
        changes[name] = after[name]
        if isinstance(after[name], datetime) and instant(after[name]):
            changes[name] = "now"
    if "metadata" in changes:
        metadata = json.loads(changes["metadata"])
        if stamp := metadata.get("cancel_attempted_at"):
            assert _RFC3339_NANO.fullmatch(stamp), f"not a time as Go writes it: {stamp}"
            assert instant(datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", stamp)))
            metadata["cancel_attempted_at"] = "now"
        changes["metadata"] = metadata
    return changes


async def _heard(connection: Connection, names: dict[int, str]) -> list[tuple[str, Row]]:
    """Everything notified so far on River's channels, job ids told by name, in a fixed order."""
    # A last notification of our own says when the others have all arrived.
    await connection.execute("select pg_notify('public.river_control', 'end')")
    heard: list[tuple[str, Row]] = []
    async for message in connection.notifies(timeout=DEADLINE):
        if message.payload == "end":
            break
        payload = json.loads(message.payload)
        if "job_id" in payload:
            payload["job_id"] = names.get(payload["job_id"], payload["job_id"])
        heard.append((message.channel, payload))
    return sorted(heard, key=str)


async def _connect(database_url: str) -> Connection:
    connection = await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    )
    for topic in ("river_insert", "river_control", "river_leadership"):
        await connection.execute(f'listen "public.{topic}"'.encode())
    return connection


async def _post(
    page: httpx2.AsyncClient, path: str, **form: str | Sequence[str]
) -> httpx2.Response:
    response = await page.post(path, data={"next": "/jobs", **form})
    assert response.status_code in (200, 303), f"{path} answered {response.status_code}"
    return response


@pytest.mark.short
@pytest.mark.parametrize("verb", ["cancel", "retry", "delete"])
async def test_rows_and_notifications_equal_those_of_go(
    verb: str, page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with (
        start_worker("-utc-offset=5h45m", start=False) as go,
        await _connect(database_url) as connection,
    ):
        ours, theirs = await _insert_cases(connection), await _insert_cases(connection)
        before = {
            job_id: await _row(connection, job_id) for job_id in [*ours.values(), *theirs.values()]
        }
        since = datetime.now(UTC)

        # All at once: what one row refuses must not keep the others from changing. 999999 is
        # nobody.
        ids = [str(job_id) for job_id in [*ours.values(), 999_999]]
        await _post(page, f"/jobs/{verb}", ids=ids, confirmed="1")
        heard_ours = await _heard(connection, {job_id: name for name, job_id in ours.items()})

        refused = {}
        for name, job_id in theirs.items():
            try:
                await go.ask(verb, id=job_id)
            except PeerError as error:
                refused[name] = str(error)
        heard_theirs = await _heard(connection, {job_id: name for name, job_id in theirs.items()})

        def outcomes(ids: dict[str, int], after: dict[int, Row | None]) -> dict[str, Row | str]:
            return {
                name: _outcome(before[job_id], after[job_id], since) for name, job_id in ids.items()
            }

        after = {job_id: await _row(connection, job_id) for job_id in before}
        assert outcomes(ours, after) == outcomes(theirs, after)
        assert heard_ours == heard_theirs
        # The table is worth something only while Go itself both changes and refuses.
        assert any(outcomes(theirs, after).values())
        assert (
            set(refused)
            == {
                "cancel": set(),
                "retry": {"unique, taken"},
                "delete": {"running", "running, cancel attempted"},
            }[verb]
        ), refused


async def test_cancel_then_retry_leaves_no_request_behind(
    page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker(start=False) as go, await _connect(database_url) as connection:
        ours = await _insert(connection, _CASES["scheduled"])
        theirs = await _insert(connection, _CASES["scheduled"])
        before = [await _row(connection, job_id) for job_id in (ours, theirs)]
        since = datetime.now(UTC)
        for verb in ("cancel", "retry"):
            await _post(page, f"/jobs/{verb}", ids=[str(ours)])
            await go.ask(verb, id=theirs)
        after = [await _row(connection, job_id) for job_id in (ours, theirs)]
        outcomes = [_outcome(*pair, since) for pair in zip(before, after, strict=True)]
        assert outcomes[0] == outcomes[1] == {"state": "available", "scheduled_at": "now"}


@pytest.mark.short
@pytest.mark.parametrize("name", ["default", "*"])
async def test_pausing_and_resuming_equal_those_of_go(
    name: str, page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker(start=False) as go, await _connect(database_url) as connection:
        long_ago = datetime.now(UTC) - 5 * _HOUR
        state = [("default", None), ("paused", long_ago), ("Odd / näme?", None)]

        async def reset() -> None:
            await connection.execute("truncate river_queue")
            for queue, paused_at in state:
                await connection.execute(
                    "insert into river_queue (name, created_at, metadata, paused_at, updated_at)"
                    """ values (%s, %s, '{"a": 1}', %s, %s)""",
                    [queue, long_ago, paused_at, long_ago],
                )

        async def queues() -> list[Row]:
            cursor = await connection.execute("select * from river_queue order by name")
            return await cursor.fetchall()

        async def outcome(act: Callable[[str], Awaitable[object]]) -> list[object]:
            await reset()
            steps: list[object] = []
            for verb in ("pause", "pause", "resume", "resume"):
                before, since = await queues(), datetime.now(UTC)
                await act(verb)
                after = await queues()
                steps.append([_outcome(*pair, since) for pair in zip(before, after, strict=True)])
                steps.append(await _heard(connection, {}))
            return steps

        ours = await outcome(lambda verb: _post(page, f"/queues/{verb}", name=name, next="/queues"))
        theirs = await outcome(lambda verb: go.ask(verb, queue=name))
        assert ours == theirs


async def _state(connection: Connection, id: int) -> tuple[str, int]:
    row = await _row(connection, id)
    assert row is not None
    return row["state"], row["attempt"]


async def _started(go: Peer, kind: str, **args: Any) -> int:
    job_id = await go.insert(kind, **args)
    await go.wait("started", id=job_id)
    return job_id


@pytest.mark.short
async def test_a_running_go_job_is_cancelled_from_the_page(
    page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker() as go, await _connect(database_url) as connection:
        job_id = await _started(go, "sleep", seconds=600)
        await _post(page, "/jobs/cancel", ids=[str(job_id)])
        assert "cancelled remotely" in (await go.wait("interrupted", id=job_id)).message
        assert (await go.wait("job_cancelled", id=job_id)).state == "cancelled"
        assert await _state(connection, job_id) == ("cancelled", 1)
        html = (await page.get(f"/jobs/{job_id}")).text
        assert "job cancelled remotely" in html


@pytest.mark.short
async def test_a_waiting_go_job_is_cancelled_and_never_worked(
    page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker() as go, await _connect(database_url) as connection:
        job_id = await go.insert("noop", opts={"scheduled_in": 3600})
        await _post(page, "/jobs/cancel", ids=[str(job_id)])
        assert await _state(connection, job_id) == ("cancelled", 0)


@pytest.mark.short
@pytest.mark.parametrize(
    ("opts", "args", "ends"),
    [
        pytest.param({"max_attempts": 1}, {"failures": 1}, "discarded", id="discarded"),
        pytest.param({}, {"failures": 1, "retry_in": 3600}, "retryable", id="retryable"),
    ],
)
async def test_a_failed_job_is_retried_from_the_page_and_worked_by_go(
    opts: Row,
    args: Row,
    ends: str,
    page: httpx2.AsyncClient,
    start_worker: StartWorker,
    database_url: str,
) -> None:
    async with start_worker() as go, await _connect(database_url) as connection:
        job_id = await go.insert("flaky", opts=opts, message="not yet", **args)
        assert (await go.wait("job_failed", id=job_id)).state == ends
        await _post(page, "/jobs/retry", ids=[str(job_id)])
        assert (await go.wait("job_completed", id=job_id)).attempt == 2
        assert await _state(connection, job_id) == ("completed", 2)


async def test_a_cancelled_running_job_is_retried_from_the_page_and_worked_by_go(
    page: httpx2.AsyncClient, start_worker: StartWorker
) -> None:
    async with start_worker() as go:
        job_id = await _started(go, "sleep", seconds=600)
        await _post(page, "/jobs/cancel", ids=[str(job_id)])
        await go.wait("job_cancelled", id=job_id)
        await _post(page, "/jobs/retry", ids=[str(job_id)])
        # Works again, and the old request to cancel does not end it a second time.
        assert (await go.wait("started", id=job_id)).attempt == 2
        await _post(page, "/jobs/cancel", ids=[str(job_id)])
        await go.wait("job_cancelled", id=job_id)


async def test_a_deleted_job_is_gone_and_a_running_one_is_not(
    page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker() as go, await _connect(database_url) as connection:
        running = await _started(go, "sleep", seconds=600)
        waiting = await go.insert("noop", opts={"scheduled_in": 3600})
        await _post(page, "/jobs/delete", ids=[str(running), str(waiting)], confirmed="1")
        assert await _row(connection, waiting) is None
        assert await _state(connection, running) == ("running", 1)
        assert (await page.get(f"/jobs/{waiting}")).status_code == 404


async def test_a_moved_job_is_worked_by_go_from_its_new_queue(
    page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    # Go polls far too rarely to find the job by itself: it is the notification that wakes it.
    async with start_worker(fetch_poll_interval=3600) as go, await _connect(database_url) as conn:
        await go.wait("job_completed", id=await go.insert("noop", opts={"queue": "second"}))
        waiting = await go.insert("noop", opts={"queue": "nobody", "priority": 3})
        later = await go.insert("noop", opts={"scheduled_in": 3600})
        ids = [str(waiting), str(later)]
        await _post(page, "/jobs/move", ids=ids, queue="second", priority="2", confirmed="1")
        await go.wait("job_completed", id=waiting)
        for job_id, state in ((waiting, "completed"), (later, "scheduled")):
            row = await _row(conn, job_id)
            assert row is not None
            assert (row["state"], row["queue"], row["priority"]) == (state, "second", 2)


@pytest.mark.short
@pytest.mark.parametrize("name", ["default", "*"])
async def test_a_paused_queue_stops_a_go_worker_and_resuming_starts_it(
    name: str, page: httpx2.AsyncClient, start_worker: StartWorker, database_url: str
) -> None:
    async with start_worker() as go, await _connect(database_url) as connection:
        await go.wait("job_completed", id=await go.insert("noop"))  # both sides are up
        await connection.execute('update river_queue set metadata = \'{"owner": "team"}\'')
        await _post(page, "/queues/pause", name=name, note="vendor down", next="/queues")
        await go.wait("queue_paused", queue="default")
        job_id = await go.insert("noop")
        if name == "default":
            # The other queue goes on; by the time its job has ended, ours would have been fetched
            # as well.
            other = await go.insert("noop", opts={"queue": "second"})
            await go.wait("job_completed", id=other)
        assert await _state(connection, job_id) == ("available", 0)
        await _post(page, "/queues/resume", name=name, next="/queues")
        await go.wait("queue_resumed", queue="default")
        await go.wait("job_completed", id=job_id)
    # Another Go client reports the queue; what its metadata keeps stays.
    async with start_worker() as go, await _connect(database_url) as connection:
        await go.wait("job_completed", id=await go.insert("noop"))
        rows = await connection.execute("select metadata from river_queue where name = 'default'")
        row = await rows.fetchone()
        assert row is not None
        assert row["metadata"]["owner"] == "team"
        assert row["metadata"]["riverui:pause"]["note"] == "vendor down"
        assert row["metadata"]["riverui:pause"]["resumed_at"]


async def test_everything_in_a_schema_of_its_own(
    start_worker: StartWorker, database_url: str
) -> None:
    async with await _connect(database_url) as connection:
        await connection.execute("create schema elsewhere")
    driver = connect(database_url, schema="elsewhere")
    await migrate(driver, "up")
    # River's tables of the search path are there as well, and stay empty.
    async with start_worker("-schema=elsewhere") as go, page_on(driver) as page:
        job_id = await _started(go, "sleep", seconds=600)
        await _post(page, "/queues/pause", name="default", next="/queues")
        await go.wait("queue_paused", queue="default")
        await _post(page, "/jobs/cancel", ids=[str(job_id)])
        await go.wait("job_cancelled", id=job_id)
        assert f'/jobs/{job_id}"' in (await page.get("/jobs?state=cancelled")).text
    await driver.close()
