"""Read the errors of failed attempts, which may be any JSON, as River reads them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from riverui.domain.jobs import AttemptError
from riverui.domain.json import UnreadableJson, read_json, write_json

_GO_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)
"""Stricter than `datetime.fromisoformat`, which accepts more with each Python."""
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)


def attempt_error(text: str) -> AttemptError:
    """Return the error in a JSON text; text other than an object is its message."""
    try:
        found = read_json(text)
    except UnreadableJson:
        found = None
    if not isinstance(found, dict):
        return AttemptError(at=None, attempt=0, error=text, trace="")
    return AttemptError(
        at=go_time(_text(found.get("at"))),
        attempt=whole(_text(found.get("attempt"))),
        error=_text(found.get("error")),
        trace=_text(found.get("trace")),
    )


def go_time(text: str | None) -> datetime | None:
    """Return a time in the format of Go's JSON (up to nine decimals, any offset), in UTC; None
    for anything else.
    """
    if not text or not _GO_TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def whole(text: str | None) -> int:
    """Return a whole number from JSON text; 0 for anything else, as River counts it."""
    return int(text) if text and _WHOLE.fullmatch(text) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else write_json(value)
