"""`riverui copy`: move a queue to another database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from riverui.actions.copying import CopyReport


@click.command("copy")
@click.argument("source")
@click.argument("target")
@click.option("--resume", is_flag=True, help="Continue a copy that was interrupted.")
def copy(source: str, target: str, *, resume: bool) -> int:
    """Copy all jobs, with their ids, and all queues from the database SOURCE to TARGET.

    Both are URLs, such as sqlite:///jobs.db and postgres://localhost/shop. TARGET needs River's
    tables (`riverui migrate-up`) and must have no jobs. Stop the workers before: what changes
    meanwhile may be missed. If both have the tables of riverui (`riverui migrate-up --line
    riverui`), stored charts, marks, incidents, dead letters, durable periodic jobs and decisions
    about errors are copied as well.
    """
    report = _copy(source, target, resume=resume)
    click.echo(f"Copied {report.copied:,} jobs.")
    if report.own_rows:
        click.echo(f"Copied {report.own_rows:,} rows of the tables of riverui.")
    if report.complete:
        return 0
    for state, number in report.source.items():
        if (there := report.target[state]) != number:
            click.echo(
                f"riverui: {state.value}: {number:,} in SOURCE, {there:,} in TARGET", err=True
            )
    return 1


def _copy(source: str, target: str, *, resume: bool) -> CopyReport:
    import asyncio

    from riverui.actions.copying import copy_all, counts
    from riverui.storage.connect import connect

    async def run() -> CopyReport:
        reads, writes = connect(source), connect(target)
        try:
            length = sum((await counts(reads)).values()) - sum((await counts(writes)).values())
            with click.progressbar(length=max(length, 0), label="Jobs") as bar:
                return await copy_all(reads, writes, resume=resume, copied=bar.update)
        finally:
            await reads.close()
            await writes.close()

    return asyncio.run(run())
