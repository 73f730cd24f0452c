"""Heartbeats of a client, what happens to the jobs of one that sends none, and to one that was
only cut off.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.rows import DictRow

from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, QueueTerms
from riverui.engine.client import Client
from riverui.engine.config import NO_LIMIT, ClientConfig, QueueConfig
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job, Worker
from riverui.errors import ConfigError
from riverui.features.fair_shares.domain import FairShare
from riverui.features.heartbeats.engine.client_rescuer import ClientRescuer
from riverui.features.heartbeats.store import ClientStore
from riverui.features.rate_limits.domain import RateLimit
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from tests.engine.conftest import Playground, Task
from tests.storage.tcp_proxy import tcp_proxy

BEAT = timedelta(seconds=0.2)
"""Between two heartbeats: short, so that a test need not wait."""


@pytest.fixture
async def line(play: Playground) -> None:
    """Create riverui's own tables."""
    await change_line(play, "up")


async def change_line(play: Playground, direction: Any) -> None:
    driver = connect(play.database_url)
    target = -1 if direction == "down" else None
    await migrate(driver, direction, line="riverui", target_version=target)
    await driver.close()


async def clients(play: Playground) -> list[DictRow]:
    return await play.rows("select * from riverui_client order by registered_at")


async def make_client(play: Playground, name: str, *, silent: float) -> None:
    """Register a client that has been silent for so many heartbeats."""
    await play.connection.execute(
        "insert into riverui_client (id, registered_at, heartbeat_at, heartbeat_interval) values"
        " (%s, now() - interval '1 h', now() - %s * interval '20 s', '20 s')",
        [name, silent],
    )


class Waiting(Worker[Task]):
    """Works until released, and counts how often it began and was interrupted."""

    def __init__(self) -> None:
        self.began = self.interrupted = 0
        self.go = asyncio.Event()

    async def work(self, job: Job[Task]) -> None:
        self.began += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.interrupted += 1
            raise


# One client's row


@pytest.mark.usefixtures("line")
async def test_a_client_tells_by_which_rules_it_works_its_queues(
    play: Playground, driver: PostgresDriver
) -> None:
    by_value = Partition(by_args=("value",))
    limit = RateLimit(limit=5, partition=by_value, weight={"task": 2.0})
    share = FairShare(partition=by_value, weights={"gold": 3.0})

    @play.workers.work_many(Task, max_count=7, max_delay=timedelta(seconds=3))
    async def work(jobs: Sequence[Job[Task]]) -> None:
        """Do nothing."""

    await play.start(
        heartbeat_interval=BEAT,
        queues={
            "default": QueueConfig(max_workers=3, rate_limit=limit, fair_share=share),
            "visits": QueueConfig(max_workers=2, ephemeral=True),
        },
    )

    async def reported() -> bool:
        (row,) = await clients(play)
        return bool({"default", "visits"} <= row["queues"].keys())

    await play.until(reported)
    async with driver.reading() as executor:
        (row,) = await ClientStore(executor).client_list(limit=10)
    batches = {"task": BatchTerms(max_count=7, max_delay=timedelta(seconds=3))}
    assert row.queues == {"default": (3, 0), "visits": (2, 0)}
    assert row.kinds == frozenset({"task"})
    assert row.terms == {
        "default": QueueTerms(
            rate_limit=limit.as_terms(), fair_share=share.as_terms(), batches=batches
        ),
        "visits": QueueTerms(ephemeral=True, batches=batches),
    }


async def first_heartbeat(play: Playground) -> dict[str, Any]:
    """Return the only client's row, once it exists."""
    await play.until(lambda: _is_known(play))
    (row,) = await clients(play)
    return row


async def _is_known(play: Playground) -> bool:
    return len(await clients(play)) == 1


