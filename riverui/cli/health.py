"""`riverui health`: whether the jobs are well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, database_url, settings_options, texts
from riverui.errors import ConfigError, DatabaseError

if TYPE_CHECKING:
    from riverui.domain.health import HealthReport

CODES = {"ok": 0, "warn": 1, "unknown": 1, "critical": 2}
"""Exit codes by level: what is not known is looked at like a warning."""

_FIRST_READING_SECONDS = 15.0
"""Seconds that reading the last hour may take; a report without some of it says so."""


@settings_options("database_url", "schema")
@click.command("health")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /health-report.")
@click.pass_obj
def health(environ: Mapping[str, str], /, as_json: bool, **flags: Any) -> int:
    """Tell whether the jobs are well, and if not, what is behind it.

    Prints whether work is flowing, whether it is succeeding, and whether the figures can be
    trusted, each with its checks: ✓ for what was ruled out, ✗ for what was found, ? for what
    cannot be told. Exit code 0 where all is calm, 1 for a warning and where something essential is
    not known, 2 where it is critical, for bad input, and where the database does not answer.
    """
    try:
        report = _report(environ, flags)
    except DatabaseError as error:
        raise ConfigError(error.public) from None
    from riverui.web.sections.overview.health import HealthReportAnswer, text

    if as_json:
        from riverui.web.api.serializers import dump

        click.echo(dump(HealthReportAnswer.of(report)))
    else:
        click.echo(text(report), nl=False)
    return CODES[report.level]


def _report(environ: Mapping[str, str], flags: Mapping[str, Any]) -> HealthReport:
    import asyncio
    import time

    from riverui.actions.health import health_report
    from riverui.domain.figures import WINDOWS
    from riverui.storage.connect import connect
    from riverui.web.config import DashboardConfig
    from riverui.web.live.collector import Collector
    from riverui.web.live.marks import Marks
    from riverui.web.live.stored_figures import StoredFigures

    values = choose(texts(flags), environ)
    driver = connect(
        database_url(values, environ), schema=values.text("schema") or None, max_size=2
    )

    async def run() -> HealthReport:
        figures, until = (
            Collector(driver, DashboardConfig()),
            time.monotonic() + _FIRST_READING_SECONDS,
        )
        try:
            await driver.ping()
            whole = False
            while not whole and time.monotonic() < until:
                await figures.tick()
                while time.monotonic() < until and await figures.fill():
                    pass
                whole = figures.known(WINDOWS["1h"]).complete
            return await health_report(
                driver, figures, usual=StoredFigures(driver), marks=Marks(driver)
            )
        finally:
            await figures.close()
            await driver.close()

    return asyncio.run(run())
