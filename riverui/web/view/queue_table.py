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
from riverui.web.view.charts import slot_bar
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
    slots: int | None = None
    """Jobs that its clients work at once; None if unknown."""
    waited: timedelta = timedelta(0)
    """How long its oldest available job has waited."""
    usual: timedelta | None = None
    """How long jobs waited (p95) before that job did; None if unknown."""
    late: bool = False
    """Whether that is longer than usual."""
    silent: bool = False
    """Whether its clients have not reported it when they should have."""
    rank: int = 0
    """How bad it is; the worst is 0."""

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
    returns to `next_url`; with `figures` the table shows how long jobs waited.
    """
    columns = [_NAME, *(_count(state, cap) for state in COUNTED), _OLDEST]
    if figures:
        columns.append(_WAIT)
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
        f'id="queue-{quote(line.row.queue.name)}" class="queue{" overdue" if line.late else ""}"'
        for line in lines
    ]


def _names(lines: Lines, context: PageContext) -> list[str]:
    status = context.macros(_MACROS).status
    return [
        f'<a class="mono" href="{html.escape(line.url)}"'
        f' title="{html.escape(plain(line.row.queue.name))}" data-open>'
        f"<bdi>{escaped(line.row.queue.name)}</bdi></a>{status(line.row.queue, line.silent)}"
        for line in lines
    ]


def _oldest(lines: Lines, context: PageContext) -> list[str]:
    since = context.times.since_html
    return [
        f"{since(line.row.oldest_waiting_at)}{_usually(line)}"
        if line.row.oldest_waiting_at
        else _NONE
        for line in lines
    ]


def _usually(line: QueueLine) -> str:
    if not line.late or line.usual is None:
        return ""
    return f' <span class="beside">usually {duration(line.usual)}</span>'


def _waits(lines: Lines, context: PageContext) -> list[str]:
    rows = [
        [minute.wait.total_seconds() if minute and minute.wait else None for minute in line.minutes]
        for line in lines
    ]
    known = [wait for row in rows for wait in row if wait is not None]
    return [_wait(row, known) for row in rows]


def _wait(waits: Sequence[float | None], scale: Sequence[float]) -> str:
    newest = next((wait for wait in reversed(waits) if wait is not None), None)
    if newest is None:
        return _NONE
    label = "Minute by minute in the last hour"
    spark = sparkline(waits, label=label, unit=Unit.SECONDS, scale=scale)
    return f'<span class="spark-cell">{spark}{duration(timedelta(seconds=newest))}</span>'


_NAME: Column[QueueLine] = Column(name="name", css="c-main", header="Queue", cells=_names)
_OLDEST: Column[QueueLine] = Column(
    name="oldest",
    css="c-when",
    header="Oldest waiting",
    narrow_label="oldest waiting",
    cells=_oldest,
)
_WAIT: Column[QueueLine] = Column(
    name="wait",
    css="c-spark",
    header="Wait p95",
    hint="95 % of jobs that ended in the newest minute had waited no longer; lines: the last hour",
    narrow_label="wait p95",
    cells=_waits,
)


def _count(state: JobState, cap: int) -> Column[QueueLine]:
    """Return the column of the jobs in a state, with links to them."""

    def numbers(lines: Lines, context: PageContext) -> list[str]:
        return [
            (_slots(line) if state is JobState.RUNNING else "")
            + (
                f'<a href="{html.escape(line.jobs_urls[state])}">{count(value, cap)}</a>'
                if (value := line.counted(state))
                else _ZERO
            )
            + (_empty_in(line) if state is JobState.AVAILABLE else "")
            for line in lines
        ]

    return Column(
        name=state.value,
        css=f"c-num s-{state}",
        header=state.value.capitalize(),
        narrow_label=state.value,
        cells=numbers,
    )


def _empty_in(line: QueueLine) -> str:
    if line.empty_in is None:
        return ""
    return f' <span class="beside">empty in {html.escape(about(line.empty_in))}</span>'


def _slots(line: QueueLine) -> str:
    """Return the bar of its slots; empty if unknown, as with clients that do not report them."""
    if line.slots is None or line.row.running > line.slots:
        return ""
    words = f"{line.row.running:,} of {line.slots:,} slots in use"
    return f'<span title="{words}">{slot_bar(line.row.running, line.slots, "slots in use")}</span>'


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
