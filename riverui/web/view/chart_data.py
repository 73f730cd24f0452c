"""What a chart over time shows, and its columns in words."""

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
    """Bars stand on each other, the first series lowest."""
    LINE = "line"
    BAND = "band"
    """A line with what is below it filled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One value for each column."""

    name: str
    """Names it in JSON and CSV."""
    label: str
    css: str
    """A class of ours: `s-` and a state, or `series-1` to `series-7`."""
    values: Sequence[float | None]
    """None where there is nothing to tell: a gap."""
    shape: Shape = Shape.LINE
    capped: Sequence[bool] = ()
    """For each column whether it is at least that much; empty where none is."""
    total: float | None = None
    """What is told in the legend of all columns together."""

    def is_capped(self, column: int) -> bool:
        """Return whether this column has at least what it shows."""
        return bool(self.capped) and self.capped[column]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Something that happened at a moment, such as a deploy."""

    at: datetime
    label: str
    url: str = ""
    """Where it leads; of a trusted scheme."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeChart:
    """What a chart shows."""

    name: str
    """Of our own, and the only one of its page."""
    label: str
    """What it tells, for those who do not see it, and over its table."""
    start: datetime
    step: timedelta
    """Of one column."""
    series: Sequence[Series]
    unit: Unit
    log: bool = False
    links: Sequence[str] = ()
    """Where each column leads; empty where none leads anywhere."""
    known: Sequence[bool] = ()
    """For each column whether anything is known of it; empty where all are."""
    sampled: Sequence[int] = ()
    """For each column one in how many jobs was read; empty where all were."""
    unfinished: bool = True
    """Whether the time of the newest column is not over."""
    marks: Sequence[Mark] = ()
    files: Sequence[tuple[str, str]] = ()
    """Names and addresses of the same as files."""
    nothing: str = "Nothing to show of this time."
    """What stands in the chart where no column has a value."""

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
        """Return whether there is nothing to see: no column has a value, or of jobs only zeros."""
        values = (value for series in self.series for value in series.values)
        if self.unit is Unit.JOBS:
            return not any(values)
        return all(value is None for value in values)

    def at(self, column: int) -> datetime:
        """Return when a column begins."""
        return self.start + column * self.step


def column_words(chart: TimeChart, column: int) -> list[tuple[str, str]]:
    """Return what a column shows, as the label and the value of each series in words."""
    return [
        (series.label, value_words(chart, series, column))
        for series in chart.series
        if series.values[column] is not None
    ]


def span_words(chart: TimeChart, column: int) -> str:
    """Return the time of a column in words, in UTC: 14:02 to 14:03, with days where it is long."""
    begin, end = chart.at(column).astimezone(UTC), chart.at(column + 1).astimezone(UTC)
    if chart.step >= timedelta(days=1):
        return f"{begin:%Y-%m-%d}"
    day = f"{begin:%m-%d} " if chart.columns * chart.step > timedelta(hours=6) else ""
    return f"{day}{begin:%H:%M} to {end:%H:%M}"


def value_words(chart: TimeChart, series: Series, column: int) -> str:
    """Return a value in words: what is at least so much says so, and so does a guess."""
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
    guessed = chart.sampled and chart.sampled[column] > 1 and value
    return f"≈ {text}" if guessed else text
