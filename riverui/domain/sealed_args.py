"""Encrypted args in the database, as seen without the keys: an object with one key,
`river_encrypt`, as in River Pro. `features/encryption` reads its value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SEALED = "river_encrypt"
"""The key of sealed args: River Pro's."""

_BEGIN = re.compile(rf'\s*\{{\s*"{SEALED}"\s*:\s*"([^"\\]*)("?)')
_WHOLE = re.compile(rf'\s*\{{\s*"{SEALED}"\s*:\s*"([^"\\]*)"\s*\}}\s*', re.DOTALL)


class OpenedArgs(str):
    """Args that were sealed: hidden when a row is printed, and in errors about them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(opened args)'"


class SealedArgs(NamedTuple):
    """What can be seen of sealed args without a key."""

    bytes: int | None
    """Number of sealed bytes; None if the text was cut."""

    @property
    def words(self) -> str:
        """Return the words that lists show."""
        if self.bytes is None:
            return "sealed"
        return f"sealed: {self.bytes:,} {'byte' if self.bytes == 1 else 'bytes'}"


def sealed_args(text: str, size: int | None = None) -> SealedArgs | None:
    """Return what can be seen of sealed args, None for other args. `size` is that of the whole text
    if this one is cut.
    """
    if SEALED not in text[:40] or (found := _BEGIN.match(text)) is None:
        return None
    # A list's preview ends a cut value with dots, which base64 does not contain.
    value, whole = found[1], bool(found[2]) and not found[1].endswith("...")
    if not whole and size is None:
        return SealedArgs(None)
    # A cut text lacks the rest of the value, a quote and a brace.
    length = len(value) if whole else size - found.start(1) - 2  # type: ignore[operator]
    padding = len(value) - len(value.rstrip("=")) if whole else 0
    return SealedArgs(max(length * 3 // 4 - padding, 0))


def args_preview(text: str) -> str:
    """Return args as lists show them: a few words for sealed ones."""
    sealed = sealed_args(text)
    return text if sealed is None else sealed.words


def sealed_value(text: str) -> str | None:
    """Return the sealed value of these whole args, None for args that are not sealed."""
    if SEALED not in text or (found := _WHOLE.fullmatch(text)) is None:
        return None
    return found[1]


def is_sealed(text: str) -> bool:
    """Return whether these whole args are sealed."""
    return sealed_value(text) is not None
