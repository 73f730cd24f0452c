"""Text for people: counts, and text from jobs made safe to show."""

from __future__ import annotations

import re

# C0 and C1 controls, marks that turn or hide text, line separators and lone surrogates. Zero-width
# joiners stay: emoji and several scripts need them.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Characters that are invisible, or change how others are displayed."""

_ATTRIBUTE = 2_000
"""Maximum characters of an attribute."""

_STARTED = re.compile(r"_\d{4}_\d\d_\d\dT\d\d_\d\d_\d\d_\d{6}$")
_DOMAIN = re.compile(
    r"[._](?:[a-z0-9-]{1,63}[._]){0,8}(?:internal|local|localdomain|lan|com|net|org|io)$", re.I
)


def code_point(match: re.Match[str]) -> str:
    """Return the escape of a matched character."""
    return f"\\u{ord(match[0]):04x}"


def plain(text: object, limit: int = _ATTRIBUTE) -> str:
    """Return text for an attribute, with hidden characters escaped, cut to `limit` characters."""
    shown = str(text)
    if len(shown) > limit:
        shown = f"{shown[:limit]}… ({len(shown) - limit:,} more characters)"
    return shown if shown.isprintable() else HIDDEN.sub(code_point, shown)


def counted(count: int, noun: str, cap: int | None = None) -> str:
    """Return a count with its noun: "1 job", "1,203 jobs", or "at least 1,000 jobs" at the cap."""
    words = f"{count:,} {noun}{'' if count == 1 else 's'}"
    return f"at least {words}" if cap is not None and count >= cap else words


def client_host(name: str) -> str:
    """Return the host of a client without its domain, from its name or from a client's id: River
    makes these from the host, with `_` for its dots, and the time of the start.
    """
    return _DOMAIN.sub("", _STARTED.sub("", name)) or name
