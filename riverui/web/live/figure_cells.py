"""What ended of one queue and kind in a bucket, packed into bytes once nothing is added to it."""

from __future__ import annotations

from struct import Struct

from riverui.domain.figures import Tally
from riverui.domain.sketch import Sketch

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


def ended(packed: bytes) -> int:
    """Return how many jobs ended."""
    return sum(_ENDED.unpack_from(packed))


def merge(tally: Tally, packed: bytes) -> None:
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
