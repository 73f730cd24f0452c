"""Whether kinds that come at regular times still come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from riverui.domain.findings import Finding, Level, Link, culprit, cut, known, passed, unknown
from riverui.domain.health import Cause
from riverui.domain.health.facts import HealthFacts, Rhythm
from riverui.domain.text import counted
from riverui.domain.time import duration

_FEWEST = 5
"""Fewest intervals that show a rhythm."""
_STEADY = 0.25
"""How much intervals may differ from the usual one, as a share of it."""
_CHANCE = 0.2
"""How much their number in two minutes may vary, as a share of what it would by chance."""
_MISSED = 2.5
"""Usual intervals without a job after which runs were missed."""
_LATE = timedelta(minutes=1)
"""How late a run may be before it counts as missed: a new leader needs some seconds."""
_FORGOTTEN = timedelta(days=1)
"""How long ago a planned run may have been due: a program may have given it up."""


class _Stopped(Struct, frozen=True, kw_only=True):
    """A kind or a durable periodic job that does not come any more."""

    name: str
    last_at: datetime
    """When it came last, or when it should have come."""
    words: str


def periodic(facts: HealthFacts) -> Finding:
    """Return whether kinds that came at regular times, or planned runs, do not come any more."""
    rhythms = known(facts.rhythms)
    found = [*_planned(facts), *_minutes(facts), *filter(None, (_rows(r, facts) for r in rhythms))]
    if found and not facts.leads:
        return unknown("Some do not come, but only a leader inserts them, and none is known.")
    if not found:
        steady = sum(_steady(each.short, each.usual, each.long, each.gaps) for each in rhythms)
        if not steady:
            return passed("No kind comes at regular times.")
        return passed(f"{counted(steady, 'kind')} of regular jobs came when due.")
    worst = max(found, key=lambda each: facts.now - each.last_at)
    others = f"{counted(len(found) - 1, 'more')} stopped as well." if len(found) > 1 else ""
    return Finding(
        level=Level.WARN,
        evidence=f"{cut(worst.name)} {worst.words}.",
        cause=Cause.PERIODIC_STOPPED,
        title=f"{cut(worst.name)} does not come any more.",
        headline=f"It {worst.words}.",
        detail=others,
        culprit=culprit("kind", worst.name, 1.0),
        began=worst.last_at,
        link=Link(label="Open the periodic jobs", page="periodic"),
    )


def _planned(facts: HealthFacts) -> Iterator[_Stopped]:
    for name, at in facts.planned.items():
        if _LATE < facts.now - at < _FORGOTTEN:
            late = duration(facts.now - at)
            yield _Stopped(name=name, last_at=at, words=f"was due {late} ago, and has not come")


def _rows(rhythm: Rhythm, facts: HealthFacts) -> _Stopped | None:
    """Return a kind that has missed runs, by its rows."""
    silent, usual = facts.now - rhythm.last_at, rhythm.usual
    if not _steady(rhythm.short, usual, rhythm.long, rhythm.gaps):
        return None
    # It may pause at the same hours of each day: there was such a pause before its first run.
    before = max(rhythm.longest, rhythm.first_at - rhythm.since)
    if silent < max(usual * _MISSED, usual + _LATE) or silent <= before:
        return None
    return _Stopped(name=rhythm.kind, last_at=rhythm.last_at, words=_words(silent, usual))


def _minutes(facts: HealthFacts) -> Iterator[_Stopped]:
    """Yield kinds that have missed runs, by the minutes in which they came."""
    for kind, minutes in facts.arrivals.items():
        came = [number for number, jobs in enumerate(minutes) if jobs]
        gaps = sorted(later - earlier for earlier, later in pairwise(came))
        if len(gaps) < _FEWEST or not _regular(minutes[came[0] : came[-1] + 1]):
            continue
        minute = timedelta(minutes=1)
        usual, silent = gaps[len(gaps) // 2], len(minutes) - 1 - came[-1]
        if silent > max(_MISSED * usual, usual + 2) and silent > gaps[-1]:
            last_at = facts.now - silent * minute
            yield _Stopped(
                name=kind, last_at=last_at, words=_words(silent * minute, usual * minute)
            )


def _regular(minutes: Sequence[int]) -> bool:
    """Return whether jobs came in a rhythm rather than by chance: their number in two minutes is
    nearly always the same, or so are the minutes between them.
    """
    came = [number for number, jobs in enumerate(minutes) if jobs]
    gaps = sorted(later - earlier for earlier, later in pairwise(came))
    usual, tenth = gaps[len(gaps) // 2], len(gaps) // 10
    if usual > 1:
        return gaps[-1 - tenth] - usual <= usual // 4 >= usual - gaps[tenth]
    pairs = [a + b for a, b in pairwise(minutes)]
    mean = sum(pairs) / len(pairs)
    return sum((each - mean) ** 2 for each in pairs) / len(pairs) <= _CHANCE * mean


def _steady(short: timedelta, usual: timedelta, long: timedelta, gaps: int) -> bool:
    return gaps >= _FEWEST and usual - short <= usual * _STEADY and long - usual <= usual * _STEADY


def _words(silent: timedelta, usual: timedelta) -> str:
    return f"has not come for {duration(silent)}; it came every {duration(usual)}"
