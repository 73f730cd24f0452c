"""The graph of a workflow, drawn by the server as SVG: each task is a link that selects it."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from datetime import datetime

from markupsafe import Markup
from msgspec import Struct

from riverui.features.workflows.domain.drawing import TaskBox, TaskLine, WorkflowDrawing
from riverui.features.workflows.domain.pages import WorkflowTaskRow
from riverui.features.workflows.section.words import (
    TASK_ICONS,
    counts_parts,
    counts_words,
    middle_cut,
    task_words,
    worst,
)
from riverui.web.view import render
from riverui.web.view.format import Icons, number, plain, trusted

_MARGIN = 10.0
"""Pixels around the drawing."""
_LETTERS = 23
"""Characters of a name that fit in a box."""
_WORDS = 27
"""Characters of the second line, which is smaller."""
_LONG_WORDS = 30
"""The same if it has the whole width."""
_ICON = 15
"""Pixels of an icon."""


class GraphView(Struct, frozen=True, kw_only=True):
    """A drawing as one viewer sees it."""

    drawing: WorkflowDrawing
    selected: str
    """The name of the task shown beside it; empty for none."""
    address: Callable[[WorkflowTaskRow], str]
    """Returns the address that selects a task."""
    now: datetime
    scale: float
    """1 for the drawing's own pixels; 0 to fit the available width."""


def graph(view: GraphView, icons: Icons) -> Markup:
    """Return the graph as markup. Names come from jobs: they are escaped, and shortened to fit."""
    return trusted("".join(_drawn(view, icons)))


def drawn(view: GraphView) -> Markup:
    """Return the graph with the icons of the page being rendered."""
    return graph(view, render.icons())


def _drawn(view: GraphView, icons: Icons) -> Iterator[str]:
    drawing = view.drawing
    width, height = drawing.width + 2 * _MARGIN, drawing.height + 2 * _MARGIN
    size = ""
    if view.scale:
        size = f' width="{width * view.scale:.0f}" height="{height * view.scale:.0f}"'
    else:
        # As wide as there is room, and never larger than its own size.
        size = f' width="{width:.0f}" height="{height:.0f}" data-fit=""'
    tasks = sum(len(box.tasks) for box in drawing.boxes)
    yield (
        f'<svg class="wf-graph" viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}"'
        f'{size} role="group" aria-label="Graph of {number(tasks)} tasks">'
        f'<clipPath id="wf-clip"><rect width="{drawing.box_width - 8:.0f}" height="70"/></clipPath>'
    )
    chosen = next((n for n, box in enumerate(drawing.boxes) if _holds(box, view.selected)), -1)
    for line in sorted(drawing.lines, key=lambda line: line.critical):
        yield _line(line, drawing.boxes[line.source], chosen)
    for n, box in enumerate(drawing.boxes):
        yield _box(box, view, icons, selected=n == chosen)
    yield "</svg>"


def _line(line: TaskLine, source: TaskBox, chosen: int) -> str:
    x, y = line.points[0]
    path = f"M{x:.0f} {y:.1f}"
    for n, (to_x, to_y) in enumerate(line.points[1:]):
        if n % 2:
            # Through a column.
            path += f"H{to_x:.0f}"
        else:
            half = (x + to_x) / 2
            path += f"C{half:.0f} {y:.1f} {half:.0f} {to_y:.1f} {to_x:.0f} {to_y:.1f}"
        x, y = to_x, to_y
    classes = "wf-line"
    if line.critical:
        classes += " critical"
    if chosen in (line.source, line.target):
        classes += " on"
    if source.counts.get("completed", 0) == len(source.tasks):
        classes += " met"
    return f'<path class="{classes}" d="{path}"/>'


def _holds(box: TaskBox, name: str) -> bool:
    return bool(name) and any(task.name == name for task in box.tasks)


def _box(box: TaskBox, view: GraphView, icons: Icons, *, selected: bool) -> str:
    state = worst(box.counts)
    width, detailed = view.drawing.box_width, view.drawing.detailed
    first = box.tasks[0]
    classes = f"wf-box s-{state}"
    classes += " critical" if box.critical else ""
    classes += " many" if box.many else ""
    classes += " on" if selected else ""
    label = f"{number(len(box.tasks))} × {box.label}" if box.many else box.label
    words = counts_words(box.counts) if box.many else task_words(first, view.now)
    title = f"{plain(label, 300)}: {words if box.many else f'{state}, {words}'}"
    behind = (
        f'<rect class="wf-behind" x="5" y="5" width="{width:.0f}" height="{box.height:.0f}"'
        ' rx="7"/>'
        if box.many
        else ""
    )
    top = 18.0 if box.many or detailed else box.height / 2 + 4.5
    inside = _text("wf-name", 32, top, middle_cut(plain(label), _LETTERS))
    if box.many:
        inside += _bar(box, width) + _text("wf-words", 12, 53.0, words[:_LONG_WORDS])
    elif detailed:
        inside += _text("wf-words", 32, 35.0, words[:_WORDS])
    current = ' aria-current="true"' if selected else ""
    place = f"translate({box.x:.0f} {box.y:.1f})"
    return (
        f'<a class="{classes}" id="task-{first.job_id}" transform="{place}"'
        f' href="{html.escape(view.address(first))}"{current}><title>{html.escape(title)}</title>'
        f'{behind}<rect class="wf-frame" width="{width:.0f}" height="{box.height:.0f}" rx="7"/>'
        f"{icons.within(TASK_ICONS[state], 11, top - 12.5, _ICON)}"
        f'<g clip-path="url(#wf-clip)">{inside}</g></a>'
    )


def _bar(box: TaskBox, width: float) -> str:
    room, left, drawn = width - 24, 12.0, ""
    for state, value in counts_parts(box.counts):
        part = max(room * value / len(box.tasks), 1.5)
        drawn += (
            f'<rect class="wf-part s-{state}" x="{left:.1f}" y="28" width="{part:.1f}" height="7"/>'
        )
        left += part
    return drawn


def _text(css: str, x: float, y: float, text: str) -> str:
    return f'<text class="{css}" x="{x:.0f}" y="{y:.1f}">{html.escape(text)}</text>'
