"""The table of jobs: how its rows and their errors are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from riverui.domain.jobs import JobListRow, JobState
from riverui.storage.interface.params import JobOrder
from riverui.web.view.format import escaped, newest_error, trusted
from riverui.web.view.job_columns import STANDARD, JobColumn, Rows, title
from riverui.web.view.page_context import PageContext
from riverui.web.view.tables import Column, header_row, row_cells, row_pattern

_WIDTHS = (8, 12, 16, 20, 26, 34, 48)
"""Characters that a column of names can be wide; app.css has a class for each. Few, so that a
column seldom changes its width when rows come and go.
"""
_ERROR_FITS = 60
"""Characters of an error that fit into the narrowest table; a longer one carries a tooltip."""
_FAILED = frozenset({JobState.CANCELLED, JobState.DISCARDED, JobState.RETRYABLE})
"""States that the newest error of a job explains; in all others the job has gone on since."""
_USUAL = frozenset({"check", "state", "tags", *STANDARD})
"""Columns that all fit beside each other; app.css makes room for others."""
_PIECE = 10
"""Rows that are drawn as one text, some 15 kB: copying a whole page takes longer than its parts."""


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
    """Yield the rows alone, to be added to a table that is there.

    There is one `<tbody>` a job, so that the line of its error belongs to its row.
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
    """Draw a line below each job that has an error: its newest one. It begins below the kind,
    behind at most the id.
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
        told = "<b>Earlier attempt:</b>" if earlier else ""
        tip = title(error, _ERROR_FITS)
        lines.append(f"{line}{begun} {tip}>{told}<bdi>{escaped(error)}</bdi></td></tr>")
    return lines


def _widest(rows: Rows, name: str) -> int:
    """Return the least column width, in characters, that takes this text of every row; or the
    greatest.
    """
    longest = max((len(getattr(row, name)) for row in rows), default=0)
    return next((width for width in _WIDTHS if width >= longest), _WIDTHS[-1])
