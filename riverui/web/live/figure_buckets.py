"""What the collector knows of one span of time, and of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from riverui.domain.client_figures import ends_of, failures_of
from riverui.domain.figures import Tally
from riverui.storage.interface.figures import FailedAttempt, InsertedTally, QueueWaiting
from riverui.web.live.figure_cells import (
    Cells,
    Pair,
    cell,
    fits,
    fold,
    limit_counts,
    merge_cells,
    merge_packed,
    pack_cells,
)

PART = 10
"""Seconds of the smallest span that is read at once: that from one tick to the next."""
MINUTE = 60
"""Seconds of a bucket of the newest hour."""
TEN = 600
"""Seconds of a bucket of the newest day."""
DAY = 86_400
"""Seconds for which buckets are kept, besides a column of the widest window of them."""
KEPT_MINUTES = 3600
"""Seconds for which buckets of a minute are kept, and until their ten minutes are over."""


@dataclass(kw_only=True, slots=True)
class Waiting:
    """The most that waited in a queue within a bucket."""

    jobs: int = 0
    capped: bool = False
    oldest: float = 0.0
    """Seconds."""


class Bucket:
    """A minute or ten, told by queue and kind. Times are seconds since 1970.

    Ends are read in parts of ten seconds. What is read of a part that may still change is kept
    apart and replaced; a part is final once it was read after it had settled.
    """

    __slots__ = (
        "by_clients",
        "client_failed",
        "clients",
        "failed",
        "final",
        "growing",
        "inserted",
        "interrupted",
        "live",
        "packed",
        "sampled",
        "seconds",
        "settled",
        "snoozed",
        "start",
        "total",
        "waiting",
    )

    def __init__(self, start: int, seconds: int) -> None:
        self.start = start
        self.seconds = seconds
        self.final = 0
        """A bit for each part that is final."""
        self.settled: Cells = {}
        """What ended in the final parts, until all of them are."""
        self.packed: dict[Pair, bytes] | None = None
        """The same, once all are."""
        self.total: Tally | None = None
        """All pairs of those together, once all are."""
        self.live: dict[int, Cells] = {}
        """What ended in other parts, by the part's number."""
        self.clients: Mapping[Pair, Tally] = {}
        """What workers told of it, until all parts are final."""
        self.by_clients = False
        """Whether ends of some queue are theirs."""
        self.client_failed: dict[Pair, int] = {}
        self.snoozed: dict[Pair, int] = {}
        self.interrupted: dict[Pair, int] = {}
        self.failed: dict[Pair, int] = {}
        self.inserted: dict[Pair, int] = {}
        self.growing: dict[Pair, int] = {}
        """The newest of those that were inserted, counted anew by each tick."""
        self.waiting: dict[str, Waiting] = {}
        """By queue; under the empty name all queues together."""
        self.sampled = 1

    @property
    def end(self) -> int:
        """Return when it ends."""
        return self.start + self.seconds

    @property
    def parts(self) -> int:
        """Return how many parts it has."""
        return self.seconds // PART

    @property
    def complete(self) -> bool:
        """Return whether all of it is final."""
        return self.packed is not None

    def known(self, until: float) -> bool:
        """Return whether every part that began before then was read."""
        if self.complete:
            return True
        began = min(self.parts, max(0, ceil((until - self.start) / PART)))
        return began > 0 and all(self.final >> n & 1 or n in self.live for n in range(began))

    def due(self, settled: float) -> Iterator[int]:
        """Yield the parts that had settled by then and are not final, the newest first."""
        if self.complete:
            return
        last = min(self.parts, max(0, (int(settled) - self.start) // PART))
        yield from (n for n in range(last - 1, -1, -1) if not self.final >> n & 1)

    def completed_by(self, parts: Iterable[int]) -> bool:
        """Return whether all parts are final once these are."""
        final = self.final
        for part in parts:
            final |= 1 << part
        return final == (1 << self.parts) - 1

    def put(self, part: int, cells: Cells, sampled: int) -> None:
        """Replace what is known of a part that may still change."""
        if not self.final >> part & 1:
            self.live[part] = cells
            self.sampled = max(self.sampled, sampled)

    def settle(self, parts: Sequence[int], cells: Cells, sampled: int, *, most: int) -> None:
        """Take these parts as final. `most` pairs are kept apart once all parts are."""
        for part in parts:
            self.final |= 1 << part
            self.live.pop(part, None)
        self.sampled = max(self.sampled, sampled)
        merge_cells(self.settled, cells)
        if len(self.settled) > 4 * most:
            self.settled = fold(self.settled, 2 * most)
        if self.completed_by(()):
            self._pack(most)

    def told_by_clients(self, counts: Mapping[Pair, Tally], *, most: int) -> None:
        """Take failed, snoozed and interrupted attempts as workers told them, unless all parts are
        final.
        """
        if not self.complete:
            for layer, name in (
                (self.client_failed, "failed"),
                (self.snoozed, "snoozed"),
                (self.interrupted, "interrupted"),
            ):
                layer.clear()
                layer |= {pair: n for pair, tally in counts.items() if (n := getattr(tally, name))}
                limit_counts(layer, most)

    def take_clients(self, told: Mapping[Pair, Tally], *, most: int) -> None:
        """Take all that workers told, before the last part is final."""
        self.told_by_clients(told, most=most)
        self.clients = told

    def failures(self) -> Mapping[Pair, int]:
        """Return the failed attempts."""
        return failures_of(self.failed, self.client_failed)

    def _pack(self, most: int) -> None:
        ends = ends_of(self.settled, self.clients, sampled=self.sampled > 1)
        if ends is not None:
            self.settled, self.by_clients = ends, True
        self.clients = {}
        kept, self.packed = pack_cells(self.settled, most)
        self.total = Tally()
        for tally in kept.values():
            self.total.merge(tally)
        self.settled = {}

    def absorb(self, other: Bucket, *, most: int) -> None:
        """Count what a complete bucket within this one holds, unless it was read anew."""
        first = (other.start - self.start) // PART
        if self.final >> first & 1:
            return
        cells: Cells = {}
        other.merge_ended(cells)
        self.by_clients = self.by_clients or other.by_clients
        for layer, theirs in (
            (self.failed, other.failures()),
            (self.snoozed, other.snoozed),
            (self.interrupted, other.interrupted),
            (self.inserted, other.inserted),
        ):
            for pair, n in theirs.items():
                layer[pair] = layer.get(pair, 0) + n
            limit_counts(layer, most)
        for queue, waiting in other.waiting.items():
            self.note_waiting(queue, waiting)
        self.settle(range(first, first + other.parts), cells, other.sampled, most=most)

    def note_waiting(self, queue: str, seen: Waiting) -> None:
        """Count what was seen to wait, if it is more than before."""
        known = self.waiting.setdefault(queue, Waiting())
        known.jobs = max(known.jobs, seen.jobs)
        known.capped = known.capped or seen.capped
        known.oldest = max(known.oldest, seen.oldest)

    def merge_ended(self, cells: Cells, *, queue: str = "", kind: str = "") -> None:
        """Add the jobs that ended to these cells, of one queue or kind where they are named."""
        for pair, packed in (self.packed or {}).items():
            if fits(pair, queue, kind):
                merge_packed(cell(cells, pair), packed)
        for found in (self.settled, *self.live.values()):
            for pair, tally in found.items():
                if fits(pair, queue, kind):
                    cell(cells, pair).merge(tally)

    def merge_counts(self, cells: Cells, *, queue: str = "", kind: str = "") -> None:
        """Add inserted jobs and attempts that ended no job to these cells."""
        for pair, n in self.failures().items():
            if fits(pair, queue, kind):
                cell(cells, pair).failed += n
        for pair, n in self.snoozed.items():
            if fits(pair, queue, kind):
                cell(cells, pair).snoozed += n
        for pair, n in self.interrupted.items():
            if fits(pair, queue, kind):
                cell(cells, pair).interrupted += n
        for pair, n in (*self.inserted.items(), *self.growing.items()):
            if fits(pair, queue, kind):
                cell(cells, pair).inserted += n

    def cells(self) -> Cells:
        """Return all of it by queue and kind."""
        cells = Cells()
        self.merge_ended(cells)
        self.merge_counts(cells)
        return cells

    def tally(self, *, queue: str = "", kind: str = "") -> Tally:
        """Return all of it together, of one queue or kind where they are named."""
        total, cells = Tally(), Cells()
        if self.total is not None and not (queue or kind):
            total.merge(self.total)
        else:
            self.merge_ended(cells, queue=queue, kind=kind)
            for tally in cells.values():
                total.merge(tally)
        total.failed += _sum(self.failures(), queue, kind)
        total.snoozed += _sum(self.snoozed, queue, kind)
        total.interrupted += _sum(self.interrupted, queue, kind)
        total.inserted += _sum(self.inserted, queue, kind) + _sum(self.growing, queue, kind)
        return total


def _sum(counts: Mapping[Pair, int], queue: str, kind: str) -> int:
    if not (queue or kind):
        return sum(counts.values())
    return sum(n for pair, n in counts.items() if fits(pair, queue, kind))


class Buckets:
    """All that a collector knows. Buckets of a minute are kept for an hour and become part of
    those of ten minutes, which are kept for a day.
    """

    def __init__(self, *, pairs: int, attempts: int) -> None:
        self.minutes: dict[int, Bucket] = {}
        self.tens: dict[int, Bucket] = {}
        self.read_until = 0.0
        """Up to when rows were read; 0 before the first time."""
        self.version = 0
        """Grows with every change."""
        self._pairs = pairs
        self._attempts = attempts
        self._seen: dict[int, set[int]] = {}
        """The failed attempts that were counted, by minute."""
        self._lived_since = 0
        """When the oldest minute began that was kept at the first reading."""
        self._forgot = 0
        """The newest minute of which the failed attempts are not remembered any more: they would
        be counted twice, so no more are.
        """

    def first_minute(self, now: float) -> int:
        """Return when the oldest minute begins that is kept apart."""
        return (int(now) // MINUTE * MINUTE + MINUTE - KEPT_MINUTES) // TEN * TEN

    def minute(self, at: float) -> Bucket:
        """Return the bucket of this minute."""
        start = int(at) // MINUTE * MINUTE
        if (bucket := self.minutes.get(start)) is None:
            bucket = self.minutes[start] = Bucket(start, MINUTE)
        return bucket

    def ten(self, at: float) -> Bucket:
        """Return the bucket of these ten minutes."""
        start = int(at) // TEN * TEN
        if (bucket := self.tens.get(start)) is None:
            bucket = self.tens[start] = Bucket(start, TEN)
        return bucket

    def enter(self, now: float, *, back: float) -> None:
        """Go on at this time, and forget what is too old; all of it, where the time went back by
        more than `back` seconds.
        """
        if now < self.read_until - back:
            self.minutes, self.tens, self._seen = {}, {}, {}
            self._forgot = self._lived_since = 0
        first = self.first_minute(now)
        if not self._lived_since or self.read_until < first:
            self._lived_since = first
        self.read_until = now
        self.version += 1
        for start in sorted(start for start in self.minutes if start < first):
            minute = self.minutes.pop(start)
            self._seen.pop(start, None)
            if minute.complete and start >= now - DAY - 2 * TEN:
                self.ten(start).absorb(minute, most=self._pairs)
        for start in [start for start in self.tens if start < now - DAY - 2 * TEN]:
            del self.tens[start]

    def missing(self, now: float, *, settle: float, since: float) -> Iterator[tuple[Bucket, int]]:
        """Yield the parts that are to be read for good, back to `since`, the newest first."""
        first, settled = self.first_minute(now), now - settle
        for start in range(int(settled) // MINUTE * MINUTE, first - 1, -MINUTE):
            known = self.minutes.get(start)
            bucket = known or Bucket(start, MINUTE)
            yield from ((bucket, part) for part in bucket.due(settled))
        for start in range(first - TEN, int(since) // TEN * TEN - 1, -TEN):
            bucket = self.tens.get(start) or Bucket(start, TEN)
            yield from ((bucket, part) for part in bucket.due(settled))

    def keep(self, bucket: Bucket) -> None:
        """Keep a bucket of which something is known now."""
        (self.minutes if bucket.seconds == MINUTE else self.tens)[bucket.start] = bucket

    def add_failures(
        self, attempts: Iterable[FailedAttempt], weight: int = 1, *, settled: bool = False
    ) -> list[FailedAttempt]:
        """Count failed attempts by when they began, each `weight` times, and each but once, however
        often it is told. Those from before all minutes that ever were kept are told by jobs whose
        end has `settled`, and by no others, as those are read once. Return those of the minutes
        that were new.
        """
        first, here = self.first_minute(self.read_until), set[int]()
        new: list[FailedAttempt] = []
        for attempt in attempts:
            at = attempt.at.timestamp()
            # A number below 2^32 stands for the attempt, whatever a row says.
            name = attempt.id << 32 | attempt.attempt & 0xFFFFFFFF
            if not self.read_until - DAY <= at < self.read_until + MINUTE or name in here:
                continue
            here.add(name)
            if at >= first:
                bucket = self.minute(at)
                if bucket.start <= self._forgot or name in self._seen.get(bucket.start, ()):
                    continue
                self._seen.setdefault(bucket.start, set()).add(name)
                new.append(attempt)
            elif settled and at < self._lived_since:
                bucket = self.ten(at)
            else:
                continue
            pair = (attempt.queue, attempt.kind)
            bucket.failed[pair] = bucket.failed.get(pair, 0) + weight
            limit_counts(bucket.failed, self._pairs)
        while sum(map(len, self._seen.values())) > self._attempts:
            self._forgot = min(self._seen)
            del self._seen[self._forgot]
        return new

    def insert(self, came: Iterable[InsertedTally], *, growing: bool = False) -> None:
        """Count jobs that came, where their minute is kept; with `growing` until `forget_growing`,
        as there may be more of them.
        """
        first = self.first_minute(self.read_until)
        for at, queue, kind, jobs in came:
            start = int(at.timestamp())
            if first <= start < self.read_until + MINUTE:
                bucket = self.minute(start)
                counts = bucket.growing if growing else bucket.inserted
                counts[queue, kind] = counts.get((queue, kind), 0) + jobs
                limit_counts(counts, self._pairs)

    def forget_growing(self) -> None:
        """Forget the jobs that are to be counted again."""
        for bucket in self.minutes.values():
            bucket.growing.clear()

    def add_waiting(self, found: Sequence[QueueWaiting], *, now: float, cap: int) -> None:
        """Count what waits just now."""
        bucket = self.minute(now)
        total = Waiting()
        for queue, jobs, oldest_at in found:
            oldest = max(0.0, now - oldest_at.timestamp()) if oldest_at else 0.0
            bucket.note_waiting(
                queue, Waiting(jobs=min(jobs, cap), capped=jobs >= cap, oldest=oldest)
            )
            total.jobs += min(jobs, cap)
            total.capped = total.capped or jobs >= cap
            total.oldest = max(total.oldest, oldest)
        bucket.note_waiting("", total)
