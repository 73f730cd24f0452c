"""The bins of a sketch as bytes: how many bytes a count takes, a byte for each bin, the counts."""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack as pack_numbers, unpack as unpack_numbers

from riverui.domain.sketch import FIRST_BIN

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
"""By how many bytes a count takes: how `struct` calls such a number."""


def pack(counts: Mapping[int, int]) -> bytes:
    """Return the bins with their counts; nothing for none."""
    if not counts:
        return b""
    bins = sorted(counts)
    most = max(counts.values())
    width = next(width for width in _FORMATS if most < 1 << 8 * width)
    numbers = pack_numbers(f"<{len(bins)}{_FORMATS[width]}", *[counts[each] for each in bins])
    return bytes((width, *[each - FIRST_BIN for each in bins])) + numbers


def unpack(data: bytes) -> dict[int, int]:
    """Return how many are in each bin; none where the bytes are not as `pack` makes them."""
    if not data or data[0] not in _FORMATS:
        return {}
    width = data[0]
    n, rest = divmod(len(data) - 1, 1 + width)
    if rest:
        return {}
    counts = unpack_numbers(f"<{n}{_FORMATS[width]}", data[1 + n :])
    return {each + FIRST_BIN: count for each, count in zip(data[1 : 1 + n], counts, strict=True)}
