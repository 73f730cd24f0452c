"""Times as River writes them into JSON, and those that Python cannot hold."""

from __future__ import annotations

from datetime import UTC, datetime

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
"""The ends of Python's calendar: they stand for the times beyond it, infinite ones among them."""


def rfc3339_nano(at: datetime) -> str:
    """Return an aware time as Go's encoding/json writes it: decimals without trailing zeros, `Z`
    for UTC.
    """
    text = at.isoformat()
    clock, zone = text[:-6], text[-6:]
    if "." in clock:
        clock = clock.rstrip("0")
    return clock + ("Z" if zone == "+00:00" else zone)
