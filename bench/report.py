"""Prints figures beside their targets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.cases import SEARCH, Case
from bench.measure import Result
from bench.page_times import FirstRequest, PageTime

NOISE = 0.5
"""Milliseconds that a bigger table may add before growth counts: runs of one query differ by as
much.
"""
GROWTH = 1.5
"""How many times longer a quick query may take on the bigger table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A target: what was measured, what was wanted, and whether it is met."""

    name: str
    measured: str
    target: str
    met: bool


def check(
    name: str,
    value: float,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    unit: str = "",
) -> Check:
    """Return a Check against one bound."""
    bound, sign = (at_most, "≤") if at_most is not None else (at_least, "≥")
    assert bound is not None
    met = value <= bound if at_most is not None else value >= bound
    return Check(
        name=name, measured=f"{value:.3g}{unit}", target=f"{sign} {bound:g}{unit}", met=met
    )


def queries(results: Mapping[str, Mapping[int, Result]], cases: Sequence[Case]) -> list[str]:
    """Return the table of queries: every size, River UI's form at the biggest, marks where a target
    is missed.
    """
    sizes = list(results[cases[0].key])
    head = [
        f"{'milliseconds, median':36}",
        *(f"{_size(size):>8}" for size in sizes),
        "  growth",
        "  River UI",
        "  ratio",
    ]
    lines = ["".join([*head, "  target"])]
    for case in cases:
        by_size = results[case.key]
        big = by_size[sizes[-1]]
        times = "".join(f"{by_size[size].ours.median:8.2f}" for size in sizes)
        growths = [growth(by_size, *pair) for pair in itertools.pairwise(sizes)]
        rival = f"{big.river_ui.median:10.1f}{_ratio(big):7.1f}" if big.river_ui else " " * 17
        marks = "" if big.ours.median <= case.target else f"  ✗ {case.target:g} ms"
        if case.target < SEARCH and any(growth > GROWTH for growth in growths):
            marks += "  ✗ grows" + " with the backlog" * case.backlog
        lines.append(f"{case.key:36}{times}{max(growths, default=1.0):8.2f}{rival}{marks or '  ✓'}")
    return lines


def growth(by_size: Mapping[int, Result], small: int, big: int) -> float:
    """Return how many times longer the query takes on the bigger table, beyond noise."""
    return max(by_size[big].ours.median - NOISE, 0.0) / max(by_size[small].ours.median, 1e-3)


def checks(lines: Iterable[Check]) -> list[str]:
    """Return one line for each target."""
    return [
        f"{'✓' if line.met else '✗'} {line.name:78}{line.measured:>12}  {line.target}"
        for line in lines
    ]


def _ratio(result: Result) -> float:
    assert result.river_ui is not None
    return result.river_ui.median / result.ours.median


def _size(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1000}k"


def page_times(times: Iterable[PageTime]) -> list[str]:
    """Return the table of pages."""
    head = f"{'milliseconds, least':24}{'Python':>8}{'database':>10}{'kB':>8}"
    return [
        head,
        *(
            f"{page.name:24}{page.python:8.2f}{page.database:10.2f}{page.bytes / 1000:8.0f}"
            for page in times
        ),
    ]


def first_requests(found: Iterable[FirstRequest]) -> list[str]:
    """Return the table of first requests."""
    return [
        f"{'milliseconds, median':24}{'first':>8}{'next':>10}",
        *(f"{page.name:24}{page.first:8.2f}{page.next:10.2f}" for page in found),
    ]
