"""Rollups: the figures of one minute, ten minutes, hour or day, by queue and kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

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
"""How long rollups of each span are stored: minutes to look into last night, hours and days to
compare today with a year ago.
"""
PARTS: Mapping[timedelta, timedelta] = {TEN_MINUTES: MINUTE, HOUR: TEN_MINUTES, DAY: HOUR}
"""The span of the rollups that a wider one is made of, the finest first."""
MAX_PAIRS = 200
"""Pairs of queue and kind that a rollup holds by name, the busiest; the rest is `OTHER`."""
_CLIENT_SHARE = 0.99
"""The least share of a queue's ended jobs, by River's rows, that clients must have counted for
their figures to be used: a job or two may end between two readings. Below it, clients that do not
count work the queue too.
"""
_CLIENT_SHARE_SAMPLED = 0.9
"""The same if rows were sampled: the estimate may be too high by chance."""

SAMPLED = 10
"""One second of so many is read if too many jobs ended."""
_SECOND = timedelta(seconds=1)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The start of counting rollups, before all of them."""

Pair = tuple[str, str]
"""A queue and a kind."""
Range = tuple[datetime, datetime]
"""A range of time, without its end."""


class Waiting(Struct, frozen=True, kw_only=True):
    """The most jobs that were available at once."""

    jobs: int
    capped: bool
    """Whether counting stopped there."""
    oldest: timedelta
    """How long the oldest of them had been due."""

    def max(self, other: Waiting | None) -> Waiting:
        """Return the larger value of each."""
        if other is None:
            return self
        return Waiting(
            jobs=max(self.jobs, other.jobs),
            capped=self.capped or other.capped,
            oldest=max(self.oldest, other.oldest),
        )


NOTHING_WAITS = Waiting(jobs=0, capped=False, oldest=timedelta(0))


class Rollup(Struct, frozen=True, kw_only=True):
    """The figures of one span of time."""

    at: datetime
    """When it begins."""
    span: timedelta
    pairs: Mapping[Pair, Tally]
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    """By queue, if it was read; under the empty name of all queues together."""
    sampled: int = 1
    """One in so many ended jobs was read, and counts were multiplied by it."""

    @property
    def weight(self) -> int:
        """The number of its events. Of two rollups of the same time the heavier one is more
        complete: rows are deleted, and some failures become known late.
        """
        return sum(tally.weight for tally in self.pairs.values())

    def rows(self) -> Iterator[RollupRow]:
        """Yield its rows: one of everything, one of each queue, one of each kind in a queue."""
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
    """One row of a rollup: of everything (no queue, no kind), of a queue (no kind), or of a kind in
    a queue.
    """

    at: datetime
    """When the rollup begins."""
    queue: str
    kind: str
    sampled: int
    tally: Tally
    waiting: Waiting | None


class Stretch(NamedTuple):
    """A range of time, and the span of the rollups to read for it."""

    step: timedelta
    since: datetime
    until: datetime


def begin(at: datetime, span: timedelta) -> datetime:
    """Return the start of the rollup that covers this time."""
    return at - (at - EPOCH) % span


