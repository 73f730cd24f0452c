"""The charts of figures: jobs that ended, their waits and runs, and jobs that were inserted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from riverui.domain.figures import FigureColumn, Figures, Tally
from riverui.domain.marks import Mark as DatedMark
from riverui.domain.sketch import Sketch
from riverui.web.view.chart_axes import Unit
from riverui.web.view.chart_data import Mark, Series, Shape, TimeChart

JobsLink = Callable[[datetime, datetime], str]
"""Returns the address of the list of the jobs that ended from one time until before another."""

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
"""Seconds of the units in which a column's length is written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureChart:
    """A kind of chart of figures."""

    name: str
    """Its name in addresses."""
    label: str
    """Its title, followed by the length of a column if it counts jobs."""
    summary: str
    """A description for the documentation."""
    unit: Unit
    series: Callable[[Sequence[FigureColumn]], Sequence[Series]]

    @property
    def counts(self) -> bool:
        """Return whether it counts jobs, so that its values depend on the length of a column."""
        return self.unit is Unit.JOBS

    def title(self, figures: Figures) -> str:
        """Return the title: Ended per 10 minutes."""
        return f"{self.label} per {step_words(figures.window.step)}" if self.counts else self.label

    def draw(
        self,
        figures: Figures,
        *,
        link: JobsLink | None = None,
        files: Sequence[tuple[str, str]] = (),
        marks: Sequence[Mark] = (),
    ) -> TimeChart:
        """Return the chart of these figures; `link` returns the address of a column."""
        columns, window = figures.columns, figures.window
        return TimeChart(
            name=self.name,
            label=f"{self.title(figures)}, {window.label}",
            start=columns[0].at,
            step=window.step,
            series=self.series(columns),
            unit=self.unit,
            log=self.unit is Unit.SECONDS,
            links=[link(column.at, column.at + window.step) for column in columns] if link else (),
            known=[column.tally is not None or column.waiting is not None for column in columns],
            sampled=[column.sampled for column in columns],
            unfinished=not columns[-1].finished,
            marks=marks,
            files=files,
            nothing=nothing_words(figures),
        )


def chart_marks(marks: Iterable[DatedMark]) -> Sequence[Mark]:
    """Return marks as charts show them, the oldest first."""
    return [
        Mark(at=mark.at, label=mark.label, url=mark.url)
        for mark in sorted(marks, key=lambda mark: mark.at)
    ]


def step_words(step: timedelta) -> str:
    """Return the length of a column: minute, 10 minutes, 2 hours, day."""
    seconds = int(step.total_seconds())
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return unit if seconds == size else f"{seconds // size} {unit}s"


def nothing_words(figures: Figures) -> str:
    """Return why a chart of these figures has nothing to show."""
    if any(column.tally is not None for column in figures.columns):
        return "None in this time range."
    if figures.trouble:
        return "There are no figures."
    return "No figures for this time range yet." if figures.read_at else "Figures are being read."


def each(
    columns: Iterable[FigureColumn], value: Callable[[Tally], float | None]
) -> list[float | None]:
    """Return a value of each column; None if nothing is known of it."""
    return [None if column.tally is None else value(column.tally) for column in columns]


def percentiles(
    columns: Sequence[FigureColumn], of: Callable[[Tally], Sketch], q: float
) -> list[float | None]:
    """Return a percentile of each column in seconds; None without any span."""

    def value(tally: Tally) -> float | None:
        found = of(tally).quantile(q)
        return None if found is None else found.total_seconds()

    return each(columns, value)


def retried(tally: Tally) -> int:
    """Return how many failed attempts were not the last one of their job."""
    return max(tally.failed - tally.discarded, 0)


def _summed(series: Series) -> Series:
    return replace(series, total=sum(value or 0 for value in series.values))


def _bars(
    columns: Sequence[FigureColumn], name: str, label: str, css: str, value: Callable[[Tally], int]
) -> Series:
    return _summed(
        Series(name=name, label=label, css=css, values=each(columns, value), shape=Shape.BAR)
    )


def _ended(columns: Sequence[FigureColumn]) -> Sequence[Series]:
    # Only riverui's workers count these, so most programs have none.
    aside = (
        _bars(columns, "snoozed", "snoozed", "s-scheduled", lambda tally: tally.snoozed),
        _bars(columns, "interrupted", "interrupted", "s-running", lambda tally: tally.interrupted),
    )
    return (
        _bars(columns, "completed", "completed", "s-completed", lambda tally: tally.completed),
        _bars(columns, "cancelled", "cancelled", "s-cancelled", lambda tally: tally.cancelled),
        _bars(columns, "retried", "failed, tried again", "s-retryable", retried),
        _bars(columns, "discarded", "discarded", "s-discarded", lambda tally: tally.discarded),
        *(series for series in aside if series.total),
    )


def _spans(
    columns: Sequence[FigureColumn], of: Callable[[Tally], Sketch], *percents: int
) -> list[Series]:
    return [
        Series(
            name=f"p{percent}",
            label=f"p{percent}",
            css=f"series-{n}",
            values=percentiles(columns, of, percent / 100),
        )
        for n, percent in enumerate(percents, start=1)
    ]


def _wait(columns: Sequence[FigureColumn]) -> Sequence[Series]:
    oldest = [
        None if column.oldest_waiting is None else column.oldest_waiting.total_seconds()
        for column in columns
    ]
    return (
        *_spans(columns, lambda tally: tally.wait, 50, 95),
        Series(name="oldest", label="oldest waiting", css="series-4", values=oldest),
    )


def _run(columns: Sequence[FigureColumn]) -> Sequence[Series]:
    failed = percentiles(columns, lambda tally: tally.failed_run, 0.95)
    return (
        *_spans(columns, lambda tally: tally.run, 50, 95, 99),
        Series(name="failed_p95", label="failed, p95", css="s-discarded", values=failed),
    )


def _flow(columns: Sequence[FigureColumn]) -> Sequence[Series]:
    waiting = Series(
        name="waiting",
        label="waiting",
        css="s-available",
        values=[column.waiting for column in columns],
        shape=Shape.BAND,
        capped=[column.waiting_capped for column in columns],
    )
    came = each(columns, lambda tally: tally.inserted)
    ended = each(columns, lambda tally: tally.ended)
    return (
        waiting,
        _summed(Series(name="in", label="came in", css="series-4", values=came)),
        _summed(Series(name="out", label="ended", css="s-completed", values=ended)),
    )


CHARTS: Mapping[str, FigureChart] = {
    chart.name: chart
    for chart in (
        FigureChart(
            name="ended",
            label="Ended",
            summary="jobs that ended, by outcome, and attempts that failed",
            unit=Unit.JOBS,
            series=_ended,
        ),
        FigureChart(
            name="wait",
            label="Wait",
            summary="how long ended jobs had waited, and the oldest that waits",
            unit=Unit.SECONDS,
            series=_wait,
        ),
        FigureChart(
            name="run",
            label="Run",
            summary="how long completed jobs ran, and failed ones",
            unit=Unit.SECONDS,
            series=_run,
        ),
        FigureChart(
            name="flow",
            label="In and out",
            summary="jobs that came, jobs that ended, and how many waited",
            unit=Unit.JOBS,
            series=_flow,
        ),
    )
}
"""By name."""
