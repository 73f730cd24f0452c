"""Takes secrets out of JSON that leaves the house, by the names of the keys that hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

from riverui.web.containment import Number, dump

REDACTED = "[redacted]"


class Redaction:
    """Replaces the values of keys whose names end as one of these do; case, `_` and `-` do not matter."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(filter(None, map(_plain, names)))
        self._secret = lru_cache(maxsize=2_000)(self._ends)

    def text(self, text: str) -> str:
        """JSON text without those values; to the letter the same where it holds none."""
        if not self._names:
            return text
        try:
            if not self._holds(json.loads(text)):
                return text
            return dump(self._without(json.loads(text, parse_int=Number, parse_float=Number)))
        except (RecursionError, ValueError):
            # Nested thousands deep, or a number of thousands of digits: it cannot be looked through.
            return json.dumps(REDACTED)

    def _holds(self, value: object) -> bool:
        if isinstance(value, dict):
            return any(self._secret(key) or self._holds(item) for key, item in value.items())
        return isinstance(value, list) and any(map(self._holds, value))

    def _without(self, value: object) -> object:
        if isinstance(value, dict):
            return {
                key: REDACTED if self._secret(key) else self._without(item) for key, item in value.items()
            }
        return [self._without(item) for item in value] if isinstance(value, list) else value

    def _ends(self, key: str) -> bool:
        return _plain(key).endswith(self._names)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()
