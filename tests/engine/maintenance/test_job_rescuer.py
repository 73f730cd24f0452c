"""Stuck jobs and jobs of dead clients: how they are rescued, and which are left alone."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.retries import Retry
from riverui.engine.config import NO_LIMIT
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer, Rescued
from riverui.engine.lead.maintenance.service import BatchSize
from riverui.engine.pilot import Pilot
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from tests.cases import cases
from tests.engine.maintenance.conftest import NewServiceParts, ServiceParts
from tests.engine.ticking import Ticking
from tests.factory import attempt_error, job

LONG_AGO = timedelta(hours=5)
"""When a stuck job began: well past the hour after which River rescues."""
RETRY = datetime(2031, 1, 1, tzinfo=UTC)


@dataclass
class Known:
    kind: ClassVar[str] = "known"
    kind_aliases: ClassVar[tuple[str, ...]] = ("known_of_old",)
    number: int = 0


@dataclass
class Slow:
    kind: ClassVar[str] = "slow"


@dataclass
class Endless:
    kind: ClassVar[str] = "endless"


@dataclass
class Patient:
    kind: ClassVar[str] = "patient"
    limit: str = "own"
    hours: int = 0


@dataclass
class Planned:
    kind: ClassVar[str] = "planned"


class KnownWorker(Worker[Known]):
    pass


class SlowWorker(Worker[Slow]):
    timeout = timedelta(hours=10)


class EndlessWorker(Worker[Endless]):
    timeout = NO_LIMIT


class PatientWorker(Worker[Patient]):
    def timeout(self, job: Job[Patient]) -> timedelta | None:
        return {"endless": NO_LIMIT, "client's": None}.get(
            job.args.limit, timedelta(hours=job.args.hours)
        )


class PlannedWorker(Worker[Planned]):
    def next_retry(self, job: Job[Planned]) -> datetime | None:
        return RETRY


def workers() -> Workers:
    made = Workers()
    for worker in (KnownWorker(), SlowWorker(), EndlessWorker(), PatientWorker(), PlannedWorker()):
        made.add(worker)
    return made


async def stuck(connection: AsyncConnection[Any], parts: ServiceParts, **columns: Any) -> int:
    """Insert a job that has been running for hours; return its id."""
    started = parts.context.clock() - LONG_AGO
    return await job(
        connection,
        "running",
        **{"kind": "known", "attempted_at": started, "max_attempts": 5} | columns,
    )


async def row(connection: AsyncConnection[Any], job_id: int) -> dict[str, Any]:
    found = await (
        await connection.execute("select * from river_job where id = %s", [job_id])
    ).fetchone()
    assert found is not None
    return dict(found)


CANCEL = {"cancel_attempted_at": "2026-11-21T09:00:00.5Z"}
UNFIT = {"number": "many"}
AFTER_SIX_HOURS = {"rescue_stuck_jobs_after": timedelta(hours=6)}

LEFT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # Of another program, perhaps one in Go.
    ({"kind": "gone"}, {}),
    ({"kind": "gone", "attempt": 5}, {}),
    # The worker's own timeout, or else the client's.
    ({"kind": "slow"}, {}),
    ({"kind": "endless", "attempted_at": "2001-01-01Z"}, {}),
    ({}, {"job_timeout": NO_LIMIT}),
    ({}, {"job_timeout": timedelta(hours=4.5)}),
    ({}, AFTER_SIX_HOURS),
    # The worker's own for this very job; zero is the client's.
    ({"kind": "patient", "args": {"hours": 6}}, {}),
    ({"kind": "patient", "args": {"limit": "endless"}}, {}),
    ({"kind": "patient", "args": {"limit": "client's"}}, {"job_timeout": NO_LIMIT}),
    ({"kind": "patient", "args": {"hours": 0}}, {"job_timeout": NO_LIMIT}),
    # Not yet for an hour.
    ({"attempted_at": timedelta(0)}, {}),
    ({"attempted_at": timedelta(minutes=59)}, {}),
]
"""Columns of a stuck job, how long ago it began among them, and settings of the client."""

RESCUED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, "retryable"),
    ({"kind": "known_of_old"}, {}, "retryable"),
    ({"attempt": 4}, {}, "retryable"),
    ({"attempt": 5}, {}, "discarded"),
    ({"attempt": 7}, {}, "discarded"),
    # Asked to be cancelled, whatever else.
    ({"metadata": CANCEL}, {}, "cancelled"),
    ({"attempt": 5, "metadata": CANCEL}, {}, "cancelled"),
    ({"kind": "gone", "metadata": CANCEL}, {}, "cancelled"),
    ({"kind": "endless", "metadata": CANCEL}, {}, "cancelled"),
    ({"metadata": {"cancel_attempted_at": None}}, {}, "retryable"),
    ({"metadata": {"note": "cancel_attempted_at"}}, {}, "retryable"),
    # Of a kind that is unknown here.
    ({"kind": "gone"}, {"discard_unknown_stuck_jobs": True}, "discarded"),
    # Args that the worker cannot read, whatever its timeout.
    ({"args": UNFIT}, {}, "retryable"),
    ({"args": UNFIT, "attempt": 5}, {}, "discarded"),
    ({"args": UNFIT}, {"job_timeout": NO_LIMIT}, "retryable"),
    # The worker's own timeout, or else the client's.
    ({"kind": "slow", "attempted_at": "2001-01-01Z"}, {}, "retryable"),
    # The worker's own for this very job; zero is the client's.
    ({"kind": "patient", "args": {"hours": 4}}, {}, "retryable"),
    ({"kind": "patient", "args": {"limit": "client's"}}, {}, "retryable"),
    ({"kind": "slow", "attempted_at": "2001-01-01Z"}, {"job_timeout": NO_LIMIT}, "retryable"),
    ({}, {"job_timeout": timedelta(hours=3)}, "retryable"),
    ({"attempted_at": "2001-01-01Z"}, AFTER_SIX_HOURS, "retryable"),
]


async def test_a_job_that_may_still_run_is_left_alone(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    with cases() as case:
        for columns, settings in LEFT:
            with case((columns, settings)):
                await connection.execute("delete from river_job")
                parts = service_parts(workers=workers(), **settings)
                ago = columns.get("attempted_at")
                began = (
                    {"attempted_at": parts.context.clock() - ago}
                    if isinstance(ago, timedelta)
                    else {}
                )
                job_id = await stuck(connection, parts, **columns | began)
                before = await row(connection, job_id)
                assert before["state"] == "running"
                done = await JobRescuer(*parts, pilot=Pilot()).run_once()
                assert (done.retried, done.discarded, done.cancelled) == (0, 0, 0)
                assert await row(connection, job_id) == before


async def test_what_becomes_of_a_job_that_has_run_for_too_long(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    with cases() as case:
        for columns, settings, state in RESCUED:
            with case((columns, settings)):
                await connection.execute("delete from river_job")
                parts = service_parts(workers=workers(), **settings)
                await _check_rescue(connection, parts, columns, state)


async def _check_rescue(
    connection: AsyncConnection[Any], parts: ServiceParts, columns: dict[str, Any], state: str
) -> None:
    job_id = await stuck(connection, parts, **columns)
    before = await row(connection, job_id)
    done = await JobRescuer(*parts, pilot=Pilot()).run_once()
    after = await row(connection, job_id)
    now = parts.context.clock()
    assert after["state"] == state
    counts = (done.retried, done.discarded, done.cancelled)
    assert counts == tuple(int(state == each) for each in ("retryable", "discarded", "cancelled"))
    assert after["metadata"] == {**before["metadata"], "river:rescue_count": 1}
    (error,) = after["errors"]
    assert error.pop("at") == f"{now:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"
    words = "Stuck job rescued by JobRescuer"
    assert error == {"attempt": before["attempt"], "error": words, "trace": ""}
    changed = {name for name in before if after[name] != before[name]}
    assert changed <= {"errors", "finalized_at", "metadata", "scheduled_at", "state"}
    if state == "retryable":
        assert after["finalized_at"] is None
        # River's policy for the first error: a second, more or less.
        assert timedelta(0) < after["scheduled_at"] - now < timedelta(seconds=2)
    else:
        assert after["finalized_at"] == now
        assert after["scheduled_at"] == before["scheduled_at"]


async def test_other_states_are_left_alone(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    for state in set(JobState) - {JobState.RUNNING}:
        await job(
            connection, state.value, kind="known", attempted_at=parts.context.clock() - LONG_AGO
        )
    assert await JobRescuer(*parts, pilot=Pilot()).run_once() == Rescued()


async def test_the_worker_s_policy_precedes_the_client_s(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    asked: list[JobRow] = []

    def policy(job: JobRow) -> datetime:
        asked.append(job)
        return clock.now() + timedelta(days=len(job.errors))

    parts = service_parts(workers=workers(), retry_policy=policy)
    planned = await stuck(connection, parts, kind="planned")
    plain = await stuck(connection, parts, errors=[attempt_error(), attempt_error()], attempt=3)
    unread = await stuck(connection, parts, args={"number": "many"})
    assert (await JobRescuer(*parts, pilot=Pilot()).run_once()).retried == 3
    assert (await row(connection, planned))["scheduled_at"] == RETRY
    assert (await row(connection, plain))["scheduled_at"] == clock.now() + timedelta(days=2)
    assert (await row(connection, unread))["scheduled_at"] == clock.now()
    assert [asked_for.id for asked_for in asked] == [plain, unread]


async def test_a_lost_job_is_tried_again_as_its_retry_says(
    service_parts: NewServiceParts, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(
        workers=workers(),
        retry=Retry(max_attempts=3, wait=timedelta(hours=2), never=(TimeoutError,), on=(OSError,)),
    )
    early = await stuck(connection, parts, attempt=2)
    late = await stuck(connection, parts, attempt=3)
    assert await JobRescuer(*parts, pilot=Pilot()).run_once() == Rescued(retried=1, discarded=1)
    assert (await row(connection, early))["scheduled_at"] == clock.now() + timedelta(hours=2)
    assert (await row(connection, late))["state"] == "discarded"


@pytest.mark.parametrize(("count", "then"), [(3, 4), ("many", 1), (None, 1)])
async def test_rescues_are_counted(
    count: object, then: int, service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    job_id = await stuck(connection, parts, metadata={"river:rescue_count": count, "other": 1})
    await JobRescuer(*parts, pilot=Pilot()).run_once()
    assert (await row(connection, job_id))["metadata"] == {"river:rescue_count": then, "other": 1}


async def test_jobs_left_alone_are_logged_once_a_round(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    parts = service_parts(workers=workers())
    for kind in ("go_mail", "go_mail", "go_report"):
        await stuck(connection, parts, kind=kind)
    done = await JobRescuer(*parts, pilot=Pilot(), size=BatchSize(1, 1)).run_once()
    assert done == Rescued(unknown=Counter(go_mail=2, go_report=1))
    (message,) = caplog.messages
    assert "left 3 stuck jobs alone" in message
    assert "go_mail, go_report" in message


async def test_all_batches_are_looked_at_even_if_nothing_in_one_can_be_done(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    for kind in ("endless", "endless", "endless", "known", "gone", "known"):
        await stuck(connection, parts, kind=kind)
    done = await JobRescuer(*parts, pilot=Pilot(), size=BatchSize(2, 1)).run_once()
    assert done.retried == 2
    assert (await JobRescuer(*parts, pilot=Pilot()).run_once()).retried == 0


async def test_metadata_that_is_no_object_asks_for_no_cancellation(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    await stuck(connection, parts, metadata='["cancel_attempted_at"]')
    assert (await JobRescuer(*parts, pilot=Pilot()).run_once()).retried == 1
