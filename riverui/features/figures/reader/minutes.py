"""The figures of the last hour by minute, in this process's memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from riverui.domain.figures import OTHER, Tally
from riverui.domain.health.usual import MANY_FAILED_JOBS
from riverui.domain.queues import QueueMinute
from riverui.features.figures.domain import (
    DAY,
    EPOCH,
    HOUR,
    MAX_PAIRS,
    MINUTE,
    Pair,
    Rollup,
    RollupRow,
    Stretch,
    Waiting,
    add_pairs,
    begin,
    busiest,
    choose_ends,
    choose_failures,
    ends_by_clients,
    without_ends,
)
from riverui.features.figures.store import FailedAttempt, InsertedTally

_NOTHING = Tally()


@dataclass(kw_only=True, slots=True)
class Minute:
    """The figures of one minute."""

    pairs: dict[Pair, Tally] = field(default_factory=dict)
    """Counted from rows."""
    clients: Mapping[Pair, Tally] = field(default_factory=dict)
    """Counted by clients, or stored: only failed, snoozed and interrupted attempts are used."""
    arriving: dict[Pair, int] = field(default_factory=dict)
    """The newest inserted jobs, which are counted again by the next reading."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    sampled: int = 1
    settled: bool = False
    """Whether its ended jobs were read for good."""
    by_clients: bool = False
    """Whether the ended jobs of some queue are those that clients counted."""
    version: int = 0
    """Grows with every change."""
    stored: int = -1
    """The version that is in the table."""
    rows: Mapping[tuple[str, str], RollupRow] | None = None
    """Its rows by queue and kind, until something changes."""
    queues: Mapping[str, QueueMinute] | None = None

    def tally(self, pair: Pair) -> Tally:
        """Return the mutable tally of a queue and a kind as counted from rows."""
        return self.pairs.setdefault(pair, Tally())


class SeenAttempts:
    """The failed attempts of the last day that were counted, as each is read several times."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: dict[datetime, dict[int, str]] = {}
        """Names and kinds, by the minute in which they began."""
        self._closed = EPOCH
        """Up to this minute nothing is remembered, and no attempt counts as new."""

    def new(self, attempts: Iterable[FailedAttempt]) -> Iterator[FailedAttempt]:
        """Yield the attempts that were not seen before."""
        for attempt in attempts:
            at = begin(attempt.at, MINUTE)
            seen = self._names.setdefault(at, {}) if at > self._closed else None
            # A number below 2^32 identifies the attempt, whatever its error says.
            name = attempt.id << 32 | attempt.attempt & 0xFFFFFFFF
            if seen is not None and name not in seen:
                seen[name] = attempt.kind
                yield attempt
        while sum(map(len, self._names.values())) > self._most:
            self._closed = min(self._names)
            del self._names[self._closed]

    def jobs(self, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return for each kind the minutes in which its jobs that failed since then failed last."""
        newest: dict[tuple[str, int], datetime] = {}
        for at in sorted(at for at in self._names if at >= since):
            newest.update(((kind, name >> 32), at) for name, kind in self._names[at].items())
        found: dict[str, list[datetime]] = {}
        for (kind, _), at in newest.items():
            found.setdefault(kind, []).append(at)
        return found

    def forget(self, before: datetime) -> None:
        """Forget the attempts of minutes that began before then."""
        for at in [at for at in self._names if at < before]:
            del self._names[at]


