"""The table of jobs: its columns, one record each with what an export has in its place, and how its
rows and their errors are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import msgspec
from markupsafe import Markup

from riverui.domain.jobs import JobListRow, JobShowRow, JobState, JobTextRow
from riverui.domain.sealed_args import sealed_args
from riverui.storage.interface.params import JobOrder
from riverui.web.view.format import beyond_calendar, duration, escaped, newest_error, plain, trusted
from riverui.web.view.page_context import PageContext
from riverui.web.view.previews import Rows, args_cells, sealed_cell, tags_html, title
from riverui.web.view.tables import Column, header_row, row_cells, row_pattern

_KIND_FITS, _QUEUE_FITS, _VALUE_FITS = 18, 9, 12
"""Characters of a kind, a queue and a value at a path that fit into the narrowest table;
longer ones carry a tooltip.
"""
_NONE = '<span class="none">–</span>'
_VALUE = 60
"""Most characters of a value at a path in a cell: a line on a phone."""
_NARROW_LABEL = 40
"""Most characters of a path shown before each of its values."""
_Span = tuple[datetime, datetime | None]
"""Start and end; None for now."""


STANDARD = ("id", "kind", "queue", "args", "priority", "attempt", "when")
"""The default columns of the table."""

_WIDTHS = (8, 12, 16, 20, 26, 34, 48)
"""Widths of a column of names in characters; app.css has a class for each. They are few, so that a
column seldom changes its width on a refresh.
"""
_ERROR_FITS = 60
"""Characters of an error that fit into the narrowest table; a longer one carries a tooltip."""
_FAILED = frozenset({JobState.CANCELLED, JobState.DISCARDED, JobState.RETRYABLE})
"""States explained by the newest error of a job; in others the error is from an earlier attempt."""
_USUAL = frozenset({"check", "state", "tags", *STANDARD})
"""Columns that fit side by side; with others, app.css makes the table wider."""
_PIECE = 10
"""Rows per piece of text, some 15 kB: joining a whole page into one string is slower."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobColumn(Column[JobListRow]):
    """One column of the table of jobs, and its fields in an export."""

    exports: Mapping[str, Callable[[JobTextRow], object]]
    """Fields of an export by name. Values are texts, numbers, times, spans, JSON as `msgspec.Raw`,
    or tuples; None if empty.
    """


def _checks(rows: Rows, context: PageContext) -> list[str]:
    return [
        f'<label><input type="checkbox" name="ids" value="{row.id}"'
        f' aria-label="Select job {row.id}" autocomplete="off"></label>'
        for row in rows
    ]


def _states(rows: Rows, context: PageContext) -> list[str]:
    icons = {state: context.icons.state_icon(state) for state in {row.state for row in rows}}
    return [icons[row.state] for row in rows]


def _kinds(rows: Rows, context: PageContext) -> list[str]:
    job_url = context.url("jobs.show", id=0)[:-1]
    return [
        f'<a href="{job_url}{row.id}" {title(row.kind, _KIND_FITS)} data-open>'
        f"<bdi>{escaped(row.kind)}</bdi></a>"
        for row in rows
    ]


def _whens(rows: Rows, context: PageContext) -> list[str]:
    ago, since = context.times.ago_html, context.times.since_html
    return [
        since(row.attempted_at)
        if row.state is JobState.RUNNING and row.attempted_at
        else ago(row.matters_at)
        for row in rows
    ]


def wait_span(row: JobListRow | JobTextRow | JobShowRow) -> _Span | None:
    """Return the time from when a job was due until its last attempt began, or until now while it
    is available.

    If a job was due after its last attempt began, it waits for the next one: its wait before the
    last is no longer stored.
    """
    if row.state is JobState.AVAILABLE:
        return row.scheduled_at, None
    return _span(row.scheduled_at, row.attempted_at)


def run_span(row: JobListRow | JobTextRow | JobShowRow) -> _Span | None:
    """Return the time from the start of the last attempt until the job ended, or until now while it
    is running.

    River does not store the end of an attempt that was followed by another. A job that was due
    again after its last attempt was not running when it ended.
    """
    started = row.attempted_at
    if started is not None and row.state is JobState.RUNNING:
        return started, None
    if started is None or started < row.scheduled_at:
        return None
    return _span(started, row.finalized_at)