@pytest.mark.usefixtures("line")
async def test_a_client_is_known_from_its_first_job_to_its_stop(play: Playground) -> None:
    worker = Waiting()
    play.worker(worker)
    job_id = await play.insert()
    client = await play.start(
        heartbeat_interval=BEAT,
        release="v7",
        queues={"default": QueueConfig(max_workers=3), "other": QueueConfig(max_workers=2)},
    )
    (first,) = await clients(play)
    await play.until(lambda: worker.began == 1)
    row = await play.row(job_id)
    assert row["attempted_by"] == [first["id"]] == [client.id]
    assert row["attempted_at"] >= first["registered_at"]
    assert first["release"] == "v7"
    assert first["language"].startswith("Python 3.")
    assert first["pid"] > 0
    assert first["heartbeat_interval"] == BEAT

    async def reported() -> bool:
        (now,) = await clients(play)
        return bool(now["running"] == 1 and now["heartbeat_at"] > first["heartbeat_at"])

    await play.until(reported)
    (row,) = await clients(play)
    assert row["queues"] == {"default": [3, 1], "other": [2, 0], "": {"kinds": ["task"]}}
    assert row["loop_lag"] < 0.5
    if sys.platform == "linux":
        assert row["memory"] > 10_000_000
    assert row["registered_at"] == first["registered_at"]
    worker.go.set()
    await client.stop()
    assert await clients(play) == []
    await client.start()

    await first_heartbeat(play)


