"""Times as River writes them into JSON."""

from __future__ import annotations

from datetime import datetime


def rfc3339_nano(at: datetime) -> str:
    """An aware time as Go's encoding/json has it: decimals without trailing zeros, `Z` for UTC."""
    text = at.isoformat()
    clock, zone = text[:-6], text[-6:]
    if "." in clock:
        clock = clock.rstrip("0")
    return clock + ("Z" if zone == "+00:00" else zone)
