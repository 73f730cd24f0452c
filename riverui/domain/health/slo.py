"""Objectives of queues: which share of their jobs has to start how soon, and how fast they fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from riverui.domain.figures import FigureColumn, Figures
from riverui.domain.findings import Finding, Level, Link, culprit, cut, passed, unknown
from riverui.domain.health import Cause
from riverui.domain.health.baseline import FEWEST_ENDS
from riverui.domain.health.change import Counts, rise
from riverui.domain.time import duration, go_duration
from riverui.errors import ConfigError

MAX_OBJECTIVES = 10
"""Most objectives: two windows of each are cached, of the 32 that are cached at all."""
HOUR = timedelta(hours=1)
BURNS = (
    (HOUR, timedelta(minutes=5), 14.4, Level.CRITICAL),
    (6 * HOUR, timedelta(minutes=30), 6.0, Level.WARN),
)
"""Burn rates that are a problem if both spans reach them. At 14.4, an hour uses a fiftieth of what
may be late in 30 days; at 6, six hours use a twentieth. The shorter span ends it soon after
recovery.
"""
_MAX_NAME = 100
"""Most characters of the name of a check."""
_FORM = re.compile(r"\s*(\S+?)\s*=\s*([\d.]+)\s*%\s*<\s*([\w.]+)\s*")


class Objective(Struct, frozen=True, kw_only=True):
    """The share of a queue's jobs that has to start within a time after they are due."""

    queue: str
    target: float
    """From 0.9 to less than 1."""
    within: timedelta

    @property
    def words(self) -> str:
        """Return it as a sentence without its end."""
        within = duration(self.within).replace(".0 s", " s")
        return f"{100 * self.target:.6g} % of jobs start within {within}"

    def good(self, columns: Sequence[FigureColumn]) -> float | None:
        """Return the share of jobs that started in time, among those that ended; None if fewer
        than half of the columns are known, or no job ended.
        """
        tallies = [column.tally for column in columns if column.tally is not None]
        jobs = sum(tally.wait.n for tally in tallies)
        if 2 * len(tallies) < len(columns) or not jobs:
            return None
        return 1 - sum(tally.wait.above(self.within) for tally in tallies) / jobs

    def burn(self, columns: Sequence[FigureColumn]) -> float | None:
        """Return how many times more jobs are late than may be; None if unknown."""
        good = self.good(columns)
        return None if good is None else (1 - good) / (1 - self.target)


class ObjectiveFigures(Struct, frozen=True, kw_only=True):
    """An objective, and the figures of its queue."""

    objective: Objective
    hour: Figures
    hours: Figures
    """Of the last six hours."""

    def newest(self, span: timedelta) -> Sequence[FigureColumn]:
        """Return the columns of the last hours or minutes."""
        figures = self.hours if span > HOUR else self.hour
        return figures.columns[-(span // figures.window.step) :]


def objectives(text: str) -> Sequence[Objective]:
    """Return objectives written like `default=99% < 30s, mail=99.9% < 5s`. Raise ConfigError if
    one is not valid.
    """
    found = [_objective(part) for part in text.split(",") if part.strip()]
    if len({each.queue for each in found}) < len(found) or len(found) > MAX_OBJECTIVES:
        raise ConfigError(f"slo: one objective for each queue, and {MAX_OBJECTIVES} at most")
    return found


def _objective(text: str) -> Objective:
    match = _FORM.fullmatch(text)
    try:
        queue, percent, within = match.groups() if match else ("", "", "")
        found = Objective(
            queue=queue, target=round(float(percent) / 100, 9), within=go_duration(within)
        )
    except ValueError:
        found = None
    if found is None or not 0.9 <= found.target < 1 or not found.within:
        raise ConfigError(
            f"slo {text.strip()[:100]!r}: write it like mail=99.9% < 5s, with at least 90 %"
        )
    return found


def slo(known: ObjectiveFigures) -> Finding:
    """Return whether an objective fails so fast that it needs attention."""
    found = _burning(known)
    name = known.objective.queue
    return replace(found, name=f"slo {name}"[:_MAX_NAME], label=f"Objective of {cut(name)}")


def _burning(known: ObjectiveFigures) -> Finding:
    objective, queue = known.objective, known.objective.queue
    rates = [
        (span, level, most, [objective.burn(known.newest(each)) for each in (span, short)])
        for span, short, most, level in BURNS
    ]
    for span, level, most, burns in rates:
        jobs = sum(column.tally.wait.n for column in known.newest(span) if column.tally)
        if jobs >= FEWEST_ENDS and all(burn is not None and burn >= most for burn in burns):
            late = 1 - (objective.good(known.newest(span)) or 0.0)
            words = f"{_percent(late)} of its jobs started later in the last {span // HOUR} h"
            counts = [
                Counts(column.at, column.tally.wait.above(objective.within), column.tally.wait.n)
                for column in known.newest(span)
                if column.tally is not None
            ]
            return Finding(
                level=level,
                evidence=f"{words}.",
                cause=Cause.SLO_BURN,
                title=f"Queue {cut(queue)} misses its objective.",
                headline=f"{objective.words}; {words}, {burns[0]:.3g} times what may be.",
                culprit=culprit("queue", queue, 1.0),
                began=rise(counts),
                link=Link(label="Open the queue", page="queue", name=queue),
            )
    good = objective.good(known.newest(HOUR))
    if good is None:
        return unknown(f"{objective.words}; no job ended in the last hour, or it was not measured.")
    return passed(f"{objective.words}; {_percent(good)} did in the last hour.")


def _percent(share: float) -> str:
    """Return a share with as many digits as objectives have."""
    return f"{100 * share:.4g} %"
