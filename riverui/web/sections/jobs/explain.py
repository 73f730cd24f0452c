"""Answers why a job is not running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.explain import job_explain
from riverui.domain.explain import Explanation
from riverui.domain.jobs import JobShowRow, JobState
from riverui.errors import BadRequest, NotFound
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import Id, Model
from riverui.web.http.context import dashboard
from riverui.web.sections.jobs.places import check_links


class JobCheck(Model, frozen=True, kw_only=True):
    """One possible reason, and what was found of it."""

    name: str
    label: str
    result: Annotated[
        Literal["passed", "failed", "unknown"],
        Meta(description="Failed is what holds the job up; unknown is what cannot be told."),
    ]
    evidence: str
    page: Annotated[
        str | UnsetType,
        Meta(description="Path of the dashboard's page where that is mended or seen closer."),
    ] = UNSET


class JobExplanation(Model, frozen=True, kw_only=True):
    """Why a job is not running."""

    id: Id
    state: JobState
    blocked: Annotated[bool, Meta(description="Whether any check has failed.")]
    headline: Annotated[str, Meta(description="The first reason found, or that there is none.")]
    checks: Annotated[
        list[JobCheck], Meta(description="Those that fit the state; what comes first matters most.")
    ]

    @classmethod
    def of(
        cls, job: JobShowRow, found: Explanation, pages: Mapping[str, tuple[str, str]] | None = None
    ) -> Self:
        """Return the explanation of a job as the API and the command line tell it; `pages` are
        where checks lead, by their names.
        """
        return cls(
            id=job.id,
            state=job.state,
            blocked=found.blocked,
            headline=found.headline,
            checks=[
                JobCheck(
                    name=check.name,
                    label=check.label,
                    result=check.result.value,
                    evidence=check.evidence,
                    page=pages[check.name][0] if pages and check.name in pages else UNSET,
                )
                for check in found.checks
            ],
        )

    @classmethod
    def example(cls) -> Self:
        """Return the explanation of a job whose queue nobody serves."""
        headline = "Nobody serves queue mail: no client has reported it for 14 m 3 s."
        return cls(
            id=9381022,
            state=JobState.AVAILABLE,
            blocked=True,
            headline=headline,
            checks=[
                JobCheck(
                    name="state",
                    label="State",
                    result="passed",
                    evidence="It is available: any client that works its queue may take it.",
                ),
                JobCheck(name="served", label="Queue served", result="failed", evidence=headline),
            ],
        )


async def index(request: Request) -> Response:
    """Answer why one job is not running."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    found = await job_explain(dashboard(request).driver, job_id)
    if found is None:
        raise NotFound(f"Job not found: {job_id}.")
    return serializers.reply(JobExplanation.of(*found, check_links(request, found[1])))


ENDPOINT = Endpoint(
    "GET",
    "/api/jobs/{job_id}/explain",
    "api.jobs.explain",
    "jobs.read",
    index,
    Description(
        group="Jobs",
        summary="Why one job is not running: checks in order, each with its evidence.",
        answer=JobExplanation,
        parameters=(in_path("job_id", "The job's id.", Id),),
        fails=(404,),
        extension=True,
    ),
)
