"""The API of durable periodic jobs: list, show and change them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import NotFound, SchemaMissing
from riverui.features.durable_periodic import verbs as actions
from riverui.features.durable_periodic.domain import (
    MAX_SCHEDULE,
    DurablePeriodicRow,
    PeriodicChange,
)
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.features.durable_periodic.verbs import PERIODIC_VERBS, RIGHT, PeriodicVerb
from riverui.storage import tables
from riverui.storage.interface import Executor
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import EXAMPLE_TIME, Body, Model, Refusal, Time
from riverui.web.http.context import access, dashboard

log = logging.getLogger("riverui.actions")

_GROUP = "Periodic jobs"
_ROWS = 1_000
"""Durable periodic jobs per response: more than any program has."""


class DurablePeriodicJob(Model, frozen=True, kw_only=True):
    """A periodic job whose next run survives its leader."""

    id: str
    created_at: Time
    updated_at: Annotated[Time, Meta(description="When a leader last confirmed the job.")]
    next_run_at: Annotated[
        Time | None, Meta(description="Null if the leader has yet to compute it.")
    ]
    paused_at: Time | None
    run_requested_at: Annotated[
        Time | None,
        Meta(description="When a user asked for an extra run; null once it is inserted."),
    ]
    program_schedule: Annotated[
        str, Meta(description="The program's own, if it is a cron expression; empty otherwise.")
    ]
    schedule: Annotated[
        str, Meta(description="The one that a user set instead; empty if there is none.")
    ]
    changed_at: Annotated[
        Time | None, Meta(description="When a user last changed something; null for never.")
    ]
    changed_by: str

    @classmethod
    def from_row(cls, row: DurablePeriodicRow) -> Self:
        """Return the API's model of a row."""
        return cls(
            id=row.id,
            created_at=serializers.instant(row.created_at),
            updated_at=serializers.instant(row.updated_at),
            next_run_at=serializers.optional_instant(row.next_run_at),
            paused_at=serializers.optional_instant(row.paused_at),
            run_requested_at=serializers.optional_instant(row.run_requested_at),
            program_schedule=row.program_schedule,
            schedule=row.schedule,
            changed_at=serializers.optional_instant(row.changed_at),
            changed_by=row.changed_by,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a report whose hour a user has changed."""
        return cls(
            id="reports.nightly",
            created_at="2026-11-01T07:00:00Z",
            updated_at=EXAMPLE_TIME,
            next_run_at="2026-11-22T04:00:00Z",
            paused_at=None,
            run_requested_at=None,
            program_schedule="0 3 * * *",
            schedule="0 4 * * *",
            changed_at=EXAMPLE_TIME,
            changed_by="ops",
        )


class DurablePeriodicUpdate(Body, frozen=True, kw_only=True):
    """A new schedule for a durable periodic job."""

    schedule: Annotated[
        str,
        Meta(
            description="A cron expression or a span such as `@every 90s`; empty for the program's"
            " own schedule.",
            max_length=MAX_SCHEDULE,
        ),
    ]

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "schedule": f"`schedule` must be a text of at most {MAX_SCHEDULE} characters."
    }

    @classmethod
    def example(cls) -> Self:
        """Return a run each night at four."""
        return cls(schedule="0 4 * * *")


async def read_all(request: Request) -> Sequence[DurablePeriodicRow] | None:
    """Return the durable periodic jobs by id; None if the table does not exist."""
    board = dashboard(request)
    if not await board.own_tables.there(DurablePeriodicStore):
        return None
    async with board.driver.reading() as executor:
        return await DurablePeriodicStore(executor).durable_periodic_list(limit=_ROWS)


async def show(request: Request) -> Response:
    """Return one durable periodic job."""
    job_id = request.path_params["id"]
    try:
        async with dashboard(request).driver.reading() as executor:
            row = await _one(executor, job_id)
    except SchemaMissing:
        raise NotFound(tables.message("Durable periodic jobs need")) from None
    if row is None:
        raise NotFound(f"Durable periodic job not found: {job_id[:200]}.")
    return serializers.reply(DurablePeriodicJob.from_row(row))


async def act(verb: PeriodicVerb, request: Request) -> Response:
    """Pause, resume or run a durable periodic job; return it as it is afterwards."""
    await requests.payload(request)
    return await _change(request, verb)


async def update(request: Request) -> Response:
    """Set a durable periodic job's schedule; return the job as it is afterwards."""
    asked = await requests.read(request, DurablePeriodicUpdate)
    return await _change(request, PERIODIC_VERBS[PeriodicChange.SCHEDULE], asked.schedule)


async def _change(request: Request, verb: PeriodicVerb, schedule: str = "") -> Response:
    board, job_id, user = dashboard(request), request.path_params["id"], access(request).user
    row = await actions.change(
        board.driver,
        verb,
        job_id,
        schedule=schedule,
        user=user,
        time_limit=board.config.action_timeout,
    )
    log.info("periodic job %r: %s %r by %r", job_id, verb.name, schedule, user)
    return serializers.reply(DurablePeriodicJob.from_row(row))


async def _one(executor: Executor, id: str) -> DurablePeriodicRow | None:
    found = await DurablePeriodicStore(executor).durable_periodic_list(ids=[id], limit=1)
    return next(iter(found), None)


_ID = in_path("id", "The id of the durable periodic job.")
_SUMMARIES = {
    PeriodicChange.PAUSE: "Pauses a durable periodic job: its jobs are no longer inserted.",
    PeriodicChange.RESUME: "Resumes a durable periodic job.",
    PeriodicChange.RUN: "Inserts a job of it now, besides its schedule.",
}

ENDPOINTS = (
    *(
        Endpoint(
            "POST",
            f"/api/periodic-jobs/{{id:river_rest}}/{change.value}",
            f"api.periodic_jobs.{change.value}",
            RIGHT,
            partial(act, PERIODIC_VERBS[change]),
            Description(
                group=_GROUP,
                summary=summary,
                answer=DurablePeriodicJob,
                parameters=(_ID,),
                fails=(404, 413),
                extension=True,
            ),
        )
        for change, summary in _SUMMARIES.items()
    ),
    Endpoint(
        "PATCH",
        "/api/periodic-jobs/{id:river_rest}",
        "api.periodic_jobs.update",
        RIGHT,
        update,
        Description(
            group=_GROUP,
            summary="Sets the schedule of a durable periodic job.",
            answer=DurablePeriodicJob,
            parameters=(_ID,),
            body=(DurablePeriodicUpdate,),
            fails=(404,),
            extension=True,
        ),
    ),
    Endpoint(
        "GET",
        "/api/periodic-jobs/{id:river_rest}",
        "api.periodic_jobs.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One durable periodic job.",
            answer=DurablePeriodicJob,
            parameters=(_ID,),
            fails=(404,),
            extension=True,
        ),
    ),
)
"""The endpoints."""
