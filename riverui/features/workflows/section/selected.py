"""The selected task of a workflow: its job, its dependencies, and the tasks that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct
from starlette.requests import Request

from riverui.domain.jobs import JobListRow
from riverui.errors import DatabaseError
from riverui.features.workflows.domain.drawing import TaskBox, WorkflowDrawing
from riverui.features.workflows.domain.pages import (
    WORST_FIRST,
    TaskNeighbour,
    TaskPlace,
    WorkflowPageRow,
)
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section.selected_wait import WaitShown, read_wait
from riverui.features.workflows.section.words import counts_parts, counts_words, task_words
from riverui.storage.interface import Executor
from riverui.storage.interface.params import Field, JobFilter, JobPageParams
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.view.facts import fact

_MEMBERS = 50
"""Similar tasks that are listed, the worst first."""
_NEIGHBOURS = 20
"""Tasks listed on either side."""


class Linked(Struct, frozen=True, kw_only=True):
    """Another task, and the address that selects it."""

    task: TaskNeighbour
    url: str


class SelectedTask(Struct, frozen=True, kw_only=True):
    """The selected task."""

    name: str
    place: TaskPlace | None
    """None if the workflow has no task of that name."""
    state: str
    """One of TASK_STATES; empty if it was not read."""
    words: str
    job: JobListRow | None
    """None if the job was deleted, or cannot be read in time."""
    job_url: str
    deps: tuple[Linked, ...]
    dependents: tuple[Linked, ...]
    box: TaskBox | None
    """The box of similar tasks that it is in; None if it has its own."""
    box_parts: tuple[tuple[str, int], ...]
    box_words: str
    members: tuple[Linked, ...]
    """Tasks of that box, the worst first."""
    close_url: str
    wait: WaitShown | None
    """The task's own wait."""


async def selected_task(
    request: Request,
    row: WorkflowPageRow,
    drawing: WorkflowDrawing,
    name: str,
    address: Callable[..., str],
) -> SelectedTask:
    """Return the details of one task of a workflow."""
    found = await fact(dashboard(request).driver, lambda executor: _read(executor, row.id, name))
    place, job, wait = (None, None, None) if isinstance(found, DatabaseError) else found
    box = next((box for box in drawing.boxes if any(task.name == name for task in box.tasks)), None)
    task = next((task for task in box.tasks if task.name == name), None) if box else None
    many = box if box is not None and box.many else None

    def linked(other: TaskNeighbour) -> Linked:
        return Linked(task=other, url=address(task=other.name))

    members = sorted(many.tasks, key=lambda task: WORST_FIRST.index(task.state)) if many else []
    return SelectedTask(
        name=name,
        place=place,
        state=task.state if task else "",
        words=task_words(task, datetime.now(UTC)) if task else "",
        job=job,
        job_url=url(request, "jobs.show", id=place.job_id) if place else "",
        deps=tuple(map(linked, place.deps)) if place else (),
        dependents=tuple(map(linked, place.dependents)) if place else (),
        box=many,
        box_parts=tuple(counts_parts(many.counts)) if many else (),
        box_words=counts_words(many.counts) if many else "",
        members=tuple(
            linked(TaskNeighbour(each.name, each.job_id, each.state, each.kind))
            for each in members[:_MEMBERS]
        ),
        close_url=address(task=""),
        wait=wait,
    )


async def _read(
    executor: Executor, id: str, name: str
) -> tuple[TaskPlace | None, JobListRow | None, WaitShown | None]:
    place = await WorkflowPageStore(executor).workflow_place_get(id=id, name=name, most=_NEIGHBOURS)
    if place is None:
        return None, None, None
    params = JobPageParams(filter=JobFilter(terms=(query.equal(Field.ID, place.job_id),)), limit=1)
    rows = (await executor.jobs.list(params)).rows
    return place, rows[0] if rows else None, await read_wait(executor, id, name)
