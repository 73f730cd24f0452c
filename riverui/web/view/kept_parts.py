"""Cache parts of pages that are often rendered with the same values, such as menus and forms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST = 64 * 1024
"""Longest part that is cached, in characters: no menu is longer, unless its address is huge."""
_ALL = 4 * 1024 * 1024
"""Most characters of all cached parts: a hundred addresses of lists, whose menus take some 30,000.
"""


class KeptParts:
    """The recently rendered parts of one dashboard's pages, by all their inputs."""

    def __init__(self, *, most: int = _MOST, all: int = _ALL) -> None:
        self._most, self._all = most, all
        self._kept: OrderedDict[Hashable, str] = OrderedDict()
        self.size = 0
        """Characters of all cached parts."""

    def part(self, key: Hashable, draw: Callable[[], str]) -> str:
        """Return the cached part of this key, or the result of `draw`, which is then cached unless
        too long.
        """
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        drawn = draw()
        if len(drawn) <= self._most:
            self._kept[key] = drawn
            self.size += len(drawn)
            while self.size > self._all:
                _, oldest = self._kept.popitem(last=False)
                self.size -= len(oldest)
        return drawn
