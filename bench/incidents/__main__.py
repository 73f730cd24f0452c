"""`python -m bench.incidents`: scores the health report, and writes the table of its page."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from bench.incidents.causes import CAUSES, ODDITIES
from bench.incidents.play import MINUTES, Result, Server
from bench.incidents.reports import READERS
from bench.incidents.score import score
from riverui.demo.postgres import EmbeddedPostgres

PAGE = Path("docs/dashboard/health-score.md")
_NAMES = (*CAUSES, *ODDITIES)


@click.command()
@click.option("--backgrounds", "-n", default=50, help="How many random backgrounds.")
@click.option("--first", default=0, help="The seed of the first background.")
@click.option("--cause", "names", multiple=True, type=click.Choice(_NAMES), help="Only these.")
@click.option("--minutes", multiple=True, type=int, default=MINUTES, help="Only so long ago.")
@click.option(
    "--reader", "readers", multiple=True, type=click.Choice(list(READERS)), default=tuple(READERS)
)
@click.option("--verbose", "-v", is_flag=True, help="Print what each report said.")
@click.option("--misses", is_flag=True, help="Print what the reports said that were not right.")
@click.option("--jobs", "-j", default=os.cpu_count() or 1, help="Processes.")
@click.option("--write", is_flag=True, help=f"Write the table into {PAGE}.")
def main(
    backgrounds: int,
    first: int,
    names: Sequence[str],
    minutes: Sequence[int],
    readers: Sequence[str],
    verbose: bool,
    misses: bool,
    jobs: int,
    write: bool,
) -> None:
    """Play incidents on random backgrounds, and score what the health report says."""
    began = time.monotonic()
    results: list[Result] = []
    with ExitStack() as stack:
        url = os.environ.get("DATABASE_URL", "")
        if not url:
            binaries = os.environ.get("RIVERUI_PG_BIN")
            url = stack.enter_context(
                EmbeddedPostgres(None, durable=False, binaries=Path(binaries) if binaries else None)
            ).url
        pool = stack.enter_context(ProcessPoolExecutor(max_workers=jobs))
        seeds = range(first, first + backgrounds)
        one = partial(
            play, url, tuple(names or _NAMES), tuple(sorted(minutes)), tuple(readers or READERS)
        )
        for found in pool.map(one, seeds):
            results += found
            for result in found:
                if verbose or (misses and (result.wrong or (result.shown and not result.right))):
                    click.echo(words(result))
    table = score(results, backgrounds=backgrounds)
    click.echo(table)
    click.echo(f"{time.monotonic() - began:.0f} s", err=True)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, _ = text.partition("<!-- score -->")
        PAGE.write_text(f"{before}<!-- score -->\n\n{table}", encoding="utf-8")


def play(
    url: str, names: Sequence[str], minutes: Sequence[int], readers: Sequence[str], seed: int
) -> list[Result]:
    """Return the results of all cases on one background."""

    async def played() -> list[Result]:
        server = Server(url, f"bench_incidents_{os.getpid()}")
        await server.prepare()
        try:
            found = []
            for name in names:
                found += await server.play(name, seed, minutes, readers)
            return found
        finally:
            await server.close()

    return asyncio.run(played())


def words(result: Result) -> str:
    """Return a result in some lines."""
    mark = "✓" if result.right else "·" if result.healthy and not result.wrong else "✗"
    shown = "" if result.shown or result.healthy else " (not shown)"
    lines = [
        f"{mark} {result.name} {result.seed}, {result.minutes} min, {result.reader}{shown}:"
        f" {' '.join(result.names)}",
        f"    {result.headline}",
    ]
    for problem in result.problems:
        false = " FALSE" if problem.cause in result.wrong else ""
        lines.append(f"    {problem.cause}{false}: {problem.words[:200]}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
