"""Charts over time, drawn by the server as SVG: each column is a link, and a table has the same
values.

Colours come from classes alone. Shapes are stretched to the width of the page; texts, lines and
hatching keep their size.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from markupsafe import Markup

from riverui.web.view.chart_axes import Axis, Unit, time_ticks, value_axis, value_text
from riverui.web.view.chart_data import (
    Series,
    Shape,
    TimeChart,
    column_words,
    span_words,
    value_words,
)
from riverui.web.view.format import plain, short, trusted

MAX_COLUMNS = 120
"""Columns of a chart at most: more cannot be distinguished on a phone."""
_WIDE, _HIGH = 10, 1_000
"""Width of a column and height of the chart, in the units of the stretched shapes."""
_BAR = 8
"""Width of a bar in these units; the rest is the gap to the next."""
_LEAST = 15
"""Height of the lowest bar in these units, so that one failure among a million is seen."""
_LABEL = 60
"""Characters of the name of a series; names of kinds may be much longer."""
_MARK = 24
"""Characters of a mark's label; the tooltip has more."""
_MARKS = 20
"""Marks that a chart shows, the newest: more would hide it."""
_FIRST_LABEL = 0.05
"""Position on the time axis from which labels do not overlap those of the other axis."""
_ROWS = (-5, 9, 21)
"""Rows over which the labels of neighbouring marks are spread, in pixels below the upper edge: the
first is above what is drawn.
"""
_LATE = 0.8
"""Position from which a mark's label is left of its line, as there is no room on the right."""


def time_chart(chart: TimeChart) -> Markup:
    """Return the chart with its legend and its table. Raise ValueError for over 120 columns."""
    if chart.columns > MAX_COLUMNS:
        raise ValueError(f"a chart has at most {MAX_COLUMNS} columns")
    axis = value_axis(_heights(chart), chart.unit, logarithmic=chart.log, large=chart.large)
    name, label = html.escape(chart.name), html.escape(plain(chart.label))
    plot = "".join(
        (
            *_rules(axis),
            *_gaps(chart),
            *(_unfinished(chart) if not _bars(chart) else ()),
            _shapes(chart, axis),
            *_capped(chart, axis),
            *(_unfinished(chart) if _bars(chart) else ()),
            *_marks(chart),
            *_nothing(chart),
            *_hits(chart),
        )
    )
    return trusted(
        f'<figure class="chart{" large" if chart.large else ""}" id="chart-{name}">'
        f'<ul class="chart-legend">{"".join(map(_legend, chart.series))}</ul>'
        f'<div class="chart-frame"><svg class="chart-y" aria-hidden="true">{_y_labels(axis)}</svg>'
        f'<svg class="chart-plot" role="group" aria-label="{label}" data-chart'
        f' data-from="{_iso(chart.start)}" data-step="{chart.step.total_seconds():.0f}">'
        f"{_pattern(chart)}{plot}</svg>"
        '<span class="chart-zone" aria-hidden="true">UTC</span>'
        f'<svg class="chart-x" aria-hidden="true">{_x_labels(chart)}</svg></div>'
        f"{_table(chart)}</figure>"
    )


def sparkline(
    values: Sequence[float | None],
    *,
    label: str,
    unit: Unit,
    css: str = "series-1",
    scale: Sequence[float] = (),
) -> Markup:
    """Return a line as small as a word, described by `label`; empty without any values. Lines that
    are compared share a `scale`, the values of all of them.
    """
    found = [value for value in values if value is not None]
    if not found:
        return Markup("")
    axis = value_axis(scale or found, unit, logarithmic=unit is Unit.SECONDS)
    width = len(values) * _WIDE
    dots = _dots(values, axis)
    return trusted(
        f'<svg class="spark" viewBox="0 0 {width} {_HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="{html.escape(plain(label))}">'
        f'<path class="chart-line {css}" d="{_line(values, axis)}"/>'
        + (f'<path class="chart-dot {css}" d="{dots}"/>' if dots else "")
        + "</svg>"
    )


def _bars(chart: TimeChart) -> bool:
    return any(series.shape is Shape.BAR for series in chart.series)


def _heights(chart: TimeChart) -> Iterator[float]:
    """Yield the values that the axis must include: each one, and the sums of stacked bars."""
    stacked = [series for series in chart.series if series.shape is Shape.BAR]
    for column in range(chart.columns):
        if stacked:
            yield sum(series.values[column] or 0.0 for series in stacked)
        for series in chart.series:
            value = series.values[column]
            if value is not None:
                # A lower bound has room above it.
                yield value * 1.25 if series.is_capped(column) else value


def _percent(share: float) -> str:
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


def _rules(axis: Axis) -> Iterator[str]:
    for value, _ in axis.ticks:
        y = _percent(1 - axis.place(value))
        yield f'<line class="chart-rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'


