"""`riverui job insert`: a new job."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.completion import known_kinds, known_queues
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError

if TYPE_CHECKING:
    import msgspec

_MAX_BYTES = 1_000_000
"""Characters that are read from standard input: more than the API's limit of args."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("insert")
@click.argument("kind", shell_complete=known_kinds)
@click.argument("args", required=False, metavar="[ARGS|-]")
@click.option("--queue", metavar="NAME", help="Its queue.", shell_complete=known_queues)
@click.option("--priority", type=click.IntRange(1, 4), metavar="1-4", help="1 is worked first.")
@click.option(
    "--max-attempts", type=click.IntRange(1, 32_767), metavar="N", help="How often it is tried."
)
@click.option("--at", "at_text", metavar="TIME", help="When, such as 2026-11-21T09:00:00Z.")
@click.option("--delay", metavar="TIME", help="In how long, such as 90s or 2h.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag. May be repeated.")
@click.option("--metadata", metavar="JSON", help="Its metadata, an object.")
@click.option(
    "--unique", is_flag=True, help="Insert it only if there is no job with the same args."
)
@click.option("--json", "as_json", is_flag=True, help="The answer of the API.")
@click.pass_obj
def insert(
    environ: Mapping[str, str],
    /,
    kind: str,
    args: str | None,
    queue: str | None,
    priority: int | None,
    max_attempts: int | None,
    at_text: str | None,
    delay: str | None,
    tags: Sequence[str],
    metadata: str | None,
    unique: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Insert a job of this KIND.

    ARGS are a JSON object, {} by default; - reads them from standard input. Other defaults are
    River's.
    """
    if args == "-":
        args = sys.stdin.read(_MAX_BYTES)
    body: dict[str, Any] = {
        "kind": kind,
        "args": _json("ARGS", args or "{}"),
        "queue": queue,
        "priority": priority,
        "max_attempts": max_attempts,
        "scheduled_at": _when(at_text, delay),
        "tags": list(tags) or None,
        "unique_opts": {"by_args": True} if unique else None,
    }
    if metadata is not None:
        body["metadata"] = _json("--metadata", metadata)
    with open_api(environ, flags) as api:
        answer = api.send(
            "POST",
            "/api/jobs",
            {name: value for name, value in body.items() if value is not None},
        )
    if as_json:
        import msgspec

        from riverui.cli.terminal import json_line

        click.echo(json_line(msgspec.json.encode(answer)))
    elif answer["unique_skipped_as_duplicate"]:
        click.echo(f"Job {answer['id']} exists already ({answer['state']}).")
    else:
        click.echo(f"Inserted job {answer['id']} ({answer['state']}).")
    return 0


def _json(what: str, text: str) -> msgspec.Raw:
    """Return the text as JSON; raise ConfigError if it is not JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text.strip(), type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"""{what}: write JSON, like '{{"order": 7}}': {error}""") from None


def _when(at_text: str | None, delay: str | None) -> str | None:
    """Return when the job is due, for the API; None for now."""
    from datetime import UTC, datetime

    from riverui.domain.time import aware_instant, go_duration

    if at_text is not None and delay is not None:
        raise ConfigError("--at and --delay: choose one")
    if at_text is not None:
        if (at := aware_instant(at_text)) is None:
            raise ConfigError(
                f"--at {at_text[:40]}: write it with a time zone, like 2026-11-21T09:00:00Z"
            )
        return at.isoformat()
    if delay is None:
        return None
    try:
        return (datetime.now(UTC) + go_duration(delay)).isoformat()
    except (ValueError, OverflowError):
        raise ConfigError(f"--delay {delay[:40]}: write it like 90s or 2h") from None
