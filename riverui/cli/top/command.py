"""`riverui top`: the overview in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.client_settings import CLIENT_SETTINGS
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError


@settings_options(settings=CLIENT_SETTINGS)
@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it is read anew.",
)
@click.option("--once", is_flag=True, help="Print it once, and end.")
@click.pass_obj
def top(environ: Mapping[str, str], /, interval: float, once: bool, **flags: Any) -> int:
    """Show in the terminal how the jobs are, and act on them.

    Whether work flows and succeeds, the number of jobs in each state, queues, running jobs and
    newest failures. The keys are told at the bottom; ? shows all of them.
    """
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal: --once prints it without one")
    from riverui.cli.api.chosen import asked_api
    from riverui.cli.terminal import Screen
    from riverui.cli.top import board
    from riverui.cli.top.frame import View
    from riverui.cli.top.tty import Ended, Terminal

    view = View(where=board.shown_place(environ, flags))
    screen = Screen.of(sys.stdout, environ)
    with asked_api(environ, flags) as api:
        if once:
            click.echo("\n".join(board.once(api, view, screen)))
            return 0
        try:
            with Terminal(sys.stdin.fileno(), sys.stdout.fileno()) as terminal:
                asker = board.Asker(api, interval, terminal.wake)
                asker.start()
                try:
                    board.Board(view, screen, asker.ask).run(terminal, asker)
                finally:
                    asker.stop()
        except Ended as ended:
            return ended.code
    return 0