def _y_labels(axis: Axis) -> str:
    return "".join(
        f'<text x="100%" y="{_percent(1 - axis.place(value))}">{text}</text>'
        for value, text in axis.ticks
    )


def _x_labels(chart: TimeChart) -> str:
    return "".join(
        f'<text x="{_percent(place)}" y="14" data-clock="{_iso(at)}">{text}</text>'
        for place, at, text in time_ticks(chart.start, chart.end)
        if place >= _FIRST_LABEL
    )


def _pattern(chart: TimeChart) -> str:
    css = "chart-stripe over" if _bars(chart) else "chart-stripe"
    return (
        f'<defs><pattern id="hatch-{html.escape(chart.name)}" width="5" height="5"'
        ' patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<line class="{css}" x1="1" x2="1" y1="0" y2="5"/></pattern></defs>'
    )


def _hatched(chart: TimeChart, columns: Sequence[int], top: float) -> str:
    """Return the hatching over neighbouring columns, from the upper edge down to `top` (0 to 1)."""
    n = chart.columns
    return (
        f'<rect class="chart-hatch" fill="url(#hatch-{html.escape(chart.name)})"'
        f' x="{_percent(columns[0] / n)}" width="{_percent(len(columns) / n)}"'
        f' y="0" height="{_percent(top)}"/>'
    )


def _gaps(chart: TimeChart) -> Iterator[str]:
    """Yield a background for columns without data, which differ from zeros."""
    if not chart.known:
        return
    for known, run in groupby(range(chart.columns), lambda column: chart.known[column]):
        columns = list(run)
        if not known:
            yield (
                f'<rect class="chart-gap" x="{_percent(columns[0] / chart.columns)}" y="0"'
                f' width="{_percent(len(columns) / chart.columns)}" height="100%"/>'
            )


def _unfinished(chart: TimeChart) -> Iterator[str]:
    if chart.unfinished and chart.columns:
        yield _hatched(chart, [chart.columns - 1], 1.0)


def _capped(chart: TimeChart, axis: Axis) -> Iterator[str]:
    """Yield hatching above each run of columns whose values are lower bounds."""
    for series in chart.series:
        if not series.capped:
            continue
        for capped, run in groupby(range(chart.columns), series.is_capped):
            columns = list(run)
            values = [value for i in columns if (value := series.values[i]) is not None]
            if capped and values:
                top = 1 - axis.place(max(values))
                yield _hatched(chart, columns, top)
                yield (
                    f'<text class="chart-note" x="{_percent(columns[0] / chart.columns)}"'
                    f' y="{_percent(top / 2)}">≥ {value_text(max(values), chart.unit)}</text>'
                )


def _shapes(chart: TimeChart, axis: Axis) -> str:
    drawn = []
    floor = [0.0] * chart.columns
    for series in chart.series:
        css = html.escape(series.css)
        if series.shape is Shape.BAR:
            drawn.append(f'<path class="chart-bar {css}" d="{_stacked(series, axis, floor)}"/>')
            continue
        if series.shape is Shape.BAND:
            drawn.append(f'<path class="chart-band {css}" d="{_area(series.values, axis)}"/>')
        drawn.append(f'<path class="chart-line {css}" d="{_line(series.values, axis)}"/>')
        if dots := _dots(series.values, axis):
            drawn.append(f'<path class="chart-dot {css}" d="{dots}"/>')
    return (
        f'<svg class="chart-shapes" viewBox="0 0 {max(chart.columns, 1) * _WIDE} {_HIGH}"'
        f' width="100%" height="100%" preserveAspectRatio="none">{"".join(drawn)}</svg>'
    )


def _stacked(series: Series, axis: Axis, floor: list[float]) -> str:
    """Return the bars of a series as one path, and raise the floor for the next one."""
    path = []
    for column, value in enumerate(series.values):
        if not value:
            continue
        high = max(axis.place(value) * _HIGH, _LEAST)
        floor[column] += high
        x = column * _WIDE + (_WIDE - _BAR) // 2
        path.append(f"M{x} {_HIGH - floor[column]:.0f}h{_BAR}v{high:.0f}h-{_BAR}z")
    return "".join(path)


