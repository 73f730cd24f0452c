"""Find kinds that take far longer than usual, from their runs and from what runs now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import sqrt

from msgspec import Struct

from riverui.domain.figures import Tally
from riverui.domain.findings import (
    Finding,
    Level,
    Link,
    Unread,
    among,
    culprit,
    cut,
    passed,
    unknown,
)
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.change import Counts, calm, long_ones, rise
from riverui.domain.health.facts import HealthFacts, RunningJob
from riverui.domain.health.lost import hanging, overrun
from riverui.domain.health.usual import columns, kept, usual, within
from riverui.domain.text import counted
from riverui.domain.time import duration

SLOW_TIMES = 3.0
"""How many times the usual run time a kind may take: different args explain less than that."""
SLOW_CURE = "Look at the services and the database that it calls."
"""What to do about a slow kind."""
_LONG_TIMES = 2.0
"""How many times the usual run time makes a run a long one: a slow kind has many of them."""
_VERY_TIMES = 5.0
"""The same if no queue is late."""
_FELT = timedelta(seconds=10)
"""How much longer than usual a run must take to matter if no queue is late."""
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
    hung: int
    """How many jobs of it run for so long that they seem to hang."""

    @property
    def slow(self) -> bool:
        """Return whether it takes far longer than usual."""
        return self.began is not None and self.now >= self.normal * SLOW_TIMES

    @property
    def very_slow(self) -> bool:
        """Return whether it is so slow that it matters even if nothing waits."""
        return self.slow and self.now >= max(self.normal * _VERY_TIMES, self.normal + _FELT)

    @property
    def words(self) -> str:
        """Return both in words, after the kind's name."""
        return f"runs {duration(self.now)} (median), usually {duration(self.normal)}"


def runs(facts: HealthFacts, kind: str, hung: Sequence[RunningJob] = ()) -> KindRuns | None:
    """Return how long a kind runs, of which these jobs hang; None if it is not known how long it
    usually does.
    """
    subject = Subject("kind", kind)
    known = columns(facts, subject)
    usually = calm(known, lambda column: column.tally.run)
    if usually is None:
        return None
    newest = (within(facts, subject, since=facts.now - _NEWEST) or Tally()).run.quantile(0.5)
    # What is nearer to the newest runs than to the usual ones, if those are far apart.
    nearer = sqrt(newest / usually) if newest and usually else 0.0
    long = max(usually * max(_LONG_TIMES, nearer), _MOMENT)
    overdue = [age for age in _ages(facts, kind, hung) if age > long]
    counts = long_ones(known, lambda column: column.tally.run, long)
    counts.append(Counts(facts.now, len(overdue), len(overdue)))
    before = kept(facts, subject)
    began = before.before if before else rise(counts)
    if began is None and hung:
        # None of them has ended.
        began = min(job.attempted_at or facts.now for job in hung)
    before = before or usual(facts, subject, began)
    if before is None or before.run_median is None:
        return None
    since = facts.now - _NEWEST if began is None else max(began, facts.now - _NEWEST)
    times = (within(facts, subject, since=since) or Tally()).run.copy()
    for age in overdue:
        times.add(age)
    return KindRuns(
        kind=kind,
        hung=len(hung),
        now=times.quantile(0.5) or before.run_median,
        usual=before,
        normal=before.run_median,
        began=began,
    )


def slow_kinds(facts: HealthFacts) -> Finding:
    """Return whether a kind takes far longer than usual, whether or not its queue is late."""
    hung = hanging(facts)
    if facts.looking:
        return unknown(facts.looking)
    every = [runs(facts, kind, hung.get(kind, ())) for kind in {**hung, **facts.kind_hours}]
    slow = [found for found in every if found is not None and (found.hung or found.very_slow)]
    if not slow:
        return passed("No kind that was looked at takes far longer than usual.")
    worst = max(slow, key=lambda found: (found.hung, found.now / max(found.normal, _MOMENT)))
    hangs = f"; {counted(worst.hung, 'job')} of it still run" if worst.hung else ""
    more = among(found.kind for found in slow if found is not worst)
    return Finding(
        level=Level.WARN,
        evidence=f"{cut(worst.kind)} {worst.words}{hangs}.",
        cause=Cause.SLOW_KIND,
        title=f"{cut(worst.kind)} got slow.",
        headline=f"It {worst.words}{hangs}.",
        detail=f"{more} got slow too." if more else "",
        culprit=culprit("kind", worst.kind, 1.0),
        began=worst.began,
        baseline=worst.usual,
        cure=SLOW_CURE,
        link=Link(label="Open what runs", page="jobs", state="running", kind=worst.kind),
    )


def _ages(facts: HealthFacts, kind: str, hung: Sequence[RunningJob]) -> list[timedelta]:
    """Return how long jobs of a kind have been running, without those of clients that may be lost:
    of jobs that run too long, only those that hang count.
    """
    if isinstance(facts.running, Unread):
        return []
    lost = {(job.client, job.id) for job in overrun(facts)} - {(job.client, job.id) for job in hung}
    return [
        max(facts.now - job.attempted_at, timedelta(0))
        for job in facts.running.jobs
        if job.kind == kind and job.attempted_at is not None and (job.client, job.id) not in lost
    ]
