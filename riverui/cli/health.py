"""`riverui health`: whether the jobs are well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError, RiveruiError

CODES = {"ok": 0, "warn": 1, "unknown": 1, "critical": 2}
"""Exit codes by level: what is not known is looked at like a warning."""

_FIRST_READING_SECONDS = 15.0
"""Seconds that reading the last hour may take; a report without some of it says so."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("health")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /health-report.")
@click.pass_obj
def health(environ: Mapping[str, str], /, as_json: bool, **flags: Any) -> int:
    """Tell whether the jobs are well, and if not, what is behind it.

    Asks the database, or with --api a running dashboard.

    Prints whether work is flowing, whether it is succeeding, and whether the figures can be
    trusted, each with its checks: ✓ for what was ruled out, ✗ for what was found, ? for what
    cannot be told. Exit code 0 where all is calm, 1 for a warning and where something essential is
    not known, 2 where it is critical, for bad input, and where nobody answers.
    """
    from riverui.cli.api.connect import asked_api
    from riverui.web.api.diagnoses import HealthReportAnswer
    from riverui.web.api.serializers import dump

    try:
        with asked_api(environ, flags) as api:
            api.read_figures(_FIRST_READING_SECONDS)
            report = api.read("/api/health-report", HealthReportAnswer)
    except RiveruiError as error:
        raise ConfigError(str(error)) from None
    if as_json:
        click.echo(dump(report))
    else:
        click.echo(report.text(), nl=False)
    return CODES[report.level]
