"""How much of a job's text a page takes, counted in bytes of markup: a hidden character takes 31 of
them.
"""

from __future__ import annotations

from riverui.web.view.format import escaped

_STEP = 500
"""Characters that are taken or left together."""
_WIDEST = 36
"""Bytes of markup that one character takes at most: a marked escape, or a line with tags of its
own.
"""
_LINE = 35
"""Bytes of the tags around a line."""


def markup_size(text: str) -> int:
    """Return how many bytes the text takes at most once it is escaped, line by line."""
    return len(escaped(text).encode("utf-8", "surrogatepass")) + _LINE * text.count("\n")


class Budget:
    """What is left of so many bytes of markup."""

    def __init__(self, size: int) -> None:
        self.left = size

    def spend(self, size: int) -> bool:
        """Take so many bytes; False, and nothing is left, where there were fewer."""
        enough = size <= self.left
        self.left = self.left - size if enough else 0
        return enough

    def fit(self, text: str, most: int, *, last: bool = False) -> str:
        """Return the beginning of the text, or its `last` part, that fits into what is left and
        into `most`.

        It is spent. What is left over is fewer than 500 characters short of what would have fitted.
        """
        room = min(most, self.left)
        if len(text) * _WIDEST <= room:
            self.left -= markup_size(text)
            return text
        taken = 0
        while taken < len(text):
            piece = (
                text[max(len(text) - taken - _STEP, 0) : len(text) - taken]
                if last
                else text[taken : taken + _STEP]
            )
            size = markup_size(piece)
            if size > room:
                break
            room -= size
            self.left -= size
            taken += len(piece)
        return text[len(text) - taken :] if last else text[:taken]
