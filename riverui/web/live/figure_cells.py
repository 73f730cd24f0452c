"""What ended by queue and kind: added up, kept to the biggest, packed once nothing is added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

from riverui.domain.figures import OTHER, Tally
from riverui.domain.sketch import Sketch

Pair = tuple[str, str]
"""A queue and a kind."""
Cells = dict[Pair, Tally]

_QUEUES = 50
"""Queues of which the kinds that are not told apart are told together, beside the pairs."""

BUCKET_BYTES = 200_000
"""That the packed cells of one bucket may take: 200 pairs have some 100,000 where their jobs take
as different times as jobs do. The 220 buckets of a collector then take 44 MB at most.
"""

_ENDED = Struct("<3q")
"""Completed, cancelled and discarded jobs; then come the three sketches."""
_SKETCH = Struct("<2qH")
"""The sum and the longest of a sketch, and how many bins follow."""
_BIN = Struct("<HQ")
"""A bin and how many spans fell into it."""


def pack(tally: Tally) -> bytes:
    """Return the ended jobs of a tally, with runs and waits, as bytes."""
    parts = [_ENDED.pack(tally.completed, tally.cancelled, tally.discarded)]
    for sketch in (tally.run, tally.failed_run, tally.wait):
        parts.append(_SKETCH.pack(sketch.sum_us, sketch.max_us, len(sketch.counts)))
        parts += [_BIN.pack(*counted) for counted in sketch.counts.items()]
    return b"".join(parts)


def pack_cells(cells: Cells, most: int) -> tuple[Cells, dict[Pair, bytes]]:
    """Return at most so many pairs apart, as `fold` does, or fewer where they take too many bytes;
    and the same packed.
    """
    kept = fold(cells, most)
    packed = {pair: pack(tally) for pair, tally in kept.items()}
    while sum(map(len, packed.values())) > BUCKET_BYTES:
        most = most * 3 // 4
        kept = fold(kept, most)
        packed = {pair: pack(tally) for pair, tally in kept.items()}
    return kept, packed


def merge_packed(tally: Tally, packed: bytes) -> None:
    """Count what was packed."""
    completed, cancelled, discarded = _ENDED.unpack_from(packed)
    tally.completed += completed
    tally.cancelled += cancelled
    tally.discarded += discarded
    place = _ENDED.size
    for sketch in (tally.run, tally.failed_run, tally.wait):
        place = _merge_sketch(sketch, packed, place)


def _merge_sketch(sketch: Sketch, packed: bytes, place: int) -> int:
    sum_us, max_us, bins = _SKETCH.unpack_from(packed, place)
    place += _SKETCH.size
    end: int = place + bins * _BIN.size
    counts = sketch.counts
    for found, n in _BIN.iter_unpack(packed[place:end]):
        counts[found] = counts.get(found, 0) + n
    sketch.sum_us += sum_us
    sketch.max_us = max(sketch.max_us, max_us)
    return end


def fits(pair: Pair, queue: str, kind: str) -> bool:
    """Return whether a pair is of this queue and this kind; an empty name is any."""
    return (not queue or pair[0] == queue) and (not kind or pair[1] == kind)


def cell(cells: Cells, pair: Pair) -> Tally:
    """Return the tally of a pair, a new one where there was none."""
    if (tally := cells.get(pair)) is None:
        tally = cells[pair] = Tally()
    return tally


def merge_cells(cells: Cells, others: Mapping[Pair, Tally]) -> None:
    """Count what others have counted."""
    for pair, tally in others.items():
        cell(cells, pair).merge(tally)


def fold(cells: Cells, most: int) -> Cells:
    """Return at most so many pairs apart, those with the most ends and failures; the other kinds
    are told as `OTHER` of their queue, and of queues that have none of those pairs as `OTHER` too.
    """
    if len(cells) <= most:
        return cells
    named = [pair for pair in cells if pair[1] != OTHER]
    named.sort(key=lambda pair: -(cells[pair].ended + cells[pair].failed))
    kept = {pair: cells[pair] for pair in named[:most]}
    queues = _queues(kept)
    for pair in cells.keys() - kept.keys():
        cell(kept, _rest(pair, queues)).merge(cells[pair])
    return kept


def _queues(pairs: Iterable[Pair]) -> set[str]:
    """Return the first queues of these pairs: those whose other kinds are told by themselves."""
    return set(list(dict.fromkeys(queue for queue, _ in pairs))[:_QUEUES])


def _rest(pair: Pair, queues: set[str]) -> Pair:
    return (pair[0] if pair[0] in queues else OTHER, OTHER)


def limit_counts(counts: dict[Pair, int], most: int) -> None:
    """Keep at most so many pairs apart, the biggest; the others are told as `OTHER`."""
    if len(counts) <= 2 * most:
        return
    ranked = sorted(counts, key=lambda pair: -counts[pair])
    queues = _queues(ranked[:most])
    for pair in ranked[most:]:
        rest = _rest(pair, queues)
        if pair != rest:
            counts[rest] = counts.get(rest, 0) + counts.pop(pair)
