"""What is told of a span of time of which both rows and clients tell: never both for one queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from riverui.domain.figures import OTHER, Tally
from riverui.domain.rollups import Pair

_SHARE = 0.99
"""Of a queue's ends by rows, which clients must have told to be taken at their word: a job or two
may end between two readings. Otherwise others work the queue too, Go's clients perhaps.
"""
_SHARE_OF_SAMPLE = 0.9
"""The same where rows were read in samples: by chance they tell of some too many."""

Cells = Mapping[Pair, Tally]


def queues_of_clients(rows: Cells, clients: Cells, *, sampled: bool) -> frozenset[str]:
    """Return the queues whose ends are told by clients."""
    by_rows, by_clients = _ended(rows), _ended(clients)
    share = _SHARE_OF_SAMPLE if sampled else _SHARE
    # Queues that are not told apart may be any.
    named = by_clients.keys() - {OTHER}
    if OTHER in by_rows:
        named &= by_rows.keys()
    return frozenset(
        queue
        for queue in named
        if by_clients[queue] and by_clients[queue] >= share * by_rows.get(queue, 0)
    )


def ends_of(rows: Cells, clients: Cells, *, sampled: bool) -> dict[Pair, Tally] | None:
    """Return the ends by the better source of each queue, each a tally of its own without failures;
    None where those of the rows stay.
    """
    queues = queues_of_clients(rows, clients, sampled=sampled)
    if not queues:
        return None
    ends = {pair: tally for pair, tally in rows.items() if pair[0] not in queues}
    for pair, tally in clients.items():
        if pair[0] in queues:
            ends[pair] = replace(tally.copy(), failed=0, snoozed=0, interrupted=0, inserted=0)
    return ends


def failures_of(rows: Mapping[Pair, int], clients: Mapping[Pair, int]) -> Mapping[Pair, int]:
    """Return the failed attempts that began in a span of time, as whoever knows of more tells: rows
    that are gone tell of none, and clients of none that took long.
    """
    if not clients or any(kind == OTHER for _, kind in (*rows, *clients)):
        # One may tell apart what the other does not.
        return rows
    return {pair: max(rows.get(pair, 0), clients.get(pair, 0)) for pair in {**rows, **clients}}


def _ended(cells: Cells) -> dict[str, int]:
    ended: dict[str, int] = {}
    for (queue, _), tally in cells.items():
        ended[queue] = ended.get(queue, 0) + tally.ended
    return ended
