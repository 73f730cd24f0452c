"""The table of error groups, with one record per column."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.features.error_groups.domain.groups import ErrorGroup, ErrorState
from riverui.web.view.chart_axes import Unit
from riverui.web.view.format import escaped, number, plain
from riverui.web.view.page_context import PageContext
from riverui.web.view.tables import Column, Table
from riverui.web.view.time_chart import sparkline

_NONE = '<span class="none">–</span>'
_NAMES = 2
"""Kinds or queues of a group in a row."""
_TITLE = 300
"""Longest title of a group, in characters: two lines on the widest screen."""
_NAME = 60
"""Longest name of a kind or a queue, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorLine:
    """A group as shown."""

    group: ErrorGroup
    state: ErrorState
    new: str
    """Since when it is new, in words; empty if it is not."""
    hours: tuple[int, ...]
    """Failed jobs in each of the last 24 hours, oldest first."""
    regressed_at: datetime | None
    """When it failed again after it had been resolved; None if it has not."""
    number: int
    """Failed jobs of the group that match the list's kind and queue."""
    hour: int
    """Jobs that failed in the last hour."""
    day: int
    """Jobs that failed in the last 24 hours."""
    url: str


Lines = Sequence[ErrorLine]


def error_table(lines: Lines) -> Table[ErrorLine]:
    """Return the table of these groups."""
    return Table(
        css="table stacked error-table", rows=tuple(lines), columns=_COLUMNS, attributes=_rows
    )


def _rows(lines: Lines, context: PageContext) -> list[str]:
    return [
        f'id="error-{line.group.fingerprint.replace(":", "-")}" class="{line.state.value}"'
        for line in lines
    ]


def _titles(lines: Lines, context: PageContext) -> list[str]:
    badges = context.macros("macros/errors.html").badges
    return [
        f'{badges(line)}<a href="{html.escape(line.url)}" data-open'
        f' title="{html.escape(plain(line.group.signature.title))}">'
        f"{_typed(line.group)}</a>"
        for line in lines
    ]


def _typed(group: ErrorGroup) -> str:
    """Return the title as HTML, with its type in bold."""
    message = escaped(group.signature.message[:_TITLE])
    if not group.signature.type:
        return f"<bdi>{message or escaped(group.signature.title)}</bdi>"
    between = ": " if message else ""
    return f"<bdi><b>{escaped(group.signature.type)}</b>{between}{message}</bdi>"


def _named(counted: Mapping[str, int]) -> str:
    names = list(counted)
    shown = ", ".join(
        f'<span title="{html.escape(plain(name))}">{escaped(name[:_NAME])}</span>'
        for name in names[:_NAMES]
    )
    more = len(names) - _NAMES
    return f"{shown} <i>+{more:,}</i>" if more > 0 else shown or _NONE


def _kinds(lines: Lines, context: PageContext) -> list[str]:
    return [_named(line.group.kinds) for line in lines]


def _hours(lines: Lines, context: PageContext) -> list[str]:
    return [number(line.hour) if line.hour else _NONE for line in lines]


def _numbers(lines: Lines, context: PageContext) -> list[str]:
    return [number(line.number) for line in lines]


def _sparks(lines: Lines, context: PageContext) -> list[str]:
    scale = [hour for line in lines for hour in line.hours]
    return [
        sparkline(line.hours, label=_spark_words(line), unit=Unit.JOBS, scale=scale)
        if any(line.hours)
        else ""
        for line in lines
    ]


def _spark_words(line: ErrorLine) -> str:
    return f"{line.day:,} in 24 hours, at most {max(line.hours):,} in one"


def _firsts(lines: Lines, context: PageContext) -> list[str]:
    return [context.times.ago_html(line.group.first_at) for line in lines]


def _lasts(lines: Lines, context: PageContext) -> list[str]:
    return [context.times.ago_html(line.group.last_at) for line in lines]


_COLUMNS: tuple[Column[ErrorLine], ...] = (
    Column(name="error", css="c-main", header="Error", cells=_titles),
    Column(name="kinds", css="c-names", header="Kinds", cells=_kinds),
    Column(
        name="line",
        css="c-spark",
        header='<span class="hidden">Last 24 hours</span>',
        cells=_sparks,
    ),
    Column(name="hour", css="c-num", header="Last hour", narrow_label="last hour", cells=_hours),
    Column(
        name="jobs",
        css="c-num",
        header="Jobs",
        hint="Retryable and discarded jobs whose last attempt failed with this error",
        narrow_label="jobs",
        cells=_numbers,
    ),
    Column(name="first", css="c-when c-first", header="First", narrow_label="first", cells=_firsts),
    Column(name="last", css="c-when", header="Last", narrow_label="last", cells=_lasts),
)