def _span(start: datetime, end: datetime | None) -> _Span | None:
    """Return the span; None if it is unknown."""
    if end is None or end < start or beyond_calendar(start) or beyond_calendar(end):
        return None
    return start, end


def _span_html(span: _Span | None, context: PageContext) -> str:
    """Return a span as text; a dash for None."""
    if span is None:
        return _NONE
    start, end = span
    return context.times.since_html(start) if end is None else duration(end - start)


def _length(span: _Span | None) -> timedelta | None:
    if span is None or beyond_calendar(span[0]):
        return None
    start, end = span
    return (end or datetime.now(UTC)) - start


def _fields(*names: str) -> dict[str, Callable[[JobTextRow], object]]:
    """Return export fields that are named like attributes of the row."""
    return {name: attrgetter(name) for name in names}


_CHECK = JobColumn(
    name="check",
    css="c-check",
    header='<input type="checkbox" class="js" data-check-all aria-label="Select all jobs on this'
    ' page" title="Select all on this page (a)"><span class="hidden">Select</span>',
    cells=_checks,
    exports={},
)
_STATE = JobColumn(
    name="state",
    css="c-state",
    header='<span class="hidden">State</span>',
    cells=_states,
    exports=_fields("state"),
)
_ID = JobColumn(
    name="id",
    css="c-id",
    label="Id",
    header="Id",
    cells=lambda rows, context: [str(row.id) for row in rows],
    exports=_fields("id"),
    sort=(JobOrder.ID, JobOrder.ID_DESC),
)
_KIND = JobColumn(
    name="kind",
    css="c-kind",
    label="Kind",
    header="Kind",
    cells=_kinds,
    exports=_fields("kind"),
)
_QUEUE = JobColumn(
    name="queue",
    css="c-queue",
    label="Queue",
    header="Queue",
    titles=lambda rows, context: [title(row.queue, _QUEUE_FITS) for row in rows],
    cells=lambda rows, context: [f"<bdi>{escaped(row.queue)}</bdi>" for row in rows],
    exports=_fields("queue"),
)
_ARGS = JobColumn(
    name="args",
    css="c-args",
    label="Args and tags",
    header="Args",
    cells=args_cells,
    exports=_fields("args", "tags"),
)
_PRIORITY = JobColumn(
    name="priority",
    css="c-prio",
    label="Priority",
    header="Pri",
    hint="Priority (1 is worked first)",
    cells=lambda rows, context: [
        '<span class="dim">1</span>' if row.priority == 1 else str(row.priority) for row in rows
    ],
    exports=_fields("priority"),
)
_ATTEMPT = JobColumn(
    name="attempt",
    css="c-attempt",
    label="Attempt",
    header="Att",
    hint="Attempt / max attempts",
    cells=lambda rows, context: [
        f'{row.attempt}<span class="dim">/{row.max_attempts}</span>' for row in rows
    ],
    exports=_fields("attempt", "max_attempts"),
)
_WHEN = JobColumn(
    name="when",
    css="c-when",
    label="Time",
    header="When",
    cells=_whens,
    exports={"when": attrgetter("matters_at")},
    sort=(JobOrder.TIME, JobOrder.TIME_DESC),
)


_WAITED = JobColumn(
    name="waited",
    css="c-waited",
    label="Waited",
    header="Waited",
    hint="From when it was due until its last attempt began",
    narrow_label="waited",
    cells=lambda rows, context: [_span_html(wait_span(row), context) for row in rows],
    exports={"waited": lambda row: _length(wait_span(row))},
)
_RAN = JobColumn(
    name="ran",
    css="c-ran",
    label="Ran",
    header="Ran",
    hint="How long its last attempt took",
    narrow_label="ran",
    cells=lambda rows, context: [_span_html(run_span(row), context) for row in rows],
    exports={"ran": lambda row: _length(run_span(row))},
)

COLUMNS = {
    column.name: column
    for column in (_ID, _KIND, _QUEUE, _ARGS, _PRIORITY, _ATTEMPT, _WAITED, _RAN, _WHEN)
}
"""The columns by name, in the order of the chooser."""

_TAGS_ALONE = replace(
    _ARGS,
    name="tags",
    header="Tags",
    cells=lambda rows, context: [
        f"<div>{tags_html(row.tags) if row.tags else ''}</div>" for row in rows
    ],
)
"""Shown in place of hidden args."""


