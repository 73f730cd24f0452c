"""`riverui partition-index`: the index by which jobs of a partition are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, database_url, settings_options
from riverui.errors import ConfigError, NotSupported

if TYPE_CHECKING:
    from riverui.domain.partitions import Partition

_MAX_HOURS = 24
"""Time limit in hours for building the index: a billion jobs take several."""


@settings_options("database_url", "schema")
@click.command("partition-index")
@click.option(
    "--by-args",
    multiple=True,
    metavar="NAME",
    help="Partition by this arg, as named in the JSON; may be given several times.",
)
@click.option("--by-all-args", is_flag=True, help="Partition by all args.")
@click.option("--by-kind", is_flag=True, help="Partition by kind.")
@click.option("--drop", is_flag=True, help="Drop the index instead of making it.")
@click.pass_obj
def partition_index(
    environ: Mapping[str, str],
    /,
    by_args: tuple[str, ...],
    by_all_args: bool,
    by_kind: bool,
    drop: bool,
    **flags: Any,
) -> int:
    """Build the index by which fair shares and limits find the jobs of each partition.

    With it, jobs of one partition are found behind any number of jobs of another. It is built
    concurrently and contains available jobs only. Give the same partition as in the queue's
    settings.
    """
    from riverui.domain.partitions import Partition

    if by_args and by_all_args:
        raise ConfigError("--by-args and --by-all-args exclude each other.")
    partition = Partition(by_args=by_args if by_args or by_all_args else None, by_kind=by_kind)
    if partition.whole:
        raise ConfigError("Give the partition: --by-args, --by-all-args or --by-kind.")
    changed = _change(environ, flags, partition, drop=drop)
    index = f"{partition.index_name}, jobs by {partition.words}"
    if not changed:
        click.echo(f"Nothing to do: there is {'no ' if drop else ''}{index}.")
    else:
        click.echo(f"{'Dropped' if drop else 'Created'} {index}.")
    return 0


def _change(
    environ: Mapping[str, str], flags: Mapping[str, Any], partition: Partition, *, drop: bool
) -> bool:
    """Create or drop the index; return whether anything changed."""
    import asyncio
    from datetime import timedelta

    from riverui.storage.connect import connect
    from riverui.storage.interface import WORKING
    from riverui.storage.stores.candidates import CandidateStore

    values = choose(flags, environ)
    driver = connect(
        database_url(values, environ), schema=values.text("schema") or None, max_size=1
    )

    async def run() -> bool:
        try:
            async with WORKING.on(driver).session(timeout=timedelta(hours=_MAX_HOURS)) as session:
                indexes = CandidateStore(session)
                there = partition.index_name in await indexes.partition_index_list()
                if drop:
                    await indexes.partition_index_drop(partition)
                elif not there:
                    await indexes.partition_index_create(partition)
                return there if drop else not there
        finally:
            await driver.close()

    try:
        return asyncio.run(run())
    except NotSupported as error:
        raise ConfigError(str(error)) from None
