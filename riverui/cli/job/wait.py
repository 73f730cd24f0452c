"""`riverui job wait`: waits until jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.settings import settings_options
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.cli.api.client import Api

_LOOK_SECONDS = 1.0
"""Seconds between two looks: some thousand ids are one cheap statement."""
_AWAY_SECONDS = 60.0
"""Seconds without an answer after which it gives up: longer than a restart takes."""
_MOST = 1_000
"""Jobs that can be waited for at once: as many as one request names."""
TIMED_OUT = 124
"""The exit code where the time was up, that of timeout(1)."""
_ENDED = ("cancelled", "completed", "discarded")


@settings_options(settings=CLIENT_SETTINGS)
@click.command("wait")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", metavar="TIME", help="Such as 30s or 5m; for as long as it takes.")
@click.option("--json", "as_json", is_flag=True, help="Each job of the API when it has ended.")
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

    Exit code 0 where all completed, 1 where one was cancelled or discarded, or is not there (any
    more), 124 where the time was up first.
    """
    from riverui.cli.api.client import ApiError
    from riverui.cli.api.connect import asked_api
    from riverui.cli.job import arguments

    numbers = [number for chunk in arguments.chunks(ids) for number in chunk]
    if len(numbers) > _MOST:
        raise ConfigError(f"{len(numbers):,} ids: up to {_MOST:,} jobs can be waited for at once")
    left, until = list(dict.fromkeys(numbers)), _until(timeout)
    code = 0
    with asked_api(environ, flags) as api:
        answered = float("-inf")
        while left:
            try:
                found = _jobs(api, left)
            except ApiError:
                # What has answered once and starts anew is no reason to give up.
                if time.monotonic() > min(answered + _AWAY_SECONDS, until):
                    raise
                time.sleep(_LOOK_SECONDS)
                continue
            answered = time.monotonic()
            ended = [
                number
                for number in left
                if number not in found or found[number][0]["state"] in _ENDED
            ]
            for number in ended:
                code = max(code, _tell(number, found.get(number), as_json))
            left = [number for number in left if number not in ended]
            rest = until - time.monotonic()
            if left and rest <= 0:
                click.echo(f"riverui: not ended in {timeout}: {_names(left)}", err=True)
                return TIMED_OUT
            if left:
                time.sleep(min(_LOOK_SECONDS, rest))
    return code


def _jobs(api: Api, ids: Sequence[int]) -> dict[int, tuple[Mapping[str, Any], bytes]]:
    """Return the jobs that are there, by id: each read, and as the API wrote it."""
    import msgspec

    from riverui.cli.api.client import JobPage

    found, cursor = {}, ""
    while True:
        asked: dict[str, str | int | list[str]] = {"order": "id", "limit": _MOST}
        asked |= {"ids": list(map(str, ids)), **({"cursor": cursor} if cursor else {})}
        page = api.read("/api/jobs", JobPage, asked)
        for text in page.data:
            job = msgspec.json.decode(text)
            found[job["id"]] = (job, bytes(text))
        if not page.next_cursor:
            return found
        cursor = page.next_cursor


def _tell(number: int, found: tuple[Mapping[str, Any], bytes] | None, as_json: bool) -> int:
    """Print what became of a job; return the exit code that it means."""
    if found is None:
        click.echo(f"riverui: Job not found: {number}.", err=True)
        return 1
    from riverui.cli.terminal import job_line

    job, text = found
    click.echo(job_line(text) if as_json else f"Job {number} {job['state']}.")
    return 0 if job["state"] == "completed" else 1


def _until(timeout: str | None) -> float:
    """Return the moment of the monotonic clock at which the time is up."""
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
