"""A job's place in its workflow, on the job's page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request

from riverui.actions.explain import workflow_place
from riverui.domain.jobs import JobShowRow
from riverui.errors import DatabaseError
from riverui.features.workflows.domain.pages import TaskNeighbour, TaskPlace
from riverui.web.http.context import dashboard
from riverui.web.http.urls import url


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedTask:
    """Another task of the workflow."""

    task: TaskNeighbour
    url: str
    """Its job's page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowCard:
    """What a job's page tells of its workflow."""

    place: TaskPlace
    url: str
    """The workflow with this task selected."""
    deps: tuple[LinkedTask, ...]
    dependents: tuple[LinkedTask, ...]


async def workflow_card(request: Request, job: JobShowRow) -> WorkflowCard | None:
    """Return the place of a job in its workflow; None where it is in none, or where that cannot be
    read.
    """
    try:
        place = await workflow_place(dashboard(request).driver, job)
    except DatabaseError:
        return None
    if place is None:
        return None

    def linked(task: TaskNeighbour) -> LinkedTask:
        return LinkedTask(task=task, url=url(request, "jobs.show", id=task.job_id))

    here = url(request, "workflows.show", id=place.workflow_id)
    return WorkflowCard(
        place=place,
        url=f"{here}?{urlencode({'task': place.name})}",
        deps=tuple(map(linked, place.deps)),
        dependents=tuple(map(linked, place.dependents)),
    )
