"""When the jobs of an error group failed: a chart, and a small line for tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import FAILED
from riverui.features.error_groups.domain.groups import ErrorGroup, FailedJob
from riverui.web.view.chart_axes import Unit
from riverui.web.view.chart_data import Mark, Series, Shape, TimeChart

SPARK = (timedelta(hours=1), 24)
"""Step and number of columns of a small line: the last day."""
_SPANS = (
    (timedelta(minutes=1), 60, "last hour"),
    (timedelta(minutes=15), 96, "last 24 hours"),
    (timedelta(hours=2), 84, "last 7 days"),
    (timedelta(days=1), 90, "last 90 days"),
)
"""Step and number of columns of a chart, and its span in words; shortest first."""


def counted(jobs: Iterable[FailedJob], start: datetime, step: timedelta, columns: int) -> list[int]:
    """Return how many jobs failed last in each column, without those before the first column or
    after the last.
    """
    found = [0] * columns
    for job in jobs:
        column = (job.at - start) // step
        if 0 <= column < columns:
            found[column] += 1
    return found


def beginning(now: datetime, step: timedelta, columns: int) -> datetime:
    """Return the start of the first of so many columns, the last of which contains `now`: at a
    whole multiple of the step since 1970, in UTC.
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + ((now - epoch) // step - columns + 1) * step


def group_chart(
    group: ErrorGroup, now: datetime, *, since: datetime | None, marks: Sequence[Mark]
) -> tuple[TimeChart, str]:
    """Return the group's chart, with the shortest span that holds all its jobs, and the span in
    words. Failed jobs were read from `since` on; None for all.
    """
    oldest = group.jobs[-1].at if group.jobs else now
    step, columns, words = next(
        (span for span in _SPANS if beginning(now, span[0], span[1]) <= oldest), _SPANS[-1]
    )
    start = beginning(now, step, columns)
    chart = TimeChart(
        name="failed",
        label=f"Failed jobs of this error, {words}",
        start=start,
        step=step,
        series=[
            Series(
                name=state.value,
                label=state.value,
                css=f"s-{state.value}",
                values=counted((j for j in group.jobs if j.state is state), start, step, columns),
                shape=Shape.BAR,
            )
            for state in FAILED
        ],
        unit=Unit.JOBS,
        known=[since is None or start + (n + 1) * step > since for n in range(columns)],
        marks=marks,
        nothing="No job failed with this error in this time.",
    )
    return chart, words


def chart_start(group: ErrorGroup, now: datetime) -> datetime:
    """Return when the group's chart starts."""
    return group_chart(group, now, since=None, marks=())[0].start
