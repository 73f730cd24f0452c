"""`riverui job get`: one job."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.settings import settings_options

if TYPE_CHECKING:
    from riverui.cli.api.client import Api
    from riverui.cli.terminal import Screen

_ERRORS = 3
"""Failed attempts that are shown, the newest first; --json has all."""

_ERROR_LINES = 4
"""Lines of an attempt's error: its message, and why it is not tried again."""

_LINES = 12
"""Last lines of a traceback that are shown: they name the error."""

_TEXT = 4_000
"""Characters of args, metadata or output that are shown."""

_LINE = 500
"""Characters of an error that are shown."""

_WAITING = ("available", "pending", "retryable", "scheduled")

_SHOWN_SEPARATELY = ("output", "river:log")
"""Keys of metadata that are shown separately, or by `riverui job logs`."""


@settings_options(settings=CLIENT_SETTINGS)
@click.command("get")
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="The job as JSON of the API.")
@click.pass_obj
def get(environ: Mapping[str, str], /, job_id: str, as_json: bool, **flags: Any) -> int:
    """Show the job with this ID: its state, why it waits, attempts, args, metadata and output.

    Exit code 1 if the job does not exist.
    """
    from riverui.cli.job import arguments
    from riverui.cli.terminal import Screen, job_line

    number = arguments.job_id(job_id)
    with open_api(environ, flags) as api:
        text = api.text(f"/api/jobs/{number}").rstrip("\n")
        if as_json:
            click.echo(job_line(text))
        else:
            lines = job_lines(
                text, why_waiting(api, number), Screen.from_stream(sys.stdout, environ)
            )
            click.echo("\n".join(lines))
    return 0


def why_waiting(api: Api, job_id: int) -> str:
    """Return why a waiting job waits; empty if unknown."""
    from riverui.errors import RiveruiError

    try:
        found = api.get(f"/api/jobs/{job_id}/explain")
        return str(found["headline"]) if found["state"] in _WAITING else ""
    except (RiveruiError, KeyError, TypeError):
        # Show the job even if the dashboard or driver cannot explain it.
        return ""


def job_lines(text: str, why: str, screen: Screen) -> Iterator[str]:
    """Yield the lines that show a job, given as JSON of the API."""
    from datetime import UTC

    import msgspec

    from riverui.cli.terminal import one_line

    job, now = msgspec.json.decode(text), datetime.now(UTC)
    title = screen.style(f"Job {job['id']}", "bold")
    yield f"{title}  {screen.state(one_line(job['state']))}"
    for name, value in _facts(job, now):
        yield f"  {screen.style(f'{name:9}', 'bright_black')}{value}"
    if why:
        label = screen.style("why      ", "bright_black")
        yield f"  {label}{one_line(why, _LINE)}"
    yield from _block("Args", job["args"], screen)
    # Decoding numbers would change their digits: show the original text.
    metadata = _members(bytes(msgspec.json.decode(text, type=dict[str, msgspec.Raw])["metadata"]))
    rest = {key: value for key, value in metadata.items() if key not in _SHOWN_SEPARATELY}
    if rest:
        yield from _block("Metadata", msgspec.json.encode(rest).decode(), screen)
    if "output" in metadata:
        yield from _block("Output", bytes(metadata["output"]).decode(), screen)
    if "river:log" in metadata:
        yield from ("", f"It has written a log: riverui job logs {job['id']}")
    yield from _errors(job, now, screen)


def _facts(job: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    from riverui.cli.terminal import moment, one_line

    yield "kind", one_line(job["kind"])
    yield "queue", f"{one_line(job['queue'])}, priority {job['priority']}"
    yield "attempt", f"{job['attempt']} of {job['max_attempts']}"
    if job["tags"]:
        yield "tags", one_line(", ".join(job["tags"]))
    yield "created", moment(job["created_at"], now)
    if job["state"] in ("available", "retryable", "scheduled"):
        yield "due", moment(job["scheduled_at"], now)
    if job["attempted_at"]:
        yield "started", moment(job["attempted_at"], now)
    if job["attempted_by"]:
        yield "worker", one_line(job["attempted_by"][-1])
    if job["finalized_at"]:
        yield "ended", moment(job["finalized_at"], now)


def _errors(job: Mapping[str, Any], now: datetime, screen: Screen) -> Iterator[str]:
    from riverui.cli.terminal import moment, one_line, plain_lines

    errors = job["errors"] or []
    for error in reversed(errors[-_ERRORS:]):
        yield ""
        # River's error for a cancelled job.
        how = "was cancelled" if error["error"].startswith("JobCancelError: ") else "failed"
        title = screen.style(f"Attempt {error['attempt']} {how}", "bold")
        yield f"{title}  {moment(error['at'], now)}"
        # Further lines are joined to the last one shown.
        for line in error["error"].strip().split("\n", _ERROR_LINES - 1):
            yield f"  {screen.style(one_line(line, _LINE), 'red')}"
        trace = plain_lines(error["trace"].strip()) if error["trace"].strip() else []
        if len(trace) > _LINES:
            yield f"  … {len(trace) - _LINES:,} lines before"
        yield from (f"  {line}" for line in trace[-_LINES:])
    if len(errors) > _ERRORS:
        yield ""
        yield f"{len(errors) - _ERRORS:,} earlier errors: --json."


def _block(title: str, text: str, screen: Screen) -> Iterator[str]:
    """Yield a title and JSON below it, indented."""
    import msgspec

    from riverui.cli.terminal import plain_lines

    yield ""
    yield screen.style(title, "bold")
    # Text that is not valid JSON is shown unchanged.
    with suppress(msgspec.DecodeError, RecursionError):
        text = msgspec.json.format(text, indent=2)
    yield from (f"  {line}" for line in plain_lines(text[:_TEXT]))
    if len(text) > _TEXT:
        yield f"  … {len(text) - _TEXT:,} more characters: --json."


def _members(text: bytes) -> Mapping[str, Any]:
    """Return the members of a JSON object as text; empty if it is not an object."""
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return {}
