"""Reads JSON that stands in a database, where anybody may have written anything that Postgres takes.

Postgres takes values nested thousands deep and numbers of thousands of digits; Python's reader raises
RecursionError for the one and ValueError for the other, which no caller expects of valid JSON.
"""

from __future__ import annotations

import json
from typing import Any


class UnreadableJson(ValueError):
    """The text is nested deeper than Python reads, or is no JSON."""


def read_json(text: str) -> Any:
    """Return the value of JSON text; UnreadableJson where Python cannot hold it.

    A whole number with more digits than Python converts becomes a float, infinite where it is too large.
    """
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise UnreadableJson(str(error)) from None
        except ValueError:
            # A number of many digits. Asking for each number costs more, so only now.
            return json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise UnreadableJson("the JSON is nested too deep") from None


def read_object(text: str | None) -> dict[str, Any]:
    """Return the object that the text is; an empty one for all else and for what is unreadable."""
    try:
        found = read_json(text) if text else None
    except UnreadableJson:
        return {}
    return found if isinstance(found, dict) else {}


def write_json(value: object) -> str:
    """Return a value that `read_json` gave as text; an ellipsis where it is nested too deep to be written."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "…"


def _whole_number(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)