def _runs(values: Sequence[float | None], axis: Axis) -> Iterator[list[tuple[int, int]]]:
    """Yield the points of each run of columns without a gap."""
    points = (
        None
        if value is None
        else (column * _WIDE + _WIDE // 2, round(_HIGH * (1 - axis.place(value))))
        for column, value in enumerate(values)
    )
    for there, run in groupby(points, lambda point: point is not None):
        if there:
            yield [point for point in run if point is not None]


def _line(values: Sequence[float | None], axis: Axis) -> str:
    return "".join(
        f"M{run[0][0]} {run[0][1]}" + "".join(f"L{x} {y}" for x, y in run[1:])
        for run in _runs(values, axis)
        if len(run) > 1
    )


def _dots(values: Sequence[float | None], axis: Axis) -> str:
    """Return single points as lines without length, of which the round ends are visible."""
    return "".join(f"M{run[0][0]} {run[0][1]}h0" for run in _runs(values, axis) if len(run) == 1)


def _area(values: Sequence[float | None], axis: Axis) -> str:
    half = _WIDE // 2
    return "".join(
        f"M{run[0][0] - half} {_HIGH}V{run[0][1]}"
        + "".join(f"L{x} {y}" for x, y in run)
        + f"H{run[-1][0] + half}V{_HIGH}z"
        for run in _runs(values, axis)
    )


def _nothing(chart: TimeChart) -> Iterator[str]:
    if chart.empty:
        words = html.escape(chart.nothing)
        yield f'<text class="chart-nothing" x="50%" y="50%">{words}</text>'


def _marks(chart: TimeChart) -> Iterator[str]:
    shown = [mark for mark in chart.marks if chart.start <= mark.at < chart.end][-_MARKS:]
    for n, mark in enumerate(shown):
        place = (mark.at - chart.start) / (chart.end - chart.start)
        x, late = _percent(place), place > _LATE
        label = html.escape(plain(mark.label[:_MARK] + "…" * (len(mark.label) > _MARK)))
        whole = html.escape(plain(mark.label, 200))
        drawn = (
            f"<title>{mark.at.astimezone(UTC):%m-%d %H:%M} UTC {whole}</title>"
            f'<line x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            f'<text x="{x}" y="{_ROWS[n % len(_ROWS)]}" dx="{-4 if late else 4}"'
            f' class="{"late" if late else "early"}">{label}</text>'
        )
        link = f'<a href="{html.escape(mark.url)}">{drawn}</a>' if mark.url else drawn
        yield f'<g class="chart-mark">{link}</g>'


def _hits(chart: TimeChart) -> Iterator[str]:
    """Yield an area for pointer and keyboard over each column; the Tab key reaches the newest."""
    n = chart.columns
    for column in range(n):
        words = "; ".join(f"{label} {value}" for label, value in column_words(chart, column))
        label = html.escape(plain(f"{span_words(chart, column)} UTC: {words or 'nothing known'}"))
        tab = 0 if column == n - 1 else -1
        rect = f'<rect x="{_percent(column / n)}" width="{_percent(1 / n)}" height="100%"/>'
        if chart.links and chart.links[column]:
            link = html.escape(chart.links[column])
            yield (
                f'<a class="chart-hit" href="{link}" tabindex="{tab}" aria-label="{label}">'
                f"{rect}</a>"
            )
        else:
            yield (
                f'<g class="chart-hit" role="img" tabindex="{tab}" aria-label="{label}">{rect}</g>'
            )


def _legend(series: Series) -> str:
    shape = {
        Shape.BAR: '<rect class="chart-bar {}" width="10" height="10" x="3" y="1" rx="2"/>',
        Shape.LINE: '<path class="chart-line {}" d="M0 6h16"/>',
        Shape.BAND: '<path class="chart-band {0}" d="M0 3h16v9h-16z"/>'
        '<path class="chart-line {0}" d="M0 3h16"/>',
    }[series.shape].format(html.escape(series.css))
    total = f" <b>{value_text(series.total, Unit.JOBS)}</b>" if series.total is not None else ""
    return (
        f'<li><svg class="chart-key" aria-hidden="true">{shape}</svg>'
        f"{short(series.label, _LABEL)}{total}</li>"
    )


def _table(chart: TimeChart) -> str:
    """Return the values as a table, the newest first, also for screen readers."""
    heads = "".join(
        f'<th scope="col" class="num">{short(series.label, _LABEL)}</th>' for series in chart.series
    )
    rows = []
    for column in range(chart.columns - 1, -1, -1):
        when = span_words(chart, column)
        if chart.links and chart.links[column]:
            when = f'<a href="{html.escape(chart.links[column])}">{when}</a>'
        if chart.unfinished and column == chart.columns - 1:
            when += " so far"
        cells = "".join(
            f'<td class="num">{value_words(chart, series, column)}</td>' for series in chart.series
        )
        rows.append(f'<tr><th scope="row">{when}</th>{cells}</tr>')
    files = "".join(
        f' <a class="quiet small" href="{html.escape(url)}">{html.escape(text)}</a>'
        for text, url in chart.files
    )
    return (
        f'<details class="chart-table" id="table-{html.escape(chart.name)}">'
        f'<summary>as a table</summary><div class="chart-rows" tabindex="0" role="region"'
        f' aria-label="{html.escape(plain(chart.label))}, as a table"><table class="table">'
        f'<thead><tr><th scope="col">UTC</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{files}</details>"
    )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
