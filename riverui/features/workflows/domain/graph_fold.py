"""Folds similar nodes of a graph into one, and finds the critical path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from riverui.features.workflows.domain.graph_layout import Edge, layers

_ROUNDS = 4
"""How often groups are split by their neighbours: the distance up to which differences count. Each
round reads every edge.
"""


def fold(
    labels: Sequence[Hashable], edges: Sequence[Edge], *, least: int, keep: Iterable[int] = ()
) -> list[list[int]]:
    """Return the nodes in groups: nodes of a group have the same label, wait for the same groups
    and are waited for by the same groups.

    A group of fewer than `least` is split into single nodes, as are the nodes of `keep`. Groups and
    nodes are in the order of their first node.
    """
    twins, before, behind = _twins(labels, edges, keep)
    # From now on one node of each set of twins stands for all of them.
    joined = [(source, target) for target, sources in enumerate(before) for source in sources]
    ahead = layers(len(twins), joined)
    back = layers(len(twins), [(target, source) for source, target in joined])
    kept = {node: n for n, node in enumerate(keep)}
    # Including the distances from start and end prevents groups that wait for themselves.
    colours = _named(
        (labels[twin[0]], ahead[n], back[n], kept.get(twin[0], -1)) for n, twin in enumerate(twins)
    )
    number = len(set(colours))
    for _ in range(_ROUNDS):
        finer = _named(
            (
                colours[n],
                frozenset([colours[other] for other in before[n]]),
                frozenset([colours[other] for other in behind[n]]),
            )
            for n in range(len(twins))
        )
        found = len(set(finer))
        if found == number:
            break
        colours, number = finer, found
    groups: dict[int, list[int]] = {}
    for colour, twin in zip(colours, twins, strict=True):
        groups.setdefault(colour, []).extend(twin)
    apart: list[list[int]] = []
    for group in groups.values():
        apart += [sorted(group)] if len(group) >= least else [[node] for node in group]
    return sorted(apart)


def _twins(
    labels: Sequence[Hashable], edges: Sequence[Edge], keep: Iterable[int]
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return the nodes that have the same label and exactly the same neighbours as lists, and for
    each list its predecessors and successors.
    """
    before: list[list[int]] = [[] for _ in labels]
    behind: list[list[int]] = [[] for _ in labels]
    for source, target in edges:
        behind[source].append(target)
        before[target].append(source)
    kept = {node: n for n, node in enumerate(keep)}
    numbers = _named(
        (label, kept.get(node, -1), tuple(before[node]), tuple(behind[node]))
        for node, label in enumerate(labels)
    )
    twins: list[list[int]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for node, number in enumerate(numbers):
        twins[number].append(node)

    def of_first(near: Sequence[Sequence[int]]) -> list[list[int]]:
        return [list(dict.fromkeys(numbers[other] for other in near[twin[0]])) for twin in twins]

    return twins, of_first(before), of_first(behind)


def folded_edges(groups: Sequence[Sequence[int]], edges: Iterable[Edge]) -> dict[Edge, int]:
    """Return the edges between groups, each with the number of edges it stands for. Edges of nodes
    in no group are left out.
    """
    group_of = {node: n for n, group in enumerate(groups) for node in group}
    found = Counter(
        (group_of[source], group_of[target])
        for source, target in edges
        if source in group_of and target in group_of
    )
    return {edge: number for edge, number in found.items() if edge[0] != edge[1]}


def longest_way(weights: Sequence[float], edges: Sequence[Edge]) -> list[int]:
    """Return the nodes of the path through the graph with the largest sum of weights, in order.
    Edges that close a cycle are ignored.
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
    """Return a number for each key; equal keys get the same number."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
