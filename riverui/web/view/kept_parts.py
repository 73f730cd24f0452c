"""Parts of pages that are drawn of the same things again and again, such as menus and forms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST = 64 * 1024
"""Characters of a part that is kept: no menu has as many, unless its address is enormous."""
_ALL = 4 * 1024 * 1024
"""Characters of all of them: a hundred addresses of lists, as their menus take some 30,000."""


class KeptParts:
    """The parts of one dashboard's pages that were drawn lately, by all that they are made of."""

    def __init__(self, *, most: int = _MOST, all: int = _ALL) -> None:
        self._most, self._all = most, all
        self._kept: OrderedDict[Hashable, str] = OrderedDict()
        self.size = 0
        """Characters of what is kept."""

    def part(self, key: Hashable, draw: Callable[[], str]) -> str:
        """Return what was drawn for this key, else what `draw` gives, which may then be kept."""
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
