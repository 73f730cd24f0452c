"""A worker process that dies, and jobs that misbehave: what they hold comes back, and the others go
on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from tests.faults.conftest import Begin
from tests.faults.journal import Journal
from tests.faults.server import CUT
from tests.interop.look import eventually, job, jobs, leads, settled

Connection = AsyncConnection[DictRow]


async def test_what_a_killed_worker_held_is_worked_again_and_nothing_else(
    begin: Begin, database: Connection, tmp_path: Path
) -> None:
    config: dict[str, Any] = {"journal": str(tmp_path / "first"), "quiet": True, "log_jobs": False}
    first = await begin(queues={"default": 30}, leader_election_disabled=True, **config)
    quick = {"kind": "soak", "args": {"seconds": 0.001}}
    endless = {"kind": "soak", "args": {"seconds": 3600}, "opts": {"priority": 4}}
    await first.ask("insert_many", jobs=[quick], count=1000)
    held = await first.ask("insert_many", jobs=[endless], count=20)

    async def completed() -> int:
        return len(await jobs(database, "state = 'completed'"))

    await eventually(completed, fits=lambda count: count > 200)
    # Of the endless ones those run that found a slot; the rest wait like the others.
    await first.kill()
    stuck = await jobs(database, "state = 'running'")
    ids = [result["id"] for result in held.result]
    await database.execute("update river_job set args = '{}' where id = any(%s)", [ids])

    config["journal"] = str(tmp_path / "second")
    second = await begin(
        queues={"default": 30}, job_timeout=0.2, rescue_after=0.2, retry_in=0.01, **config
    )
    await leads(database, second.client_id)
    rows = await eventually(
        lambda: jobs(database), fits=lambda rows: {row["state"] for row in rows} == {"completed"}
    )
    rescued = {row["id"] for row in rows if row["metadata"].get("river:rescue_count")}
    assert rescued == {row["id"] for row in stuck}
    journal = Journal.read([tmp_path / "first", tmp_path / "second"])
    starts, ends = journal.count("start"), journal.count("end")
    assert set(starts) == {row["id"] for row in rows}
    for row in rows:
        expected = 2 if row["id"] in rescued else 1
        assert row["attempt"] == expected
        assert len(row["errors"] or []) == expected - 1
        # What ended just before the kill but was not written yet has run to its end twice.
        assert starts[row["id"]] <= expected
        assert ends[row["id"]] <= expected


async def test_a_stop_that_comes_after_a_kill_of_the_database_connections_loses_nothing(
    begin: Begin, database: Connection, tmp_path: Path
) -> None:
    worker = await begin(journal=str(tmp_path / "only"), quiet=True, queues={"default": 50})
    await worker.ask("insert_many", jobs=[{"kind": "soak", "args": {"seconds": 0.02}}], count=500)
    await eventually(lambda: jobs(database, "state = 'completed'"))
    await database.execute(CUT)
    await worker.ask("stop")
    # What was begun is ended and written, what was not has not been touched.
    assert await jobs(database, "state not in ('available', 'completed')") == []
    journal = Journal.read([tmp_path / "only"])
    assert set(journal.count("start")) == {
        row["id"] for row in await jobs(database, "state = 'completed'")
    }
    assert set(journal.count("start").values()) == {1}


async def test_a_job_that_blocks_the_loop_only_delays_the_others(
    begin: Begin, database: Connection
) -> None:
    worker = await begin(job_timeout=1)
    hog = await worker.insert("hog", seconds=2.5)
    await worker.wait("started", id=hog)
    others = [await worker.insert("noop") for _ in range(5)]
    for job_id in (hog, *others):
        row = await settled(database, job_id, "completed")
        assert row["attempt"] == 1
    assert (await worker.ask("stats")).result["running"] == 0


async def test_a_job_that_blocks_the_loop_leaves_its_queue_to_other_processes(
    begin: Begin, database: Connection
) -> None:
    blocked = await begin()
    hog = await blocked.insert("hog", seconds=3)
    await blocked.wait("started", id=hog)
    free = await begin()
    job_id = await free.insert("noop")
    row = await settled(database, job_id, "completed")
    assert row["attempted_by"] == [free.client_id]
    await settled(database, hog, "completed")


async def test_a_job_that_ignores_its_timeout_is_told_of_and_keeps_only_its_slot(
    begin: Begin, database: Connection
) -> None:
    worker = await begin(queues={"default": 2}, job_timeout=0.2, job_stuck_threshold=0.1)
    deaf = await worker.insert("block", stubborn=True)
    await worker.wait("interrupted", id=deaf)
    for _ in range(10):
        assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1
    assert (await job(database, deaf))["state"] == "running"
    await worker.ask("release", id=deaf)
    # It said nothing of being interrupted, so it ended well.
    assert (await settled(database, deaf, "completed"))["errors"] is None


async def test_a_thread_that_ignores_its_timeout_ends_in_its_own_time(
    begin: Begin, database: Connection
) -> None:
    worker = await begin(queues={"default": 2}, job_timeout=0.1, job_stuck_threshold=0.1)
    deaf = await worker.insert("thread_sleep", seconds=1)
    await worker.wait("started", id=deaf)
    assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1
    assert (await settled(database, deaf, "completed"))["attempt"] == 1


async def test_a_job_that_asks_to_exit_fails_alone(begin: Begin, database: Connection) -> None:
    worker = await begin(queues={"default": 2}, retry_in=3600)
    for kind in ("exit", "thread_exit", "thread_exit", "thread_exit"):
        job_id = await worker.insert(kind)
        row = await settled(database, job_id, "retryable")
        (error,) = row["errors"]
        assert error["error"].endswith("3")
        assert "SystemExit" in error["trace"]
    # Neither the program nor its threads are gone.
    assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1
    assert (await settled(database, await worker.insert("thread_sleep"), "completed"))[
        "attempt"
    ] == 1


async def test_a_job_whose_row_is_gone_ends_without_a_word(
    begin: Begin, database: Connection
) -> None:
    worker = await begin(queues={"default": 4})
    ends = [await worker.insert("block"), await worker.insert("block", stubborn=True)]
    for job_id in ends:
        await worker.wait("started", id=job_id)
    await database.execute("delete from river_job where id = any(%s)", [ends])
    for job_id in ends:
        await worker.ask("release", id=job_id)
    assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1
    assert len(await jobs(database)) == 1

    async def running() -> int:
        return int((await worker.ask("stats")).result["running"])

    await eventually(running, fits=lambda count: count == 0)


async def test_a_job_that_was_ended_by_somebody_else_stays_as_it_is(
    begin: Begin, database: Connection
) -> None:
    worker = await begin(queues={"default": 4})
    job_id = await worker.insert("block")
    await worker.wait("started", id=job_id)
    await database.execute(
        "update river_job set state = 'discarded', finalized_at = now(), errors = '{}' where id"
        " = %s",
        [job_id],
    )
    before = await job(database, job_id)
    await worker.ask("release", id=job_id)
    assert (await settled(database, await worker.insert("noop"), "completed"))["attempt"] == 1
    await worker.ask("stop")
    assert await job(database, job_id) == before


async def test_clocks_that_differ_by_minutes_neither_rescue_nor_double(
    begin: Begin, database: Connection
) -> None:
    slow = await begin(clock_skew=-300, id="slow")
    fast = await begin(clock_skew=300, id="fast")
    ids = [
        await peer.insert("sleep", seconds=0.05, opts={"scheduled_in": 0.001} if scheduled else {})
        for peer in (slow, fast)
        for scheduled in (False, True)
        for _ in range(5)
    ]
    # Rows bear the time of who inserted them, as River's do: what a fast clock calls due comes
    # late.
    early = await eventually(
        lambda: jobs(database, "state = 'completed'"), fits=lambda rows: len(rows) >= 5, within=15
    )
    await database.execute(
        "update river_job set scheduled_at = scheduled_at - interval '10 min' where state <>"
        " 'completed'"
    )
    rows = await eventually(
        lambda: jobs(database), fits=lambda rows: {row["state"] for row in rows} == {"completed"}
    )
    assert [row["id"] for row in rows] == ids
    assert {row["id"] for row in early} >= set(ids[:5])
    assert {row["attempt"] for row in rows} == {1}
    assert {row["errors"] is None for row in rows} == {True}
    # One leads, whatever they think the time is.
    leaders = [(await peer.ask("stats")).result["leader"] for peer in (slow, fast)]
    assert sorted(leaders) == [False, True]
    await asyncio.gather(slow.ask("stop"), fast.ask("stop"))
