"""`riverui bench`, with the flags and the output of River's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.settings import choose, database_url, settings_options
from riverui.errors import ConfigError

if TYPE_CHECKING:
    from riverui.storage.interface import Driver


@settings_options("database_url", "schema")
@click.command("bench")
@click.option(
    "--duration",
    default="",
    metavar="TIME",
    help="Stop after this time, such as 1m. Without it, run until stopped.",
)
@click.option(
    "--num-total-jobs",
    "-n",
    default=0,
    type=click.IntRange(min=0),
    metavar="N",
    help="Insert N jobs, work them, and stop. Without it, insert and work continuously.",
)
@click.option("--yes", is_flag=True, help="Empty river_job, even if it holds jobs or is in use.")
@click.pass_obj
def bench(
    environ: Mapping[str, str], /, duration: str, num_total_jobs: int, yes: bool, **flags: Any
) -> int:
    """Measure how many jobs per second this machine and database can work.

    EMPTIES river_job first. Fails if it has other jobs, or if a client is working on this database,
    unless --yes is given.
    """
    import asyncio

    from riverui.domain.time import go_duration
    from riverui.engine.event_loop import loop_factory, spare_collector
    from riverui.storage.connect import connect

    values = choose(flags, environ)
    try:
        seconds = go_duration(duration).total_seconds() if duration else 0.0
    except ValueError:
        raise ConfigError(f"--duration {duration}: write it like 30s or 1m") from None
    driver = connect(database_url(values, environ), schema=values.text("schema") or None)
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(driver, num_total_jobs, seconds, consent=yes))
    return 0


async def _run(driver: Driver, total: int, duration: float, *, consent: bool) -> None:
    from riverui.cli.bench_runs import Benchmark

    try:
        benchmark = Benchmark(driver, say=click.echo)
        await benchmark.empty_table(consent=consent)
        await benchmark.run(total=total, duration=duration)
    finally:
        await driver.close()