def ranges(since: datetime, until: datetime, *, sampled: bool) -> Iterator[Range]:
    """Yield the ranges of time to read, each within a minute: all of it, or one second of each ten.
    Which second that is changes, so that events at whole minutes are not over- or underrepresented.
    """
    at = since
    while at < until and not sampled:
        end = min(begin(at, MINUTE) + MINUTE, until)
        yield at, end
        at = end
    at = begin(since, SAMPLED * _SECOND)
    while at < until and sampled:
        second = at + (int(at.timestamp()) // SAMPLED * 7 + 3) % SAMPLED * _SECOND
        if since <= second < until:
            yield second, second + _SECOND
        at += SAMPLED * _SECOND


def from_rows(span: timedelta, rows: Iterable[RollupRow]) -> list[Rollup]:
    """Return the rollups that rows belong to, the oldest first."""
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
    """Return one rollup made of the known parts of its span."""
    pairs: dict[Pair, Tally] = {}
    waiting: dict[str, Waiting] = {}
    for part in parts:
        add_pairs(pairs, part.pairs.items())
        for queue, seen in part.waiting.items():
            waiting[queue] = seen.max(waiting.get(queue))
    sampled = max((part.sampled for part in parts), default=1)
    return Rollup(at=at, span=span, pairs=busiest(pairs), waiting=waiting, sampled=sampled)


def add_pairs(pairs: dict[Pair, Tally], others: Iterable[tuple[Pair, Tally]]) -> None:
    """Add the counts of others, without sharing any tally with them."""
    for pair, tally in others:
        if (known := pairs.get(pair)) is None:
            known = pairs[pair] = Tally()
        known.merge(tally)


def busiest(pairs: dict[Pair, Tally], most: int = MAX_PAIRS) -> dict[Pair, Tally]:
    """Return at most so many pairs by name, those with the most ended jobs and failed attempts,
    then those with the most inserted jobs. The rest is added up as kind `OTHER` of its queue, or of
    queue `OTHER` if none of the queue's kinds is kept.
    """
    named = [pair for pair in pairs if pair[1] != OTHER]
    if len(named) <= most:
        return pairs
    named.sort(
        key=lambda pair: (-pairs[pair].ended - pairs[pair].failed, -pairs[pair].inserted, pair)
    )
    kept = {pair: pairs[pair] for pair in named[:most]}
    queues = {queue for queue, _ in kept}
    rest: dict[Pair, Tally] = {}
    for pair in pairs.keys() - kept.keys():
        add_pairs(rest, [((pair[0] if pair[0] in queues else OTHER, OTHER), pairs[pair])])
    return kept | rest


def stretches(
    since: datetime, until: datetime, newest: Mapping[timedelta, datetime], *, widest: timedelta
) -> list[Stretch]:
    """Return which rollups to read for a range of time: those as wide as `widest` if they are
    complete, and finer ones at both ends.

    `newest` has the start of the newest rollup of each span. A wider one is made as soon as its
    time is over, so none is missing before the newest.
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


def ends_by_clients(
    rows: Mapping[Pair, Tally], clients: Mapping[Pair, Tally], *, sampled: bool
) -> frozenset[str]:
    """Return the queues whose ended jobs are taken from clients instead of River's rows: those of
    which clients have counted nearly all jobs.
    """
    by_rows, by_clients = _ended(rows), _ended(clients)
    share = _CLIENT_SHARE_SAMPLED if sampled else _CLIENT_SHARE
    # `OTHER` stands for several queues; if rows have it, a queue that they do not name is in it.
    named = by_clients.keys() - {OTHER}
    if OTHER in by_rows:
        named &= by_rows.keys()
    return frozenset(
        queue
        for queue in named
        if by_clients[queue] and by_clients[queue] >= share * by_rows.get(queue, 0)
    )


def choose_ends(
    rows: Mapping[Pair, Tally], clients: Mapping[Pair, Tally], *, queues: frozenset[str]
) -> dict[Pair, Tally]:
    """Return the ended jobs of these queues as counted by clients, and of all others by rows."""
    ends = {pair: tally for pair, tally in rows.items() if pair[0] not in queues}
    for pair, tally in clients.items():
        if pair[0] in queues:
            ends[pair] = ended_only(tally)
    return ends


def ended_only(tally: Tally) -> Tally:
    """Return a tally of the same ended jobs and nothing else. It shares its sketches."""
    return replace(tally, failed=0, snoozed=0, interrupted=0, inserted=0, cpu_us=0, cpu_attempts=0)


def without_ends(tally: Tally) -> Tally:
    """Return a tally of the same failed attempts and inserted jobs."""
    return Tally(failed=tally.failed, inserted=tally.inserted)


def choose_failures(rows: Mapping[Pair, int], clients: Mapping[Pair, int]) -> Mapping[Pair, int]:
    """Return the failed attempts that began in a span of time, of each pair the larger number: rows
    are deleted, and clients do not count attempts that took long.
    """
    if any(kind == OTHER for _, kind in (*rows, *clients)):
        # One may have summed up what the other has by name.
        return max(rows, clients, key=lambda counts: sum(counts.values()))
    return {pair: max(rows.get(pair, 0), clients.get(pair, 0)) for pair in {**rows, **clients}}


def _ended(pairs: Mapping[Pair, Tally]) -> dict[str, int]:
    ended: dict[str, int] = {}
    for (queue, _), tally in pairs.items():
        ended[queue] = ended.get(queue, 0) + tally.ended
    return ended
