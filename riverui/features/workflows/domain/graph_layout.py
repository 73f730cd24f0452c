"""Places the nodes of a graph in columns from left to right, each after all that it waits for.

Sugiyama's method: columns by the longest path to a node, bends where an edge passes columns, an
order in each column with few crossings, and heights that make edges level.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import Struct

from riverui.features.workflows.domain.graph_crossings import crossings

_MAX_BENDS = 3_000
"""Bends of all edges together; edges beyond them are straight. More would take too long, and nobody
can follow so many lines.
"""
_BEND_HEIGHT = 8.0
"""Pixels that an edge takes where it passes a column."""
_COUNTED = 1_500
"""Edges up to which crossings are counted, to keep the best of several orders."""
_ROUNDS = ((400, 8), (1_500, 4))
"""How often columns are reordered, by the number of nodes and bends; 2 rounds for more."""

Edge = tuple[int, int]
"""From a node to one that waits for it, by their positions in the list of nodes."""


class Spacing(Struct, frozen=True, kw_only=True):
    """Pixels of the drawing."""

    width: float = 196.0
    """Of each node."""
    column_gap: float = 64.0
    gap: float = 14.0
    """Between two nodes of a column."""


class Layout(Struct, frozen=True, kw_only=True):
    """The positions of all nodes and edges."""

    width: float
    height: float
    columns: Sequence[int]
    """The column of each node, from 0."""
    places: Sequence[tuple[float, float]]
    """The left and upper edge of each node."""
    routes: Sequence[Sequence[tuple[float, float]]]
    """The points of each edge, in pairs: out of a column, into the next."""


def layout(heights: Sequence[float], edges: Sequence[Edge], spacing: Spacing) -> Layout:
    """Return the positions of nodes with these heights. An edge that closes a cycle
    goes backwards.
    """
    columns = layers(len(heights), edges)
    grid = _Grid(heights, columns, edges)
    grid.put_in_order()
    middles = grid.middles(spacing.gap)
    step = spacing.width + spacing.column_gap
    top = min((middles[v] - grid.heights[v] / 2 for v in range(len(middles))), default=0.0)
    low = max((middles[v] + grid.heights[v] / 2 for v in range(len(middles))), default=0.0)
    routes = []
    for (source, target), bends in zip(edges, grid.bends, strict=True):
        points = [(columns[source] * step + spacing.width, middles[source] - top)]
        for bend in bends:
            left, middle = grid.columns[bend] * step, middles[bend] - top
            points += [(left, middle), (left + spacing.width, middle)]
        points.append((columns[target] * step, middles[target] - top))
        routes.append(points)
    return Layout(
        width=len(grid.rows) * step - spacing.column_gap if grid.rows else 0.0,
        height=low - top,
        columns=columns,
        places=[
            (column * step, middles[v] - heights[v] / 2 - top) for v, column in enumerate(columns)
        ],
        routes=routes,
    )


def layers(count: int, edges: Iterable[Edge]) -> list[int]:
    """Return the column of each node: one further than the last of those it waits for; a node
    without dependencies is placed just before the first that waits for it.
    """
    children: list[list[int]] = [[] for _ in range(count)]
    open_edges = [0] * count
    for source, target in edges:
        children[source].append(target)
        open_edges[target] += 1
    begins = [not n for n in open_edges]
    columns, queued = [0] * count, begins.copy()
    ready, forced = deque(v for v in range(count) if begins[v]), 0
    for _ in range(count):
        if not ready:
            # Only cycles are left: treat the first node of one as if it waited for nothing.
            while queued[forced]:
                forced += 1
            queued[forced] = True
            ready.append(forced)
        node = ready.popleft()
        for child in children[node]:
            if queued[child]:
                continue
            columns[child] = max(columns[child], columns[node] + 1)
            open_edges[child] -= 1
            if not open_edges[child]:
                queued[child] = True
                ready.append(child)
    for node in range(count):
        if begins[node] and children[node]:
            columns[node] = max(0, min(columns[child] for child in children[node]) - 1)
    return columns


class _Grid:
    """Nodes and bends in their columns."""

    def __init__(
        self, heights: Sequence[float], columns: Sequence[int], edges: Sequence[Edge]
    ) -> None:
        self.heights = list(heights)
        self.columns = list(columns)
        self.before: list[list[int]] = [[] for _ in heights]
        self.behind: list[list[int]] = [[] for _ in heights]
        self.bends: list[list[int]] = []
        """The points of each edge."""
        left = _MAX_BENDS
        for source, target in edges:
            span = columns[target] - columns[source]
            bends: list[int] = []
            if span > 0 and span - 1 <= left:
                left -= span - 1
                node = source
                for column in range(columns[source] + 1, columns[target]):
                    bends.append(len(self.heights))
                    self._add_bend(column)
                    self._join(node, bends[-1])
                    node = bends[-1]
                self._join(node, target)
            self.bends.append(bends)
        self.rows: list[list[int]] = [[] for _ in range(max(columns, default=-1) + 1)]
        for node, column in enumerate(self.columns):
            self.rows[column].append(node)

    def _add_bend(self, column: int) -> None:
        self.heights.append(_BEND_HEIGHT)
        self.columns.append(column)
        self.before.append([])
        self.behind.append([])

    def _join(self, source: int, target: int) -> None:
        self.behind[source].append(target)
        self.before[target].append(source)

    def put_in_order(self) -> None:
        """Sort each column by the mean position of its nodes' neighbours, back and forth, and keep
        the order with the fewest crossings.
        """
        place = [0.0] * len(self.heights)
        for row in self.rows:
            for n, node in enumerate(row):
                place[node] = n
        counted = sum(map(len, self.behind)) <= _COUNTED
        best = [row.copy() for row in self.rows]
        fewest = crossings(self.rows, self.behind, place) if counted else 0
        size = len(self.heights)
        for turn in range(next((rounds for most, rounds in _ROUNDS if size <= most), 2)):
            if counted and not fewest:
                break
            near = self.behind if turn % 2 else self.before
            for row in reversed(self.rows) if turn % 2 else self.rows:
                for node in row:
                    if joined := near[node]:
                        place[node] = sum([place[other] for other in joined]) / len(joined)
                row.sort(key=place.__getitem__)
                for n, node in enumerate(row):
                    place[node] = n
            if counted:
                found = crossings(self.rows, self.behind, place)
                if found < fewest:
                    fewest, best = found, [row.copy() for row in self.rows]
        if counted:
            self.rows = best

    def middles(self, gap: float) -> list[float]:
        """Return the vertical middle of each node and bend: as near to the middle of its neighbours
        as the others in its column allow.
        """
        middles = [0.0] * len(self.heights)
        offsets = []
        for row in self.rows:
            down, column = 0.0, []
            for node in row:
                height = self.heights[node]
                column.append(down + height / 2)
                down += height + gap
            offsets.append(column)
            for node, offset in zip(row, column, strict=True):
                middles[node] = offset - down / 2
        places = range(len(self.rows))
        small = len(self.heights) <= _ROUNDS[-1][0]
        for turn in range(6 if small else 3):
            near = self.behind if turn % 2 else self.before
            for n in reversed(places) if turn % 2 else places:
                row = self.rows[n]
                wanted = [
                    (sum([middles[other] for other in near[node]]) / len(near[node]))
                    if near[node]
                    else middles[node]
                    for node in row
                ]
                for node, middle in zip(row, _settled(wanted, offsets[n]), strict=True):
                    middles[node] = middle
        return middles


def _settled(wanted: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Return positions as near to the wanted ones as possible (least squares), each at least as far
    from the one before as the offsets: isotonic regression by pooling adjacent violators.
    """
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean = (mean * count + other * size) / (count + size)
            count += size
        blocks.append((mean, count))
    means = (mean for mean, count in blocks for _ in range(count))
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
