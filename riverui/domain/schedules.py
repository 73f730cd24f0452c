"""Schedules: intervals, cron expressions, and any object with `next`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from riverui.domain.time import go_duration, go_text
from riverui.errors import ConfigError

NEVER = datetime.max.replace(tzinfo=UTC)
"""The `next` of a schedule that has ended."""


class Schedule(Protocol):
    """Any object with a `next` that returns the next time."""

    def next(self, after: datetime) -> datetime:
        """Return the first time after `after`, both aware; NEVER if there is none."""
        ...


def next_time(schedule: Schedule, after: datetime) -> datetime:
    """Return the schedule's next time; raise ValueError if it is not after `after`."""
    found = schedule.next(after)
    if found.tzinfo is None or found <= after:
        raise ValueError(f"{schedule!r} returned {found}, which is not after {after}")
    return found


@dataclass(frozen=True, slots=True)
class PeriodicInterval:
    """A fixed interval, counted from the previous time and not from a full hour or day."""

    interval: timedelta

    def __post_init__(self) -> None:
        if self.interval <= timedelta(0):
            raise ConfigError(
                f"The interval of a schedule must be greater than zero, not {self.interval}."
            )

    def next(self, after: datetime) -> datetime:
        """Return `after` plus the interval."""
        try:
            return after + self.interval
        except OverflowError:
            return NEVER


@dataclass(frozen=True, slots=True)
class NeverSchedule:
    """A schedule without any time."""

    def next(self, after: datetime) -> datetime:
        """Return NEVER."""
        return NEVER


@dataclass(frozen=True, slots=True)
class DailyMidnight:
    """Midnight UTC, the schedule of River's reindexer."""

    def next(self, after: datetime) -> datetime:
        """Return the next midnight."""
        tomorrow = after.astimezone(UTC) + timedelta(days=1)
        return tomorrow.replace(hour=0, minute=0, second=0, microsecond=0)


class CronSchedule:
    """A cron expression as in robfig/cron, which Go programs use with River.

    Five fields (minute, hour, day of month, month, day of week; `*` or `?`, names, ranges, steps,
    lists), or `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`, or
    `@every 1h30m`. A time zone may precede it: `CRON_TZ=Europe/Berlin 0 9 * * mon-fri`. If both
    days are restricted, one match is enough. A local time that a clock change skips is skipped, one
    that it repeats occurs twice; a date that does not exist, such as 30 February, never comes.
    Sunday is 0. Raises ConfigError for anything else.
    """

    __slots__ = ("every", "expression", "text", "zone")

    def __init__(self, text: str, timezone: str | tzinfo = UTC) -> None:
        """Parse the expression; `timezone` applies if it does not name one."""
        self.text: str = text
        words = text.split()
        if words and words[0].startswith(("TZ=", "CRON_TZ=")):
            timezone = words.pop(0).partition("=")[2]
        self.zone = _zone(timezone) if isinstance(timezone, str) else timezone
        self.every: timedelta | None = None
        """The interval of `@every`."""
        self.expression = ""
        """Five fields in plain numbers; empty for `@every`."""
        if words[:1] == ["@every"]:
            self.every = _every(" ".join(words[1:]), text)
        else:
            self.expression = _expression(words, text)

    def __repr__(self) -> str:
        return f"CronSchedule({self.text!r}, {str(self.zone)!r})"

    def next(self, after: datetime) -> datetime:
        """Return the first time after `after`, in UTC; both on whole seconds."""
        if after.tzinfo is None:
            raise ValueError("a schedule needs a time with a time zone")
        at = after.astimezone(UTC).replace(microsecond=0)
        try:
            if self.every is not None:
                return at + self.every
            # Between two clock changes local time is plain arithmetic, which cronsim does.
            begin = at
            while True:
                offset = _offset(self.zone, begin)
                local = next(CronSim(self.expression, at.replace(tzinfo=None) + offset))
                found = (local - offset).replace(tzinfo=UTC)
                change = _clock_change(self.zone, begin, found)
                if change is None:
                    return found
                begin, at = change, change - timedelta(seconds=1)
        except (CronSimError, OverflowError, StopIteration):
            # CronSim rejects days that do not exist, such as 30 February.
            return NEVER


