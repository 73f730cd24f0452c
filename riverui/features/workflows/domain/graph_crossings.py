"""Counts how often the edges of a drawing cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence


def crossings(
    rows: Sequence[Sequence[int]], behind: Sequence[Sequence[int]], place: Sequence[float]
) -> int:
    """Return how many pairs of edges between neighbouring columns cross. `rows` are the columns in
    order, `behind` the successors of each node, `place` its position in its column.
    """
    found = 0
    for row in rows:
        ends: list[float] = []
        for node in row:
            targets = [place[target] for target in behind[node]]
            # Every edge that starts further up and ends further down crosses this one.
            found += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return found
