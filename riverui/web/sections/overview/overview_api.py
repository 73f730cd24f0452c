"""The overview in one answer, for `riverui top` and for dashboards of your own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobListRow, JobState
from riverui.domain.queues import QueueListRow
from riverui.errors import DatabaseError
from riverui.storage.interface.params import Count as Counted
from riverui.web.api import serializers
from riverui.web.api.diagnoses import HealthReportAnswer
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import EXAMPLE_TIME, Count, Id, Model, Time
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import only
from riverui.web.sections.overview import facts
from riverui.web.sections.overview.facts import health_answer


class StateCount(Model, frozen=True, kw_only=True):
    """The number of jobs in one state, as the pages show it."""

    state: JobState
    count: Count
    precision: Literal["exact", "at_least", "estimated"]

    @classmethod
    def from_count(cls, state: JobState, count: Counted) -> Self:
        """Return a count and how exact it is."""
        return cls(state=state, count=count.value, precision=count.kind.value)


class OverviewQueue(Model, frozen=True, kw_only=True):
    """A queue with its job counts."""

    name: str
    registered: Annotated[bool, Meta(description="Whether a client has registered it.")]
    paused_at: Time | None
    available: Count
    running: Count
    scheduled: Count
    retryable: Count
    oldest_waiting_at: Annotated[
        Time | None, Meta(description="When the oldest available job was due.")
    ]
    ended_per_minute: Annotated[
        float | None, Meta(description="Average of the last five minutes; null if unknown.")
    ]

    @classmethod
    def from_row(cls, row: QueueListRow, pace: float | None) -> Self:
        """Return a queue from its row and its jobs ended per minute."""
        return cls(
            name=row.queue.name,
            registered=row.queue.served,
            paused_at=serializers.optional_instant(row.queue.paused_at),
            available=row.available,
            running=row.running,
            scheduled=row.scheduled,
            retryable=row.retryable,
            oldest_waiting_at=serializers.optional_instant(row.oldest_waiting_at),
            ended_per_minute=pace,
        )


class OverviewJob(Model, frozen=True, kw_only=True):
    """A job that runs or has failed."""

    id: Id
    kind: str
    queue: str
    state: JobState
    attempt: Count
    max_attempts: Count
    attempted_at: Time | None
    error: Annotated[str | None, Meta(description="The first line of its last error.")]

    @classmethod
    def from_row(cls, row: JobListRow) -> Self:
        """Return a job from a row of a list."""
        return cls(
            id=row.id,
            kind=row.kind,
            queue=row.queue,
            state=row.state,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            attempted_at=serializers.optional_instant(row.attempted_at),
            error=row.last_error,
        )


class Overview(Model, frozen=True, kw_only=True):
    """The state of all jobs. Null marks what you may not see or what could not be read."""

    at: Time
    health: HealthReportAnswer
    states: list[StateCount] | None
    queues: Annotated[list[OverviewQueue] | None, Meta(description="By name, at most 200 of them.")]
    queue_cap: Annotated[Count, Meta(description="Counts of a queue are exact below this.")]
    running: Annotated[
        list[OverviewJob] | None, Meta(description="Those that run longest, at most 20.")
    ]
    failures: Annotated[
        list[OverviewJob] | None, Meta(description="Jobs that failed recently, at most 20.")
    ]
    missing: Annotated[str, Meta(description="Why something is null; empty for lack of rights.")]

    @classmethod
    def example(cls) -> Self:
        """Return a queue with a running job."""
        job = OverviewJob(
            id=9381022,
            kind="mail_send",
            queue="mail",
            state=JobState.RUNNING,
            attempt=1,
            max_attempts=25,
            attempted_at=EXAMPLE_TIME,
            error=None,
        )
        queue = OverviewQueue(
            name="mail",
            registered=True,
            paused_at=None,
            available=12,
            running=1,
            scheduled=0,
            retryable=0,
            oldest_waiting_at=EXAMPLE_TIME,
            ended_per_minute=118.4,
        )
        return cls(
            at=EXAMPLE_TIME,
            health=HealthReportAnswer.example(),
            states=[StateCount(state=JobState.RUNNING, count=1, precision="exact")],
            queues=[queue],
            queue_cap=facts.QUEUE_CAP,
            running=[job],
            failures=[],
            missing="",
        )


async def index(request: Request) -> Response:
    """Answer the verdict, the states, the queues, and jobs that run or have failed."""
    only(request)
    board, jobs = dashboard(request), access(request).may("jobs.read")
    counts = await board.counts.get() if jobs else None
    queues = await facts.queue_rows(request)
    running = await facts.running_jobs(request) if jobs else None
    failures = await facts.failed_jobs(request) if jobs else None
    paces = await facts.queue_paces(request)
    problems = [
        found.public for found in (queues, running, failures) if isinstance(found, DatabaseError)
    ]
    known = None if counts is None else counts.counts
    return serializers.reply(
        Overview(
            at=serializers.instant(datetime.now(UTC)),
            health=await health_answer(request),
            states=None
            if known is None
            else [
                StateCount.from_count(state, known[state]) for state in JobState if state in known
            ],
            queues=None
            if queues is None or isinstance(queues, DatabaseError)
            else [
                OverviewQueue.from_row(row, paces.get(row.queue.name))
                for row in queues[: facts.QUEUES_READ - 1]
            ],
            queue_cap=facts.queue_cap(request),
            running=_jobs(running),
            failures=_jobs(failures),
            missing=next(iter(problems), ""),
        )
    )


def _jobs(found: object) -> list[OverviewJob] | None:
    return [OverviewJob.from_row(row) for row in found] if isinstance(found, list | tuple) else None


ENDPOINT = Endpoint(
    "GET",
    "/api/overview",
    "api.overview",
    "figures.read",
    index,
    Description(
        group="Overview",
        summary="The verdict, states, queues, and jobs that run or failed recently, in one answer.",
        answer=Overview,
        extension=True,
    ),
)
"""The address that `riverui top` reads."""
