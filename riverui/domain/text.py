"""Text for people: counts, and text from jobs made safe to show."""

from __future__ import annotations

import re

# C0 and C1 controls, marks that turn or hide text, line separators and lone surrogates. Zero-width
# joiners stay: emoji and several scripts need them.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Characters that nobody sees, or that change how others are seen."""

_ATTRIBUTE = 2_000
"""Characters of a text that an attribute takes."""


def code_point(match: re.Match[str]) -> str:
    """Return a character that was found as its escape."""
    return f"\\u{ord(match[0]):04x}"


def plain(text: object, limit: int = _ATTRIBUTE) -> str:
    """Return text for an attribute: hidden characters are escapes, and it is cut to `limit`
    characters.
    """
    shown = str(text)
    if len(shown) > limit:
        shown = f"{shown[:limit]}… ({len(shown) - limit:,} more characters)"
    return shown if shown.isprintable() else HIDDEN.sub(code_point, shown)


def counted(count: int, noun: str, cap: int | None = None) -> str:
    """Return a number of things that were counted up to a cap: "1 job", "1,203 jobs", "at least
    1,000 jobs".
    """
    words = f"{count:,} {noun}{'' if count == 1 else 's'}"
    return f"at least {words}" if cap is not None and count >= cap else words
