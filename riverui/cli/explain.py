"""`riverui explain`: why a job is not running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, dashboard_url, open_api
from riverui.cli.settings import choose, settings_options
from riverui.cli.terminal import print_answer
from riverui.errors import ConfigError, NotFound


@settings_options(settings=CLIENT_SETTINGS)
@click.command("explain")
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="The answer of the API's /explain.")
@click.pass_obj
def explain(environ: Mapping[str, str], /, job_id: str, as_json: bool, **flags: Any) -> int:
    """Explain why the job with this ID is not running.

    Reads the database, or with --api a running dashboard. Prints the first reason found and every
    check: ✓ passed, ✗ keeps the job from running, ? unknown. Exit code 0 if no reason was found, 1
    if one was, 2 for bad input or an unknown job.
    """
    from riverui.domain.values import is_bigint

    if not (job_id.isascii() and job_id.isdecimal() and is_bigint(int(job_id[:20]))):
        raise ConfigError("a job id is a whole number, such as 9381022")
    from riverui.web.api.diagnoses import JobExplanation

    values = choose(flags, environ, CLIENT_SETTINGS)
    if dashboard_url(values):
        try:
            with open_api(environ, flags) as api:
                found = api.read(f"/api/jobs/{int(job_id)}/explain", JobExplanation)
        except NotFound:
            raise ConfigError(f"job not found: {job_id}") from None
    else:
        from riverui.actions.explain import job_explain
        from riverui.actions.report_list import HOLDS
        from riverui.cli.direct import read

        explained = read(values, environ, lambda driver: job_explain(driver, int(job_id), HOLDS))
        if explained is None:
            raise ConfigError(f"job not found: {job_id}")
        found = JobExplanation.from_job(*explained)
    print_answer(found, as_json=as_json)
    return 1 if found.blocked else 0
