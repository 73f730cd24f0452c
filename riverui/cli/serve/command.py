"""`riverui serve`: the dashboard as a process of its own."""

from __future__ import annotations

import gc
import logging
from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.healthcheck import check_health
from riverui.cli.serve.config import dashboard_config, serve_config
from riverui.cli.settings import (
    SETTINGS,
    choose,
    database_url,
    help_text,
    settings_options,
    with_password_file,
)
from riverui.web.config import ServeConfig

log = logging.getLogger("riverui")


class SettingsCommand(click.Command):
    """Lists settings without a flag, which only the environment has, in its help as well."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List flags by group, then the rest."""
        flags = {parameter.name: parameter for parameter in self.get_params(ctx)}
        for group in dict.fromkeys(setting.group for setting in SETTINGS):
            rows = []
            for setting in SETTINGS:
                if setting.group == group:
                    flag = flags.pop(setting.name, None)
                    row = flag.get_help_record(ctx) if flag else (setting.env, help_text(setting))
                    rows += [row] if row else []
            with formatter.section(group):
                formatter.write_dl(rows)
        with formatter.section("Other"):
            formatter.write_dl(
                [row for flag in flags.values() if (row := flag.get_help_record(ctx))]
            )


@settings_options()
@click.command(cls=SettingsCommand)
@click.pass_obj
def serve(environ: Mapping[str, str], /, **flags: Any) -> int:
    """Serve the dashboard of the database in DATABASE_URL.

    Without authentication it listens on this machine only, unless --no-auth is given. Each setting
    is a flag, an environment variable, or both; the flag wins. For secrets, NAME_FILE may name a
    file that holds the value.
    """
    values = choose(flags, environ)
    config = serve_config(values)
    if values.text("healthcheck"):
        return check_health(config, values.text("healthcheck"))
    shown = dashboard_config(values)
    url = database_url(values, environ)
    read = values.text("database_url_read")

    # Loading modules leaves almost no garbage; collecting it takes a tenth of the starting time.
    gc.disable()
    from riverui.cli.logs import configure_logging
    from riverui.cli.serve.dashboard import ServedDashboard

    configure_logging(format=config.log_format, level=config.log_level)
    served = ServedDashboard(
        config=config,
        dashboard_config=shown,
        database_url=url,
        database_url_read=with_password_file(read, values) if read else None,
        hosts=None if config.authenticated or config.no_auth else _local_hosts(config),
        schema=values.text("schema") or None,
    )
    if config.workers > 1:
        from riverui.cli.serve.workers import serve_workers

        gc.enable()
        serve_workers(served)
    else:
        from riverui.cli.serve.server import serve

        app, driver = served.build()
        served.log_missing_key()
        serve(app, driver, config)
    return 0


def _local_hosts(config: ServeConfig) -> frozenset[str]:
    return frozenset({"localhost", "127.0.0.1", "::1", config.bind_host.strip("[]").lower()})
