"""What is usual, and the thresholds of the health report for what is not."""

from __future__ import annotations

from datetime import timedelta
from math import sqrt

from msgspec.structs import replace

from riverui.domain.figures import Figures, Tally
from riverui.domain.findings import Level, Unread
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.facts import HealthFacts, UsualHour
from riverui.domain.time import duration

RECENT = timedelta(minutes=15)
"""What counts as now: long enough for steady figures, short enough to leave out earlier events."""
SPAN = f"{RECENT // timedelta(minutes=1)} min"
"""RECENT in words."""
STALE_AFTER = timedelta(minutes=5)
"""How old figures may be before they are useless; they are read every 10 seconds."""
AGEING_AFTER = timedelta(minutes=1)
"""How old figures may be before a warning: the collector has then missed six rounds."""

WAIT_WARN_TIMES = 3.0
"""How many times as long as usual jobs may wait: less than that is a busy hour."""
WAIT_CRITICAL_TIMES = 10.0
"""How many times as long as usual is a standstill rather than a busy hour."""
WAIT_WARN_FLOOR = timedelta(minutes=1)
"""Shorter waits are never reported, whatever is usual: they do no harm."""
WAIT_CRITICAL_FLOOR = timedelta(minutes=10)
"""Shorter waits are never critical, however short they usually are."""
WAIT_TRUSTED = timedelta(hours=1)
"""The longest wait that counts as usual by the hour before alone: longer ones must have been usual
for a week.
"""

FAILING_WARN_TIMES = 2.0
"""How many times the usual share of attempts may fail without a warning."""
FAILING_CRITICAL_TIMES = 4.0
"""How many times the usual share of attempts is an outage rather than a bad moment."""
FAILING_WARN_FLOOR = 0.02
"""The share of attempts (0 to 1) below which failures are never reported: retries handle them."""
FAILING_CRITICAL_FLOOR = 0.05
"""The share of attempts (0 to 1) below which failures are never critical."""
FAILING_TRUSTED = 0.20
"""The largest share (0 to 1) that counts as usual by the hour before alone."""
FEWEST_FAILURES = 10
"""Fewest failed attempts within RECENT, beyond the usual number, that are reported: the retries of
a single job are fewer.
"""
CHANCE = 5.0
"""How many times the square root of the usual failures within RECENT there must be more: three
would do for independent failures, but retries make them come in clusters.
"""

PENDING_WARN_TIMES = 2.0
"""How many times the usual number of waiting jobs makes a late queue worth a warning."""
PENDING_CRITICAL_TIMES = 10.0
"""How many times the usual number of waiting jobs makes a late queue critical."""
PENDING_FLOOR = 1_000
"""Fewest waiting jobs that matter by their number alone: a worker does fewer in minutes."""

ALL = Subject()
"""All jobs."""
FEWEST_DAYS = 2
"""Fewest days whose figures of the hour make it usual: a single day may have been odd."""
FEWEST_RECENT = 5
"""Fewest runs of a kind for its recent run time: the median of fewer is not steady."""


def recent(figures: Figures | Unread | None, facts: HealthFacts) -> Tally | None:
    """Return the figures within RECENT; None if there are none."""
    if figures is None or isinstance(figures, Unread):
        return None
    since, total, known = facts.now - RECENT, Tally(), False
    for column in figures.columns:
        if column.tally is not None and since - figures.window.step < column.at <= facts.now:
            total.merge(column.tally)
            known = True
    return total if known else None


def usual(facts: HealthFacts, subject: Subject = ALL) -> Baseline | None:
    """Return the figures that now is compared with: those kept for a problem that goes on, else of
    the same hour of the last days, else of the hour before; None if there are too few.
    """
    if (kept := _kept(facts, subject)) is not None:
        return kept
    name = subject.name
    if subject.what == "queue":
        hour, week = facts.queue_hours.get(name), facts.queue_weeks.get(name)
    elif subject.what == "kind":
        hour, week = facts.kind_hours.get(name), facts.kind_weeks.get(name)
    else:
        hour, week = None if isinstance(facts.hour, Unread) else facts.hour, facts.week
    return _weekly(week, facts) or _before(hour, facts)


