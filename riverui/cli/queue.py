"""`riverui queue`: looks at queues, pauses and resumes them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.completion import known_queues
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.cli.api.client import Api
    from riverui.cli.terminal import Screen

_MOST = 1_000
"""Queues that are listed: as many as the API gives at once."""
_ALL = "*"
"""River's name for every queue."""
_NAMED = 10
"""Queues that a message names."""


@click.group("queue")
def queue() -> None:
    """Look at queues, pause and resume them.

    The commands read the database, or with --api a running dashboard, with the same output.
    """


@queue.command("list")
@click.option("--json", "as_json", is_flag=True, help="One object of the API a line.")
@click.pass_obj
def queue_list(environ: Mapping[str, str], /, as_json: bool, **flags: Any) -> int:
    """List the queues that clients have registered, by name: up to 1,000."""
    import msgspec

    from riverui.cli.terminal import Screen, json_line

    with open_api(environ, flags) as api:
        found = api.read("/api/queues", dict[str, list[msgspec.Raw]], {"limit": _MOST})["data"]
    if as_json:
        for each in found:
            click.echo(json_line(bytes(each)))
        return 0
    if not found:
        click.echo("No client has registered a queue.", err=True)
        return 0
    _print([msgspec.json.decode(each) for each in found], Screen.from_stream(sys.stdout, environ))
    return 0


@queue.command("get")
@click.argument("name", shell_complete=known_queues)
@click.option("--json", "as_json", is_flag=True, help="The queue as JSON of the API.")
@click.pass_obj
def get(environ: Mapping[str, str], /, name: str, as_json: bool, **flags: Any) -> int:
    """Show the queue with this NAME. Exit code 1 if no client has registered it."""
    import msgspec

    from riverui.cli.terminal import Screen, json_line

    with open_api(environ, flags) as api:
        text = api.text(_path(name)).rstrip("\n")
    if as_json:
        click.echo(json_line(text))
    else:
        _print([msgspec.json.decode(text)], Screen.from_stream(sys.stdout, environ))
    return 0


@queue.command("pause")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=known_queues)
@click.option("--all", "every", is_flag=True, help="Every queue.")
@click.pass_obj
def pause(environ: Mapping[str, str], /, names: Sequence[str], every: bool, **flags: Any) -> int:
    """Pause queues: running jobs finish, no new ones start."""
    return _apply("pause", names, every, environ, flags)


@queue.command("resume")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=known_queues)
@click.option("--all", "every", is_flag=True, help="Every queue.")
@click.pass_obj
def resume(environ: Mapping[str, str], /, names: Sequence[str], every: bool, **flags: Any) -> int:
    """Resume queues that are paused."""
    return _apply("resume", names, every, environ, flags)


for command in (queue_list, get, pause, resume):
    settings_options(settings=CLIENT_SETTINGS)(command)


def _apply(
    name: str,
    names: Sequence[str],
    every: bool,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> int:
    """Apply a verb to queues, one after the other, and print what changed."""
    from riverui.actions.queues import QUEUE_VERBS
    from riverui.cli.terminal import one_line

    verb = QUEUE_VERBS[name]
    if bool(names) == every:
        raise ConfigError(f"say which queues to {name}: by their names, or --all")
    with open_api(environ, flags) as api:
        if every:
            changing = [each["name"] for each in _changeable(api, name)]
            api.send("PUT", f"{_path(_ALL)}/{name}")
            click.echo(
                f"{verb.done.capitalize()} {_list_names(changing)}."
                if changing
                else f"{verb.unchanged_all}."
            )
            return 0
        for each in names:
            paused = api.get(_path(each))["paused_at"] is not None
            if paused is (name == "pause"):
                click.echo(f"Queue {one_line(each)} was {verb.unchanged}.")
                continue
            api.send("PUT", f"{_path(each)}/{name}")
            click.echo(f"Queue {one_line(each)} is {verb.done}. {verb.hint}".strip())
    return 0


def _changeable(api: Api, name: str) -> list[Mapping[str, Any]]:
    """Return the queues that pausing or resuming changes."""
    found = api.get("/api/queues", {"limit": _MOST})["data"]
    return [each for each in found if (each["paused_at"] is None) is (name == "pause")]


def _list_names(names: Sequence[str]) -> str:
    from riverui.cli.terminal import one_line

    shown = ", ".join(one_line(name, 60) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{len(names):,} queue{'' if len(names) == 1 else 's'}: {shown}{more}"


def _path(name: str) -> str:
    from urllib.parse import quote

    if not name:
        raise ConfigError("a queue's name is never empty")
    return f"/api/queues/{quote(name, safe='')}"


def _print(queues: Sequence[Mapping[str, Any]], screen: Screen) -> None:
    from datetime import UTC, datetime

    from riverui.cli.terminal import Heading, Table, ago, one_line

    now = datetime.now(UTC)
    table = Table(
        (
            Heading(name="QUEUE", shrinks=True, least=12),
            Heading(name="STATE", states=True),
            Heading(name="WAITING", right=True),
            Heading(name="RUNNING", right=True),
            Heading(name="LIMIT", right=True),
            Heading(name="SEEN"),
        ),
        screen,
    )
    rows = [
        (
            one_line(each["name"]),
            "active" if each["paused_at"] is None else "paused",
            f"{each['count_available']:,}",
            f"{each['count_running']:,}",
            _limit(each["concurrency"]),
            ago(each["updated_at"], now),
        )
        for each in queues
    ]
    click.echo("\n".join(table.lines(rows)))


def _limit(concurrency: Mapping[str, Any] | None) -> str:
    """Return how many jobs of a limited queue run at once, in all or in each client."""
    if not concurrency:
        return "—"
    if concurrency.get("global_limit"):
        return f"{concurrency['global_limit']:,}"
    local = concurrency.get("local_limit")
    return f"{local:,} a client" if local else "—"
