"""One workflow: its graph, its tasks, and the selected task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import BadRequest, DatabaseError, NotFound
from riverui.features.workflows.domain.drawing import WorkflowDrawing, draw
from riverui.features.workflows.domain.pages import (
    FAILED_TASKS,
    WORST_FIRST,
    WorkflowGraph,
    WorkflowPageRow,
    WorkflowTaskRow,
)
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.section import without_table
from riverui.features.workflows.section.graph import GraphView
from riverui.features.workflows.section.selected import SelectedTask, selected_task
from riverui.features.workflows.section.signals import SignalCard, signal_card
from riverui.features.workflows.section.words import counts_parts, task_words, worst
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import only, url
from riverui.web.view.facts import fact
from riverui.web.view.page_parts import Choice
from riverui.web.view.render import respond

_LISTED = 100
"""Tasks in a page of the list."""
ZOOMS = {"fit": 0.0, "50": 0.5, "75": 0.75, "100": 1.0, "150": 1.5}
"""Scales of the graph by their names in addresses, in percent."""
_NAMED = 3
"""Failed tasks that the first sentence names."""
_FITTED = 1_800
"""The width in pixels up to which a graph is scaled to fit: wider ones would be unreadable."""


class TaskLine(Struct, frozen=True, kw_only=True):
    """A task of the list."""

    task: WorkflowTaskRow
    words: str
    cause: str
    """The failed dependency because of which it was cancelled; empty if it was not."""
    url: str
    """The address that selects it."""
    current: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowsShow:
    """One workflow."""

    template: ClassVar[str] = "workflows/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"workflow": "workflows/_workflow.html"}

    row: WorkflowPageRow
    parts: tuple[tuple[str, int], ...]
    """Its tasks by state, for the bar."""
    failed: tuple[TaskLine, ...]
    """The first tasks that failed, or were cancelled or deleted by themselves, the worst first."""
    failures: int
    """All of them."""
    because: int
    """Tasks that were cancelled because of these."""
    drawing: WorkflowDrawing
    graph: GraphView
    read: int
    """Tasks that were read: all of them if `complete`."""
    complete: bool
    zooms: tuple[Choice, ...]
    folds: tuple[Choice, ...]
    """Whether to fold similar tasks; empty if there are none."""
    places: tuple[tuple[str, str], ...]
    """Places in the graph: a state, and the address of the first box in it."""
    task: SelectedTask | None
    lines: tuple[TaskLine, ...]
    listed: int
    """Tasks in the list, on all pages."""
    first: int
    """The position of the first task of this page, from 0."""
    states: tuple[Choice, ...]
    """The states to filter the list by."""
    newer_url: str
    older_url: str
    signals: SignalCard | None
    """None if there are none, and no task waits for any."""
    verb: str
    """What this viewer can do to it: cancel, retry, or nothing."""
    final: bool
    """Whether nothing will change any more, so that live refresh may stop."""
    self_url: str


async def show(request: Request) -> Response:
    """Return the page of one workflow. Raise NotFound if it does not exist; without the tables
    redirect to the jobs.
    """
    board, asked = dashboard(request), request.path_params["id"]
    if not await board.own_tables.there(WorkflowPageStore):
        return without_table.workflow(request, asked)
    only(request, "each", "from", "selected", "show", "task", "zoom")
    params = request.query_params
    row, graph = await read(request, asked)
    now = datetime.now(UTC)
    zoom, state, each = params.get("zoom", ""), params.get("show", ""), params.get("each", "")
    if zoom and zoom not in ZOOMS:
        raise BadRequest(f"Unknown zoom; the zooms are {', '.join(ZOOMS)}.")
    if state and state not in WORST_FIRST:
        raise BadRequest(f"Unknown state; the states are {', '.join(WORST_FIRST)}.")
    if each not in ("", "1"):
        raise BadRequest("“each” must be 1, or be left out.")
    first = _whole(params.get("from", ""))
    drawing = draw(graph, now, folding=not each)
    causes = graph.causes if row.cancelled_at is None else {}
    ordered = _in_order(graph, drawing)
    roots = [
        task
        for task in ordered
        if task.state in (FAILED_TASKS if row.cancelled_at is None else ("discarded",))
        and task.name not in causes
    ]
    roots.sort(key=lambda task: WORST_FIRST.index(task.state))
    selected = params.get("selected", "")
    if selected == "failed" and roots:
        selected = str(roots[0].job_id)
    name = params.get("task", "") or _name_of(graph, selected)
    scale = zoom or ("fit" if drawing.width <= _FITTED else "75")
    here = url(request, "workflows.show", id=row.id)

    def address(**given: str) -> str:
        params = {"task": name, "zoom": zoom, "each": each, "show": state} | given
        pairs = {key: value for key, value in params.items() if value}
        return f"{here}?{urlencode(pairs)}" if pairs else here

    def select(task: WorkflowTaskRow) -> str:
        return address(task=task.name)

    def line(task: WorkflowTaskRow) -> TaskLine:
        return TaskLine(
            task=task,
            words=task_words(task, now),
            cause=causes.get(task.name, ""),
            url=select(task),
            current=task.name == name,
        )

    tasks = [task for task in ordered if state in ("", task.state)]
    places = () if scale == "fit" else tuple(_places(drawing))
    card = await fact(board.driver, lambda executor: signal_card(request, executor, row.id))
    return respond(
        request,
        WorkflowsShow(
            row=row,
            parts=tuple(counts_parts(row.counts)),
            failed=tuple(map(line, roots[:_NAMED])),
            failures=len(roots),
            because=len(causes),
            drawing=drawing,
            graph=GraphView(
                drawing=drawing, selected=name, address=select, now=now, scale=ZOOMS[scale]
            ),
            places=places,
            read=len(graph.tasks),
            complete=graph.complete,
            zooms=tuple(
                Choice(
                    value=value,
                    label=f"{value} %" if ZOOMS[value] else "Fit",
                    url=address(zoom=value),
                    current=value == scale,
                )
                for value in ZOOMS
            ),
            folds=tuple(
                Choice(value=value, label=label, url=address(each=value), current=value == each)
                for value, label in (("", "Similar tasks together"), ("1", "Each task"))
            )
            if drawing.foldable
            else (),
            task=await selected_task(request, row, drawing, name, address) if name else None,
            lines=tuple(map(line, tasks[first : first + _LISTED])),
            listed=len(tasks),
            first=first,
            states=_states(graph, state, address),
            newer_url=address(**_from(first - _LISTED)) if first else "",
            older_url=address(**_from(first + _LISTED)) if first + _LISTED < len(tasks) else "",
            signals=None if isinstance(card, DatabaseError) else card,
            verb=_verb(request, row),
            final=row.status != "active",
            self_url=address(**_from(first)),
        ),
    )


def _verb(request: Request, row: WorkflowPageRow) -> str:
    verb = "cancel" if row.status == "active" else "retry" if row.counts else ""
    return verb if verb and access(request).may(f"jobs.{verb}") else ""


async def read(request: Request, id: str) -> tuple[WorkflowPageRow, WorkflowGraph]:
    """Return a workflow and its tasks; raise NotFound if it does not exist."""
    async with dashboard(request).driver.reading() as executor:
        pages = WorkflowPageStore(executor)
        row = await pages.workflow_page_get(id)
        if row is None:
            raise NotFound(f"Workflow not found: {id[:200]}. It may have been removed.")
        graph = await pages.workflow_graph_get(id)
    return row, graph


def _in_order(graph: WorkflowGraph, drawing: WorkflowDrawing) -> Sequence[WorkflowTaskRow]:
    """Return the tasks as they are drawn, from left to right and from top to bottom."""
    at = {task.name: (box.x, box.y) for box in drawing.boxes for task in box.tasks}
    return sorted(graph.tasks, key=lambda task: at.get(task.name, (inf, inf)))


def _places(drawing: WorkflowDrawing) -> Iterator[tuple[str, str]]:
    """Yield the states of boxes, the worst first, with the leftmost box in each."""
    first = {worst(box.counts): box for box in sorted(drawing.boxes, key=lambda box: -box.x)}
    for state in WORST_FIRST:
        if state in first:
            yield state, f"#task-{first[state].tasks[0].job_id}"


def _states(graph: WorkflowGraph, state: str, address: Callable[..., str]) -> tuple[Choice, ...]:
    found = {task.state for task in graph.tasks}
    there = [name for name in WORST_FIRST if name in found]
    if len(there) < 2 and not state:
        return ()
    return tuple(
        Choice(
            value=name,
            label=name.capitalize() if name else "All",
            url=address(show=name),
            current=name == state,
        )
        for name in ("", *there)
    )


def _from(first: int) -> dict[str, str]:
    return {"from": str(first)} if first > 0 else {"from": ""}


def _whole(text: str) -> int:
    """Return the position at which the list begins; raise BadRequest if it is no number."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest("“from” must be a whole number.")
    return int(text)


def _name_of(graph: WorkflowGraph, job_id: str) -> str:
    """Return the name of the task with that job, as River UI's addresses select one; empty if there
    is none.
    """
    return next((task.name for task in graph.tasks if str(task.job_id) == job_id), "")
