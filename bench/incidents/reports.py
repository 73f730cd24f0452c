"""The reports of a case: by a command that begins to read now, and by a dashboard that runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from riverui.actions.health import health_report
from riverui.actions.report_list import MARKS
from riverui.domain.findings import Finding, Result
from riverui.domain.health import HealthReport
from riverui.features.figures.domain import Rollup
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.features.figures.reader.limits import FigureLimits
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig

READERS = {
    "alone": "River's tables alone",
    "ours": "with riverui's tables",
    "dashboard": "a dashboard that runs",
}
"""A command on River's tables alone, one with riverui's tables as well, and a dashboard that has
been running since before the incident began; in words.
"""

PATIENCE = timedelta(minutes=1)
"""For each statement: how busy this machine is should not change what is found."""
_LIMITS = FigureLimits(timeout=PATIENCE, slice_seconds=PATIENCE.total_seconds())


class Problem(Struct, frozen=True):
    """One open problem of a report."""

    cause: str
    words: str
    """Everything that is said of it, with its culprit."""


async def report(
    driver: Driver, now: datetime, *, minutes: Iterable[Rollup] | None = None
) -> HealthReport:
    """Return the report at this time, which the database's clock shows. `minutes` are those that
    the dashboard has in its memory; None if a command begins to read.
    """
    figures = FigureReader(driver, DashboardConfig(page_timeout=PATIENCE), _LIMITS)
    collector = figures.collector
    try:
        await collector.tick()
        for rollup in minutes or ():
            if rollup.at >= collector.recent.first:
                # Inserted jobs are counted from rows.
                pairs = {pair: replace(tally, inserted=0) for pair, tally in rollup.pairs.items()}
                collector.recent.load(replace(rollup, pairs=pairs))
        while not collector.complete:
            while await collector.fill():
                pass
            if collector.error:
                break
        return await health_report(driver, figures, usual=figures, marks=MARKS(driver), now=now)
    finally:
        await figures.close()


def problems(found: HealthReport) -> Sequence[Problem]:
    """Return the open problems of a report, each once."""
    said: dict[str, str] = {}
    for section in found.sections:
        for finding in (section, *section.checks):
            if finding.result is Result.FAILED and finding.cause:
                said[finding.cause] = f"{said.get(finding.cause, '')} {_all(finding)}"
    return [Problem(cause, words.strip()) for cause, words in said.items()]


def _all(finding: Finding) -> str:
    name = finding.culprit.name if finding.culprit else ""
    link = finding.link
    linked = f"{link.name} {link.kind} {link.queue}" if link else ""
    return " ".join(
        (finding.title, finding.headline, finding.evidence, finding.detail, name, linked)
    )