class RecentMinutes:
    """The minutes of the last hour. It is read like RollupStore."""

    def __init__(self, *, attempts: int, pairs: int = MAX_PAIRS) -> None:
        self.minutes: dict[datetime, Minute] = {}
        self._seen = SeenAttempts(attempts)
        self.now = EPOCH
        """The database's time of the last reading; EPOCH before the first one."""
        self.live = EPOCH
        """Minutes from this one on have been read without a gap."""
        self.version = 0
        """Grows with every change of a settled minute."""
        self.changes = 0
        """Grows with every change."""
        self._pairs = pairs

    @property
    def first(self) -> datetime:
        """When the oldest minute of the last hour begins."""
        return begin(self.now, MINUTE) + MINUTE - HOUR

    @property
    def source(self) -> str:
        """Where the figures come from, in words."""
        by_clients = any(minute.by_clients for minute in self.minutes.values())
        return "workers and rows" if by_clients else "the rows of jobs"

    def enter(self, now: datetime, *, keep_unstored: bool) -> None:
        """Set the current time, and drop minutes older than an hour; with `keep_unstored`, those
        not stored yet only after a day.
        """
        self.now = now
        self.minute(now)
        self._seen.forget(now - DAY)
        for at, minute in list(self.minutes.items()):
            waits = keep_unstored and minute.stored != minute.version
            if at < (now - DAY if waits else self.first):
                del self.minutes[at]

    def minute(self, at: datetime) -> Minute:
        """Return the minute that covers this time, to be modified."""
        start = begin(at, MINUTE)
        minute = self.minutes.get(start)
        if minute is None:
            minute = self.minutes[start] = Minute()
        self.changes += 1
        minute.version += 1
        minute.rows = minute.queues = None
        self.version += minute.settled
        return minute

    def known(self, at: datetime) -> bool:
        """Return whether the ended jobs of the minute that begins then have been read."""
        minute = self.minutes.get(at)
        return minute is not None and (minute.settled or at >= self.live)

    def unsettled(self, until: datetime) -> Iterator[datetime]:
        """Yield the starts of the last hour's unsettled minutes up to then, the newest first."""
        at = until - MINUTE
        while at >= self.first:
            if at not in self.minutes or not self.minutes[at].settled:
                yield at
            at -= MINUTE

    def unstored(self, limit: int) -> Mapping[datetime, int]:
        """Return the versions of the oldest settled minutes whose version is not stored."""
        found = [
            (at, minute.version)
            for at, minute in self.minutes.items()
            if minute.settled and minute.stored != minute.version
        ]
        return dict(sorted(found)[:limit])

    def forget_stored(self) -> None:
        """Mark all minutes as not stored."""
        for minute in self.minutes.values():
            minute.stored = -1

    def settle(
        self,
        at: datetime,
        ended: Mapping[Pair, Tally],
        clients: Mapping[Pair, Tally],
        *,
        sampled: int,
    ) -> Mapping[Pair, Tally]:
        """Set and return the final ended jobs of a minute: from rows or from clients, whichever
        are more complete for a queue.
        """
        minute = self.minute(at)
        queues = ends_by_clients(ended, clients, sampled=sampled > 1)
        ends = busiest(choose_ends(ended, clients, queues=queues), self._pairs)
        others = {pair: without_ends(tally) for pair, tally in minute.pairs.items()}
        minute.pairs = {}
        for pairs in (ends, others):
            add_pairs(minute.pairs, pairs.items())
        minute.by_clients = bool(queues)
        minute.clients = busiest(dict(clients), self._pairs)
        minute.sampled = sampled
        minute.settled = True
        self.version += 1
        return ends

    def load(self, rollup: Rollup) -> None:
        """Load a stored minute."""
        self.minutes[rollup.at] = Minute(
            pairs={pair: replace(tally, failed=0) for pair, tally in rollup.pairs.items()},
            clients=rollup.pairs,
            waiting=dict(rollup.waiting),
            sampled=rollup.sampled,
            settled=True,
            stored=0,
        )
        self.version += 1
        self.changes += 1

    def add_ended(self, at: datetime, ended: Mapping[Pair, Tally], *, sampled: int) -> None:
        """Add jobs that ended in a minute which is not settled."""
        minute = self.minute(at)
        add_pairs(minute.pairs, ended.items())
        minute.pairs = busiest(minute.pairs, 2 * self._pairs)
        minute.sampled = max(minute.sampled, sampled)

    def add_failures(self, attempts: Sequence[FailedAttempt], times: int) -> list[FailedAttempt]:
        """Count failed attempts of the last day that are new, each `times` times; return them."""
        recent = [each for each in attempts if self.now - DAY <= each.at < self.now + MINUTE]
        new = list(self._seen.new(recent))
        for attempt in new:
            self.minute(attempt.at).tally((attempt.queue, attempt.kind)).failed += times
        return new

    def add_inserted(self, found: Iterable[InsertedTally]) -> None:
        """Count inserted jobs of the last hour."""
        for at, queue, kind, jobs in found:
            if self.first <= at <= self.now:
                minute = self.minute(at)
                minute.tally((queue, kind)).inserted += jobs
                if len(minute.pairs) > 4 * self._pairs:
                    minute.pairs = busiest(minute.pairs, 2 * self._pairs)

    def replace_arriving(self, found: Iterable[InsertedTally]) -> None:
        """Replace the counts of the newest inserted jobs."""
        for at in [at for at, minute in self.minutes.items() if minute.arriving]:
            self.minute(at).arriving = {}
        for at, queue, kind, jobs in found:
            if self.first <= at <= self.now:
                self.minute(at).arriving[queue, kind] = jobs

    def add_waiting(self, found: Mapping[str, Waiting]) -> None:
        """Record the jobs that wait now, by queue."""
        waiting = self.minute(self.now).waiting
        total = Waiting(
            jobs=sum(seen.jobs for seen in found.values()),
            capped=any(seen.capped for seen in found.values()),
            oldest=max((seen.oldest for seen in found.values()), default=timedelta(0)),
        )
        for queue, seen in {**found, "": total}.items():
            waiting[queue] = seen.max(waiting.get(queue))

    def rollup(self, at: datetime) -> Rollup:
        """Return a minute in the form in which it is shown and stored."""
        minute = self.minutes[at]
        pairs, clients, arriving = dict(minute.pairs), minute.clients, minute.arriving
        failures = {pair: tally.failed for pair, tally in pairs.items() if tally.failed}
        failed = choose_failures(
            failures, {pair: tally.failed for pair, tally in clients.items() if tally.failed}
        )
        for pair in {*failures, *clients, *arriving}:
            by_rows, by_clients = pairs.get(pair, _NOTHING), clients.get(pair, _NOTHING)
            pairs[pair] = replace(
                by_rows,
                failed=failed.get(pair, 0),
                snoozed=by_clients.snoozed,
                interrupted=by_clients.interrupted,
                cpu_us=by_clients.cpu_us,
                cpu_attempts=by_clients.cpu_attempts,
                inserted=by_rows.inserted + arriving.get(pair, 0),
            )
        return Rollup(
            at=at,
            span=MINUTE,
            pairs=busiest(pairs, self._pairs),
            waiting=dict(minute.waiting),
            sampled=minute.sampled,
        )

    async def rollup_newest_list(self) -> Mapping[timedelta, datetime]:
        """Return when the newest minute begins; see RollupStore."""
        return {MINUTE: max(self.minutes)} if self.minutes else {}

    async def rollup_list(
        self, stretches: Sequence[Stretch], *, queue: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of one queue, or of everything."""
        found = [rows.get((queue, "")) for rows in self._rows(stretches)]
        return [row for row in found if row is not None]

    async def rollup_pair_list(
        self, stretches: Sequence[Stretch], *, queue: str = "", kind: str = ""
    ) -> Sequence[RollupRow]:
        """Return the rows of kinds in queues; of one queue or kind only if given."""
        return [
            row
            for rows in self._rows(stretches)
            for row in rows.values()
            if row.kind and kind in ("", row.kind) and queue in ("", row.queue)
        ]

    def failed_jobs(self, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return for each kind the minutes in which its jobs that failed since then failed last.
        Failed attempts that only stored figures or clients have counted may be of as many jobs.
        """
        found = {kind: list(minutes) for kind, minutes in self._seen.jobs(since).items()}
        for at, minute in self.minutes.items():
            for pair, tally in minute.clients.items() if at >= since else ():
                unseen = tally.failed - minute.pairs.get(pair, _NOTHING).failed
                if unseen > 0:
                    found.setdefault(pair[1], []).extend([at] * min(unseen, MANY_FAILED_JOBS))
        return found

    def arrivals(self) -> Mapping[str, Sequence[int]]:
        """Return how many jobs of each kind were inserted in each minute of the last hour, the
        oldest first; nothing if some were counted without their kind.
        """
        found: dict[str, list[int]] = {}
        for number in range(HOUR // MINUTE):
            minute = self.minutes.get(self.first + number * MINUTE)
            if minute is None:
                continue
            counts = [(pair, tally.inserted) for pair, tally in minute.pairs.items()]
            for (_, kind), jobs in (*counts, *minute.arriving.items()):
                if jobs and kind == OTHER:
                    return {}
                if jobs:
                    found.setdefault(kind, [0] * (HOUR // MINUTE))[number] += jobs
        return found

    def queue_minutes(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return the minutes of the last hour of each queue that has any figures, the oldest first;
        None for unknown minutes.
        """
        if self.now == EPOCH:
            return {}
        starts = [self.first + n * MINUTE for n in range(HOUR // MINUTE)]
        minutes = [self._queues(at) if self.known(at) else None for at in starts]
        names = {name for minute in minutes for name in minute or ()} - {""}
        # The empty name stands for queues without figures in that minute.
        return {
            name: [None if minute is None else minute.get(name, minute[""]) for minute in minutes]
            for name in names
        }

    def _queues(self, at: datetime) -> Mapping[str, QueueMinute]:
        minute = self.minutes[at]
        if minute.queues is None:
            idle = QueueMinute(
                ended=0,
                inserted=0,
                sampled=minute.sampled,
                waiting=0 if "" in minute.waiting else None,
            )
            rows = [row for row in self._rows_of(at).values() if row.queue and not row.kind]
            minute.queues = {"": idle} | {row.queue: _queue_minute(row, idle) for row in rows}
        return minute.queues

    def _rows(self, stretches: Sequence[Stretch]) -> Iterator[Mapping[tuple[str, str], RollupRow]]:
        for step, since, until in stretches:
            for at in self.minutes if step == MINUTE else ():
                if since <= at < until and self.known(at):
                    yield self._rows_of(at)

    def _rows_of(self, at: datetime) -> Mapping[tuple[str, str], RollupRow]:
        minute = self.minutes[at]
        if minute.rows is None:
            minute.rows = {(row.queue, row.kind): row for row in self.rollup(at).rows()}
        return minute.rows


def _queue_minute(row: RollupRow, idle: QueueMinute) -> QueueMinute:
    seen = row.waiting
    return replace(
        idle,
        ended=row.tally.ended,
        inserted=row.tally.inserted,
        wait=row.tally.wait.quantile(0.95),
        waiting=seen.jobs if seen else idle.waiting,
        waiting_capped=seen is not None and seen.capped,
    )