def job_columns(
    names: Sequence[str] = STANDARD, *, when: str = "When", hide_args: bool = False
) -> tuple[JobColumn, ...]:
    """Return the columns of these names, after those that are always shown.

    Other names are paths into the JSON of jobs; they show a row's `values` in order. `when` is the
    header of the time; without args, their column shows only the tags.
    """
    special = {"when": replace(_WHEN, header=when)}
    if hide_args:
        special["args"] = _TAGS_ALONE
    columns = [_CHECK, _STATE]
    paths = 0
    for name in names:
        if column := special.get(name) or COLUMNS.get(name):
            columns.append(column)
        else:
            columns.append(_json_column(name, paths))
            paths += 1
    return tuple(columns)


def _json_column(path: str, place: int) -> JobColumn:
    """Return the column of a path; `place` is its index in a row's `values`."""
    in_args = path.startswith("args.")

    def values(rows: Rows, context: PageContext) -> list[str]:
        lock = context.icons.icon("lock")
        return [
            # Paths into encrypted args are unknown, and the key of their envelope is not a value.
            sealed_cell("sealed", lock)
            if in_args and sealed_args(row.args_preview)
            else _NONE
            if (value := row.values[place]) is None
            else f"<bdi {title(value, _VALUE_FITS)}>{escaped(value[:_VALUE])}</bdi>"
            for row in rows
        ]

    def json(row: JobTextRow) -> object:
        value = row.values[place]
        return None if value is None else msgspec.Raw(value.encode())

    short = path.removeprefix("args.")
    return JobColumn(
        name=path,
        css="c-json",
        label=path,
        header=f"<bdi>{escaped(short)}</bdi>",
        hint=plain(path),
        narrow_label=plain(short, _NARROW_LABEL),
        cells=values,
        exports={path: json},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTable:
    """Rows of jobs and the columns that show them."""

    rows: tuple[JobListRow, ...]
    columns: tuple[JobColumn, ...]
    order: JobOrder | None = None


def draw(table: JobTable, context: PageContext) -> Iterator[Markup]:
    """Yield the whole table of jobs, piece by piece."""
    names = {column.name for column in table.columns}
    yield trusted(
        f'<table id="jobs-table" class="table job-table kind-{_widest(table.rows, "kind")}'
        f' queue-{_widest(table.rows, "queue")}{" extra" if names - _USUAL else ""}">'
        f"<thead>{header_row(table.columns, table.order)}</thead>"
    )
    yield from draw_rows(table, context)
    yield Markup("</table>")


def draw_rows(table: JobTable, context: PageContext) -> Iterator[Markup]:
    """Yield only the rows, to be appended to a table.

    Each job has its own `<tbody>`, which groups its row with the line of its error.
    """
    rows, columns = table.rows, table.columns
    pattern = f'<tbody id="job-%s" class="job">{row_pattern(columns)}%s</tbody>'
    filled = zip(
        [row.id for row in rows],
        *row_cells(columns, rows, context),
        _errors(rows, columns),
        strict=True,
    )
    drawn = list(map(pattern.__mod__, filled))
    for start in range(0, len(drawn), _PIECE):
        yield trusted("".join(drawn[start : start + _PIECE]))


def _errors(rows: Rows, columns: Sequence[Column[JobListRow]]) -> Iterable[str]:
    """Return a line with the newest error of each job; empty for jobs without one. It starts below
    the kind.
    """
    before = 3 if len(columns) > 2 and columns[2].name == "id" else 2
    empty = "".join(f'<td class="{column.css}"></td>' for column in columns[:before])
    line = f'<tr class="job-error">{empty}<td colspan="{len(columns) - before}"'
    lines = []
    for row in rows:
        error = newest_error(row) if row.last_error else None
        if not error or row.state is JobState.COMPLETED:
            lines.append("")
            continue
        earlier = row.state not in _FAILED
        begun = ' class="earlier"' if earlier else ""
        prefix = "<b>Earlier attempt:</b>" if earlier else ""
        tip = title(error, _ERROR_FITS)
        lines.append(f"{line}{begun} {tip}>{prefix}<bdi>{escaped(error)}</bdi></td></tr>")
    return lines


def _widest(rows: Rows, name: str) -> int:
    """Return the smallest column width, in characters, that fits this text of every row; or the
    largest.
    """
    longest = max((len(getattr(row, name)) for row in rows), default=0)
    return next((width for width in _WIDTHS if width >= longest), _WIDTHS[-1])
