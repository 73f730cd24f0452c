"""The bins of a sketch as bytes: the number of bytes of a count, a byte for each bin, the counts;
or a zero, and a byte for each single value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from struct import pack as pack_numbers, unpack as unpack_numbers

from riverui.domain.sketch import FIRST_BIN

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""The format of `struct` for a count of so many bytes."""


def pack(counts: Mapping[int, int]) -> bytes:
    """Return the bins with their counts as bytes; none for no bins."""
    if not counts:
        return b""
    bins = sorted(counts)
    most = max(counts.values())
    width = next(width for width in _FORMATS if most < 1 << 8 * width)
    numbers = pack_numbers(f"<{len(bins)}{_FORMATS[width]}", *[counts[each] for each in bins])
    return bytes((width, *[each - FIRST_BIN for each in bins])) + numbers


def unpack(data: bytes | None) -> dict[int, int]:
    """Return how many values are in each bin; none for bytes of another format."""
    if not data:
        return {}
    width, rest = data[0], data[1:]
    if not width:
        return {each + FIRST_BIN: n for each, n in Counter(rest).items()}
    if width not in _FORMATS or len(rest) % (1 + width):
        return {}
    n = len(rest) // (1 + width)
    counts = unpack_numbers(f"<{n}{_FORMATS[width]}", rest[n:])
    return {each + FIRST_BIN: count for each, count in zip(rest[:n], counts, strict=True)}
