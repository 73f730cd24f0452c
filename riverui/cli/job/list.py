"""`riverui job list`: the jobs that match a search."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.job.arguments import in_queue, in_state, of_kind, search_text
from riverui.cli.settings import settings_options

if TYPE_CHECKING:
    from riverui.cli.api.client import Api
    from riverui.cli.terminal import Screen

_LIMIT = 20
"""The default number of jobs, as in the API: they fit a screen."""

_PAGE = 100
"""Jobs in one request, so that the first appear soon."""

_ARGS = 200
"""Maximum characters of args in a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which jobs are listed, and in which order."""

    search: str
    order: str
    limit: int | None
    """None for all."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("list")
@click.argument("search", nargs=-1)
@in_state
@in_queue
@of_kind
@click.option(
    "--order",
    type=click.Choice(["time", "-time", "id", "-id"]),
    help="By when they ended, started or are due, or by id; a minus means latest first.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_LIMIT,
    show_default=True,
    metavar="N",
    help="Jobs at most.",
)
@click.option("--all", "everything", is_flag=True, help="All that match, as they are read.")
@click.option("--json", "as_json", is_flag=True, help="One object of the API a line.")
@click.pass_obj
def job_list(
    environ: Mapping[str, str],
    /,
    search: Sequence[str],
    states: Sequence[str],
    queues: Sequence[str],
    kinds: Sequence[str],
    order: str | None,
    limit: int,
    everything: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """List jobs, by default of every state, the newest first.

    SEARCH is what the dashboard's search box takes, such as kind:mail state:discarded
    error:"timeout"; put -- in front of a search that begins with a minus. --state, --queue and
    --kind may be repeated, and take patterns such as mail_*.
    """
    from riverui.cli.terminal import Screen, job_line

    text = search_text(search, states=states, queues=queues, kinds=kinds)
    selection = Selection(
        search=text,
        # Without a search the API lists running jobs.
        order=order or ("" if text else "-id"),
        limit=None if everything else limit,
    )
    with open_api(environ, flags) as api:
        if as_json:
            for page in pages(api, selection):
                for job in page:
                    click.echo(job_line(bytes(job)))
            return 0
        _print(api, selection, Screen.from_stream(sys.stdout, environ))
    return 0


def pages(api: Api, selection: Selection) -> Iterator[Sequence[Any]]:
    """Yield the jobs page by page, as JSON of the API."""
    from riverui.cli.api.client import JobPage

    left, cursor = selection.limit, ""
    while left is None or left > 0:
        params: dict[str, str | int] = {"limit": _PAGE if left is None else min(_PAGE, left)}
        named = {"q": selection.search, "order": selection.order, "cursor": cursor}
        params |= {name: value for name, value in named.items() if value}
        page = api.read("/api/jobs", JobPage, params)
        yield page.data
        if not page.next_cursor:
            return
        cursor = page.next_cursor
        left = None if left is None else left - len(page.data)
    if selection.limit is not None and sys.stdout.isatty():
        click.echo(f"There are more than these {selection.limit:,}: --limit or --all.", err=True)


def _print(api: Api, selection: Selection, screen: Screen) -> None:
    from datetime import UTC, datetime

    import msgspec

    from riverui.cli.terminal import Heading, Table

    table = Table(
        (
            Heading(name="ID", right=True),
            Heading(name="STATE", states=True),
            Heading(name="KIND", shrinks=True, least=12),
            Heading(name="QUEUE", shrinks=True, least=8),
            Heading(name="ATTEMPT", right=True),
            Heading(name="WHEN"),
            Heading(name="ARGS", shrinks=True, least=4),
        ),
        screen,
    )
    nothing = True
    for page in pages(api, selection):
        now = datetime.now(UTC)
        rows = [cells(msgspec.json.decode(job), now) for job in page]
        if rows:
            nothing = False
            click.echo("\n".join(table.lines(rows)))
    if nothing:
        click.echo("No job matches.", err=True)


def cells(job: Mapping[str, Any], now: Any) -> Sequence[str]:
    """Return the cells of one job of the API."""
    from riverui.cli.terminal import ago, one_line

    return (
        str(job["id"]),
        one_line(job["state"]),
        one_line(job["kind"]),
        one_line(job["queue"]),
        f"{job['attempt']}/{job['max_attempts']}",
        ago(matters_at(job), now),
        one_line(job["args"], _ARGS),
    )


def matters_at(job: Mapping[str, Any]) -> str | None:
    """Return when the job ended, started or is due, by its state."""
    if job["finalized_at"] is not None:
        return str(job["finalized_at"])
    at = job["attempted_at"] if job["state"] == "running" else None
    return str(at or job["scheduled_at"])
