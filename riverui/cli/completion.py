"""`riverui completion`, and the names that a shell completes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverui.errors import RiveruiError

if TYPE_CHECKING:
    from riverui.storage.interface import Driver

_PREAMBLES = {"zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"}
"""What a shell runs first: zsh does not complete anything before `compinit`."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, /, shell: str) -> int:
    """Print the script with which SHELL completes commands, flags, queues and kinds.

    For bash: source <(riverui completion bash), for instance in ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    if shell in _PREAMBLES:
        click.echo(_PREAMBLES[shell])
    click.echo(found(ctx.find_root().command, {}, "riverui", "_RIVERUI_COMPLETE").source())
    return 0


_SECONDS = 2.0
"""Seconds after which no names are completed: a person is waiting."""

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%+/-]*")
"""Names that need no quotes in a shell. Others are not completed: anybody who inserts jobs chooses
names, and the shell would run them.
"""


def known_states(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Return the states with this prefix."""
    from riverui.domain.jobs import JobState

    return [state.value for state in JobState if state.value.startswith(incomplete)]


def known_queues(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Return the queues with this prefix; none if they cannot be read in time."""
    return _names(ctx, "queue_name", incomplete)


def known_kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[str]:
    """Return the kinds with this prefix; none if they cannot be read in time."""
    return _names(ctx, "job_kind", incomplete)


def _names(ctx: click.Context, facet: str, incomplete: str) -> Sequence[str]:
    try:
        found = _read_names(ctx.obj or {}, ctx.params, facet, incomplete)
    except (RiveruiError, OSError, TimeoutError):
        return []
    return [name for name in found if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def _read_names(
    environ: Mapping[str, str], flags: Mapping[str, Any], facet: str, match: str
) -> Sequence[str]:
    from riverui.cli.api.connect import CLIENT_SETTINGS, dashboard_url
    from riverui.cli.settings import choose

    named = {setting.name for setting in CLIENT_SETTINGS if setting.flag}
    given = {name: flags.get(name) for name in named}
    values = choose(given, environ, CLIENT_SETTINGS)
    if url := dashboard_url(values):
        from riverui.cli.api.client import Api
        from riverui.cli.api.remote import RemoteApi

        api = Api(RemoteApi(url, token=values.text("api_token"), timeout=_SECONDS))
        try:
            answer = api.get("/api/autocomplete", {"facet": facet, "match": match})
            return [name for name in answer["data"] if isinstance(name, str)]
        finally:
            api.close()
    import asyncio

    from riverui.cli.settings import database_url
    from riverui.storage.connect import connect

    schema = values.text("schema") or None
    driver = connect(database_url(values, environ), schema=schema, max_size=1)
    return asyncio.run(asyncio.wait_for(_read(driver, facet, match), _SECONDS))


async def _read(driver: Driver, facet: str, match: str) -> Sequence[str]:
    """Read names from the database directly: a dashboard takes longer to create."""
    from datetime import timedelta

    try:
        async with driver.reading(timeout=timedelta(seconds=_SECONDS)) as executor:
            read = executor.jobs.kind_list if facet == "job_kind" else executor.queues.row_name_list
            return await read(match=match)
    finally:
        await driver.close()