async def test_without_the_table_there_is_nothing_to_tell_until_somebody_makes_it(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.engine")
    # Long enough for a busy machine: a heartbeat must be answered within its interval.
    await play.start(
        heartbeat_interval=timedelta(seconds=2), limits=EngineLimits(look_for_clients_seconds=0.05)
    )
    await change_line(play, "up")
    await play.until(lambda: _known(play))
    worked = await play.insert()
    await play.until(lambda: _is(play, worked, "completed"))
    await change_line(play, "down")
    again = await play.insert()
    await play.until(lambda: _is(play, again, "completed"))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("line")
async def test_who_wants_none_is_not_known(play: Playground) -> None:
    await play.start(heartbeat_interval=NO_LIMIT)
    assert await clients(play) == []
    with pytest.raises(ConfigError, match="heartbeat_interval must be at least 100 ms, or NO_LIM"):
        ClientConfig(heartbeat_interval=timedelta(milliseconds=99))


@pytest.mark.usefixtures("line")
async def test_a_job_that_blocks_the_event_loop_does_not_make_the_client_silent(
    play: Playground,
) -> None:
    async def block(job: Job[Task]) -> None:
        time.sleep(0.6)  # noqa: ASYNC251 - that is the point

    play.worker(block)
    job_id = await play.insert()
    await play.start(heartbeat_interval=timedelta(seconds=0.1))
    first = await first_heartbeat(play)
    await play.until(lambda: _is(play, job_id, "completed"))
    (row,) = await clients(play)
    assert row["registered_at"] == first["registered_at"]
    assert row["declared_dead_at"] is None
    assert (await play.row(job_id))["attempt"] == 1


@pytest.mark.usefixtures("line")
async def test_a_client_that_leaves_jobs_behind_is_not_forgotten(play: Playground) -> None:
    go, began = asyncio.Event(), asyncio.Event()

    async def deaf(job: Job[Task]) -> None:
        began.set()
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await go.wait()

    play.worker(deaf)
    await play.insert()
    client = await play.start(heartbeat_interval=BEAT)
    await began.wait()
    await client.stop_and_abandon()
    (row,) = await clients(play)
    assert row["id"] == client.id
    go.set()


@asynccontextmanager
async def cut_off_client(play: Playground) -> AsyncIterator[tuple[Client, asyncio.Event]]:
    """Yield a client whose packets pass while the event is set."""
    passing = asyncio.Event()
    passing.set()
    async with tcp_proxy(play.database_url, passing=passing) as way:
        yield (
            play.make(
                database=connect(way),
                heartbeat_interval=timedelta(seconds=0.4),
                limits=EngineLimits(statement_timeout=timedelta(seconds=1)),
            ),
            passing,
        )


# Others


@pytest.mark.usefixtures("line")
async def test_the_jobs_of_a_silent_client_are_rescued_by_rivers_rules(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "riverui.engine")
    asked = {"cancel_attempted_at": "2026-11-21T09:00:00Z"}
    given: dict[str, dict[str, Any]] = {
        "retryable": {},
        "cancelled": {"metadata": asked},
        "discarded": {"attempt": 3, "max_attempts": 3},
        "running": {"attempted_by": ["dead", "alive"]},
    }
    ids = {
        state: await play.insert(
            state="running",
            **{"attempt": 1, "attempted_by": ["alive", "dead"], "attempted_at": _minutes_ago(1)}
            | columns,
        )
        for state, columns in given.items()
    }
    unknown = await play.insert(
        state="running", kind="unknown", attempted_by=["dead"], attempted_at=_minutes_ago(1)
    )
    await make_client(play, "dead", silent=3.6)
    await make_client(play, "late", silent=3.0)
    await play.start(
        heartbeat_interval=BEAT,
        queues={"elsewhere": QueueConfig(max_workers=1)},
        job_timeout=NO_LIMIT,
        retry_policy=lambda row: datetime(2031, 1, 1, tzinfo=UTC),
    )

    async def rescued() -> bool:
        return any(row["rescued_at"] for row in await clients(play))

    await play.until(rescued)
    for state, job_id in ids.items():
        row = await play.row(job_id)
        assert row["state"] == state
        if state != "running":
            assert row["errors"][-1]["error"] == "Stuck job rescued by JobRescuer"
            assert row["metadata"]["river:rescue_count"] == 1
            assert (row["finalized_at"] is None) == (state == "retryable")
    for job_id in (ids["retryable"], unknown):
        row = await play.row(job_id)
        assert row["state"] == "retryable"
        assert row["scheduled_at"] == datetime(2031, 1, 1, tzinfo=UTC)
    rows = {row["id"]: row for row in await clients(play)}
    assert rows["dead"]["rescued"] == 4
    assert rows["dead"]["declared_dead_by"] == play.client.id
    assert rows["late"]["declared_dead_at"] is None
    assert "client dead (process 0 on an unknown host) sent no heartbeat since" in caplog.text


@pytest.mark.usefixtures("line")
async def test_more_jobs_than_one_statement_takes(play: Playground) -> None:
    await play.connection.execute(
        "insert into river_job (kind, args, state, attempt, attempted_by, attempted_at,"
        " max_attempts) select 'task', '{}', 'running', 1, '{dead}', now(), 25 from"
        " generate_series(1, 2500)"
    )
    await make_client(play, "dead", silent=9)
    play.worker(Waiting())
    rescuer = ClientRescuer(play.make().context())
    assert await rescuer.run_once() == 1
    assert await play.rows("select state::text, count(*) as jobs from river_job group by 1") == [
        {"state": "retryable", "jobs": 2500}
    ]
    assert await rescuer.run_once() == 0


@pytest.mark.usefixtures("line")
async def test_nobody_is_judged_by_a_client_that_was_cut_off_itself(play: Playground) -> None:
    """While the database is unavailable no heartbeat arrives."""
    async with cut_off_client(play) as (client, passing):
        play.worker(Waiting())
        await client.start()
        await play.until(lambda: _beaten(play, client.id, 3))
        passing.clear()
        await play.until(lambda: _silent(play, client.id, 1.0))
        await make_client(play, "as_silent", silent=9)
        passing.set()
        # The first heartbeat afterwards sees one that is long overdue.
        await play.until(lambda: _beaten(play, client.id, 1))
        (other,) = [row for row in await clients(play) if row["id"] == "as_silent"]
        assert other["declared_dead_at"] is None
        await play.until(lambda: _dead(play, "as_silent"))
        (row,) = [row for row in await clients(play) if row["id"] == client.id]
        declared = next(r for r in await clients(play) if r["id"] == "as_silent")
        assert declared["declared_dead_by"] == client.id
        assert row["declared_dead_at"] is None
        await client.stop_and_cancel()


# Being declared dead


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("rescued", [False, True])
async def test_who_was_declared_dead_cancels_its_jobs_and_begins_anew(
    play: Playground, caplog: pytest.LogCaptureFixture, *, rescued: bool
) -> None:
    worker = Waiting()
    play.worker(worker)
    job_id = await play.insert()
    client = await play.start(heartbeat_interval=BEAT)
    await play.until(lambda: worker.began == 1)
    await first_heartbeat(play)
    async with play.connection.transaction():
        await play.connection.execute("update riverui_client set declared_dead_at = now()")
        if rescued:
            # Another client works it already.
            await play.connection.execute(
                "update river_job set attempt = 2, attempted_by = '{a,b}', attempted_at = now()"
            )
    await play.until(lambda: _known(play, client.id, lives=2))
    assert worker.interrupted == 1
    dead, living = await clients(play)
    assert living["registered_at"] > dead["declared_dead_at"]
    if rescued:
        row = await play.row(job_id)
        assert (row["state"], row["attempt"], row["attempted_by"]) == ("running", 2, ["a", "b"])
        job_id = await play.insert()
    await play.until(lambda: worker.began == 2)
    row = await play.row(job_id)
    # It was released as if there had been no attempt.
    assert (row["attempt"], row["errors"]) == (1, None)
    assert row["attempted_at"] > living["registered_at"]
    worker.go.set()
    await play.until(lambda: _is(play, job_id, "completed"))
    assert f"client {client.id} was declared dead" in caplog.text
    assert f"client {client.id} resumes work" in caplog.text


@pytest.mark.usefixtures("line")
async def test_who_is_cut_off_cancels_its_jobs_before_others_take_them(play: Playground) -> None:
    """It releases them as soon as it can."""
    worker = Waiting()
    play.worker(worker)
    async with cut_off_client(play) as (client, passing):
        job_id = await play.insert()
        await client.start()
        await play.until(lambda: worker.began == 1)
        first = await first_heartbeat(play)
        passing.clear()
        await play.until(lambda: worker.interrupted == 1)
        (row,) = await clients(play)
        (now,) = await play.rows("select clock_timestamp() as now")
        assert now["now"] - row["heartbeat_at"] < timedelta(seconds=0.4 * 3.5)
        passing.set()
        # It has not been declared dead meanwhile.
        await play.until(lambda: worker.began == 2)
        (row,) = await clients(play)
        assert row["registered_at"] == first["registered_at"]
        job = await play.row(job_id)
        assert (job["attempt"], job["errors"]) == (1, None)
        worker.go.set()
        await play.until(lambda: _is(play, job_id, "completed"))
        await client.stop()


@pytest.mark.usefixtures("line")
async def test_a_queue_added_while_it_is_cut_off_waits_as_well(play: Playground) -> None:
    worker = Waiting()
    worker.go.set()
    play.worker(worker)
    job_id = await play.insert(queue="added")
    client = await play.start(heartbeat_interval=BEAT)
    runtime = client.runtime
    assert runtime is not None
    runtime.heartbeats.hold_back()
    await client.queues.add("added", QueueConfig(max_workers=1))
    worked = await play.insert(queue="added")
    assert worker.began == 0
    runtime.heartbeats.go_on()
    for each in (job_id, worked):
        await play.until(lambda job=each: _is(play, job, "completed"))  # type: ignore[misc]


def _minutes_ago(minutes: float) -> datetime:
    return datetime.now(UTC) - timedelta(minutes=minutes)


async def _is(play: Playground, job_id: int, state: str) -> bool:
    return bool((await play.row(job_id))["state"] == state)


async def _known(play: Playground, client_id: str | None = None, lives: int = 1) -> bool:
    rows = await clients(play)
    return len([row for row in rows if client_id in (None, row["id"])]) == lives


async def _beaten(play: Playground, client_id: str, times: int) -> bool:
    """Wait for so many heartbeats, and return True."""
    seen: set[datetime] = set()
    while len(seen) <= times:
        seen |= {row["heartbeat_at"] for row in await clients(play) if row["id"] == client_id}
        await asyncio.sleep(0.01)
    return True


async def _silent(play: Playground, client_id: str, seconds: float) -> bool:
    rows = await play.rows(
        f"select 1 from riverui_client where id = '{client_id}' and heartbeat_at <"
        f" clock_timestamp() - interval '{seconds} s'"
    )
    return bool(rows)


async def _dead(play: Playground, client_id: str) -> bool:
    return any(row["declared_dead_at"] for row in await clients(play) if row["id"] == client_id)
