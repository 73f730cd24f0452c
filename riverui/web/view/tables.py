"""Render tables from column specs, one record per column.

A hundred rows are most of a page's cost. So a column renders its cells of all rows at once, and a
row is one `%` pattern: this takes a third of the time of a loop in a template.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from riverui.storage.interface.params import JobOrder
from riverui.web.view.format import trusted
from riverui.web.view.page_context import PageContext

Row = TypeVar("Row")


Cells = Callable[[Sequence[Row], PageContext], Sequence[str]]
"""Returns one string of markup per row; it must escape texts of jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column(Generic[Row]):
    """One column of a table."""

    name: str
    """Its name in addresses and preferences."""
    css: str
    """The class of its cells and of its header."""
    cells: Cells[Row]
    header: str
    """Its header, as markup of our own."""
    label: str = ""
    """Its label in the column chooser; empty if it is always shown."""
    hint: str = ""
    """The tooltip of its header."""
    titles: Cells[Row] | None = None
    """Attributes of its cells, such as `title="…"`; an empty string for none."""
    narrow_label: str = ""
    """The label before each of its cells on screens too narrow for headers."""
    sort: tuple[JobOrder, JobOrder] | None = None
    """The orders of the list by this column, ascending and descending."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table(Generic[Row]):
    """Rows and their columns."""

    css: str
    """Its classes."""
    rows: tuple[Row, ...]
    columns: tuple[Column[Row], ...]
    attributes: Cells[Row]
    """Attributes of each row's `<tr>`."""


def draw(table: Table[Any], context: PageContext) -> Markup:
    """Return the whole table."""
    rows, columns = table.rows, table.columns
    pattern = f"<tr %s>{_cell_patterns(columns)}</tr>"
    filled = zip(table.attributes(rows, context), *row_cells(columns, rows, context), strict=True)
    return trusted(
        f'<table class="{table.css}"><thead>{header_row(columns)}</thead>'
        f"<tbody>{''.join(map(pattern.__mod__, filled))}</tbody></table>"
    )


def header_row(columns: Sequence[Column[Any]], order: JobOrder | None = None) -> str:
    """Return the `<tr>` of the headers; the column that the list is ordered by is marked."""
    return f"<tr>{''.join(_header(column, order) for column in columns)}</tr>"


def row_pattern(columns: Sequence[Column[Any]]) -> str:
    """Return the `<tr>` of a row as a pattern with a `%s` for each string of `row_cells`."""
    return f"<tr>{_cell_patterns(columns)}</tr>"


def row_cells(
    columns: Sequence[Column[Row]], rows: Sequence[Row], context: PageContext
) -> list[Sequence[str]]:
    """Return the values for `row_pattern` in its order: a list for each `%s`, with one string per
    row.
    """
    filled: list[Sequence[str]] = []
    for column in columns:
        if column.titles:
            filled.append(column.titles(rows, context))
        filled.append(column.cells(rows, context))
    return filled


def _cell_patterns(columns: Sequence[Column[Any]]) -> str:
    return "".join(map(_cell_pattern, columns))


def _cell_pattern(column: Column[Any]) -> str:
    label = html.escape(column.narrow_label).replace("%", "%%")
    attributes = f' data-label="{label}"' if label else ""
    return f'<td class="{column.css}"{attributes}{" %s" if column.titles else ""}>%s</td>'


def _header(column: Column[Any], order: JobOrder | None) -> str:
    hint = f' title="{html.escape(column.hint)}"' if column.hint else ""
    sorted_by = ""
    if column.sort and order in column.sort:
        direction = "ascending" if order is column.sort[0] else "descending"
        sorted_by = f' aria-sort="{direction}"'
    return f'<th class="{column.css}"{hint}{sorted_by}>{column.header}</th>'
