"""`python -m bench.incidents`: scores the health report, and writes the table of its page."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import click

from bench.incidents.causes import BEFORE, CAUSES, ODDITIES
from bench.incidents.play import MINUTES, Result, Server, possible
from bench.incidents.reports import READERS
from bench.incidents.score import score
from riverui.demo.postgres import EmbeddedPostgres

PAGE = Path("docs/dashboard/health-score.md")
_ODDITIES = 4
"""Oddities that are played on each background."""
_MOST_TIMES = 10
"""How many times as many backgrounds are tried at most, for incidents that few can have."""


@click.command()
@click.option("--backgrounds", "-n", default=50, help="How many random backgrounds.")
@click.option("--first", default=0, help="The seed of the first background.")
@click.option(
    "--cause", "names", multiple=True, type=click.Choice([*CAUSES, *ODDITIES]), help="Only these."
)
@click.option("--minutes", multiple=True, type=int, default=MINUTES, help="Only so long ago.")
@click.option(
    "--reader",
    "readers",
    multiple=True,
    type=click.Choice(list(READERS)),
    help="By these; by default each case by one of them in turn.",
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
        plan = dict.fromkeys(seeds, names) if names else _plan(seeds)
        one = partial(play, url, tuple(sorted(minutes)), tuple(readers))
        for found in pool.map(one, plan, plan.values()):
            results += found
            for result in found:
                if verbose or (misses and (result.wrong or (result.shown and not result.right))):
                    click.echo(words(result))
    table = score(results)
    click.echo(table)
    click.echo(f"{time.monotonic() - began:.0f} s", err=True)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, _ = text.partition("<!-- score -->")
        PAGE.write_text(f"{before}<!-- score -->\n\n{table}", encoding="utf-8")


def play(
    url: str, minutes: Sequence[int], readers: Sequence[str], seed: int, names: Sequence[str]
) -> list[Result]:
    """Return the results of these cases on one background."""

    async def played() -> list[Result]:
        server = Server(url, f"bench_incidents_{os.getpid()}")
        await server.prepare()
        try:
            found = []
            for number, name in enumerate(names, seed):
                turn = readers or [list(READERS)[number % len(READERS)]]
                found += await server.play(name, seed, minutes, turn)
            return found
        finally:
            await server.close()

    return asyncio.run(played())


def _plan(seeds: range) -> Mapping[int, Sequence[str]]:
    """Return what is played on each background: all incidents and some oddities, and on further
    ones those incidents that some of the first cannot have, so that each has as many backgrounds.
    """
    plan: dict[int, Sequence[str]] = {}
    wanted = Counter({name: len(seeds) for name in CAUSES})
    for seed in range(seeds.start, seeds.start + _MOST_TIMES * len(seeds)):
        found = [name for name in CAUSES if wanted[name] > 0 and possible(name, seed)]
        wanted.subtract(found)
        if seed in seeds:
            odd = Random(f"oddities {seed}").sample(sorted(ODDITIES), _ODDITIES)
            # Last those for which the background is written anew.
            plan[seed] = [*CAUSES, *sorted(odd, key=lambda name: name in BEFORE)]
        elif found:
            plan[seed] = found
    return plan


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
