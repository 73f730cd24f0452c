"""The `riverui` command: runs a subcommand and prints errors as one line."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial

import click
from click.shell_completion import CompletionItem

from riverui import __version__
from riverui.cli.bench import bench
from riverui.cli.completion import completion
from riverui.cli.copy import copy as copy_command
from riverui.cli.demo import demo
from riverui.cli.explain import explain
from riverui.cli.health import health
from riverui.cli.healthcheck import healthcheck
from riverui.cli.job.command import job
from riverui.cli.migrate import COMMANDS
from riverui.cli.partition_index import partition_index
from riverui.cli.queue import queue
from riverui.cli.serve.command import serve
from riverui.cli.token import token
from riverui.cli.top.command import top
from riverui.cli.worker.command import worker
from riverui.errors import ConfigError, RiveruiError
from riverui.features.database.cli import doctor
from riverui.features.marks.cli import mark

BAD_SETTINGS = 2
"""Exit code for settings that are not valid."""
_MIGRATE = "riverui migrate-up"
"""The command that creates River's tables, as error messages give it."""


def main(
    argv: Sequence[str] | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    program: str = "riverui",
    target: str = "",
    migrate: str = _MIGRATE,
) -> None:
    """Run the command line, and exit with 0, 1 (it failed) or 2 (bad settings).

    A framework whose own command line runs this passes its `settings`, which take precedence over
    the environment, its `program`, the client (`target`) of `worker`, and the command that creates
    River's tables (`migrate`).
    """
    arguments = double_dashes(sys.argv[1:] if argv is None else argv)
    environ = os.environ if settings is None else _with_settings(os.environ, settings)
    group = _with_target(target) if target else riverui
    try:
        code = group.main(arguments, obj=environ, prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = BAD_SETTINGS
    except click.ClickException as error:
        code = _fail(error.format_message(), BAD_SETTINGS)
    except ConfigError as error:
        code = _fail(str(error), BAD_SETTINGS)
    except RiveruiError as error:
        code = _fail(str(error).replace(f"`{_MIGRATE}`", f"`{migrate}`"), 1)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # The reader has closed the pipe; flushing the rest of the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code or 0)


def double_dashes(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `-prefix /x`, as Go programs take it, as `--prefix /x`."""
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
        """Add `serve` if no command is named, except while a shell completes its name."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version", "-h")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, or the flags of the group and of `serve`."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            found += serve.shell_complete(ctx, incomplete)
        return found


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
    copy_command,
    bench,
    completion,
    doctor,
    explain,
    health,
    job,
    mark,
    partition_index,
    queue,
    token,
    top,
    worker,
):
    riverui.add_command(command)


def _with_settings(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with these settings in place of its variables or `NAME_FILE`."""
    files = {f"{name}_FILE" for name in settings}
    return {name: environ[name] for name in environ if name not in files} | dict(settings)


def _with_target(target: str) -> click.Group:
    """Return all commands, with `worker` for this client."""
    bound = copy.copy(worker)
    bound.params = [each for each in worker.params if each.name != "target"]
    assert worker.callback is not None
    bound.callback = partial(worker.callback, target=target)
    first, _, rest = (worker.help or "").partition("\n\n")
    # The sentences about the client that is named: up to the one about signals.
    bound.help = f"{first}\n\n{rest[rest.find('SIGTERM') :]}"
    group = copy.copy(riverui)
    group.commands = {**riverui.commands, "worker": bound}
    return group


def _fail(message: str, code: int) -> int:
    click.echo(f"riverui: {' '.join(message.split())}", err=True)
    return code
