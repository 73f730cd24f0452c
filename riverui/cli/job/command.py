"""`riverui job`: looks at jobs and acts on them."""

from __future__ import annotations

import click

from riverui.cli.job.get import get
from riverui.cli.job.insert import insert
from riverui.cli.job.list import job_list
from riverui.cli.job.logs import logs
from riverui.cli.job.verbs import VERB_COMMANDS
from riverui.cli.job.wait import wait


@click.group("job")
def job() -> None:
    """Look at jobs, and act on them.

    The commands read the database, or with --api a running dashboard, with the same output.
    """


for command in (job_list, get, insert, *VERB_COMMANDS, logs, wait):
    job.add_command(command)
