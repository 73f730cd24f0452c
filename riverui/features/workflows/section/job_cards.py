"""Cards on a job's page: the workflow that it is a task of, and those that it has started."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request

from riverui.domain.jobs import JobShowRow
from riverui.errors import DatabaseError
from riverui.features.workflows.domain.pages import (
    TaskNeighbour,
    TaskPlace,
    WorkflowPageParams,
    WorkflowPageRow,
)
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section.words import counts_parts, counts_words
from riverui.features.workflows.verbs import workflows
from riverui.storage.interface import SQL
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedTask:
    """Another task of the workflow."""

    task: TaskNeighbour
    url: str
    """The page of its job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowCard:
    """The card of a job's workflow."""

    place: TaskPlace
    url: str
    """The address of the workflow with this task selected."""
    deps: tuple[LinkedTask, ...]
    dependents: tuple[LinkedTask, ...]


async def workflow_card(request: Request, job: JobShowRow) -> WorkflowCard | None:
    """Return the place of a job in its workflow; None if it is in none, or if that
    cannot be read.
    """
    try:
        place = await workflows.place(dashboard(request).driver, job)
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


MOST = 5
"""Workflows shown: nearly every job that started any has started one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedWorkflow:
    """One of them."""

    row: WorkflowPageRow
    url: str
    parts: tuple[tuple[str, int], ...]
    """Its tasks by state, for the bar."""
    words: str
    """Its progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedWorkflows:
    """The workflows that a job started, newest first."""

    workflows: tuple[StartedWorkflow, ...]
    more: bool
    """Whether there are more than these."""


async def started_workflows(request: Request, job: JobShowRow) -> StartedWorkflows | None:
    """Return the workflows that a job has started and waits for; None without any, or if they
    cannot be read.
    """
    driver = dashboard(request).driver
    # A job that waits for its own workflow has been snoozed.
    if not job.snoozes or SQL not in driver.capabilities:
        return None
    asked = WorkflowPageParams(parent=job.id, limit=MOST + 1)
    try:
        async with driver.reading() as executor:
            if not await WorkflowPageStore.installed(executor):
                return None
            found = await WorkflowPageStore(executor).workflow_page_list(asked)
    except DatabaseError:
        return None
    if not found.rows:
        return None
    shown = tuple(
        StartedWorkflow(
            row=row,
            url=url(request, "workflows.show", id=row.id),
            parts=tuple(counts_parts(row.counts)),
            words=counts_words(row.counts) if row.counts else "no tasks",
        )
        for row in found.rows[:MOST]
    )
    return StartedWorkflows(workflows=shown, more=len(found.rows) > MOST)
