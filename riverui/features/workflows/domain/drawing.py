"""What is drawn of a workflow: similar tasks folded into one box, and the critical path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from riverui.features.workflows.domain.graph_fold import fold, folded_edges, longest_way
from riverui.features.workflows.domain.graph_layout import Edge, Layout, Spacing, layout
from riverui.features.workflows.domain.pages import DELETED, WorkflowGraph, WorkflowTaskRow

MAX_BOXES = 2_000
"""Boxes of a drawing: more cannot be made out, and would take more than a megabyte."""
_FOLDED_FROM = 30
"""Tasks up to which a workflow is drawn in full: they fit on a screen."""
_LEAST_FOLDED = 4
"""Similar tasks from which they are folded into one box."""
_SMALL = 400
"""Boxes up to which each has a second line."""
_HEIGHT, _LOW, _TALL = 46.0, 26.0, 62.0
"""Heights in pixels: of a box, of one without a second line, of one for several tasks."""
_SHORTEST_LABEL = 3
"""Common leading characters of the names of similar tasks from which the box is called by them."""
_TAIL = re.compile(r"[\W\d_]+$")
"""What numbered names end in."""


class TaskBox(Struct, frozen=True, kw_only=True):
    """A box of the drawing: a task, or several similar ones."""

    tasks: Sequence[WorkflowTaskRow]
    label: str
    """The task's name; for several tasks, what their names share."""
    counts: Mapping[str, int]
    """Number of tasks by state."""
    critical: bool
    """Whether it is on the critical path."""
    x: float
    y: float
    height: float

    @property
    def many(self) -> bool:
        """Whether it stands for more than one task."""
        return len(self.tasks) > 1


class TaskLine(Struct, frozen=True, kw_only=True):
    """A line from a box to one that waits for it."""

    points: Sequence[tuple[float, float]]
    source: int
    target: int
    critical: bool


class WorkflowDrawing(Struct, frozen=True, kw_only=True):
    """The boxes and lines of a workflow."""

    boxes: Sequence[TaskBox]
    lines: Sequence[TaskLine]
    width: float
    height: float
    box_width: float
    folded: bool
    """Whether any box stands for several tasks."""
    foldable: bool
    """Whether any would if similar tasks were folded."""
    left_out: int
    """Tasks that were read but are not drawn, because there are too many boxes."""

    @property
    def detailed(self) -> bool:
        """Whether boxes have a second line."""
        return len(self.boxes) <= _SMALL


def draw(graph: WorkflowGraph, now: datetime, *, folding: bool = True) -> WorkflowDrawing:
    """Return the positions of a workflow's tasks; if there are many, similar ones share a box."""
    place = {task.name: n for n, task in enumerate(graph.tasks)}
    edges: list[Edge] = [
        (place[dependency], place[task])
        for dependency, task in graph.edges
        if dependency in place and task in place and dependency != task
    ]
    tasks = graph.tasks
    groups = [[n] for n in range(len(tasks))]
    if len(tasks) > _FOLDED_FROM:
        groups = fold([task.kind for task in tasks], edges, least=_LEAST_FOLDED)
    foldable = len(groups) < len(tasks)
    if not folding and len(tasks) <= MAX_BOXES:
        groups = [[n] for n in range(len(tasks))]
    left_out = sum(map(len, groups[MAX_BOXES:]))
    groups = groups[:MAX_BOXES]
    lines = [*folded_edges(groups, edges)]
    weights = _weights(tasks, now)
    # Of similar tasks side by side the longest counts.
    way = longest_way([max([weights[n] for n in group]) for group in groups], lines)
    critical, steps = set(way), set(pairwise(way))
    heights = [
        _TALL if len(group) > 1 else _HEIGHT if len(groups) <= _SMALL else _LOW for group in groups
    ]
    spacing = Spacing() if len(groups) <= _SMALL else Spacing(gap=6.0)
    found = layout(heights, lines, spacing)
    boxes = [
        _box([tasks[n] for n in group], found, heights[at], at, at in critical)
        for at, group in enumerate(groups)
    ]
    return WorkflowDrawing(
        boxes=boxes,
        lines=[
            TaskLine(points=route, source=line[0], target=line[1], critical=line in steps)
            for line, route in zip(lines, found.routes, strict=True)
        ],
        width=found.width,
        height=found.height,
        box_width=spacing.width,
        folded=any(len(group) > 1 for group in groups),
        foldable=foldable,
        left_out=left_out,
    )


def _box(
    tasks: Sequence[WorkflowTaskRow], found: Layout, height: float, at: int, critical: bool
) -> TaskBox:
    x, y = found.places[at]
    return TaskBox(
        tasks=tasks,
        label=tasks[0].name if len(tasks) == 1 else _called(tasks),
        counts=Counter(task.state for task in tasks),
        critical=critical,
        x=x,
        y=y,
        height=height,
    )


def _called(tasks: Sequence[WorkflowTaskRow]) -> str:
    """Return a name for similar tasks: the beginning that their names share, or their kind."""
    names = [task.name for task in tasks]
    # If the first and the last name in order share a beginning, all between them share it too.
    first, last = min(names), max(names)
    same = next(
        (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    common = _TAIL.sub("", first[:same])
    return common if len(common) >= _SHORTEST_LABEL else tasks[0].kind or "task"


def _weights(tasks: Sequence[WorkflowTaskRow], now: datetime) -> list[float]:
    """Return the seconds that each task takes, from when it could start to its end; if unknown, the
    mean of its kind, or of all others.
    """
    known: dict[str, list[float]] = {}
    spans: list[float | None] = []
    for task in tasks:
        begun = task.staged_at or task.attempted_at
        if begun is None or task.state in ("pending", DELETED):
            spans.append(None)
            continue
        span = max(0.0, ((task.ended_at or now) - begun).total_seconds())
        spans.append(span)
        known.setdefault(task.kind, []).append(span)
    every = [span for found in known.values() for span in found]
    usual = {kind: sum(found) / len(found) for kind, found in known.items()}
    others = sum(every) / len(every) if every else 1.0
    # Each step takes at least something, so that of two equal paths the one with more steps is
    # longer.
    return [
        max(usual.get(task.kind, others) if span is None else span, 0.001)
        for task, span in zip(tasks, spans, strict=True)
    ]
