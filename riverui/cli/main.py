"""The `riverui` command: it finds the subcommand, and tells errors in one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from riverui import __version__
from riverui.cli.bench import bench
from riverui.cli.demo import demo
from riverui.cli.explain import explain
from riverui.cli.health import health
from riverui.cli.healthcheck import healthcheck
from riverui.cli.mark import mark
from riverui.cli.migrate import COMMANDS
from riverui.cli.partition_index import partition_index
from riverui.cli.serve import serve
from riverui.cli.token import token
from riverui.cli.worker.command import worker
from riverui.errors import ConfigError, RiveruiError

BAD_SETTINGS = 2
"""Exit code for settings that cannot be used."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with 0, 1 (it did not work) or 2 (bad settings)."""
    arguments = double_dashes(sys.argv[1:] if argv is None else argv)
    try:
        code = riverui.main(arguments, obj=os.environ, prog_name="riverui", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = BAD_SETTINGS
    except click.ClickException as error:
        code = _fail(error.format_message(), BAD_SETTINGS)
    except ConfigError as error:
        code = _fail(str(error), BAD_SETTINGS)
    except RiveruiError as error:
        code = _fail(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code or 0)


def double_dashes(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with Go's `-prefix /x` as `--prefix /x`, as River's commands take
    them.
    """
    changed = list(arguments)
    for place, argument in enumerate(changed):
        if argument == "--":
            break
        if re.fullmatch(r"-[a-z][a-z-]+(=.*)?", argument, re.DOTALL):
            changed[place] = f"-{argument}"
    return changed


class ServeByDefault(click.Group):
    """Takes `riverui --prefix /x` for `riverui serve --prefix /x`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `serve` in front where no command is named."""
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version", "-h")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=ServeByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="riverui %(version)s")
def riverui() -> None:
    """River, the Postgres job queue, for Python: its dashboard, its workers, its migrations.

    Without a command it serves: `riverui` is `riverui serve`.
    """


@riverui.command()
def version() -> None:
    """Print the version."""
    click.echo(f"riverui {__version__}")


for command in (
    serve,
    healthcheck,
    demo,
    *COMMANDS,
    bench,
    explain,
    health,
    mark,
    partition_index,
    token,
    worker,
):
    riverui.add_command(command)


def _fail(message: str, code: int) -> int:
    click.echo(f"riverui: {' '.join(message.split())}", err=True)
    return code
