"""The endpoint that answers why a job is not running."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.explain import job_explain
from riverui.actions.report_list import HOLDS
from riverui.errors import BadRequest, NotFound
from riverui.web.api import requests, serializers
from riverui.web.api.diagnoses import JobExplanation
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import Id
from riverui.web.http.context import dashboard
from riverui.web.view.finding_links import check_links


async def index(request: Request) -> Response:
    """Answer why one job is not running."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    board = dashboard(request)
    found = await job_explain(board.driver, job_id, HOLDS)
    if found is None:
        raise NotFound(f"Job not found: {job_id}.")
    job, explanation = found
    links = check_links(request, explanation.checks)
    return serializers.reply(JobExplanation.from_job(job, explanation, links))


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
