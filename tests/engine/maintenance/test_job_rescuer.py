"""Jobs whose worker is gone: what becomes of them, and which are left alone."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobRow
from riverui.domain.retries import Retry
from riverui.engine.config import NO_LIMIT
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer, Rescued
from riverui.engine.lead.maintenance.service import BatchSize
from riverui.engine.work.worker import Job, Worker
from riverui.engine.work.workers import Workers
from tests.engine.maintenance.conftest import NewServiceParts, ServiceParts
from tests.engine.ticking import Ticking
from tests.factory import attempt_error, job

HOUR = timedelta(hours=1)
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


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        # Of another program, perhaps one in Go.
        ({"kind": "gone"}, {}),
        ({"kind": "gone", "attempt": 5}, {}),
        # The worker's own timeout, or else the client's.
        ({"kind": "slow"}, {}),
        ({"kind": "endless", "attempted_at": "2001-01-01Z"}, {}),
        ({}, {"job_timeout": NO_LIMIT}),
        ({}, {"job_timeout": timedelta(hours=4.5)}),
        ({}, {"rescue_stuck_jobs_after": timedelta(hours=6)}),
        # The worker's own for this very job; zero is the client's.
        ({"kind": "patient", "args": {"hours": 6}}, {}),
        ({"kind": "patient", "args": {"limit": "endless"}}, {}),
        ({"kind": "patient", "args": {"limit": "client's"}}, {"job_timeout": NO_LIMIT}),
        ({"kind": "patient", "args": {"hours": 0}}, {"job_timeout": NO_LIMIT}),
    ],
)
async def test_a_job_that_may_run_for_more_than_five_hours_is_left_alone(
    columns: dict[str, Any],
    settings: dict[str, Any],
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
) -> None:
    parts = service_parts(workers=workers(), **settings)
    job_id = await stuck(connection, parts, **columns)
    before = await row(connection, job_id)
    assert before["state"] == "running"
    done = await JobRescuer(*parts).run_once()
    assert (done.retried, done.discarded, done.cancelled) == (0, 0, 0)
    assert await row(connection, job_id) == before


@pytest.mark.parametrize(
    ("columns", "settings", "state"),
    [
        ({}, {}, "retryable"),
        ({"kind": "known_of_old"}, {}, "retryable"),
        ({"attempt": 4}, {}, "retryable"),
        ({"attempt": 5}, {}, "discarded"),
        ({"attempt": 7}, {}, "discarded"),
        # Asked to be cancelled, whatever else.
        ({"metadata": {"cancel_attempted_at": "2026-11-21T09:00:00.5Z"}}, {}, "cancelled"),
        (
            {"attempt": 5, "metadata": {"cancel_attempted_at": "2026-11-21T09:00:00.5Z"}},
            {},
            "cancelled",
        ),
        (
            {"kind": "gone", "metadata": {"cancel_attempted_at": "2026-11-21T09:00:00Z"}},
            {},
            "cancelled",
        ),
        (
            {"kind": "endless", "metadata": {"cancel_attempted_at": "2026-11-21T09:00:00Z"}},
            {},
            "cancelled",
        ),
        ({"metadata": {"cancel_attempted_at": None}}, {}, "retryable"),
        ({"metadata": {"note": "cancel_attempted_at"}}, {}, "retryable"),
        # Of a kind that is unknown here.
        ({"kind": "gone"}, {"discard_unknown_stuck_jobs": True}, "discarded"),
        # Args that the worker cannot read, whatever its timeout.
        ({"args": {"number": "many"}}, {}, "retryable"),
        ({"args": {"number": "many"}, "attempt": 5}, {}, "discarded"),
        ({"args": {"number": "many"}}, {"job_timeout": NO_LIMIT}, "retryable"),
        # The worker's own timeout, or else the client's.
        ({"kind": "slow", "attempted_at": "2001-01-01Z"}, {}, "retryable"),
        # The worker's own for this very job; zero is the client's.
        ({"kind": "patient", "args": {"hours": 4}}, {}, "retryable"),
        ({"kind": "patient", "args": {"limit": "client's"}}, {}, "retryable"),
        ({"kind": "slow", "attempted_at": "2001-01-01Z"}, {"job_timeout": NO_LIMIT}, "retryable"),
        ({}, {"job_timeout": timedelta(hours=3)}, "retryable"),
        (
            {"attempted_at": "2001-01-01Z"},
            {"rescue_stuck_jobs_after": timedelta(hours=6)},
            "retryable",
        ),
    ],
)
async def test_what_becomes_of_a_job_that_has_run_for_too_long(
    columns: dict[str, Any],
    settings: dict[str, Any],
    state: str,
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
) -> None:
    parts = service_parts(workers=workers(), **settings)
    job_id = await stuck(connection, parts, **columns)
    before = await row(connection, job_id)
    done = await JobRescuer(*parts).run_once()
    after = await row(connection, job_id)
    assert after["state"] == state
    counts = (done.retried, done.discarded, done.cancelled)
    assert counts == tuple(int(state == each) for each in ("retryable", "discarded", "cancelled"))
    assert after["metadata"] == {**before["metadata"], "river:rescue_count": 1}
    (error,) = after["errors"]
    assert (
        error.pop("at")
        == f"{parts.context.clock():%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"
    )
    assert error == {
        "attempt": before["attempt"],
        "error": "Stuck job rescued by JobRescuer",
        "trace": "",
    }
    unchanged = [
        "attempt",
        "attempted_at",
        "attempted_by",
        "max_attempts",
        "args",
        "queue",
        "created_at",
    ]
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]
    if state == "retryable":
        assert after["finalized_at"] is None
        # River's policy for the first error: a second, more or less.
        assert timedelta(0) < after["scheduled_at"] - parts.context.clock() < timedelta(seconds=2)
    else:
        assert after["finalized_at"] == parts.context.clock()
        assert after["scheduled_at"] == before["scheduled_at"]


@pytest.mark.parametrize("started_before", [timedelta(0), timedelta(minutes=59)])
async def test_what_has_not_run_for_an_hour_is_left_alone(
    started_before: timedelta, service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    job_id = await stuck(connection, parts, attempted_at=parts.context.clock() - started_before)
    assert await JobRescuer(*parts).run_once() == Rescued()
    assert (await row(connection, job_id))["state"] == "running"


async def test_other_states_are_left_alone(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    for state in (
        "available",
        "cancelled",
        "completed",
        "discarded",
        "pending",
        "retryable",
        "scheduled",
    ):
        await job(connection, state, kind="known", attempted_at=parts.context.clock() - LONG_AGO)
    assert await JobRescuer(*parts).run_once() == Rescued()


async def test_the_worker_s_word_comes_before_the_client_s_policy(
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
    assert (await JobRescuer(*parts).run_once()).retried == 3
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
    assert await JobRescuer(*parts).run_once() == Rescued(retried=1, discarded=1)
    assert (await row(connection, early))["scheduled_at"] == clock.now() + timedelta(hours=2)
    assert (await row(connection, late))["state"] == "discarded"


@pytest.mark.parametrize(("count", "then"), [(3, 4), ("many", 1), (None, 1)])
async def test_rescues_are_counted(
    count: object, then: int, service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    job_id = await stuck(connection, parts, metadata={"river:rescue_count": count, "other": 1})
    await JobRescuer(*parts).run_once()
    assert (await row(connection, job_id))["metadata"] == {"river:rescue_count": then, "other": 1}


async def test_jobs_left_alone_are_told_once_a_round(
    service_parts: NewServiceParts,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    parts = service_parts(workers=workers())
    for kind in ("go_mail", "go_mail", "go_report"):
        await stuck(connection, parts, kind=kind)
    done = await JobRescuer(*parts, size=BatchSize(1, 1)).run_once()
    assert done == Rescued(unknown=Counter(go_mail=2, go_report=1))
    (told,) = caplog.messages
    assert "left 3 stuck jobs alone" in told
    assert "go_mail, go_report" in told


async def test_all_batches_are_looked_at_even_if_nothing_in_one_can_be_done(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    for kind in ("endless", "endless", "endless", "known", "gone", "known"):
        await stuck(connection, parts, kind=kind)
    done = await JobRescuer(*parts, size=BatchSize(2, 1)).run_once()
    assert done.retried == 2
    assert (await JobRescuer(*parts).run_once()).retried == 0


async def test_metadata_that_is_no_object_asks_for_no_cancellation(
    service_parts: NewServiceParts, connection: AsyncConnection[Any]
) -> None:
    parts = service_parts(workers=workers())
    await stuck(connection, parts, metadata='["cancel_attempted_at"]')
    assert (await JobRescuer(*parts).run_once()).retried == 1
