"""`riverui health`: the health report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, dashboard_url, open_api
from riverui.cli.settings import SETTINGS, choose, settings_options
from riverui.cli.terminal import print_answer
from riverui.errors import ConfigError, RiveruiError

if TYPE_CHECKING:
    from riverui.domain.health import HealthReport
    from riverui.domain.health.slo import Objective
    from riverui.features.incidents.domain import Incident
    from riverui.storage.interface import Driver

_SETTINGS = (*CLIENT_SETTINGS, *(setting for setting in SETTINGS if setting.name == "slo"))
CODES = {"ok": 0, "warn": 1, "unknown": 1, "critical": 2}
"""Exit codes by level: an unknown level counts as a warning."""

_FIRST_READING_SECONDS = 15.0
"""Seconds that reading the last hour may take; a report says if a part of it is missing."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("health")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /health-report.")
@click.pass_obj
def health(environ: Mapping[str, str], /, as_json: bool, **flags: Any) -> int:
    """Report whether jobs are healthy, and the causes if they are not.

    Reads the database and RIVERUI_SLO, or with --api a running dashboard.

    Prints whether work is flowing, whether it is succeeding, and whether the figures can be
    trusted, each with its checks: ✓ ruled out, ✗ found, ? unknown. Exit code 0 if everything is
    healthy, 1 for a warning or if something essential is unknown, 2 if it is critical, for bad
    input, and if there is no answer.
    """
    from riverui.domain.health.slo import objectives
    from riverui.web.api.diagnoses import HealthReportAnswer

    values = choose(flags, environ, _SETTINGS)
    try:
        if dashboard_url(values):
            with open_api(environ, flags) as api:
                report = api.read("/api/health-report", HealthReportAnswer)
        else:
            from riverui.cli.direct import read

            make = partial(_report, slo=objectives(values.text("slo")))
            report = HealthReportAnswer.from_report(*read(values, environ, make))
    except RiveruiError as error:
        raise ConfigError(str(error)) from None
    print_answer(report, as_json=as_json)
    return CODES[report.level]


async def _report(
    driver: Driver, *, slo: Sequence[Objective]
) -> tuple[HealthReport, Sequence[Incident]]:
    """Return the report on a database, reading its figures first, and its open incidents."""
    from riverui.actions.health import health_report
    from riverui.actions.report_list import MARKS
    from riverui.features.figures.reader.figure_reader import FigureReader
    from riverui.features.incidents.domain import baselines
    from riverui.features.incidents.store import IncidentStore
    from riverui.web.config import DashboardConfig

    figures = FigureReader(driver, DashboardConfig())
    collector, until = figures.collector, time.monotonic() + _FIRST_READING_SECONDS
    try:
        while time.monotonic() < until and not collector.complete:
            await collector.tick()
            while time.monotonic() < until and await collector.fill():
                pass
        opened: Sequence[Incident] = ()
        async with driver.reading() as executor:
            if await IncidentStore.installed(executor):
                opened = await IncidentStore(executor).incident_open_list()
        report = await health_report(
            driver,
            figures,
            usual=figures,
            marks=MARKS(driver),
            baselines=baselines(opened),
            objectives=slo,
        )
        return report, opened
    finally:
        await figures.close()
