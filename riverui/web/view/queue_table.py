"""The table of queues: its columns, one record each."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import quote

from msgspec import Struct

from riverui.actions.verbs import QueueVerb
from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueListRow, QueueMinute
from riverui.web.view.chart_axes import Unit
from riverui.web.view.charts import stacked_bar
from riverui.web.view.format import about, count, duration, escaped, plain
from riverui.web.view.page_context import PageContext
from riverui.web.view.tables import Column, Table
from riverui.web.view.time_chart import sparkline

COUNTED = (JobState.AVAILABLE, JobState.RUNNING, JobState.SCHEDULED, JobState.RETRYABLE)
"""States of the jobs counted per queue: those not finished."""

_MACROS = "macros/queues.html"
_NONE = '<span class="none">–</span>'
_ZERO = '<span class="none">0</span>'


class QueueLine(Struct, frozen=True, kw_only=True):
    """A queue in the list, with its links."""

    row: QueueListRow
    verb: QueueVerb | None
    """The verb of its button; None if the queue has none of its own, or the viewer lacks the right.
    """
    url: str
    jobs_urls: Mapping[JobState, str]
    """Addresses of the lists of its available, running, scheduled and retryable jobs."""
    minutes: Sequence[QueueMinute | None] = ()
    """Its activity in the last hour, by minute; the newest is not over."""
    empty_in: timedelta | None = None
    """Estimated time until no job waits; None if unknown."""

    def counted(self, state: JobState) -> int:
        """Return the number of its jobs in one of the states `COUNTED`."""
        number: int = getattr(self.row, state)
        return number


Lines = Sequence[QueueLine]


def queue_table(
    lines: Lines, *, cap: int, actions: bool, next_url: str, figures: bool = False
) -> Table[QueueLine]:
    """Return the table of these queues.

    Counts at or above `cap` are shown as "1,000+". With `actions` each row has a button that
    returns to `next_url`; with `figures` the table shows how long jobs waited, and when the queue
    will be empty.
    """
    columns = [_NAME, _STATUS, *(_count(state, cap) for state in COUNTED), _MIX, _OLDEST]
    columns += [_EMPTY, _WAIT, _SEEN] if figures else [_SEEN]
    if actions:
        columns.append(_action(next_url))
    return Table(
        css="table stacked queue-table",
        rows=tuple(lines),
        columns=tuple(columns),
        attributes=_attributes,
    )


def _attributes(lines: Lines, context: PageContext) -> list[str]:
    return [
        f'id="queue-{quote(line.row.queue.name)}"'
        f' class="queue{" paused" if line.row.queue.paused_at else ""}"'
        for line in lines
    ]


def _names(lines: Lines, context: PageContext) -> list[str]:
    return [
        f'<a class="mono" href="{html.escape(line.url)}"'
        f' title="{html.escape(plain(line.row.queue.name))}" data-open>'
        f"<bdi>{escaped(line.row.queue.name)}</bdi></a>"
        for line in lines
    ]


def _statuses(lines: Lines, context: PageContext) -> list[str]:
    status = context.macros(_MACROS).status
    return [status(line.row.queue) for line in lines]


def _mixes(lines: Lines, context: PageContext) -> list[str]:
    parts = [[(state, line.counted(state)) for state in COUNTED] for line in lines]
    largest = max((sum(value for _, value in part) for part in parts), default=1)
    return [stacked_bar(part, largest) for part in parts]


def _oldest(lines: Lines, context: PageContext) -> list[str]:
    since = context.times.since_html
    return [since(at) if (at := line.row.oldest_waiting_at) else _NONE for line in lines]


def _empties(lines: Lines, context: PageContext) -> list[str]:
    return [_NONE if line.empty_in is None else html.escape(about(line.empty_in)) for line in lines]


def _waits(lines: Lines, context: PageContext) -> list[str]:
    return [_wait(line) for line in lines]


def _wait(line: QueueLine) -> str:
    waits = [minute.wait if minute else None for minute in line.minutes]
    newest = next((wait for wait in reversed(waits) if wait is not None), None)
    if newest is None:
        return _NONE
    spark = sparkline(
        [None if wait is None else wait.total_seconds() for wait in waits],
        label="Minute by minute in the last hour",
        unit=Unit.SECONDS,
    )
    return f'<span class="spark-cell">{spark}{duration(newest)}</span>'


def _seen(lines: Lines, context: PageContext) -> list[str]:
    ago = context.times.ago_html
    return [ago(at) if (at := line.row.queue.updated_at) else _NONE for line in lines]


_NAME: Column[QueueLine] = Column(name="name", css="c-main", header="Queue", cells=_names)
_STATUS: Column[QueueLine] = Column(name="status", css="c-status", header="Status", cells=_statuses)
_MIX: Column[QueueLine] = Column(
    name="mix", css="c-mix", header='<span class="hidden">Share of states</span>', cells=_mixes
)
_OLDEST: Column[QueueLine] = Column(
    name="oldest",
    css="c-when",
    header="Oldest waiting",
    narrow_label="oldest waiting",
    cells=_oldest,
)
_EMPTY: Column[QueueLine] = Column(
    name="empty",
    css="c-when c-empty",
    header="Empty in",
    hint="At the rate of the last 15 minutes, if that is steady",
    narrow_label="empty in",
    cells=_empties,
)
_WAIT: Column[QueueLine] = Column(
    name="wait",
    css="c-spark",
    header="Wait p95",
    hint="95 % of jobs that ended in the newest minute had waited no longer; the last hour",
    narrow_label="wait p95",
    cells=_waits,
)
_SEEN: Column[QueueLine] = Column(
    name="seen",
    css="c-when c-seen",
    header="Last seen",
    hint="Clients report the queues they serve about every ten minutes",
    narrow_label="seen",
    cells=_seen,
)


def _count(state: JobState, cap: int) -> Column[QueueLine]:
    """Return the column of the jobs in a state, with links to them."""

    def numbers(lines: Lines, context: PageContext) -> list[str]:
        return [
            f'<a href="{html.escape(line.jobs_urls[state])}">{count(value, cap)}</a>'
            if (value := line.counted(state))
            else _ZERO
            for line in lines
        ]

    return Column(
        name=state.value,
        css=f"c-num s-{state}",
        header=state.value.capitalize(),
        narrow_label=state.value,
        cells=numbers,
    )


def _action(next_url: str) -> Column[QueueLine]:
    """Return the column of the queues' buttons."""

    def buttons(lines: Lines, context: PageContext) -> list[str]:
        button = context.macros(_MACROS).button
        return [
            button(line.verb, line.row.queue.name, next_url, "small") if line.verb else ""
            for line in lines
        ]

    return Column(
        name="action",
        css="c-action",
        header='<span class="hidden">Action</span>',
        cells=buttons,
    )
