"""Limits for a job's texts on a page, in bytes of markup: a hidden character takes 31 of them."""

from __future__ import annotations

from riverui.web.view.format import escaped

_STEP = 500
"""Texts are cut at multiples of this many characters."""
_WIDEST = 36
"""Most bytes of markup of one character: a marked escape, or a line with its own tags."""
_LINE = 35
"""Bytes of the tags around a line."""


def markup_size(text: str) -> int:
    """Return an upper bound of the text's size in bytes when escaped line by line."""
    return len(escaped(text).encode("utf-8", "surrogatepass")) + _LINE * text.count("\n")


class Budget:
    """A budget of bytes of markup."""

    def __init__(self, size: int) -> None:
        self.left = size

    def spend(self, size: int) -> bool:
        """Spend so many bytes; if fewer are left, spend those and return False."""
        enough = size <= self.left
        self.left = self.left - size if enough else 0
        return enough

    def fit(self, text: str, most: int, *, last: bool = False) -> str:
        """Return the beginning of the text, or its `last` part, that fits into the rest of the
        budget and into `most` bytes, and spend it.

        The result is less than 500 characters shorter than it could be.
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
