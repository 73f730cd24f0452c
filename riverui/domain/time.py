"""Times and durations, as JSON has them, as Go writes them and in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

FIRST = datetime.min.replace(tzinfo=UTC)

LAST = datetime.max.replace(tzinfo=UTC)
"""The ends of Python's calendar, which replace times beyond it, such as infinity."""

_MAX_SHOWN_SECONDS = 1_000 * 365 * 86_400
"""Seconds above which days are not counted."""


def rfc3339_nano(at: datetime) -> str:
    """Return an aware time as Go's encoding/json writes it: decimals without trailing zeros, `Z`
    for UTC.
    """
    text = at.isoformat()
    clock, zone = text[:-6], text[-6:]
    if "." in clock:
        clock = clock.rstrip("0")
    return clock + ("Z" if zone == "+00:00" else zone)


def aware_instant(text: str) -> datetime | None:
    """Return an ISO 8601 time in UTC; None if the text is not one or has no time zone."""
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def duration(span: timedelta) -> str:
    """Return a duration in one or two units: 340 ms · 1.2 s · 4 m 12 s · 3 h 5 m · 2 d 4 h.

    Negative durations, of clocks that disagree, are 0.
    """
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    return two_units(round(seconds))


def two_units(seconds: int) -> str:
    """Return whole seconds in two units: 4 m 12 s · 3 h 5 m."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60} s"
    if seconds < 86_400:
        return f"{seconds // 3600} h {seconds % 3600 // 60} m"
    if seconds >= _MAX_SHOWN_SECONDS:
        return "over 1,000 years"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3600} h"


_MAX_NANOSECONDS = 2**63 - 1
"""Nanoseconds of Go's longest duration, about 292 years."""

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}

_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def go_text(span: timedelta) -> str:
    """Return a positive duration as Go parses it: `1h30m`, `45s`, `0.25s`."""
    seconds = span.total_seconds()
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (round(rest, 6), "s"))
    return "".join(f"{number:g}{unit}" for number, unit in parts if number)


def go_duration(text: str) -> timedelta:
    """Return a duration in Go's notation (`1h30m`, `1.5h`, `250ms`), to the microsecond.

    Raise ValueError for anything else.
    """
    rest = text.removeprefix("+")
    if rest == "0":
        return timedelta(0)
    nanoseconds = Fraction(0)
    place = 0
    while place < len(rest):
        part = _DURATION_PART.match(rest, place)
        if part is None:
            break
        nanoseconds += Fraction(part[1]) * _NANOSECONDS[part[2]]
        place = part.end()
    if not rest or place < len(rest) or nanoseconds > _MAX_NANOSECONDS:
        raise ValueError(f"“{text}” is not a duration such as 1h30m")
    return timedelta(microseconds=int(nanoseconds / 1000))
