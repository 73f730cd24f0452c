"""Make the page of all commands and their options from the command line itself."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import click

from riverui.cli.main import riverui

HEAD = """\
# All commands

Every command of `riverui` with its arguments and options, as `--help` prints them. See also
[The command line](../dashboard/command-line.md), [Configuration](configuration.md) and
[Worker processes](../operate/worker-processes.md).
"""


def page() -> str:
    """Return the page, in Markdown."""
    context = click.Context(riverui, info_name="riverui")
    return HEAD + "".join(_section(context)) + "".join(_commands(context))


def _commands(context: click.Context) -> Iterator[str]:
    group = context.command
    assert isinstance(group, click.Group)
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name)
        yield from _section(inner)
        if isinstance(command, click.Group):
            yield from _commands(inner)


def _section(context: click.Context) -> Iterator[str]:
    path = context.command_path
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n## {path} {{: #{path.replace(' ', '-')} }}\n\n```\n{path} {usage}\n```\n\n"
    yield f"{_sentences(command.help or '')}\n\n"
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden:
            yield from _option(option, context)


def _option(option: click.Option, context: click.Context) -> Iterator[str]:
    record = option.get_help_record(context)
    if record is not None and "--help" not in option.opts:
        names, text = record
        yield f"`{names}`\n:   {_sentences(text) or '&nbsp;'}\n\n"


def _sentences(text: str) -> str:
    """Return a help text as Markdown: its paragraphs, with nothing in it that would be markup."""
    paragraphs = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")]
    # Code is what stands between backticks.
    parts = "\n\n".join(paragraphs).split("`")
    parts[::2] = [_ENV.sub(r"[`\1`", html.escape(part, quote=False)) for part in parts[::2]]
    return "`".join(parts).replace("*", r"\*")


_ENV = re.compile(r"\[env ([A-Z_]+)")
