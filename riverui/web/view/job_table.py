"""Draw the table of jobs: its rows and their errors."""

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
