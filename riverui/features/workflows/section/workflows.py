"""River Pro's workflows: listed, shown, cancelled, retried."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobTextRow
from riverui.errors import BadRequest
from riverui.features.workflows.section import workflow_waits
from riverui.features.workflows.section.models import (
    Activity,
    Cancelled,
    Retried,
    Workflow,
    WorkflowListed,
    WorkflowRetry,
    Workflows,
)
from riverui.features.workflows.section.readers import readers, workflow_and_tasks, workflow_list
from riverui.features.workflows.section.required import (
    GROUP,
    LIMIT,
    WORKFLOW,
)
from riverui.features.workflows.verbs import workflows as actions
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, limit
from riverui.web.api.job_models import JobMinimal
from riverui.web.http.context import access, dashboard

log = logging.getLogger("riverui.actions")

_STATES = {"": None, "active": True, "inactive": False}


async def workflows(request: Request) -> Response:
    """Return workflows with their tasks counted, the highest id first."""
    state, limit = requests.first(request, "state"), requests.limit(request, LIMIT)
    if state not in _STATES:
        raise BadRequest("`state` must be active or inactive, or be left out.")
    async with dashboard(request).driver.reading() as executor:
        rows = await workflow_list(
            executor, after=requests.first(request, "after"), active=_STATES[state], limit=limit
        )
    return serializers.reply(Workflows(data=[WorkflowListed.from_row(row) for row in rows]))


async def workflow(request: Request) -> Response:
    """Return one workflow with all its tasks."""
    async with dashboard(request).driver.reading() as executor:
        found, tasks = await workflow_and_tasks(executor, request.path_params["id"])
    by_name = {task.name: task for task in tasks}
    models = [workflow_waits.task_model(task.job, task, by_name) for task in tasks]
    return serializers.reply(Workflow(id=found.id, name=found.name, tasks=models))


async def cancel(request: Request) -> Response:
    """Cancel the unfinished tasks of a workflow, and return them."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    await requests.payload(request)
    async with board.driver.reading() as executor:
        await readers(executor)
    rows = await actions.cancel(board.driver, workflow_id, time_limit=board.config.action_timeout)
    _note(request, "cancel", rows)
    return serializers.reply(Cancelled(cancelled_jobs=[JobMinimal.from_row(row) for row in rows]))


async def retry(request: Request) -> Response:
    """Retry finished tasks of a workflow, and return them."""
    board, workflow_id = dashboard(request), request.path_params["id"]
    asked = await requests.read(request, WorkflowRetry)
    async with board.driver.reading() as executor:
        await readers(executor)
    rows = await actions.retry(
        board.driver,
        workflow_id,
        asked.mode,
        reset_history=asked.reset_history,
        time_limit=board.config.action_timeout,
    )
    _note(request, f"retry {asked.mode}", rows)
    return serializers.reply(Retried(retried_jobs=[JobMinimal.from_row(row) for row in rows]))


def _note(request: Request, verb: str, rows: Sequence[JobTextRow]) -> None:
    """Log the change, and expire the counts."""
    dashboard(request).counts.expire()
    workflow_id = request.path_params["id"]
    log.info(
        "%s of workflow %r by %r: %d changed", verb, workflow_id, access(request).user, len(rows)
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/pro/workflows",
        "api.pro.workflows",
        "jobs.read",
        workflows,
        Description(
            group=GROUP,
            summary="Workflows with their task counts, highest id first.",
            answer=Workflows,
            parameters=(
                Parameter(
                    name="state", summary="With unfinished tasks, or without.", type=Activity
                ),
                Parameter(name="after", summary="Continue after this id."),
                limit(LIMIT),
            ),
            fails=(501,),
        ),
    ),
    Endpoint(
        "POST",
        "/api/pro/workflows/{id:river_rest}/cancel",
        "api.pro.cancel",
        "jobs.cancel",
        cancel,
        Description(
            group=GROUP,
            summary="Cancels the unfinished tasks of a workflow.",
            answer=Cancelled,
            parameters=(WORKFLOW,),
            fails=(404, 413, 501),
        ),
    ),
    Endpoint(
        "POST",
        "/api/pro/workflows/{id:river_rest}/retry",
        "api.pro.retry",
        "jobs.retry",
        retry,
        Description(
            group=GROUP,
            summary="Retries finished tasks of a workflow.",
            answer=Retried,
            body=(WorkflowRetry,),
            parameters=(WORKFLOW,),
            fails=(404, 409, 501),
        ),
    ),
)
"""Their part of the API."""

SHOW = Endpoint(
    "GET",
    "/api/pro/workflows/{id:river_rest}",
    "api.pro.workflow",
    "jobs.read",
    workflow,
    Description(
        group=GROUP,
        summary="One workflow with all its tasks.",
        answer=Workflow,
        parameters=(WORKFLOW,),
        fails=(404, 501),
    ),
)
"""Must be tried last: its address is a prefix of all others of a workflow."""
