"""Find kinds that take far longer than usual, from their runs and from what runs now."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from riverui.domain.findings import Unread
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.change import Counts, calm, rise
from riverui.domain.health.facts import HealthFacts
from riverui.domain.health.usual import columns, kept, usual, within
from riverui.domain.sketch import Sketch
from riverui.domain.time import duration

SLOW_TIMES = 3.0
"""How many times the usual run time a kind may take: different args explain less than that."""
_LONG_TIMES = 2.0
"""How many times the usual run time makes a run a long one: a slow kind has many of them."""
_NEWEST = timedelta(minutes=5)
"""How long ago runs may have ended that show how slow a kind is now."""
_MOMENT = timedelta(seconds=1)
"""Runs that are shorter are never long."""


class KindRuns(Struct, frozen=True, kw_only=True):
    """How long a kind runs, now and usually."""

    kind: str
    now: timedelta
    """The median."""
    usual: Baseline
    normal: timedelta
    """The usual median."""
    began: datetime | None
    """Since when it has been slow; None if it is not."""

    @property
    def slow(self) -> bool:
        """Return whether it takes far longer than usual."""
        return self.began is not None and self.now >= self.normal * SLOW_TIMES

    @property
    def words(self) -> str:
        """Return both in words, after the kind's name."""
        return f"runs {duration(self.now)} (median), usually {duration(self.normal)}"


def runs(facts: HealthFacts, kind: str) -> KindRuns | None:
    """Return how long a kind runs; None if it is not known how long it usually does."""
    subject = Subject("kind", kind)
    known = columns(facts, subject)
    usually = calm(known, lambda column: column.tally.run)
    if usually is None:
        return None
    long = max(usually * _LONG_TIMES, _MOMENT)
    running = [age for age, of in _ages(facts) if of == kind]
    overdue = [age for age in running if age > long]
    counts = [Counts(c.at, c.tally.run.above(long), c.tally.run.n) for c in known]
    counts.append(Counts(facts.now, len(overdue), len(overdue)))
    before = kept(facts, subject)
    began = before.before if before else rise(counts)
    before = before or usual(facts, subject, began)
    if before is None or before.run_median is None:
        return None
    if began is None and before.run_p99 is not None:
        # A kind that hangs: none of those that are slow has ended.
        hanging = [age for age in running if age > max(long, before.run_p99 * SLOW_TIMES)]
        if hanging and len(hanging) * 2 >= len(running):
            began = facts.now - max(hanging)
    since = facts.now - _NEWEST if began is None else max(began, facts.now - _NEWEST)
    tally = within(facts, subject, since=since)
    newest = Sketch() if tally is None else tally.run
    for age in overdue:
        newest.add(age)
    return KindRuns(
        kind=kind,
        now=newest.quantile(0.5) or before.run_median,
        usual=before,
        normal=before.run_median,
        began=began,
    )


def _ages(facts: HealthFacts) -> list[tuple[timedelta, str]]:
    """Return how long each running job has been running, and its kind."""
    if isinstance(facts.running, Unread):
        return []
    return [
        (max(facts.now - job.attempted_at, timedelta(0)), job.kind)
        for job in facts.running.jobs
        if job.attempted_at is not None
    ]
