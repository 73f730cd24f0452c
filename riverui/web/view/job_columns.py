"""The columns of the table of jobs, one record each: its cells, and its fields in an export."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter

import msgspec

from riverui.domain.jobs import JobListRow, JobShowRow, JobState, JobTextRow
from riverui.domain.sealed_args import sealed_args
from riverui.storage.interface.params import JobOrder
from riverui.web.view.format import beyond_calendar, duration, escaped, plain
from riverui.web.view.page_context import PageContext
from riverui.web.view.previews import args_previews
from riverui.web.view.tables import Column

Rows = Sequence[JobListRow]

_KIND_FITS, _QUEUE_FITS, _TAG_FITS, _VALUE_FITS = 18, 9, 10, 12
"""Characters of a kind, a queue, a tag and a value at a path that fit into the narrowest table;
longer ones carry a tooltip.
"""
_NONE = '<span class="none">–</span>'
_VALUE = 60
"""Most characters of a value at a path in a cell: a line on a phone."""
_NARROW_LABEL = 40
"""Most characters of a path shown before each of its values."""
_TAGS = 3
"""Tags shown in a row; the rest are in a tooltip."""
_TIP = 300
"""Most characters of a job's args in the tooltip of its row."""
_ATTRIBUTE = 2_000
"""Most characters of a text in an attribute."""
_Span = tuple[datetime, datetime | None]
"""Start and end; None for now."""


STANDARD = ("id", "kind", "queue", "args", "priority", "attempt", "when")
"""The default columns of the table."""


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


def _args(rows: Rows, context: PageContext) -> list[str]:
    lock = context.icons.icon("lock")
    return [
        f"<div>{_sealed(preview, lock) if sealed_args(row.args_preview) else _code(row, preview)}"
        f"{_tags(row.tags) if row.tags else ''}</div>"
        for row, preview in zip(rows, args_previews(rows), strict=True)
    ]


def _code(row: JobListRow, preview: str) -> str:
    tip = _tip(row.args_preview) if preview else ""
    return f"<code {tip}><bdi>{escaped(preview)}</bdi></code>"


def _sealed(words: str, lock: str) -> str:
    return f'<span class="sealed">{lock}{escaped(words)}</span>'


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
    cells=_args,
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
        f"<div>{_tags(row.tags) if row.tags else ''}</div>" for row in rows
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
            _sealed("sealed", lock)
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


def title(text: str, fits: int) -> str:
    """Return a `title` attribute with the whole text if it is longer than `fits` characters; else
    an empty string.
    """
    return f'title="{html.escape(plain(text, _ATTRIBUTE))}"' if len(text) > fits else ""


def _tip(args: str) -> str:
    """Return a tooltip with the args as stored, cut if they are long."""
    return f'title="{html.escape(plain(args, _TIP))}"'


def _tags(tags: tuple[str, ...]) -> str:
    parts = []
    everything = f'title="{html.escape(plain(", ".join(tags)))}"'
    for place, tag in enumerate(tags[:_TAGS]):
        # On narrow screens only the first tag is visible: its tooltip lists all.
        tip = everything if place == 0 and len(tags) > 1 else title(tag, _TAG_FITS)
        parts.append(f'<span class="tag" {tip}><bdi>{escaped(tag)}</bdi></span>')
    rest = len(tags) - _TAGS
    if rest > 0:
        parts.append(f'<span class="tag" {everything}>+{rest}</span>')
    return "".join(parts)
