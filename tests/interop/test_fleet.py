"""Go and Python clients at work on one database: they share queues, leave and obey each other."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests import factory
from tests.faults.journal import Journal
from tests.interop.conftest import StartWorker
from tests.interop.look import Row, eventually, job, jobs, leads, settled, told
from tests.interop.worker import Peer

pytestmark = pytest.mark.interop

_SIDES = ("go", "python")
_PAIRS = [("go", "python"), ("python", "go")]


class Starting:
    """Starts either side; all end with the test."""

    def __init__(self, stack: AsyncExitStack, go: StartWorker, python: StartWorker) -> None:
        self._stack = stack
        self._start = {"go": go, "python": python}

    async def __call__(self, side: str, *, start: bool = True, **config: object) -> Peer:
        return await self._stack.enter_async_context(self._start[side](start=start, **config))


@pytest.fixture
async def begin(start_worker: StartWorker, start_python: StartWorker) -> AsyncIterator[Starting]:
    async with AsyncExitStack() as stack:
        yield Starting(stack, start_worker, start_python)


Connection = AsyncConnection[DictRow]


@pytest.mark.short
async def test_each_leaves_the_kinds_that_only_the_other_knows(
    begin: Starting, connection: Connection
) -> None:
    go = await begin("go", kinds=["noop", "snooze"], fetch_only_known_kinds=True)
    python = await begin("python", kinds=["noop", "flaky"], fetch_only_known_kinds=True)
    kinds = ["snooze", "flaky", "noop", "fail"]
    inserted = [
        await peer.insert(kind) for kind in kinds for peer in (go, python) for _ in range(20)
    ]
    rows = await eventually(
        lambda: jobs(connection, "kind <> 'fail'"),
        fits=lambda rows: all(row["state"] == "completed" for row in rows),
    )
    assert len(rows) == len(inserted) * 3 // 4
    by = {kind: {row["attempted_by"][0] for row in rows if row["kind"] == kind} for kind in kinds}
    assert by["snooze"] == {go.client_id}
    assert by["flaky"] == {python.client_id}
    assert by["noop"] <= {go.client_id, python.client_id}
    # Nobody knows this one: it costs it nothing.
    for row in await jobs(connection, "kind = 'fail'"):
        assert (row["state"], row["attempt"], row["errors"]) == ("available", 0, None)


@pytest.mark.parametrize("side", _SIDES)
async def test_a_kind_that_nobody_knows_fails_alike_where_all_kinds_are_taken(
    begin: Starting, connection: Connection, side: str
) -> None:
    peer = await begin(side, kinds=["noop"])
    began = datetime.now(UTC)
    job_id = (
        await peer.ask("insert_many", jobs=[{"kind": "nobodys", "opts": {"max_attempts": 1}}])
    ).result[0]["id"]
    row = told(await settled(connection, job_id, "discarded"), began, {})
    (error,) = row["errors"]
    # The sentence is each one's own.
    assert "nobodys" in error.pop("error")
    assert error == {"at": "0 min", "attempt": 1, "trace": ""}
    assert (row["attempt"], row["finalized_at"]) == (1, "0 min")


@pytest.mark.short
@pytest.mark.parametrize("schema", ["", pytest.param("river_jobs", marks=pytest.mark.long)])
@pytest.mark.parametrize(("telling", "working"), _PAIRS)
async def test_one_wakes_the_other(
    begin: Starting, database_url: str, telling: str, working: str, schema: str
) -> None:
    """Who hears of a job or a cancellation does not wait for its next look."""
    async with AsyncExitStack() as stack:
        if schema:
            await stack.enter_async_context(_migrated(database_url, schema))
        await _wakes(begin, telling, working, schema)


async def _wakes(begin: Starting, telling: str, working: str, schema: str) -> None:
    teller = await begin(telling, start=False, schema=schema)
    worker = await begin(working, schema=schema, fetch_poll_interval=60)
    # The first look may still be under way.
    await worker.wait("job_completed", id=await worker.insert("noop"))
    soon = 10.0
    await worker.wait("job_completed", id=await teller.insert("noop"), within=soon)
    many = await teller.ask(
        "insert_many", jobs=[{"kind": "noop", "opts": {"queue": "second"}}], fast=True
    )
    assert many.count == 1
    await worker.wait("job_completed", kind="noop", within=soon)
    held = await teller.insert("block")
    await worker.wait("started", id=held, within=soon)
    await teller.ask("cancel", id=held)
    await worker.wait("job_cancelled", id=held, within=soon)


@pytest.mark.short
@pytest.mark.parametrize(("first", "second"), _PAIRS)
async def test_who_leads_hands_over_when_it_stops(
    begin: Starting, connection: Connection, first: str, second: str
) -> None:
    old = await begin(first)
    await leads(connection, old.client_id)
    new = await begin(second)
    await old.ask("stop")
    # Told by the resignation, not by the term that runs out (15 s) or the next look (5 s).
    await leads(connection, new.client_id, within=4)


@pytest.mark.parametrize(("first", "second"), _PAIRS)
async def test_who_leads_can_be_asked_to_resign_by_the_other(
    begin: Starting, connection: Connection, first: str, second: str
) -> None:
    old = await begin(first)
    await leads(connection, old.client_id)
    new = await begin(second)
    before = (await _leader(connection))["elected_at"]
    await new.ask("request_resign")
    # Both run for it again, so that either may win; the old term is over.
    after = await eventually(
        lambda: _leader(connection),
        fits=lambda row: bool(row) and row["elected_at"] > before,
        within=8,
    )
    assert after["leader_id"] in (old.client_id, new.client_id)


async def test_who_was_killed_while_leading_is_replaced(begin: Starting, database_url: str) -> None:
    # Each schema has a leader of its own, and the next look takes its time: both ways at once.
    await asyncio.gather(*(_killed(begin, database_url, first, second) for first, second in _PAIRS))


async def _killed(begin: Starting, database_url: str, first: str, second: str) -> None:
    schema = f"first_{first}"
    async with _migrated(database_url, schema) as connection:
        old = await begin(first, schema=schema)
        await leads(connection, old.client_id)
        new = await begin(second, schema=schema)
        await old.kill()
        assert (await _leader(connection))["leader_id"] == old.client_id
        # Its term of 15 s runs out now: waiting for that would show nothing more.
        await connection.execute("update river_leader set expires_at = now()")
        await leads(connection, new.client_id, within=10)


@asynccontextmanager
async def _migrated(database_url: str, schema: str) -> AsyncIterator[Connection]:
    """Yield a connection to a new schema with River's tables."""
    migrating = connect(database_url, schema=schema)
    async with await AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        await connection.execute(f"create schema {schema}")
        await migrate(migrating, "up")
        await connection.execute(f"set search_path to {schema}")
        yield connection
    await migrating.close()


