"""Reads the hours before the last one, which show what was usual before a problem began."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from riverui.domain.figures import PastColumn, Tally
from riverui.features.figures.domain import (
    HOUR,
    MINUTE,
    TEN_MINUTES,
    Pair,
    Range,
    add_pairs,
    begin,
    busiest,
)
from riverui.features.figures.store import JobFigures

PAST = 5 * HOUR
"""How far back it goes before the last hour: further than most problems last unseen."""
_MOST = 20_000
"""Ended jobs that are read of it: some 0.1 seconds of Postgres's processor."""
_UNFINISHED = 5_000
"""Retryable jobs whose errors are read: most failures of the hours before are theirs."""
_EVERY = 10
"""One of so many minutes is read at least, a part of it if it has too many jobs."""

Past = Mapping[datetime, tuple[timedelta, Mapping[Pair, Tally]]]
"""How much was read of each ten minutes, and its tallies."""


async def read_past(jobs: JobFigures, until: datetime, *, pairs: int) -> Past:
    """Return ten minutes each of the hours before then, from all ended jobs or a sample."""
    until = begin(until, TEN_MINUTES)
    since = until - PAST
    count, reached = await jobs.job_completed_pace_get(since, most=_MOST)
    share = 1.0 if count < _MOST else (reached - since) / PAST
    # Up to now, which is at most an hour and ten minutes later.
    ranges = _sample(since, until + HOUR + TEN_MINUTES, share)
    spans = [each for each in ranges if each[0] < until]
    ended = await jobs.job_ended_tally_list(spans, pairs=2 * pairs, step=TEN_MINUTES)
    past: dict[datetime, tuple[timedelta, dict[Pair, Tally]]] = {}
    for start, end in spans:
        at = begin(start, TEN_MINUTES)
        read, known = past.setdefault(at, (timedelta(0), {}))
        past[at] = (read + (end - start), known)
    for at, tallies in ended.items():
        add_pairs(past[at][1], tallies.items())
    # Of the jobs that ended in these ranges, since then too: each attempt is found with the same
    # probability. Unfinished jobs are all read.
    found = list(await jobs.job_ended_failure_list(ranges))
    unfinished = await jobs.job_unfinished_failure_list(since, cap=_UNFINISHED)
    found += [failed for failed in unfinished if _within(failed.at, spans)]
    for failed in found:
        at = begin(failed.at, TEN_MINUTES)
        if at in past:
            past[at][1].setdefault((failed.queue, failed.kind), Tally()).failed += 1
    return {at: (read, busiest(known, pairs)) for at, (read, known) in past.items()}


def past_columns(past: Past, *, queue: str = "", kind: str = "") -> Sequence[PastColumn]:
    """Return the columns of one queue, of one kind, or of everything."""
    columns = []
    for at, (read, tallies) in sorted(past.items()):
        total = Tally()
        for (queue_name, kind_name), tally in tallies.items():
            if queue in ("", queue_name) and kind in ("", kind_name):
                total.merge(tally)
        columns.append(PastColumn(at=at, span=read, tally=total))
    return columns


def _within(at: datetime, spans: Sequence[Range]) -> bool:
    """Return whether it lies in one of these ranges of time, which follow each other."""
    found = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return found >= 0 and at < spans[found][1]


def _sample(since: datetime, until: datetime, share: float) -> list[Range]:
    """Return ranges of time that make up this share of it, each within a minute."""
    every = min(_EVERY, max(1, round(1 / share)) if share else _EVERY)
    seconds = max(1, min(60, int(60 * share * every)))
    ranges = []
    for number in range((until - since) // (every * MINUTE)):
        # Which seconds these are changes: events at whole minutes count as all others.
        start = since + number * every * MINUTE + number * 7 % (61 - seconds) * (MINUTE / 60)
        ranges.append((start, start + seconds * (MINUTE / 60)))
    return ranges
