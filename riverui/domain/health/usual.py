"""What is usual, and the thresholds of the health report for what is not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import sqrt

from msgspec.structs import replace

from riverui.domain.figures import Figures, PastColumn, Tally
from riverui.domain.findings import Level, Unread
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.facts import HealthFacts, Sum, UsualHour
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
FAILING_TRUSTED = 0.5
"""The largest share (0 to 1) that counts as usual by less than an hour alone: it may be a problem
that began before that.
"""
FEWEST_FAILURES = 10
"""Fewest failed attempts within RECENT, beyond the usual number, that are reported."""
FEWEST_FAILED_JOBS = 4
"""Fewest jobs that failed, beyond the usual share: the retries of a few are many attempts."""
MANY_FAILED_JOBS = 100
"""Failed jobs that cannot be a few jobs' retries. Of more, not all may have been read."""
SURE_FAILURES = 5
"""The same as FEWEST_FAILURES if it is clear since when attempts fail."""
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


def columns(facts: HealthFacts, subject: Subject = ALL) -> Sequence[PastColumn]:
    """Return the figures of all, of a queue or of a kind as far back as there are any jobs, the
    oldest first: ten minutes each, then one minute each.
    """
    every = _read(facts, ALL)
    first = next((column.at for column in every if column.tally.weight), facts.now)
    found = every if subject == ALL else _read(facts, subject)
    return [column for column in found if column.at >= first]


def _read(facts: HealthFacts, subject: Subject) -> Sequence[PastColumn]:
    """Return the figures of all columns that were read."""
    found = list(facts.past.get(subject, ()))
    if (hour := _hour(facts, subject)) is not None:
        step = hour.window.step
        found += [
            PastColumn(at=column.at, span=step, tally=column.tally)
            for column in hour.columns
            if column.tally is not None and column.at <= facts.now
        ]
    return found


def within(
    facts: HealthFacts, subject: Subject = ALL, *, since: datetime | None = None
) -> Tally | None:
    """Return the figures since then, by default within RECENT; None if there are none."""
    found = _sum(facts, subject, since=since or facts.now - RECENT)
    return found.tally if found.span else None


def _sum(
    facts: HealthFacts,
    subject: Subject,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Sum:
    """Return the sum of the columns that reach beyond `since` and end by `until`. It is kept: its
    tally may not be changed.
    """
    read = (facts.hour, facts.past.get(ALL), facts.past.get(subject), _hour(facts, subject))
    kept = facts.sums.get((subject, since, until))
    if kept is not None and all(a is b for a, b in zip(kept.of, read, strict=True)):
        return kept
    total, span = Tally(), timedelta(0)
    for column in columns(facts, subject):
        end = column.at + column.span
        if (since is None or end > since) and (until is None or end <= until):
            total.merge(column.tally)
            span += column.span
    found = facts.sums[subject, since, until] = Sum(of=read, tally=total, span=span)
    return found


def usual(
    facts: HealthFacts, subject: Subject = ALL, began: datetime | None = None
) -> Baseline | None:
    """Return the figures that now is compared with: those kept for a problem that goes on, else of
    the same hour of the last days, else of the hours before `began`, which is RECENT by default;
    None if there are too few.
    """
    if (found := kept(facts, subject)) is not None:
        return found
    weeks = {"queue": facts.queue_weeks, "kind": facts.kind_weeks}.get(subject.what, {})
    week = facts.week if subject == ALL else weeks.get(subject.name)
    until = began or facts.now - RECENT
    return _weekly(week, until) or _before(facts, subject, until)


def kept(facts: HealthFacts, subject: Subject) -> Baseline | None:
    """Return the oldest given baseline of a subject; for a queue also that of a kind in it, which
    has its waits.
    """
    own = [known for (_, about), known in facts.baselines.items() if about == subject]
    if subject.what == "queue" and not own:
        own = [
            Baseline(before=of.before, minutes=of.minutes, wait=of.wait, waiting=of.waiting)
            for of in facts.baselines.values()
            if of.queue == subject.name
        ]
    return min(own, key=lambda known: known.before, default=None)


def _weekly(week: UsualHour | None, until: datetime) -> Baseline | None:
    if week is None or week.days < FEWEST_DAYS:
        return None
    span = week.days * timedelta(hours=1)
    return Baseline.of(week.tally, span, before=until, weekly=True)


def _before(facts: HealthFacts, subject: Subject, until: datetime) -> Baseline | None:
    before, hour = _sum(facts, subject, until=until), _hour(facts, subject)
    found = Baseline.of(before.tally, before.span, before=until)
    if found is None or hour is None:
        return found
    depths = [
        column.waiting
        for column in hour.columns
        if column.waiting is not None and column.at + hour.window.step <= until
    ]
    return replace(found, waiting=sorted(depths)[len(depths) // 2]) if depths else found


def _hour(facts: HealthFacts, subject: Subject) -> Figures | None:
    """Return the figures of the last hour; None if they were not read."""
    if subject == ALL:
        return None if isinstance(facts.hour, Unread) else facts.hour
    hours = facts.queue_hours if subject.what == "queue" else facts.kind_hours
    return hours.get(subject.name)


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


def grade_failing(
    share: float, failures: int, known: Baseline | None, *, fewest: int = FEWEST_FAILURES
) -> Level:
    """Return how bad it is that this share of attempts failed, of which at least the `fewest` must
    be more than usual.
    """
    if failures < fewest or share < FAILING_WARN_FLOOR:
        return Level.OK
    normal = usual_failing(known)
    expected = normal * failures / share
    if failures - expected >= max(fewest, CHANCE * sqrt(expected)):
        if share >= max(FAILING_CRITICAL_FLOOR, normal * FAILING_CRITICAL_TIMES):
            return Level.CRITICAL
        if share >= max(FAILING_WARN_FLOOR, normal * FAILING_WARN_TIMES):
            return Level.WARN
    if known is not None and known.minutes < 60 and share >= FAILING_TRUSTED:
        return Level.WARN
    return Level.OK


def usual_failing(known: Baseline | None) -> float:
    """Return the share of attempts that usually fails; 0 if unknown."""
    return (known.failing or 0.0) if known else 0.0


def usually(span: timedelta | None) -> str:
    """Return what is usual as the end of a sentence, with its comma; empty if unknown."""
    return f", usually {duration(span)}" if span is not None else ""


def percent(share: float) -> str:
    """Return a share in per cent: 31 %, 0.4 %."""
    value = share * 100
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
