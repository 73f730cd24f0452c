"""Values as people read them: text, times, spans, counts.

All text of jobs is untrusted until escaped by `visible` (markup) or `plain` (attributes).
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from markupsafe import Markup

from riverui.domain.jobs import JobListRow, JobState
from riverui.domain.text import HIDDEN, code_point, plain as plain
from riverui.domain.time import FIRST, LAST, duration as duration, two_units
from riverui.storage.interface.params import Count, CountKind, total_count

_CANCEL_ERROR = "JobCancelError: "
"""The prefix that River writes before the reason of a cancellation."""
_LARGER = {
    "kB": (1024, "MB"),
    "MB": (1024, "GB"),
    "GB": (1024, "TB"),
    "ms": (1000, "s"),
    "s": (60, "min"),
    "min": (60, "h"),
}
"""How many of a unit of Postgres make the next larger one."""
_BEYOND = {
    FIRST: "-infinity, or a time before the year 1",
    LAST: "infinity, or a time after the year 9999",
}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def trusted(markup: str) -> Markup:
    """Mark text as markup; callers must pass only our own tags and escaped text."""
    return Markup(markup)  # noqa: S704


def _marked_code_point(match: re.Match[str]) -> str:
    return f'<span class="ctl">{code_point(match)}</span>'


def escaped(text: str) -> str:
    """Return escaped text for use inside `trusted`; hidden characters show as marked escapes."""
    if text.isidentifier():
        # Most names of kinds and queues need no escapes.
        return text
    markup = html.escape(text)
    # All hidden characters are unprintable in Python, whose check is much cheaper.
    return markup if text.isprintable() else HIDDEN.sub(_marked_code_point, markup)


def visible(text: object) -> Markup:
    """Return escaped text as markup; hidden characters (controls, bidi overrides, zero-width) show
    as marked escapes.
    """
    return trusted(escaped(str(text)))


def word(text: object) -> Markup:
    """Return a name from a job (kind, queue, tag, worker) as markup, isolated so that its text
    direction cannot affect the page.
    """
    return trusted(f"<bdi>{escaped(str(text))}</bdi>")


def short(text: object, limit: int = 120) -> Markup:
    """Return the same as `word`, cut to `limit` characters, with the whole text in the tooltip."""
    shown = str(text)
    if len(shown) <= limit:
        return word(shown)
    return trusted(f'<bdi title="{html.escape(plain(shown))}">{escaped(shown[:limit])}…</bdi>')


def number(value: int) -> str:
    """Return a whole number with thousands separators: 1203 → "1,203"."""
    return f"{value:,}"


def compact(value: int) -> str:
    """Return a number in at most three digits and a unit, whole below 100,000: "9.8M"."""
    if value < 100_000:
        return number(value)
    for unit_size, unit in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "B")):
        scaled = value / unit_size
        # Compare the rounded value, so that 999,999 becomes 1M and never 1000k.
        if scaled < 999.5 or unit == "B":
            return (
                f"{scaled:.1f}{unit}".replace(".0", "") if scaled < 9.95 else f"{scaled:,.0f}{unit}"
            )
    raise AssertionError("unreachable")


def count_text(count: Count) -> str:
    """Return a count as lists show it: 1,203 · 9.8M · 10,000+ · 9.8M+ · ≈ 9.8M. It has every digit
    below a million, unless it is an estimate.
    """
    value = count.value
    if count.kind is CountKind.ESTIMATED:
        return f"≈ {compact(_rounded(value))}"
    if count.kind is CountKind.AT_LEAST:
        return f"{number(value) if value < 1_000_000 else compact(_floored(value))}+"
    return compact(value) if value >= 1_000_000 else number(value)


def jobs_by_state(counts: Mapping[JobState, Count]) -> str:
    """Return the number of jobs and their states: "30 discarded jobs", or "31 jobs (1 retryable, 30
    discarded)".
    """
    total = total_count(counts.values())
    s = "" if total.value == 1 else "s"
    found = [
        f"{count_text(counts[state])} {state}"
        for state in JobState
        if state in counts and counts[state].value
    ]
    if len(found) == 1:
        return f"{found[0]} job{s}"
    split = f" ({', '.join(found)})" if found else ""
    return f"{count_text(total)} job{s}{split}"


def estimate(value: int) -> str:
    """Return an estimate as "≈ 9.8M"."""
    return count_text(Count(value=value, kind=CountKind.ESTIMATED))


def _rounded(value: int) -> int:
    """Return the number rounded to three digits; estimates are less precise."""
    unit = int(10 ** max(len(str(value)) - 3, 0))
    return (value + unit // 2) // unit * unit


def _floored(value: int) -> int:
    """Return the number rounded down to two digits: 9,980,095 is not "10M or more"."""
    unit = int(10 ** max(len(str(value)) - 2, 0))
    return value // unit * unit


def count_title(count: Count) -> str:
    """Return how the number was counted, for its tooltip."""
    when = f" at {count.at.astimezone(UTC):%H:%M:%S} UTC" if count.at else ""
    if count.kind is CountKind.AT_LEAST:
        return f"{number(count.value)} or more: counting stops there{when}"
    if count.kind is CountKind.ESTIMATED:
        return f"about {number(count.value)}, from the database's statistics{when}"
    return f"{number(count.value)}, counted exactly{when}"


def count(value: Count | int | None, cap: int | None = None) -> Markup:
    """Return a count as markup, with how it was counted in the tooltip. A plain int at or above
    `cap` is "at least".
    """
    if value is None:
        return Markup('<span class="count" title="not counted yet">–</span>')
    if not isinstance(value, Count):
        at_least = cap is not None and value >= cap
        value = Count(value=value, kind=CountKind.AT_LEAST if at_least else CountKind.EXACT)
    return trusted(f'<span class="count" title="{count_title(value)}">{count_text(value)}</span>')


def size(value: int) -> str:
    """Return a number of bytes in decimal units: 532 B, 1.4 MB."""
    amount = float(value)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            return (
                f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
            )
        amount /= 1000
    raise AssertionError("unreachable")


def setting(value: str) -> str:
    """Return a server setting in the largest unit that keeps it whole ("4096 kB" → "4 MB"); others
    as they are.
    """
    amount, _, unit = value.partition(" ")
    while amount.isdecimal() and unit in _LARGER:
        size, larger = _LARGER[unit]
        if int(amount) == 0 or int(amount) % size:
            break
        amount, unit = str(int(amount) // size), larger
    return f"{amount} {unit}".strip()


def beyond_calendar(at: datetime) -> str:
    """Return the words for a time outside of the years 1 to 9999, which FIRST and LAST stand for;
    empty for other times.
    """
    return {FIRST: "before 1 AD", LAST: "never"}.get(at, "")


def about(span: timedelta) -> str:
    """Return an estimated span in whole minutes or larger units: "≈ 12 m", "< 1 m"."""
    seconds = span.total_seconds()
    if seconds < 60:
        return "< 1 m"
    minutes = round(seconds / 60)
    return f"≈ {minutes} m" if minutes < 60 else f"≈ {two_units(minutes * 60)}"


def percent(share: float) -> str:
    """Return a share from 0 to 1 in per cent, with one decimal below ten: 31 % · 0.4 %."""
    value = share * 100
    return f"{value:.0f} %" if value >= 9.95 or value == int(value) else f"{value:.1f} %"


def _one_unit(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m"
    if seconds < 86_400:
        return f"{seconds // 3600} h"
    return f"{seconds // 86_400} d"


def relative(at: datetime, now: datetime, *, fine: bool = False) -> str:
    """Return how far a time is from now, as "12 s ago" or "in 4 m"; with `fine` in two units ("in 4
    m 12 s"). More than 99 days away, return its date.
    """
    seconds = (at - now).total_seconds()
    whole = int(abs(seconds))
    if whole >= 100 * 86_400:
        return at.astimezone(UTC).date().isoformat()
    if whole < 1:
        return "now"
    text = two_units(whole) if fine else _one_unit(whole)
    return f"in {text}" if seconds > 0 else f"{text} ago"


def absolute(at: datetime) -> str:
    """Return a time in UTC to the millisecond: 2026-11-21 14:02:11.123 UTC."""
    if words := beyond_calendar(at):
        return words
    iso = _iso(at)
    return f"{iso[:10]} {iso[11:]} UTC"


def clock(at: datetime, now: datetime) -> str:
    """Return a time in UTC in 14 characters: "11-21 14:02:11", or with the year if it is not the
    current one.
    """
    at = at.astimezone(UTC)
    if at.year == now.astimezone(UTC).year:
        return f"{at:%m-%d %H:%M:%S}"
    return f"{at.date()} {at:%H:%M}"


def cancel_reason(error: str) -> str:
    """Return the error of a cancelled job without its class name, which repeats the state."""
    return error.removeprefix(_CANCEL_ERROR)


def newest_error(row: JobListRow) -> str | None:
    """Return the newest error of a row as lists show it: of a cancelled job the reason alone."""
    error = row.last_error
    return cancel_reason(error) if error and row.state is JobState.CANCELLED else error


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Formats times as one browser prefers; app.js updates them and knows the local zone."""

    now: datetime
    mode: str = "relative"

    def ago(self, at: datetime | None, *, fine: bool = False) -> Markup:
        """Return a `<time>` by preference, absolute UTC in its tooltip; a dash for None."""
        if at is None:
            return Markup('<span class="none">–</span>')
        return trusted(self.ago_html(at, fine))

    def since(self, at: datetime) -> Markup:
        """Return the age of a time as markup, in whole seconds; the browser keeps it up to date."""
        return trusted(self.since_html(at))

    def ago_html(self, at: datetime, fine: bool = False) -> str:
        """Return the same as `ago` as a plain string, for use in other markup."""
        if words := beyond_calendar(at):
            return f'<span title="{_BEYOND[at]}">{words}</span>'
        text = relative(at, self.now, fine=fine) if self.mode == "relative" else clock(at, self.now)
        iso = _iso(at)
        mark = ' data-fine=""' if fine else ""
        return f'<time datetime="{iso}Z" title="{iso[:10]} {iso[11:]} UTC"{mark}>{text}</time>'

    def since_html(self, at: datetime) -> str:
        """Return the same as `since` as a plain string."""
        if beyond_calendar(at):
            # The browser cannot count from it.
            return (
                '<span title="since'
                f' {_BEYOND[at]}">{"over 1,000 years" if at == FIRST else "–"}</span>'
            )
        text = two_units(max(int((self.now - at).total_seconds()), 0))
        iso = _iso(at)
        return f'<span data-since="{iso}Z" title="since {iso[:10]} {iso[11:]} UTC">{text}</span>'


def _iso(at: datetime) -> str:
    """Return a time in UTC to the millisecond, without the Z."""
    # msgspec is ten times as fast as isoformat.
    text: str = msgspec.to_builtins(at.astimezone(UTC))
    return text[:23] if "." in text else f"{text[:19]}.000"


STATE_ICONS = {
    "pending": "hourglass",
    "scheduled": "clock",
    "available": "circle-dot",
    "running": "play",
    "retryable": "rotate-cw",
    "completed": "check",
    "discarded": "octagon-x",
    "cancelled": "ban",
}
"""The icon of each state, by its name in the sprite."""


class Icons:
    """Icons of the sprite at an address. Names and states are constants, never a job's text."""

    def __init__(self, sprite: str) -> None:
        self._sprite = escaped(sprite)

    def icon(self, name: str) -> Markup:
        """Return an icon for use beside a word with the same meaning."""
        return trusted(
            f'<svg class="icon" aria-hidden="true"><use href="{self._sprite}#{name}"/></svg>'
        )

    def within(self, name: str, x: float, y: float, size: float) -> Markup:
        """Return an icon at a position in a larger drawing."""
        return trusted(
            f'<svg class="icon" x="{x:.1f}" y="{y:.1f}" width="{size}" height="{size}"'
            f' aria-hidden="true"><use href="{self._sprite}#{name}"/></svg>'
        )

    def state_icon(self, state: str) -> Markup:
        """Return the icon of a state alone, in its colour."""
        return trusted(
            f'<svg class="icon s-{state}" role="img" aria-label="{state}"><title>{state}</title>'
            f'<use href="{self._sprite}#{STATE_ICONS[state]}"/></svg>'
        )

    def state_badge(self, state: str) -> Markup:
        """Return a state as icon and word."""
        return trusted(
            f'<span class="badge s-{state}">{self.icon(STATE_ICONS[state])}{state}</span>'
        )
