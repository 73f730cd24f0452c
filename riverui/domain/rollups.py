"""Figures as they are stored: buckets of a minute, ten minutes, an hour and a day, each made of
those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from riverui.domain.figures import OTHER, Tally

MINUTE = timedelta(minutes=1)
TEN_MINUTES = timedelta(minutes=10)
"""The span between a minute and an hour: a day has 144 of them, which a chart can draw."""
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

KEPT: Mapping[timedelta, timedelta] = {
    MINUTE: timedelta(hours=48),
    TEN_MINUTES: timedelta(days=14),
    HOUR: timedelta(days=400),
    DAY: timedelta(days=400),
}
"""How long buckets of each span are kept: so long that a year ago can be compared with today, and
minutes as long as somebody looks into what happened last night.
"""
PARTS: Mapping[timedelta, timedelta] = {TEN_MINUTES: MINUTE, HOUR: TEN_MINUTES, DAY: HOUR}
"""What buckets of each span are made of, the finest first."""
MOST_PAIRS = 200
"""Queues and kinds that a bucket tells apart, the busiest; the rest is `OTHER`."""

Pair = tuple[str, str]
"""A queue and a kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The most that waited within a bucket."""

    jobs: int
    capped: bool
    """Whether there were at least that many."""
    oldest: timedelta
    """How long the job that had waited longest had been due."""

    def max(self, other: Waiting | None) -> Waiting:
        """Return the most of both."""
        if other is None:
            return self
        return Waiting(
            jobs=max(self.jobs, other.jobs),
            capped=self.capped or other.capped,
            oldest=max(self.oldest, other.oldest),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollup:
    """What was done in one span of time."""

    at: datetime
    """When it begins."""
    span: timedelta
    pairs: Mapping[Pair, Tally]
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    """By queue, where it was looked at; under the empty name all queues together."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""

    @property
    def weight(self) -> int:
        """Return how much it tells of. Of two that tell of the same time the one that tells of
        more is nearer to what happened: rows vanish, and failures are learned of late.
        """
        return sum(
            tally.ended + tally.failed + tally.snoozed + tally.interrupted + tally.inserted
            for tally in self.pairs.values()
        )

    def rows(self) -> Iterator[RollupRow]:
        """Yield all that is stored of it: everything together, each queue, each kind in a queue."""
        whole, queues = Tally(), dict[str, Tally]()
        for (queue, _), tally in self.pairs.items():
            whole.merge(tally)
            queues.setdefault(queue, Tally()).merge(tally)
        yield RollupRow(self.at, "", "", self.sampled, whole, self.waiting.get(""))
        # In the order of the table's key, which keeps its index small.
        for queue in sorted(queues.keys() | (self.waiting.keys() - {""})):
            tally = queues.get(queue) or Tally()
            yield RollupRow(self.at, queue, "", self.sampled, tally, self.waiting.get(queue))
        for (queue, kind), tally in sorted(self.pairs.items(), key=lambda item: item[0]):
            yield RollupRow(self.at, queue, kind, self.sampled, tally, None)


class RollupRow(NamedTuple):
    """One row of the table: of everything (no queue, no kind), of a queue (no kind), of a kind in a
    queue.
    """

    at: datetime
    """When the bucket begins."""
    queue: str
    kind: str
    sampled: int
    tally: Tally
    waiting: Waiting | None


class Stretch(NamedTuple):
    """A span of time, and of which buckets it is told."""

    step: timedelta
    since: datetime
    until: datetime


def begin(at: datetime, span: timedelta) -> datetime:
    """Return when the bucket begins that this time is in."""
    seconds = int(span.total_seconds())
    return datetime.fromtimestamp(int(at.timestamp()) // seconds * seconds, UTC)


def from_rows(span: timedelta, rows: Iterable[RollupRow]) -> list[Rollup]:
    """Return the buckets that rows tell of, the oldest first."""
    found: dict[datetime, tuple[dict[Pair, Tally], dict[str, Waiting], list[int]]] = {}
    for row in rows:
        pairs, waiting, sampled = found.setdefault(row.at, ({}, {}, [1]))
        sampled.append(row.sampled)
        if row.kind:
            pairs[row.queue, row.kind] = row.tally
        elif row.waiting is not None:
            waiting[row.queue] = row.waiting
    return [
        Rollup(at=at, span=span, pairs=pairs, waiting=waiting, sampled=max(sampled))
        for at, (pairs, waiting, sampled) in sorted(found.items())
    ]


def fold(parts: Sequence[Rollup], *, at: datetime, span: timedelta) -> Rollup:
    """Return one bucket of the parts of its time that are known."""
    pairs: dict[Pair, Tally] = {}
    waiting: dict[str, Waiting] = {}
    for part in parts:
        add_pairs(pairs, part.pairs.items())
        for queue, seen in part.waiting.items():
            waiting[queue] = seen.max(waiting.get(queue))
    sampled = max((part.sampled for part in parts), default=1)
    return Rollup(at=at, span=span, pairs=busiest(pairs), waiting=waiting, sampled=sampled)


def add_pairs(pairs: dict[Pair, Tally], others: Iterable[tuple[Pair, Tally]]) -> None:
    """Count what others have counted."""
    for pair, tally in others:
        if (known := pairs.get(pair)) is None:
            known = pairs[pair] = Tally()
        known.merge(tally)


def busiest(pairs: dict[Pair, Tally], most: int = MOST_PAIRS) -> dict[Pair, Tally]:
    """Return at most so many pairs apart, those with the most ends and failures; the other kinds
    are told as `OTHER` of their queue, and of queues that have none of those pairs as `OTHER` too.
    """
    told = [pair for pair in pairs if pair[1] != OTHER]
    if len(told) <= most:
        return pairs
    told.sort(key=lambda pair: (-(pairs[pair].ended + pairs[pair].failed), pair))
    kept = {pair: pairs[pair] for pair in told[:most]}
    queues = {queue for queue, _ in kept}
    rest: dict[Pair, Tally] = {}
    for pair in pairs.keys() - kept.keys():
        add_pairs(rest, [((pair[0] if pair[0] in queues else OTHER, OTHER), pairs[pair])])
    return kept | rest


def stretches(
    since: datetime, until: datetime, newest: Mapping[timedelta, datetime], *, widest: timedelta
) -> list[Stretch]:
    """Return of which buckets a span of time is told best: of those as wide as `widest` where they
    are finished, and of finer ones at its ends.

    `newest` tells when the newest bucket of each span begins. What is wider is made of what is
    finer as soon as it is over, so nothing is missed in between.
    """
    spans = [span for span in sorted(KEPT, reverse=True) if span <= widest]
    return list(_stretches(since, until, newest, spans))


def _stretches(
    since: datetime, until: datetime, newest: Mapping[timedelta, datetime], spans: list[timedelta]
) -> Iterator[Stretch]:
    if since >= until or not spans:
        return
    step, finer = spans[0], spans[1:]
    first = begin(since, step)
    first = first if first == since else first + step
    last = min(begin(until, step), newest[step] + step) if step in newest else first
    if last <= first:
        yield from _stretches(since, until, newest, finer)
        return
    yield from _stretches(since, first, newest, finer)
    yield Stretch(step, first, last)
    yield from _stretches(last, until, newest, finer)
