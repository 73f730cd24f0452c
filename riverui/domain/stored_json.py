"""Reads JSON that stands in a database, where anybody may have written anything that Postgres
takes.

Postgres takes values nested thousands deep and numbers of thousands of digits; Python's reader
raises RecursionError for the one and ValueError for the other, which no caller expects of valid
JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any

MOST_DEPTH = 500
"""Levels of nesting that are read: half of what Python bears, so that the value can be written
again.
"""

ODD_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a value raises that has another form than what riverui writes there."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)


class UnreadableJson(ValueError):
    """The text is nested deeper than is read, or is no JSON."""


def read_json(text: str) -> Any:
    """Return the value of JSON text; UnreadableJson where Python cannot hold it.

    A whole number with more digits than Python converts becomes a float, infinite where it is too
    large.
    """
    if text.count("[") + text.count("{") > MOST_DEPTH and _depth(text) > MOST_DEPTH:
        raise UnreadableJson("the JSON is nested too deeply")
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UnreadableJson(str(error)) from None
        except ValueError:
            # A number of many digits. Asking for each number costs more, so only now.
            return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise UnreadableJson("the JSON is nested too deeply") from None


def read_object(text: str | None) -> dict[str, Any]:
    """Return the object that the text is; an empty one for all else and for what is unreadable."""
    try:
        found = read_json(text) if text else None
    except UnreadableJson:
        return {}
    return found if isinstance(found, dict) else {}


def write_json(value: object) -> str:
    """Return a value that `read_json` gave as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _depth(text: str) -> int:
    """Return how deep the text is nested, MOST_DEPTH + 1 for all that is deeper."""
    depth = greatest = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            greatest = max(greatest, depth)
            if depth > MOST_DEPTH:
                break
        elif first != '"':
            depth -= 1
    return greatest


def _whole_number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)
