"""Every service of the leader goes through all that its tables can hold: no row keeps the others
waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.domain.schedules import PeriodicInterval
from riverui.engine.args.job_args import JsonArgs
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.periodic_job_enqueuer import PeriodicJobEnqueuer
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.engine.lead.maintenance.reindexer import Reindexer
from riverui.engine.lead.maintenance.service import BatchSize
from riverui.engine.lead.periodic import PeriodicJob, PeriodicJobs
from riverui.engine.pilot import Pilot
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from tests import factory
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.maintenance.test_job_scheduler import NotifiedQueues
from tests.engine.ticking import Ticking
from tests.odd_rows import insert_odd_rows

BOUND = 60.0
"""Seconds that a round over the whole corpus may take, on a machine that is busy with other tests.
"""
NEVER_STARTED = {"no time of an attempt", "times that never come"}
"""Running jobs without a readable start time."""


@dataclass
class Odd:
    kind: ClassVar[str] = "odd"
    number: int = 0


class OddWorker(Worker[Odd]):
    async def work(self, job: Job[Odd]) -> None: ...


def workers(worker: Worker[Any] | None = None) -> Workers:
    made = Workers()
    made.add(worker or OddWorker())
    return made


async def states(connection: AsyncConnection[Any], ids: Iterable[int]) -> dict[int, str]:
    rows = await (
        await connection.execute("select id, state from river_job where id = any(%s)", [list(ids)])
    ).fetchall()
    return {row["id"]: row["state"] for row in rows}


async def corpus(connection: AsyncConnection[Any], *states: str) -> dict[tuple[str, str], int]:
    """Write every odd row in every state, the large ones only in these; return the ids of those in
    these.
    """
    ids = await insert_odd_rows(connection, large_in=states)
    return {key: job_id for key, job_id in ids.items() if key[1] in states}


async def refuse(connection: AsyncConnection[Any], job_id: int, what: str = "update") -> None:
    """Has the database refuse to change one job, as a program's own trigger may."""
    await connection.execute(
        "create or replace function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not this one'; end $$"
    )
    await connection.execute(
        f"create trigger refuse_{job_id} before {what} on river_job"
        f" for each row when (old.id = {job_id}) execute function refuse()".encode()
    )


