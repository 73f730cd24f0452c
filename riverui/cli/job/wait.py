"""`riverui job wait`: waits until jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.cli.api.client import Api

_POLL_SECONDS = 1.0
"""Seconds between two requests: a thousand ids are one cheap statement."""
_RETRY_SECONDS = 60.0
"""Seconds without an answer after which it fails: longer than a restart takes."""
_MOST = 1_000
"""Maximum number of jobs: the API's limit of ids in a request."""
TIMED_OUT = 124
"""Exit code after --timeout, as of timeout(1)."""
_ENDED = ("cancelled", "completed", "discarded")


@settings_options(settings=CLIENT_SETTINGS)
@click.command("wait")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", metavar="TIME", help="Maximum time, such as 30s or 5m.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print each job that has ended as JSON of the API."
)
@click.pass_obj
def wait(
    environ: Mapping[str, str],
    /,
    ids: Sequence[str],
    timeout: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Wait until the jobs with these IDs have ended; - stands for ids from standard input.

    Exit code 0 if all completed, 1 if one was cancelled or discarded or does not exist, 124 after
    --timeout.
    """
    from riverui.cli.api.client import ApiError
    from riverui.cli.job import arguments

    numbers = [number for chunk in arguments.chunks(ids) for number in chunk]
    if len(numbers) > _MOST:
        raise ConfigError(f"{len(numbers):,} ids: up to {_MOST:,} jobs can be waited for at once")
    left, until = list(dict.fromkeys(numbers)), _until(timeout)
    code = 0
    with open_api(environ, flags) as api:
        answered = float("-inf")
        while left:
            try:
                found = _jobs(api, left)
            except ApiError:
                # A dashboard that has answered before may be restarting.
                if time.monotonic() > min(answered + _RETRY_SECONDS, until):
                    raise
                time.sleep(_POLL_SECONDS)
                continue
            answered = time.monotonic()
            ended = [
                number
                for number in left
                if number not in found or found[number][0]["state"] in _ENDED
            ]
            for number in ended:
                code = max(code, _print_end(number, found.get(number), as_json))
            left = [number for number in left if number not in ended]
            rest = until - time.monotonic()
            if left and rest <= 0:
                click.echo(f"riverui: not ended in {timeout}: {_names(left)}", err=True)
                return TIMED_OUT
            if left:
                time.sleep(min(_POLL_SECONDS, rest))
    return code


def _jobs(api: Api, ids: Sequence[int]) -> dict[int, tuple[Mapping[str, Any], bytes]]:
    """Return the existing jobs by id: decoded, and as JSON."""
    import msgspec

    from riverui.cli.api.client import JobPage

    found, cursor = {}, ""
    while True:
        params: dict[str, str | int | list[str]] = {"order": "id", "limit": _MOST}
        params |= {"ids": list(map(str, ids)), **({"cursor": cursor} if cursor else {})}
        page = api.read("/api/jobs", JobPage, params)
        for text in page.data:
            job = msgspec.json.decode(text)
            found[job["id"]] = (job, bytes(text))
        if not page.next_cursor:
            return found
        cursor = page.next_cursor


def _print_end(number: int, found: tuple[Mapping[str, Any], bytes] | None, as_json: bool) -> int:
    """Print how a job ended; return the exit code."""
    if found is None:
        click.echo(f"riverui: Job not found: {number}.", err=True)
        return 1
    from riverui.cli.terminal import job_line

    job, text = found
    click.echo(job_line(text) if as_json else f"Job {number} {job['state']}.")
    return 0 if job["state"] == "completed" else 1


def _until(timeout: str | None) -> float:
    """Return the end of the timeout on the monotonic clock."""
    from riverui.domain.time import go_duration

    if timeout is None:
        return float("inf")
    try:
        return time.monotonic() + max(0.0, go_duration(timeout).total_seconds())
    except ValueError:
        raise ConfigError(f"--timeout {timeout[:40]}: write it like 30s or 5m") from None


def _names(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return f"{shown} and {len(ids) - 5:,} more" if len(ids) > 5 else shown
