"""The minutes that a dashboard would have gathered while a world was played."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from math import exp, floor, inf
from random import Random

from bench.incidents.background import DAY, MINUTE, PAST, RECENT, Background, Kind
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
        self._waiting = _waits(jobs)

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
                waiting=self._waiting_at(self.begins(number)),
            )
            for number in range(first, last)
        ]

    def _waiting_at(self, begins: datetime) -> Mapping[str, Waiting]:
        at = (begins - self.start).total_seconds() + MINUTE / 2
        found = {}
        jobs, oldest = 0, 0.0
        for queue, (times, seen) in self._waiting.items():
            place = bisect_right(times, at) - 1
            count, since = seen[place] if place >= 0 else (0, inf)
            if count:
                age = max(0.0, at - since)
                found[queue] = Waiting(jobs=count, capped=False, oldest=timedelta(seconds=age))
                jobs, oldest = jobs + count, max(oldest, age)
        found[""] = Waiting(jobs=jobs, capped=False, oldest=timedelta(seconds=oldest))
        return found


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


def _waits(jobs: Sequence[Job]) -> Mapping[str, tuple[list[float], list[tuple[int, float]]]]:
    """Return how many jobs of each queue waited at certain times, and since when the oldest did."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for job in jobs:
        own = spans.setdefault(job.kind.queue, [])
        own += [(attempt.due, attempt.start) for attempt in job.attempts]
        last = job.attempts[-1] if job.attempts else None
        if job.moved < inf and (last is None or last.state == "retryable"):
            own.append((job.due, job.cancelled))
    return {queue: _depths(own) for queue, own in spans.items()}


def _depths(spans: list[tuple[float, float]]) -> tuple[list[float], list[tuple[int, float]]]:
    spans.sort()
    waiting: list[tuple[float, float]] = []
    times, seen, place, count = [], [], 0, 0
    at, step = -RECENT, MINUTE / 4
    ends: list[float] = []
    last = max((span[0] for span in spans), default=-RECENT)
    while at < max(last, 0.0) + 40 * MINUTE:
        while place < len(spans) and spans[place][0] <= at:
            heappush(waiting, spans[place])
            heappush(ends, spans[place][1])
            place, count = place + 1, count + 1
        while ends and ends[0] <= at:
            heappop(ends)
            count -= 1
        while waiting and waiting[0][1] <= at:
            heappop(waiting)
        times.append(at)
        seen.append((count, waiting[0][0] if waiting else inf))
        at += step
    return times, seen


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
    minutes = span.total_seconds() / MINUTE
    pairs = {}
    for kind in background.kinds:
        share = 1.0 if kind.every else background.share_of_day(offset)
        jobs = _poisson(kind.rate * minutes * share, rng)
        if jobs:
            pairs[kind.queue, kind.name] = _tally(kind, jobs, rng)
    nothing = Waiting(jobs=0, capped=False, oldest=timedelta(0))
    return Rollup(at=at, span=span, pairs=pairs, waiting={"": nothing})


def _tally(kind: Kind, jobs: int, rng: Random) -> Tally:
    tally = Tally(completed=jobs, inserted=jobs, failed=_poisson(jobs * kind.failing, rng))
    shown = min(jobs, _SAMPLED)
    for number in range(shown):
        times = jobs // shown + (number < jobs % shown)
        tally.run.add_microseconds(int(kind.run_seconds(rng) * 1e6), times)
        tally.wait.add_microseconds(int(rng.expovariate(4) * 1e6), times)
    return tally


def _poisson(mean: float, rng: Random) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, mean**0.5)))
    limit, count, product = exp(-mean), 0, rng.random()
    while product > limit:
        count, product = count + 1, product * rng.random()
    return count
