"""Spans of time as Go writes them."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_MOST_NANOSECONDS = 2**63 - 1
"""Nanoseconds of Go's longest duration, about 292 years: it reads none beyond it."""

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
    """Return a positive span as Go reads it: `1h30m`, `45s`, `0.25s`."""
    seconds = span.total_seconds()
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (round(rest, 6), "s"))
    return "".join(f"{number:g}{unit}" for number, unit in parts if number)


def go_duration(text: str) -> timedelta:
    """Return a span that is written as in Go (`1h30m`, `1.5h`, `250ms`), to the microsecond; raise
    ValueError for anything else.
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
    if not rest or place < len(rest) or nanoseconds > _MOST_NANOSECONDS:
        raise ValueError(f"“{text}” is not a duration such as 1h30m")
    return timedelta(microseconds=int(nanoseconds / 1000))