async def test_the_scheduler_moves_every_odd_row(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    due = await corpus(connection, "retryable", "scheduled")
    never = {job_id for (name, _), job_id in due.items() if name == "times that never come"}
    async with asyncio.timeout(BOUND):
        await JobScheduler(service_parts().context, notify_inserts=NotifiedQueues()).run_once()
    found = await states(connection, due.values())
    # Two of each unique key are there, as no client could have inserted them: one goes on.
    assert {state for job_id, state in found.items() if job_id not in never} <= {
        "available",
        "discarded",
    }
    assert {found[job_id] for job_id in never} == {"retryable", "scheduled"}


async def test_the_rescuer_rescues_every_odd_row(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    stuck = await corpus(connection, "running")
    parts = service_parts(workers=workers(), discard_unknown_stuck_jobs=True)
    async with asyncio.timeout(BOUND):
        await JobRescuer(*parts, pilot=Pilot()).run_once()
    found = await states(connection, stuck.values())
    left = {name for (name, _), job_id in stuck.items() if found[job_id] == "running"}
    assert left <= NEVER_STARTED | {"times beyond the calendar"}
    ended = {found[job_id] for (name, _), job_id in stuck.items() if name not in left}
    assert ended == {"cancelled", "discarded", "retryable"}


async def test_a_rescue_leaves_odd_columns_as_they_are(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    stuck = await corpus(connection, "running")
    await JobRescuer(
        *service_parts(workers=workers(), discard_unknown_stuck_jobs=True), pilot=Pilot()
    ).run_once()
    wanted = {
        "metadata that is a number": "7",
        "metadata that is an array": '["cancel_attempted_at", "output"]',
        "metadata that is null": '{"river:rescue_count": 1}',
        "metadata that is a text": '"cancel_attempted_at"',
    }
    for name, metadata in wanted.items():
        row = await (
            await connection.execute(
                "select metadata::text as text, state from river_job where id = %s",
                [stuck[name, "running"]],
            )
        ).fetchone()
        assert row == {"text": metadata, "state": "retryable"}, name
    row = await (
        await connection.execute(
            "select scheduled_at = '0044-03-15 BC' as kept, array_length(errors, 1) as errors"
            " from river_job where id = %s",
            [stuck["times before Christ", "running"]],
        )
    ).fetchone()
    assert row is not None
    assert row["errors"] == 1


async def test_the_cleaner_removes_every_odd_row(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    old = await corpus(connection, "cancelled", "completed", "discarded")
    parts = service_parts(
        cancelled_job_retention_period=timedelta(hours=1),
        completed_job_retention_period=timedelta(hours=1),
        discarded_job_retention_period=timedelta(hours=1),
    )
    async with asyncio.timeout(BOUND):
        assert await JobCleaner(parts.context).run_once() == len(old)


async def test_the_queue_cleaner_and_the_reindexer_pass_odd_rows(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    await insert_odd_rows(connection)
    long_ago = service_parts().context.clock() - timedelta(days=2)
    names = {"*", "q\x01\n/../\u2028", "é" * 127, "plain"}
    for name in names:
        await factory.queue(connection, name, updated_at=long_ago, metadata="[1, 2]")
    await factory.queue(connection, "for_ever", updated_at="infinity")
    await factory.queue(connection, "before_christ", updated_at="0044-03-15 BC")
    async with asyncio.timeout(BOUND):
        assert set(await QueueCleaner(service_parts().context).run_once()) == names | {
            "before_christ"
        }
        assert await Reindexer(*service_parts()).run_once()


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_job_that_cannot_be_scheduled_is_logged_once_and_blocks_no_other(
    size: int,
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = service_parts().context.clock()
    ids = [
        await factory.job(connection, "scheduled", scheduled_at=now - timedelta(seconds=9 - n))
        for n in range(9)
    ]
    for poison in (ids[0], ids[4]):
        await refuse(connection, poison)
    scheduler = JobScheduler(
        service_parts().context, notify_inserts=NotifiedQueues(), size=BatchSize(size, 1)
    )
    for _ in range(9):
        await scheduler.run_once()
    found = await states(connection, ids)
    assert [job_id for job_id in ids if found[job_id] == "scheduled"] == [ids[0], ids[4]]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(messages) == 2
    assert f"job {ids[0]} cannot be processed" in messages[0]
    assert "not this one" in messages[0]


async def test_two_jobs_of_a_key_that_counts_when_discarded(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    """River's own rules discard one of them, which the key would then forbid."""
    unique = {
        "unique_key": b"k" * 32,
        "unique_states": "11011111",
        "scheduled_at": service_parts().context.clock(),
    }
    ids = [await factory.job(connection, "retryable", **unique) for _ in range(2)]
    other = await factory.job(connection, "scheduled", scheduled_at=service_parts().context.clock())
    await JobScheduler(service_parts().context, notify_inserts=NotifiedQueues()).run_once()
    found = await states(connection, (*ids, other))
    assert [found[job_id] for job_id in (*ids, other)] == ["available", "discarded", "available"]


async def test_a_job_that_another_transaction_locks_blocks_no_other(
    service_parts: NewServiceParts, connection: AsyncConnection[Any], database_url: str
) -> None:
    now = service_parts().context.clock()
    due = [await factory.job(connection, "scheduled", scheduled_at=now) for _ in range(2)]
    long_ago = now - timedelta(hours=5)
    stuck = [
        await factory.job(connection, "running", kind="odd", attempted_at=long_ago)
        for _ in range(2)
    ]
    async with await AsyncConnection.connect(database_url) as holder:
        await holder.execute(
            "select from river_job where id = any(%s) for update", [[due[0], stuck[0]]]
        )
        async with asyncio.timeout(BOUND / 6):
            await JobScheduler(service_parts().context, notify_inserts=NotifiedQueues()).run_once()
            await JobRescuer(*service_parts(workers=workers()), pilot=Pilot()).run_once()
        found = await states(connection, (*due, *stuck))
    assert [found[job_id] for job_id in (*due, *stuck)] == [
        "scheduled",
        "available",
        "running",
        "retryable",
    ]


async def test_a_job_that_cannot_be_removed_is_logged_once_and_blocks_no_other(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    long_ago = service_parts().context.clock() - timedelta(days=30)
    ids = [await factory.job(connection, "completed", finalized_at=long_ago) for _ in range(9)]
    await connection.execute("create table receipt (job_id bigint references river_job (id))")
    for kept in (ids[2], ids[3], ids[8]):
        await connection.execute("insert into receipt values (%s)", [kept])
    cleaner = JobCleaner(service_parts().context)
    for _ in range(2):
        await cleaner.run_once()
    assert set(await states(connection, ids)) == {ids[2], ids[3], ids[8]}
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(messages) == 3
    assert all("receipt" in line for line in messages)


async def test_a_job_that_cannot_be_rescued_is_logged_once_and_blocks_no_other(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    long_ago = service_parts().context.clock() - timedelta(hours=5)
    ids = [
        await factory.job(connection, "running", kind="odd", attempted_at=long_ago)
        for _ in range(9)
    ]
    await refuse(connection, ids[5])
    rescuer = JobRescuer(*service_parts(workers=workers()), pilot=Pilot())
    for _ in range(2):
        await rescuer.run_once()
    found = await states(connection, ids)
    assert [job_id for job_id in ids if found[job_id] == "running"] == [ids[5]]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(messages) == 1
    assert f"job {ids[5]} cannot be processed" in messages[0]


class Unruly(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")


def raising(error: BaseException) -> Callable[..., Any]:
    def method(*_: object) -> Any:
        raise error

    return method


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), RecursionError(), SystemExit(), Unruly()], ids=repr
)
@pytest.mark.parametrize("method", ["decode", "timeout", "next_retry"])
async def test_whatever_the_program_s_own_code_raises_its_jobs_are_rescued(
    method: str,
    error: BaseException,
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
) -> None:
    @dataclass
    class Touchy:
        kind: ClassVar[str] = "touchy"
        number: int = 0

        def __post_init__(self) -> None:
            if method == "decode":
                raise error

    class TouchyWorker(Worker[Touchy]):
        async def work(self, job: Job[Touchy]) -> None: ...

        def timeout(self, job: Job[Touchy]) -> timedelta | None:
            return raising(error)() if method == "timeout" else None

        def next_retry(self, job: Job[Touchy]) -> datetime | None:
            return raising(error)() if method == "next_retry" else None

    registered = workers(TouchyWorker())
    registered.add(OddWorker())
    long_ago = service_parts().context.clock() - timedelta(hours=5)
    ids = [
        await factory.job(connection, "running", kind=kind, attempted_at=long_ago)
        for kind in ("odd", "touchy", "odd")
    ]
    done = await JobRescuer(*service_parts(workers=registered), pilot=Pilot()).run_once()
    assert done.retried == 3
    assert set((await states(connection, ids)).values()) == {"retryable"}


async def test_a_periodic_job_that_cannot_be_inserted_blocks_no_other(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    database_url: str,
    clock: Ticking,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await connection.execute(
        "alter table river_job add constraint no_such_kind check (kind <> 'refused') not valid"
    )

    def periodic(constructor: Callable[[], JsonArgs]) -> PeriodicJob:
        return PeriodicJob(PeriodicInterval(timedelta(hours=1)), constructor, run_on_start=True)

    jobs = [
        periodic(lambda: JsonArgs("first", {})),
        periodic(lambda: JsonArgs("refused", {})),
        periodic(raising(SystemExit("no"))),
        periodic(lambda: JsonArgs("last", {})),
    ]
    async with Client(database_url, ClientConfig(), clock=clock.now) as client:
        enqueuer = PeriodicJobEnqueuer(
            service_parts().context,
            PeriodicJobs(jobs),
            prepare=client.prepare_insert,
            insert_requests=client.insert_requests,
        )
        await enqueuer.start()
        assert await enqueuer.run_once() == 2
    rows = await (await connection.execute("select kind from river_job order by id")).fetchall()
    assert [row["kind"] for row in rows] == ["first", "last"]
    assert any(
        "no_such_kind" in str(record.exc_info) for record in caplog.records if record.exc_info
    )
