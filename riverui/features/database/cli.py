"""`riverui doctor`: checks the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, dashboard_url, open_api
from riverui.cli.health import CODES
from riverui.cli.settings import choose, settings_options
from riverui.cli.terminal import print_answer
from riverui.errors import ConfigError, RiveruiError

if TYPE_CHECKING:
    from riverui.features.database.domain.facts import DatabaseReport
    from riverui.storage.interface import Driver


@settings_options(settings=CLIENT_SETTINGS)
@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /database.")
@click.pass_obj
def doctor(environ: Mapping[str, str], /, as_json: bool, **flags: Any) -> int:
    """Check the database: vacuum, indexes, transactions, connections, migrations, privileges.

    Reads catalogs and statistics of the database, or with --api asks a running dashboard. Prints
    each check, ✓ nothing found, ⚠ or ✗ found, ? not measured, with a statement that fixes it;
    nothing is changed. Exit code 0 if nothing is wrong, 1 for a warning or if something could not
    be measured, 2 if it is critical, for bad input, and if there is no answer.
    """
    from riverui.features.database.answer import DatabaseAnswer

    values = choose(flags, environ, CLIENT_SETTINGS)
    try:
        if dashboard_url(values):
            with open_api(environ, flags) as api:
                found = api.read("/api/database", DatabaseAnswer)
        else:
            from riverui.cli.direct import read

            found = DatabaseAnswer.from_report(read(values, environ, _report))
    except RiveruiError as error:
        raise ConfigError(str(error)) from None
    print_answer(found, as_json=as_json)
    return CODES[found.level]


async def _report(driver: Driver) -> DatabaseReport:
    from riverui.features.database.domain.report import report
    from riverui.features.database.reader import database_facts

    return report(await database_facts(driver))
