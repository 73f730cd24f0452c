"""`riverui serve`: the dashboard of one database, as a process of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.healthcheck import ask_health
from riverui.cli.server_config import redact_keys, serve_config
from riverui.cli.settings import (
    SETTINGS,
    choose,
    database_url,
    help_text,
    settings_options,
    texts,
)
from riverui.web.config import DashboardConfig, ServeConfig

log = logging.getLogger("riverui")


class SettingsCommand(click.Command):
    """Ends its help with the settings that only the environment can give."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List flags by group, then the rest."""
        flags = {parameter.name: parameter for parameter in self.get_params(ctx)}
        for group in dict.fromkeys(setting.group for setting in SETTINGS):
            rows = []
            for setting in SETTINGS:
                if setting.group == group:
                    flag = flags.pop(setting.name, None)
                    told = flag.get_help_record(ctx) if flag else (setting.env, help_text(setting))
                    rows += [told] if told else []
            with formatter.section(group):
                formatter.write_dl(rows)
        with formatter.section("Other"):
            formatter.write_dl(
                [told for flag in flags.values() if (told := flag.get_help_record(ctx))]
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
    values = choose(texts(flags), environ)
    config = serve_config(values)
    if values.text("healthcheck"):
        return ask_health(config, values.text("healthcheck"))
    dashboard_config = DashboardConfig(
        cors_origins=values.words("cors_origins"),
        env_color=values.text("env_color"),
        env_name=values.text("env_name"),
        hide_args=values.switch("hide_args"),
        read_only=values.switch("read_only"),
        redact_keys=redact_keys(values),
        secret_key=values.secret("secret_key") or None,
    )
    url = database_url(values, environ)

    from riverui.cli.logs import configure_logging
    from riverui.cli.server import serve
    from riverui.storage.connect import connect
    from riverui.web.app import build_app
    from riverui.web.auth.sign_in import SignIn

    configure_logging(format=config.log_format, level=config.log_level)
    driver = connect(
        url,
        action_timeout=dashboard_config.action_timeout,
        page_timeout=dashboard_config.page_timeout,
        schema=values.text("schema") or None,
    )
    sign_in = SignIn(
        api_tokens=config.api_tokens,
        basic_auth=(config.basic_user, config.basic_password) if config.basic_user else None,
        htpasswd=config.htpasswd,
        no_auth=not config.for_people and (config.no_auth or config.api_tokens is None),
    )
    app = build_app(
        driver,
        sign_in,
        dashboard_config,
        close_driver=True,
        hosts=None if config.authenticated or config.no_auth else _own_names(config),
    )
    if dashboard_config.secret_key is None:
        log.info(
            "RIVERUI_SECRET_KEY is not set: viewers' preferences are lost when this process ends,"
            " and are not shared with other processes"
        )
    serve(app, driver, config)
    return 0


def _own_names(config: ServeConfig) -> frozenset[str]:
    return frozenset({"localhost", "127.0.0.1", "::1", config.bind_host.strip("[]").lower()})