@pytest.mark.short
@pytest.mark.parametrize(("asking", "working"), _PAIRS)
async def test_one_cancels_what_runs_and_what_waits_at_the_other(
    begin: Starting, connection: Connection, asking: str, working: str
) -> None:
    asker = await begin(asking, start=False)
    worker = await begin(working)
    running, stubborn = await asker.insert("block"), await asker.insert("block", stubborn=True)
    waiting = await asker.insert("noop", opts={"scheduled_in": 3600})
    for job_id in (running, stubborn):
        await worker.wait("started", id=job_id)
    for job_id in (running, stubborn, waiting):
        answer = await asker.ask("cancel", id=job_id)
        assert answer.state == ("cancelled" if job_id == waiting else "running")
        assert answer.result["metadata"]["cancel_attempted_at"]
    row = await settled(connection, running, "cancelled")
    assert [error["error"] for error in row["errors"]] == ["JobCancelError: job cancelled remotely"]
    await worker.wait("interrupted", id=stubborn)
    await worker.ask("release", id=stubborn)
    # Who goes on and ends well has ended well.
    row = await settled(connection, stubborn, "completed")
    assert row["errors"] is None
    assert (await job(connection, waiting))["errors"] is None


async def test_ours_obeys_go_where_nothing_is_heard(
    begin: Starting, connection: Connection
) -> None:
    """Behind a pooler there is no LISTEN: requests are looked for every two seconds."""
    go = await begin("go", start=False)
    python = await begin("python", poll_only=True)
    held = await go.insert("block")
    await python.wait("started", id=held)
    await go.ask("pause", queue="second")
    await go.ask("cancel", id=held)
    waiting = await go.insert("noop", opts={"queue": "second"})
    await python.wait("job_cancelled", id=held, within=8)
    await python.wait("queue_paused", queue="second", within=8)
    await go.ask("resume", queue="second")
    await python.wait("queue_resumed", queue="second", within=8)
    row = await settled(connection, waiting, "completed")
    assert row["attempt"] == 1