def _kept(facts: HealthFacts, subject: Subject) -> Baseline | None:
    """Return the oldest given baseline of a subject; for a queue also that of a kind in it, which
    has its waits.
    """
    own = [kept for (_, about), kept in facts.baselines.items() if about == subject]
    if subject.what == "queue" and not own:
        own = [
            Baseline(before=kept.before, minutes=kept.minutes, wait=kept.wait, waiting=kept.waiting)
            for kept in facts.baselines.values()
            if kept.queue == subject.name
        ]
    return min(own, key=lambda kept: kept.before, default=None)


def _weekly(week: UsualHour | None, facts: HealthFacts) -> Baseline | None:
    if week is None or week.days < FEWEST_DAYS:
        return None
    span = week.days * timedelta(hours=1)
    return Baseline.of(week.tally, span, before=facts.now, weekly=True)


def _before(hour: Figures | None, facts: HealthFacts) -> Baseline | None:
    if hour is None:
        return None
    total, columns, depths, until = Tally(), 0, [], facts.now - RECENT
    for column in hour.columns:
        if column.tally is None or column.at > until - hour.window.step:
            continue
        total.merge(column.tally)
        columns += 1
        if column.waiting is not None:
            depths.append(column.waiting)
    found = Baseline.of(total, columns * hour.window.step, before=until)
    if found is None or not depths:
        return found
    return replace(found, waiting=sorted(depths)[len(depths) // 2])


def grade_wait(waited: timedelta, known: Baseline | None) -> Level:
    """Return how bad it is that a job has waited so long."""
    normal = known.wait if known else None
    if waited < WAIT_WARN_FLOOR:
        return Level.OK
    if normal is None:
        return Level.CRITICAL if waited >= WAIT_CRITICAL_FLOOR else Level.WARN
    if waited >= max(WAIT_CRITICAL_FLOOR, normal * WAIT_CRITICAL_TIMES):
        return Level.CRITICAL
    if waited >= max(WAIT_WARN_FLOOR, normal * WAIT_WARN_TIMES):
        return Level.WARN
    if known and not known.weekly and waited >= WAIT_TRUSTED:
        return Level.WARN
    return Level.OK


def grade_failing(share: float, failures: int, known: Baseline | None) -> Level:
    """Return how bad it is that this share of attempts failed."""
    if failures < FEWEST_FAILURES or share < FAILING_WARN_FLOOR:
        return Level.OK
    normal = usual_failing(known)
    expected = normal * failures / share
    if failures - expected >= max(FEWEST_FAILURES, CHANCE * sqrt(expected)):
        if share >= max(FAILING_CRITICAL_FLOOR, normal * FAILING_CRITICAL_TIMES):
            return Level.CRITICAL
        if share >= max(FAILING_WARN_FLOOR, normal * FAILING_WARN_TIMES):
            return Level.WARN
    if known is not None and not known.weekly and share >= FAILING_TRUSTED:
        # Such a share may be normal, unless it was far smaller before.
        return Level.WARN if normal * FAILING_WARN_TIMES >= FAILING_TRUSTED else Level.OK
    return Level.OK


def usual_failing(known: Baseline | None) -> float:
    """Return the share of attempts that usually fails; 0 if unknown."""
    return (known.failing or 0.0) if known else 0.0


def ratio(now: timedelta, normal: timedelta | None) -> float:
    """Return how many times as long something takes as usual; 0 if unknown."""
    return now / normal if normal else 0.0


def usually(span: timedelta | None) -> str:
    """Return what is usual as the end of a sentence, with its comma; empty if unknown."""
    return f", usually {duration(span)}" if span is not None else ""


def percent(share: float) -> str:
    """Return a share in per cent: 31 %, 0.4 %."""
    value = share * 100
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
