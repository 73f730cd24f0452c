"""The data of a chart over time, and its columns as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from riverui.web.view.chart_axes import Unit, value_text
from riverui.web.view.format import number


class Shape(StrEnum):
    """How a series is drawn."""

    BAR = "bar"
    """Stacked bars, the first series lowest."""
    LINE = "line"
    BAND = "band"
    """A line with the area below it filled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One value for each column."""

    name: str
    """Its name in JSON and CSV."""
    label: str
    css: str
    """A class of ours: `s-` and a state, or `series-1` to `series-7`."""
    values: Sequence[float | None]
    """None without a value: a gap."""
    shape: Shape = Shape.LINE
    capped: Sequence[bool] = ()
    """For each column whether the value is a lower bound; empty if none is."""
    total: float | None = None
    """The sum of all columns, shown in the legend."""

    def is_capped(self, column: int) -> bool:
        """Return whether the value of this column is a lower bound."""
        return bool(self.capped) and self.capped[column]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Something that happened at a moment, such as a deploy."""

    at: datetime
    label: str
    url: str = ""
    """What it links to; with a trusted scheme."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeChart:
    """What a chart shows."""

    name: str
    """Unique within its page; not from a job."""
    label: str
    """A description for screen readers, and the caption of its table."""
    start: datetime
    step: timedelta
    """The length of one column."""
    series: Sequence[Series]
    unit: Unit
    log: bool = False
    links: Sequence[str] = ()
    """What each column links to; empty for no links."""
    known: Sequence[bool] = ()
    """For each column whether it has data; empty if all have."""
    sampled: Sequence[int] = ()
    """For each column, one in how many jobs was read; empty if all were."""
    unfinished: bool = True
    """Whether the newest column is not over."""
    marks: Sequence[Mark] = ()
    large: bool = False
    """Whether it fills a page."""
    files: Sequence[tuple[str, str]] = ()
    """Names and addresses of its files."""
    nothing: str = "No data in this time range."
    """Text in the chart if no column has a value."""

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return len(self.series[0].values) if self.series else 0

    @property
    def end(self) -> datetime:
        """Return when the newest column ends."""
        return self.start + self.columns * self.step

    @property
    def empty(self) -> bool:
        """Return whether no column has a value, or only zeros if it counts jobs."""
        values = (value for series in self.series for value in series.values)
        if self.unit is Unit.JOBS:
            return not any(values)
        return all(value is None for value in values)

    def at(self, column: int) -> datetime:
        """Return when a column begins."""
        return self.start + column * self.step


def column_words(chart: TimeChart, column: int) -> list[tuple[str, str]]:
    """Return the label and the value of each series in a column, in words."""
    return [
        (series.label, value_words(chart, series, column))
        for series in chart.series
        if series.values[column] is not None
    ]


def span_words(chart: TimeChart, column: int) -> str:
    """Return the time of a column in UTC: 14:02 to 14:03, with the day in longer charts."""
    begin, end = chart.at(column).astimezone(UTC), chart.at(column + 1).astimezone(UTC)
    if chart.step >= timedelta(days=1):
        return f"{begin:%Y-%m-%d}"
    day = f"{begin:%m-%d} " if chart.columns * chart.step > timedelta(hours=6) else ""
    return f"{day}{begin:%H:%M} to {end:%H:%M}"


def value_words(chart: TimeChart, series: Series, column: int) -> str:
    """Return a value in words, with ≥ for a lower bound and ≈ for an estimate."""
    value = series.values[column]
    if value is None:
        return "–"
    text = (
        number(int(value))
        if chart.unit is Unit.JOBS and value == int(value)
        else value_text(value, chart.unit)
    )
    if series.is_capped(column):
        return f"≥ {text}"
    estimated = chart.sampled and chart.sampled[column] > 1 and value
    return f"≈ {text}" if estimated else text