@pytest.mark.short
@pytest.mark.parametrize(("asking", "working"), _PAIRS)
async def test_one_pauses_and_resumes_the_other(
    begin: Starting, connection: Connection, asking: str, working: str
) -> None:
    asker = await begin(asking, start=False)
    worker = await begin(working)
    for name in ("second", "*"):
        await asker.ask("pause", queue=name)
        await worker.wait("queue_paused", queue=name if name != "*" else "default")
        held = await asker.insert("noop", opts={"queue": "second"})
        if name == "second":
            free = await asker.insert("noop")
            await worker.wait("job_completed", id=free)
        await asker.ask("resume", queue=name)
        await worker.wait("queue_resumed", queue="second")
        await worker.wait("job_completed", id=held)
        row = await job(connection, held)
        resumed = worker.seen("queue_resumed", queue="second")
        assert len(resumed) == (1 if name == "second" else 2)
        assert row["attempt"] == 1


@pytest.mark.parametrize("side", _SIDES)
async def test_a_job_that_takes_too_long_fails_alike(
    begin: Starting, connection: Connection, side: str
) -> None:
    began = datetime.now(UTC)
    peer = await begin(side, job_timeout=0.2)
    job_id = await peer.insert("sleep", seconds=60, opts={"max_attempts": 1})
    row = told(await settled(connection, job_id, "discarded"), began, {})
    (error,) = row["errors"]
    assert error.pop("error")
    assert error == {"at": "0 min", "attempt": 1, "trace": ""}
    assert (row["attempt"], row["finalized_at"], row["metadata"]) == (1, "0 min", {})


@pytest.mark.short
async def test_stuck_jobs_are_rescued_alike_but_for_unknown_kinds(
    begin: Starting, connection: Connection
) -> None:
    began = datetime.now(UTC)
    found: dict[str, list[Row]] = {}
    for side in _SIDES:
        long_ago = {"attempted_at": began - timedelta(hours=2), "attempted_by": ["a-dead-one"]}
        cases: list[Row] = [
            {"kind": "noop"},
            {"kind": "noop", "attempt": 25},
            {"kind": "noop", "metadata": {"river:rescue_count": 2, "own": 1}},
            {"kind": "noop", "metadata": {"river:rescue_count": "two"}},
            {"kind": "noop", "metadata": {"cancel_attempted_at": "2026-01-02T03:04:05.123456789Z"}},
            {"kind": "noop", "args": "[1]"},
            {"kind": "fail", "args": {"retry_in": 7200}},
            {"kind": "noop", "attempted_at": began - timedelta(minutes=1)},
            {"kind": "nobodys"},
            {"kind": "nobodys", "metadata": {"cancel_attempted_at": "2026-01-02T03:04:05Z"}},
        ]
        ids = [await factory.job(connection, "running", **{**long_ago, **case}) for case in cases]
        # Retries are far away, so that nothing is worked.
        peer = await begin(side, retry_in=7200, job_timeout=60, queues={"elsewhere": 1})
        await settled(connection, ids[4], "cancelled")
        found[side] = [told(await job(connection, job_id), began, {}) for job_id in ids]
        await peer.ask("stop")
        await connection.execute("delete from river_job")
    go, python = found["go"], found["python"]
    states = [row["state"] for row in go]
    assert states == [
        "retryable",
        "discarded",
        "retryable",
        "retryable",
        "cancelled",
        "retryable",
        "retryable",
        "running",
        "discarded",
        "cancelled",
    ]
    # The one difference, on purpose: what we do not know we leave to those who do.
    assert (python[8]["state"], python[8]["errors"], python[8]["metadata"]) == ("running", None, {})
    for at in (*range(8), 9):
        assert python[at] == go[at], f"case {at}"


@pytest.mark.short
async def test_a_periodic_job_that_both_have_is_not_doubled(
    begin: Starting, connection: Connection
) -> None:
    periodic = {
        "kind": "noop",
        "interval": 1,
        "run_on_start": True,
        "id": "every-second",
        "opts": {"unique": {"by_period": 1}},
    }
    python = await begin("python", periodic=[periodic])
    await leads(connection, python.client_id)
    go = await begin("go", periodic=[periodic])
    await eventually(lambda: jobs(connection), fits=lambda rows: len(rows) >= 2)
    await python.ask("stop")
    await leads(connection, go.client_id)
    await python.ask("start")
    before = len(await jobs(connection))
    await eventually(lambda: jobs(connection), fits=lambda rows: len(rows) >= before + 2)
    await go.ask("stop")
    await leads(connection, python.client_id)
    before = len(await jobs(connection))
    rows = await eventually(lambda: jobs(connection), fits=lambda rows: len(rows) >= before + 2)
    seconds = [row["scheduled_at"].replace(microsecond=0) for row in rows]
    assert len(set(seconds)) == len(seconds), "one a second"
    assert {row["unique_key"] is not None for row in rows} == {True}
    for row in rows:
        assert row["metadata"] == {"periodic": True, "river:periodic_job_id": "every-second"}


