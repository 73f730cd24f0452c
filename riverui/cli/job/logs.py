"""`riverui job logs`: a job's log, also while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.settings import settings_options
from riverui.errors import NotFound

if TYPE_CHECKING:
    from riverui.cli.api.client import Api

_POLL_SECONDS = 1.0
"""Seconds between two requests for a log that is followed: workers write it about as often."""
_ATTEMPTS_SEARCHED = 10
"""Newest attempts that are searched for one with a log."""
_ENDED = ("cancelled", "completed", "discarded")


@settings_options(settings=CLIENT_SETTINGS)
@click.command("logs")
@click.argument("job_id", metavar="ID")
@click.option("--attempt", type=click.IntRange(min=0), help="Of this attempt.", metavar="N")
@click.option("-f", "--follow", is_flag=True, help="Continue until the job has ended.")
@click.pass_obj
def logs(
    environ: Mapping[str, str],
    /,
    job_id: str,
    attempt: int | None,
    follow: bool,
    **flags: Any,
) -> int:
    """Print the log of the job with this ID, by default of its newest attempt.

    With -f it continues through all attempts until the job has ended. Exit code 1 if the job or
    its log does not exist.
    """
    from riverui.cli.job import arguments
    from riverui.cli.terminal import plain_lines

    number, found = arguments.job_id(job_id), False
    with open_api(environ, flags) as api:
        for text in _followed(api, number) if follow else _whole(api, number, attempt):
            found = True
            # Line ends are those of the log; other control characters are escaped.
            click.echo("\n".join(plain_lines(text)), nl=False)
    if not (found or follow):
        which = "" if attempt is None else f" of attempt {attempt}"
        raise NotFound(f"Job {number} has no log{which}.")
    return 0


def _whole(api: Api, job_id: int, attempt: int | None) -> Iterator[str]:
    """Yield the pieces of the log of one attempt, by default of the newest that has one."""
    piece = _piece(api, job_id, attempt)
    newest = piece["attempt"]
    if attempt is None and not piece["size"]:
        for earlier in (*range(newest - 1, max(newest - _ATTEMPTS_SEARCHED, 0), -1), 0):
            piece = _piece(api, job_id, earlier)
            if piece["size"]:
                break
    while piece["text"]:
        yield piece["text"]
        piece = _piece(api, job_id, piece["attempt"], piece["next"])


def _followed(api: Api, job_id: int) -> Iterator[str]:
    """Yield new pieces of the log until the job has ended."""
    attempt, start = None, 0
    while True:
        piece = _piece(api, job_id, attempt, start)
        if piece["text"]:
            attempt, start = piece["attempt"], piece["next"]
            yield piece["text"]
            continue
        if piece["attempts"] > piece["attempt"]:
            # The log of an attempt is complete before the next attempt starts.
            attempt, start = piece["attempt"] + 1, 0
            click.echo(f"── attempt {attempt} ──", err=True)
            continue
        if piece["state"] in _ENDED:
            return
        # A log that becomes too long loses its beginning.
        attempt, start = piece["attempt"], min(start, piece["size"])
        time.sleep(_POLL_SECONDS)


def _piece(api: Api, job_id: int, attempt: int | None, start: int = 0) -> Mapping[str, Any]:
    params = {"start": start} if attempt is None else {"start": start, "attempt": attempt}
    found: Mapping[str, Any] = api.get(f"/api/jobs/{job_id}/log", params)
    return found
