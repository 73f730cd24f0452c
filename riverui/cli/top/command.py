"""`riverui top`: the overview in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError

_FIGURES_SECONDS = 10.0
"""Seconds that reading the last hour may take for --once; what was not read is then missing."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it is refreshed.",
)
@click.option("--once", is_flag=True, help="Print it once, and end.")
@click.pass_obj
def top(environ: Mapping[str, str], /, interval: float, once: bool, **flags: Any) -> int:
    """Show the state of all jobs in the terminal, and act on them.

    It shows whether work flows and succeeds, the number of jobs in each state, queues, running jobs
    and newest failures. The keys are shown at the bottom; ? explains them. It needs textual: pip
    install 'riverui[top]'. With --once it does not.
    """
    from riverui.cli.terminal import Screen
    from riverui.cli.top.lines import all_lines

    if once:
        with open_api(environ, flags) as api:
            api.read_figures(_FIGURES_SECONDS)
            lines = all_lines(
                api.get("/api/overview"),
                _place(environ, flags),
                Screen.from_stream(sys.stdout, environ),
            )
        click.echo("\n".join(lines))
        return 0
    try:
        from riverui.cli.top.app import Top
    except ModuleNotFoundError as error:
        if error.name != "textual":
            raise
        raise ConfigError("top needs textual: pip install 'riverui[top]'") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal: --once prints it without one")
    with open_api(environ, flags) as api:
        app = Top(api, place=_place(environ, flags), interval=interval)
        return app.run() or app.return_code or 0


def _place(environ: Mapping[str, str], flags: Mapping[str, Any]) -> str:
    """Return what is shown, for the title: the dashboard's address or the database's host and
    name, without passwords. Raise ConfigError for a database's URL that cannot be read.
    """
    from urllib.parse import urlsplit

    from riverui.cli.api.connect import dashboard_url
    from riverui.cli.settings import choose
    from riverui.storage.connect import place

    values = choose(flags, environ, CLIENT_SETTINGS)
    url = dashboard_url(values)
    if not url:
        return place(values.text("database_url"))
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/")
