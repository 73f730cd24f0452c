"""`riverui explain`: why a job is not running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, database_url, settings_options, texts
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.domain.explain import Explanation
    from riverui.domain.jobs import JobShowRow

_MARKS = {"passed": "✓", "failed": "✗", "unknown": "?"}
"""What stands before each check."""


@settings_options("database_url", "schema")
@click.command("explain")
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /explain.")
@click.pass_obj
def explain(environ: Mapping[str, str], /, job_id: str, as_json: bool, **flags: Any) -> int:
    """Tell why the job with this ID is not running.

    Prints the first reason found and every check: ✓ for what holds nothing up, ✗ for what does, ?
    for what cannot be told. Exit code 0 where nothing was found, 1 where something holds the job
    up, 2 for bad input or an unknown job.
    """
    from riverui.domain.numbers import is_bigint

    if not (job_id.isascii() and job_id.isdecimal() and is_bigint(int(job_id[:20]))):
        raise ConfigError("a job id is a whole number, such as 9381022")
    found = _explained(environ, flags, int(job_id))
    if found is None:
        raise ConfigError(f"job not found: {job_id}")
    job, explanation = found
    if as_json:
        from riverui.web.api.serializers import dump
        from riverui.web.sections.jobs.explain import JobExplanation

        click.echo(dump(JobExplanation.of(job, explanation)))
    else:
        _tell(job, explanation)
    return 1 if explanation.blocked else 0


def _explained(
    environ: Mapping[str, str], flags: Mapping[str, Any], job_id: int
) -> tuple[JobShowRow, Explanation] | None:
    import asyncio

    from riverui.actions.explain import job_explain
    from riverui.storage.connect import connect

    values = choose(texts(flags), environ)
    driver = connect(
        database_url(values, environ), schema=values.text("schema") or None, max_size=1
    )

    async def run() -> tuple[JobShowRow, Explanation] | None:
        try:
            return await job_explain(driver, job_id)
        finally:
            await driver.close()

    return asyncio.run(run())


def _tell(job: JobShowRow, explanation: Explanation) -> None:
    """Print an explanation; names out of the database cannot move the terminal's cursor."""
    from riverui.web.view.format import plain

    click.echo(f"Job {job.id} ({job.state.value}): {plain(explanation.headline)}\n")
    width = max(len(check.label) for check in explanation.checks)
    for check in explanation.checks:
        click.echo(f"{_MARKS[check.result]} {check.label:{width}}  {plain(check.evidence)}")