@pytest.mark.parametrize("order", ["id", "scheduled_at", "finalized_at", "time"])
async def test_pages_go_on_with_the_others_cursor(
    begin: Starting, connection: Connection, order: str
) -> None:
    go, python = await begin("go", start=False), await begin("python", start=False)
    now = datetime.now(UTC)
    for n in range(25):
        at = now - timedelta(seconds=n // 3, microseconds=n // 3)
        await factory.job(
            connection, "completed", scheduled_at=at, finalized_at=at, kind=f"kind_{n}"
        )
    states = {"states": ["completed"]}
    for desc in (False, True):
        seen: list[int] = []
        cursor = ""
        for turn in range(99):
            asked, other = (go, python) if turn % 2 else (python, go)
            page = await asked.ask(
                "list", count=4, order=order, desc=desc, cursor=cursor, filter=states
            )
            same = await other.ask(
                "list", count=4, order=order, desc=desc, cursor=cursor, filter=states
            )
            assert (page.result or []) == (same.result or [])
            assert page.message == same.message
            if not page.result:
                break
            seen += page.result
            cursor = page.message
        whole = await go.ask("list", count=100, order=order, desc=desc, filter=states)
        assert seen == whole.result
        assert len(seen) == 25


@pytest.mark.short
async def test_a_rolling_restart_costs_no_attempt(
    begin: Starting, connection: Connection, tmp_path: Path
) -> None:
    """Workers come and go, and cancel what they work: it is begun again elsewhere as if nothing had
    been.
    """
    workers = [
        await begin(side, queues={"default": 20}, journal=str(tmp_path / f"{side}{n}"), quiet=True)
        for side in _SIDES
        for n in range(2)
    ]
    jobs_to_do = [{"kind": "soak", "args": {"seconds": 0.1}}]
    await workers[0].ask("insert_many", jobs=jobs_to_do, count=1500)
    for turn in range(8):
        before = await _count(connection, "state = 'completed'")
        await eventually(partial(_reached, connection, before + 80))
        worker = workers[turn % len(workers)]
        await worker.ask("stop", hard=True)
        await worker.ask("start")
    await eventually(
        lambda: _count(connection, "state <> 'completed'"), fits=lambda left: left == 0, every=0.1
    )
    once = "attempt = 1 and errors is null and metadata = '{}'"
    assert await _count(connection, once) == 1500
    journal = await asyncio.to_thread(Journal.below, tmp_path)
    starts, stops, ends = (journal.count(what) for what in ("start", "stop", "end"))
    assert stops.total() > 0
    for job_id, entries in journal.jobs.items():
        assert starts[job_id] == 1 + stops[job_id], entries
        assert ends[job_id] == 1, entries
        assert {entry.attempt for entry in entries} == {1}


async def _reached(connection: Connection, count: int) -> bool:
    return await _count(connection, "state = 'completed'") >= count


async def test_python_works_along_with_river_bench(
    begin: Starting, connection: Connection, database_url: str, river_cli: Path
) -> None:
    """River's own load: it inserts by the thousand while ours works already, then both work."""
    count = 20_000
    python = await begin("python", queues={"default": 100}, quiet=True, log_jobs=False)
    bench = await asyncio.create_subprocess_exec(
        river_cli,
        "bench",
        f"--database-url={database_url}",
        f"--num-total-jobs={count}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await eventually(
            lambda: _count(connection, "state = 'completed'"),
            fits=lambda done: done >= count,
            within=60,
            every=0.1,
        )
    finally:
        # It counts only what it worked itself, and would wait for the rest.
        bench.send_signal(signal.SIGINT)
        await bench.wait()
    assert await _count(connection, "true") == count
    assert (
        await _count(connection, "attempt = 1 and cardinality(attempted_by) = 1 and errors is null")
        == count
    )
    mine = await _count(connection, f"attempted_by[1] = '{python.client_id}'")
    assert 0 < mine <= count


async def _count(connection: Connection, condition: str) -> int:
    cursor = await connection.execute(f"select count(*) as count from river_job where {condition}")
    row = await cursor.fetchone()
    assert row is not None
    return int(row["count"])


async def _leader(connection: Connection) -> Row:
    cursor = await connection.execute("select * from river_leader")
    return await cursor.fetchone() or {}
