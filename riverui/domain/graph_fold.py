"""Folds what is alike in a graph into one node, and finds the way through it that takes longest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from riverui.domain.graph_layout import Edge, layers

_ROUNDS = 4
"""How often groups are split by what they are joined to: that far from a node a difference may be
that counts. Each round looks at every edge.
"""


def fold(
    labels: Sequence[Hashable], edges: Sequence[Edge], *, least: int, keep: Iterable[int] = ()
) -> list[list[int]]:
    """Return the nodes in groups: together stand those of the same label that wait for groups alike
    and that groups alike wait for.

    A group of fewer than `least` is left apart, node by node, and so are the nodes of `keep`.
    Groups and nodes come in the order of their first node.
    """
    count = len(labels)
    before: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        behind[source].append(target)
        before[target].append(source)
    # By how far a node is from the beginning and from the end, no group waits for itself.
    ahead = layers(count, edges)
    back = layers(count, [(target, source) for source, target in edges])
    alone = {node: n for n, node in enumerate(keep)}
    colours = _named(
        (label, ahead[node], back[node], alone.get(node, -1)) for node, label in enumerate(labels)
    )
    number = len(set(colours))
    for _ in range(_ROUNDS):
        finer = _named(
            (
                colours[node],
                frozenset([colours[other] for other in before[node]]),
                frozenset([colours[other] for other in behind[node]]),
            )
            for node in range(count)
        )
        found = len(set(finer))
        if found == number:
            break
        colours, number = finer, found
    sizes = Counter(colours)
    groups: dict[Hashable, list[int]] = {}
    for node, colour in enumerate(colours):
        key: Hashable = colour if sizes[colour] >= least else ("alone", node)
        groups.setdefault(key, []).append(node)
    return list(groups.values())


def folded_edges(groups: Sequence[Sequence[int]], edges: Iterable[Edge]) -> dict[Edge, int]:
    """Return the edges between groups, each with how many edges it stands for."""
    group_of = {node: n for n, group in enumerate(groups) for node in group}
    found: Counter[Edge] = Counter()
    for source, target in edges:
        edge = group_of[source], group_of[target]
        if edge[0] != edge[1]:
            found[edge] += 1
    return dict(found)


def longest_way(weights: Sequence[float], edges: Sequence[Edge]) -> list[int]:
    """Return the nodes of the way through the graph whose weights add up to the most, in order.
    Edges that close a circle are left out.
    """
    count = len(weights)
    columns = layers(count, edges)
    before: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if columns[source] < columns[target]:
            before[target].append(source)
    total, came_from = list(weights), [-1] * count
    for node in sorted(range(count), key=columns.__getitem__):
        for other in before[node]:
            if total[other] + weights[node] > total[node]:
                total[node], came_from[node] = total[other] + weights[node], other
    if not count:
        return []
    node = max(range(count), key=total.__getitem__)
    way = [node]
    while came_from[node] >= 0:
        node = came_from[node]
        way.append(node)
    return way[::-1]


def _named(keys: Iterable[Hashable]) -> list[int]:
    """Return a number for each key, the same for the same."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
