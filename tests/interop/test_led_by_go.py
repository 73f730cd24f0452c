"""Our workers beside a Go client that leads: what goes on, and what waits or does not come, as
docs/understand/leader.md says.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.periodic import PeriodicInterval, PeriodicJob
from riverui.engine.limits import EngineLimits
from riverui.engine.work.worker import Job
from riverui.engine.work.workers import Workers
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.features.workflows.waits.domain import SignalTerm, TimerTerm, Wait
from tests import factory
from tests.interop.conftest import StartWorker
from tests.interop.look import Row, eventually, jobs, leads, settled

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("own_tables")]

Connection = AsyncConnection[DictRow]
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@dataclass
class Ours:
    """Args of a kind that Go does not know."""

    kind: ClassVar[str] = "ours"
    name: str = ""


@dataclass
class Gos:
    """Args of a kind that Go works, in its queue."""

    kind: ClassVar[str] = "noop"


def client_of(database_url: str) -> Client:
    """Return a client of ours that uses all that needs a leader."""
    workers = Workers()

    @workers.work(Ours)
    async def work(job: Job[Ours]) -> None: ...

    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=10)},
        workers=workers,
        skip_unknown_job_check=True,
        dead_letter=DeadLetterConfig(enabled=True),
        durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True),
        periodic_jobs=[
            PeriodicJob(PeriodicInterval(SECOND), lambda: Ours("durable"), id="durable"),
            PeriodicJob(PeriodicInterval(SECOND), lambda: Ours("plain")),
        ],
    )
    return Client(database_url, config, limits=EngineLimits(stand_in_seconds=0.2))


async def of_name(connection: Connection, name: str) -> list[Row]:
    """Return jobs of ours by what their args say."""
    return await jobs(connection, f"kind = 'ours' and args ->> 'name' = '{name}'")


async def test_what_goes_on_and_what_does_not_while_go_leads(
    connection: Connection,
    database_url: str,
    start_worker: StartWorker,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="riverui")
    now = datetime.now(UTC)
    stuck = await factory.job(
        connection, "running", kind="ours", attempted_at=now - 2 * HOUR, attempted_by=["gone"]
    )
    old = await factory.job(connection, "discarded", kind="ours", finalized_at=now - 192 * HOUR)
    in_gos_queue = InsertOpts(queue="go")
    client = client_of(database_url)
    workflow = client.workflows.new()
    first = workflow.add("first", Gos(), in_gos_queue)
    workflow.add("second", Ours("second"), deps=[first])
    waiting = client.workflows.new()
    signal, timer = SignalTerm("approved", "approval"), TimerTerm("late", after=timedelta())
    waiting.add("signalled", Ours("signalled"), wait=Wait("approved", [signal]))
    waiting.add("timed", Ours("timed"), wait=Wait("late", [timer]))
    await workflow.insert()
    await waiting.insert()
    line = InsertOpts(queue="go", sequence=SequenceOpts())
    head, tail = [(await client.insert(Gos(), line)).job.id for _ in range(2)]
    async with start_worker(kinds=["noop"], fetch_only_known_kinds=True, queues={"go": 5}) as go:
        await leads(connection, go.client_id)
        await settled(connection, head, "completed")
        (done,) = await jobs(connection, "metadata ->> 'task' = 'first'")
        await settled(connection, done["id"], "completed")
        async with client:
            # By Go, as for its own jobs.
            later = InsertOpts(scheduled_at=datetime.now(UTC) + SECOND)
            scheduled = (await client.insert(Ours("later"), later)).job.id
            failed = await factory.job(
                connection, "retryable", kind="ours", attempt=1, scheduled_at=now, max_attempts=25
            )
            await settled(connection, scheduled, "completed")
            await settled(connection, failed, "completed")
            # It does not know the kind, and keeps no dead letters.
            await settled(connection, stuck, "discarded")
            await eventually(lambda: jobs(connection, f"id = {old}"), fits=lambda rows: not rows)
            assert await _rows(connection, "select from riverui_dead_job") == []
            # By our client that stands in.
            await client.workflows.signal(waiting.id, "approval")
            for name in ("second", "signalled", "timed"):
                (row,) = await of_name(connection, name)
                await settled(connection, row["id"], "completed")
            await settled(connection, tail, "completed")
            await eventually(
                lambda: of_name(connection, "durable"), fits=lambda rows: len(rows) >= 2
            )
            # By nobody.
            assert await of_name(connection, "plain") == []
            warned = [
                record.getMessage() for record in caplog.records if record.levelname == "WARNING"
            ]
            leading = f"client {go.client_id} leads and is not riverui's: "
            assert warned == [
                f"{leading}no periodic jobs of this client are inserted, except durable ones",
                f"{leading}discarded jobs are removed and do not become dead letters",
            ]
            # By our client once it leads.
            await go.ask("stop")
            await leads(connection, client.id)
            await eventually(lambda: of_name(connection, "plain"))


async def _rows(connection: Connection, statement: str) -> list[Any]:
    cursor = await connection.execute(statement.encode())
    return await cursor.fetchall()
