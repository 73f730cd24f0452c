"""The section's part of the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.periodic import PeriodicHistory
from riverui.features.durable_periodic.section import api as durable_api
from riverui.features.durable_periodic.section.api import DurablePeriodicJob
from riverui.web.api import serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import Count, Id, Model, Time
from riverui.web.http.context import dashboard
from riverui.web.http.periodic_runs import PERIODIC_HISTORIES


class SeenPeriodicJob(Model, frozen=True, kw_only=True):
    """One periodic job, as far as its job rows show."""

    id: Annotated[str, Meta(description="Its id as its client names it; empty if it has none.")]
    kind: str
    queue: str
    jobs: Annotated[Count, Meta(description="Its jobs among the rows that were read.")]
    usual_seconds: Annotated[
        float | None, Meta(description="The usual time between two jobs; null if unknown.")
    ]
    steady: Annotated[bool, Meta(description="Whether most jobs follow at the usual interval.")]
    last_job_id: Id
    last_state: str
    last_scheduled_at: Time
    schedule: Annotated[
        str, Meta(description="As a cron expression, if a live client reports it; else empty.")
    ]
    expected_at: Annotated[
        Time | None,
        Meta(description="Of the next job, by schedule or usual interval; null if unknown."),
    ]
    overdue_seconds: Annotated[
        float | None, Meta(description="Since the last job, if one seems to be missed; else null.")
    ]
    missed: Annotated[Count, Meta(description="About how many of the newest 40 are missing.")]

    @classmethod
    def from_history(cls, history: PeriodicHistory, now: datetime) -> Self:
        """Return the history of a periodic job as of this time."""
        last, usual, overdue = history.runs[0], history.usual, history.overdue(now)
        return cls(
            id=history.id,
            kind=history.kind,
            queue=history.queue,
            jobs=history.jobs,
            usual_seconds=usual.total_seconds() if usual is not None else None,
            steady=history.steady,
            last_job_id=last.id,
            last_state=last.state.value,
            last_scheduled_at=serializers.instant(last.scheduled_at),
            schedule=history.schedule,
            expected_at=serializers.optional_instant(history.next_at(now) or history.expected_at),
            overdue_seconds=overdue.total_seconds() if overdue is not None else None,
            missed=history.missed,
        )

    @classmethod
    def example(cls) -> Self:
        """Return an hourly report."""
        return cls(
            id="reports.hourly",
            kind="report_build",
            queue="reports",
            jobs=24,
            usual_seconds=3600.0,
            steady=True,
            last_job_id=9381022,
            last_state="completed",
            last_scheduled_at="2026-11-21T09:00:00Z",
            schedule="0 * * * *",
            expected_at="2026-11-21T10:00:00Z",
            overdue_seconds=None,
            missed=0,
        )


class SeenPeriodicJobs(Model, frozen=True, kw_only=True):
    """Periodic jobs, by name."""

    data: list[SeenPeriodicJob]
    complete: Annotated[
        bool, Meta(description="False if only the newest jobs of the table were read.")
    ]
    durable: Annotated[
        list[DurablePeriodicJob],
        Meta(description="Those whose next run is stored in riverui's own table."),
    ]
    kept: Annotated[bool, Meta(description="Whether the database has that table.")]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(
            data=[SeenPeriodicJob.example()],
            complete=True,
            durable=[DurablePeriodicJob.example()],
            kept=True,
        )


async def periodic_jobs(request: Request) -> Response:
    """Answer the periodic jobs found in job rows, and the durable ones."""
    found, now = await dashboard(request).get(PERIODIC_HISTORIES).get(), datetime.now(UTC)
    data = [SeenPeriodicJob.from_history(history, now) for history in found.histories]
    durable = await durable_api.read_all(request)
    return serializers.reply(
        SeenPeriodicJobs(
            data=data,
            complete=found.complete,
            durable=[DurablePeriodicJob.from_row(row) for row in durable or ()],
            kept=durable is not None,
        )
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/periodic-jobs",
        "api.periodic_jobs",
        "jobs.read",
        periodic_jobs,
        Description(
            group="Periodic jobs",
            summary="Periodic jobs found in job rows: how often each runs, and what seems to be"
            " missed; and the durable ones.",
            answer=SeenPeriodicJobs,
            fails=(501,),
            extension=True,
        ),
    ),
    *durable_api.ENDPOINTS,
)
"""The section's part of the API."""
