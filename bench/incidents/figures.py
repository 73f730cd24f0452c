"""The minutes that a dashboard would have gathered while a world was played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import floor, inf
from random import Random

from bench.incidents.background import AFTER, DAY, MINUTE, PAST, RECENT, Background
from bench.incidents.world import Job
from riverui.domain.figures import Tally
from riverui.features.figures.domain import Pair, Rollup, Waiting, begin

_TEN = 10 * MINUTE
_HOUR = 60 * MINUTE
_SETTLED = 3 * MINUTE
"""Seconds from the beginning of a minute until it is stored."""
_SAMPLED = 60
"""Runs of which a made-up sketch consists."""


class Minutes:
    """Figures by minute, brought forward from one time to the next."""

    def __init__(self, jobs: Sequence[Job], start: datetime) -> None:
        self.start = start
        self._shift = (start - begin(start, timedelta(minutes=1))).total_seconds()
        self._pairs: dict[int, dict[Pair, Tally]] = {}
        self._events = sorted(_events(jobs), key=lambda event: event[0])
        self._next = 0
        self._waits: dict[int, dict[str, tuple[int, float]]] = {}
        """By minute and queue: how many jobs waited, and since when the oldest did."""
        for job in jobs:
            for attempt in job.attempts:
                self._wait(job, attempt.due, attempt.start)
            last = job.attempts[-1].state if job.attempts else "retryable"
            if last == "retryable" and job.moved < inf:
                self._wait(job, job.due, job.cancelled)

    def number(self, at: float) -> int:
        """Return the number of the minute of this time: the incident begins in minute 0."""
        return floor((at + self._shift) / MINUTE)

    def begins(self, number: int) -> datetime:
        """Return when a minute begins."""
        return self.start + timedelta(seconds=number * MINUTE - self._shift)

    def play(self, until: float) -> None:
        """Count what was known by then."""
        while self._next < len(self._events) and self._events[self._next][0] <= until:
            _, at, job, what, run, wait = self._events[self._next]
            self._next += 1
            pairs = self._pairs.setdefault(self.number(at), {})
            pair = (job.kind.queue, job.kind.name)
            tally = pairs.get(pair)
            if tally is None:
                tally = pairs[pair] = Tally()
            setattr(tally, what, getattr(tally, what) + 1)
            if what == "completed":
                tally.run.add_microseconds(int(run * 1e6))
                tally.wait.add_microseconds(max(0, int(wait * 1e6)))

    def settled(self, at: float) -> Sequence[Rollup]:
        """Return the minutes that a dashboard had stored by that time."""
        first, last = self.number(-RECENT), self.number(at - _SETTLED)
        return [
            Rollup(
                at=self.begins(number),
                span=timedelta(minutes=1),
                pairs=self._pairs.get(number, {}),
                waiting=self._waiting_at(number),
            )
            for number in range(first, last)
        ]

    def _waiting_at(self, number: int) -> Mapping[str, Waiting]:
        at = number * MINUTE - self._shift + MINUTE / 2
        found, total = {}, Waiting(jobs=0, capped=False, oldest=timedelta(0))
        for queue, (jobs, since) in self._waits.get(number, {}).items():
            found[queue] = Waiting(jobs=jobs, capped=False, oldest=timedelta(seconds=at - since))
            jobs += total.jobs
            total = Waiting(jobs=jobs, capped=False, oldest=max(total.oldest, found[queue].oldest))
        return {**found, "": total}

    def _wait(self, job: Job, due: float, start: float) -> None:
        """Count a job that waits in the middle of some minutes."""
        half = MINUTE / 2
        for number in range(self.number(due - half) + 1, self.number(min(start, AFTER) - half) + 1):
            queues = self._waits.setdefault(number, {})
            jobs, since = queues.get(job.kind.queue, (0, due))
            queues[job.kind.queue] = (jobs + 1, min(since, due))


def _events(jobs: Sequence[Job]) -> list[tuple[float, float, Job, str, float, float]]:
    """Return when something was known, the time it counts for, the job, and what happened."""
    found: list[tuple[float, float, Job, str, float, float]] = []
    for job in jobs:
        found.append((job.created, job.created, job, "inserted", 0.0, 0.0))
        if job.cancelled < inf and not job.attempts:
            found.append((job.cancelled, job.cancelled, job, "cancelled", 0.0, 0.0))
        for attempt in job.attempts:
            if attempt.end == inf:
                continue
            run, wait = attempt.end - attempt.start, attempt.start - attempt.due
            if attempt.error:
                found.append((attempt.end, attempt.start, job, "failed", run, wait))
            if attempt.state in ("completed", "discarded"):
                found.append((attempt.end, attempt.end, job, attempt.state, run, wait))
    return found


def earlier(background: Background, start: datetime) -> list[Rollup]:
    """Return what a dashboard has stored of the hours before, and of the same hours of a week."""
    rng = Random(f"earlier {background.seed}")
    found = []
    for span, since, until in (
        (timedelta(minutes=10), -PAST, -RECENT),
        (timedelta(hours=1), -7 * DAY - 2 * _HOUR, -2 * _HOUR),
    ):
        at = begin(start + timedelta(seconds=since), span)
        while at + span <= start + timedelta(seconds=until):
            offset = (at - start).total_seconds()
            hours = (-offset / _HOUR) % 24
            if span < timedelta(hours=1) or hours < 3 or hours > 22:
                found.append(_usual(background, at, span, offset, rng))
            at += span
    return found


def _usual(
    background: Background, at: datetime, span: timedelta, offset: float, rng: Random
) -> Rollup:
    minutes, pairs = span.total_seconds() / MINUTE, {}
    for kind in background.kinds:
        share = 1.0 if kind.every else background.share_of_day(offset)
        if jobs := _about(kind.rate * minutes * share, rng):
            failed = _about(jobs * kind.failing, rng)
            tally = Tally(completed=jobs, inserted=jobs, failed=failed)
            shown = min(jobs, _SAMPLED)
            for number in range(shown):
                times = jobs // shown + (number < jobs % shown)
                tally.run.add_microseconds(int(kind.run_seconds(rng) * 1e6), times)
                tally.wait.add_microseconds(int(rng.expovariate(4) * 1e6), times)
            pairs[kind.queue, kind.name] = tally
    nothing = Waiting(jobs=0, capped=False, oldest=timedelta(0))
    return Rollup(at=at, span=span, pairs=pairs, waiting={"": nothing})


def _about(mean: float, rng: Random) -> int:
    """Return how many events there were, if so many are expected."""
    return max(0, round(rng.gauss(mean, mean**0.5)))
