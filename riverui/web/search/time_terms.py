"""Times in the search box: dates of any precision, spans, a few words. No zone means UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from riverui.errors import BadRequest
from riverui.storage.interface.params import Op

_SPAN = re.compile(r"([+-])?((?:[0-9]+(?:\.[0-9]+)?[smhdw])+)")
_SPAN_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_INSTANT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt](?P<hour>[0-9]{2})"
    r"(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_HINT = "Write a time like 2026-11-01, 2026-11-01T10:00Z, or a span like <1h (s, m, h, d, w)."


class Moment(Struct, frozen=True, kw_only=True):
    """A whole day, hour, minute or second, or (start = end) one exact instant."""

    start: datetime
    end: datetime

    @property
    def exact(self) -> bool:
        """Return whether it is an instant."""
        return self.start == self.end


def compare(op: Op, text: str, now: datetime) -> tuple[Op, datetime]:
    """Return the condition for one bound of a time term.

    A span without a sign is an age: `<1h` is within the last hour, `>1h` before. With a sign it is
    an instant: `<+1h` is before one hour from now.
    """
    span = _SPAN.fullmatch(text)
    if span and not span.group(1):
        younger = op in (Op.LT, Op.LE)
        return (Op.GE if younger else Op.LT), _shifted(now, -_span(span.group(2)))
    moment = parse(text, now)
    if moment.exact:
        return op, moment.start
    # A day is compared as a whole: `>` is after its end, `<=` up to its end.
    return {
        Op.LT: (Op.LT, moment.start),
        Op.LE: (Op.LT, moment.end),
        Op.GT: (Op.GE, moment.end),
        Op.GE: (Op.GE, moment.start),
    }[op]


def parse(text: str, now: datetime) -> Moment:
    """Parse a moment. Raise BadRequest if it is invalid."""
    word = text.lower()
    if word == "now":
        return Moment(start=now, end=now)
    if word in ("today", "yesterday"):
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        start = midnight if word == "today" else midnight - timedelta(days=1)
        return Moment(start=start, end=start + timedelta(days=1))
    if (span := _SPAN.fullmatch(text)) and span.group(1):
        shift = _span(span.group(2))
        instant = _shifted(now, shift if span.group(1) == "+" else -shift)
        return Moment(start=instant, end=instant)
    if span:
        raise BadRequest(f"Say whether it is within or before that time span: <{text} or >{text}.")
    found = _INSTANT.fullmatch(text)
    if not found:
        raise BadRequest(f"“{text[:60]}” is not a time. {_HINT}")
    try:
        return _moment(found)
    except (ValueError, OverflowError):
        raise BadRequest(f"This time does not exist: {text[:60]}.") from None


def text_of(op: Op, instant: datetime) -> str:
    """Return the shortest text from which `parse` and `compare` make the same condition."""
    instant = instant.astimezone(UTC)
    if op in (Op.GE, Op.LT) and not (instant.second or instant.microsecond):
        if not (instant.hour or instant.minute):
            return f"{instant:%Y-%m-%d}".rjust(10, "0")
        return f"{instant:%Y-%m-%dT%H:%MZ}".rjust(17, "0")
    return exact_text(instant)


def exact_text(instant: datetime) -> str:
    """Return an instant to the microsecond, in UTC."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _moment(found: re.Match[str]) -> Moment:
    zone = found["zone"] or "Z"
    offset = "+00:00" if zone in "Zz" else zone
    clock = f"{found['hour'] or '00'}:{found['minute'] or '00'}:{found['second'] or '00'}"
    fraction = found["fraction"]
    # Midnight may be written 24:00 by newer Pythons only; refuse it on all of them.
    if found["hour"] == "24":
        raise ValueError
    written = f"{found['date']}T{clock}.{(fraction or '').ljust(6, '0')}{offset}"
    start = datetime.fromisoformat(written).astimezone(UTC)
    if fraction:
        return Moment(start=start, end=start)
    if found["second"]:
        width = timedelta(seconds=1)
    elif found["minute"]:
        width = timedelta(minutes=1)
    else:
        width = timedelta(hours=1) if found["hour"] else timedelta(days=1)
    return Moment(start=start, end=start + width)


def _span(text: str) -> timedelta:
    try:
        return timedelta(
            seconds=sum(float(n) * _SECONDS[unit] for n, unit in _SPAN_PART.findall(text))
        )
    except OverflowError:
        raise BadRequest(f"The time span {text[:40]} is too long.") from None


def _shifted(now: datetime, by: timedelta) -> datetime:
    try:
        return now + by
    except OverflowError:
        raise BadRequest("That time span is out of range.") from None
