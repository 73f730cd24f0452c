"""Remove secrets from JSON that is shown or sent, by the names of their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable

REDACTED = "[redacted]"

_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
"""A JSON string, and the colon after it if it is a key."""
_end: Callable[[str, int], tuple[object, int]] = json.JSONDecoder(
    parse_int=str, parse_float=str
).scan_once  # type: ignore[attr-defined]  # missing in typeshed


class Redaction:
    """Replaces the values of keys whose names end with one of these; case, `_` and `-` do not
    matter.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(filter(None, _plain(names)))

    def hides(self, name: str) -> bool:
        """Return whether the value of a key of this name is replaced."""
        return bool(self._names) and _plain([name])[0].endswith(self._names)

    def text(self, text: str) -> str:
        """Return JSON text without those values; all else stays unchanged.

        Keys are found without parsing the values, which may be nested thousands of levels deep.
        """
        if not self._names:
            return text
        keys = list({key for key, colon in _STRING.findall(text) if colon})
        names = _plain(json.loads(f'"{key}"') if "\\" in key else key for key in keys)
        secret = {key for key, name in zip(keys, names, strict=False) if name.endswith(self._names)}
        return _without(text, secret) if secret else text


def _without(text: str, secret: Collection[str]) -> str:
    parts: list[str] = []
    at = 0
    for found in _STRING.finditer(text):
        if found.start() < at or not found[2] or found[1] not in secret:
            continue
        try:
            end = _end(text, found.end())[1]
        except (RecursionError, StopIteration, ValueError):
            # Nested thousands of levels deep: the end of the value is unknown.
            return json.dumps(REDACTED)
        parts += [text[at : found.end()], json.dumps(REDACTED)]
        at = end
    return "".join([*parts, text[at:]])


def _plain(names: Iterable[str]) -> list[str]:
    """Return the letters and digits of each name; all at once, as there may be a hundred thousand
    of them.
    """
    between = "\0"
    text = between.join(name.replace(between, "") for name in names)
    return re.sub(r"[^\w\0]+|_+", "", text).lower().split(between)