def cron_text(schedule: Schedule) -> str:
    """Return a schedule as an expression for CronSchedule, or the repr of any other schedule."""
    if isinstance(schedule, PeriodicInterval):
        return f"@every {go_text(schedule.interval)}"
    if isinstance(schedule, CronSchedule):
        named = schedule.text.startswith(("TZ=", "CRON_TZ=")) or schedule.zone is UTC
        return schedule.text if named else f"CRON_TZ={schedule.zone} {schedule.text}"
    return repr(schedule)


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()
    """In order, from `first` on."""


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def _every(duration: str, text: str) -> timedelta:
    """Return the interval as in robfig/cron: whole seconds, at least one."""
    try:
        every = go_duration(duration)
    except ValueError as error:
        raise ConfigError(f"“{text}” is not a schedule: {error}.") from None
    if every <= timedelta(0):
        raise ConfigError(f"“{text}” is not a schedule: the duration must be greater than zero.")
    return timedelta(seconds=max(1, every // timedelta(seconds=1)))


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ConfigError(f"Time zone “{name}” not found (is tzdata installed?).") from None


def _expression(words: list[str], text: str) -> str:
    """Return the expression in plain numbers for cronsim, whose syntax differs from robfig's."""
    if len(words) == 1 and words[0].startswith("@"):
        if words[0] not in _DESCRIPTORS:
            known = ", ".join([*_DESCRIPTORS, "@every 1h30m"])
            raise ConfigError(f"“{text}” is not a schedule: use one of {known}.")
        words = _DESCRIPTORS[words[0]].split()
    if len(words) != len(_FIELDS):
        raise ConfigError(
            f"“{text}” is not a schedule: a cron expression has five fields, not {len(words)}."
        )
    try:
        return " ".join(_field(word, field) for word, field in zip(words, _FIELDS, strict=True))
    except ValueError as error:
        raise ConfigError(f"“{text}” is not a schedule: {error}.") from None


def _field(word: str, field: _Field) -> str:
    """Return `*` if the field is unrestricted (then both days must match), else its numbers."""
    numbers: set[int] = set()
    free = False
    for part in word.lower().split(","):
        values, star = _part(part, field)
        numbers.update(values)
        free = free or star
    return "*" if free else ",".join(map(str, sorted(numbers)))


def _part(part: str, field: _Field) -> tuple[set[int], bool]:
    span, slash, step_text = part.partition("/")
    step = 1
    if slash:
        step = int(step_text) if step_text.isascii() and step_text.isdigit() else 0
        if step < 1:
            raise ValueError(f"“{part}” has a step that is not a positive number")
    low, dash, high = span.partition("-")
    if low in ("*", "?") and not dash:
        return set(range(field.first, field.last + 1, step)), step == 1
    start = _number(low, field)
    end = _number(high, field) if dash else field.last if slash else start
    if start > end:
        raise ValueError(f"“{part}” ends before it begins")
    return set(range(start, end + 1, step)), False


def _number(word: str, field: _Field) -> int:
    if word in field.names:
        return field.first + field.names.index(word)
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"“{word}” is not a {field.name}")
    if not field.first <= int(word) <= field.last:
        sunday = " (Sunday is 0)" if field.names is _DAYS else ""
        raise ValueError(f"the {field.name} is {field.first} to {field.last}{sunday}, not {word}")
    return int(word)


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _clock_change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """Return the first second in (after, until] with another UTC offset, checked once a day."""
    if zone is UTC:
        return None
    offset = _offset(zone, after)
    same = after
    while same < until:
        other = min(same + timedelta(days=1), until)
        if _offset(zone, other) != offset:
            while other - same > timedelta(seconds=1):
                middle = same + timedelta(seconds=(other - same) // timedelta(seconds=2))
                if _offset(zone, middle) == offset:
                    same = middle
                else:
                    other = middle
            return other
        same = other
    return None
