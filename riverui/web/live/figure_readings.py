"""Reads what figures are made of: what is new, and slices of the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import OTHER
from riverui.domain.jobs import JobState
from riverui.storage.interface import FigureExecutor
from riverui.storage.interface.figures import FailedAttempt, InsertedTally, TimeSlice
from riverui.web.live.client_figures import ClientFigureReader, NoClientFigures
from riverui.web.live.figure_buckets import DAY, MINUTE, PART, TEN, Bucket, Buckets
from riverui.web.live.figure_sink import FigureSink, SettledMinute
from riverui.web.live.figure_slices import SAMPLED, Sampler, Turn, cells_of, slices

_MINUTE_PARTS = MINUTE // PART
_FAILED = (JobState.CANCELLED, JobState.DISCARDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectorLimits:
    """How often figures are read, and how much of them is kept."""

    tick_seconds: float = 10.0
    """From one reading of what is new to the next."""
    rest_seconds: float = 600.0
    """After the last look at figures, until the collector rests."""
    first_seconds: float = 1.0
    """That a viewer waits for the first reading."""
    settle_seconds: float = 120.0
    """After which rows are taken as all there: what is newer is read again. River's clients write
    what ended within seconds, and their clocks are that close.
    """
    commit_seconds: float = 3.0
    """From the end of a job until its row tells of it, as it mostly is: a client's batch, and its
    clock. What takes longer is found when the time has settled.
    """
    slice_seconds: float = 0.05
    """Of the database's time, for one slice of the past."""
    share: float = 0.01
    """Of the time that passes, for reading its rows whole; samples are read where it takes more: a
    tenth of a second for ten.
    """
    few_jobs: float = 100.0
    """Ended jobs a second, below which all are read, however long it took: their rows take a third
    of a millisecond, and it was something else that took the rest.
    """
    slice_parts: int = 360
    """Spans of ten seconds in one slice at most: an hour, where next to nothing ended."""
    ten_jobs: int = 20_000
    """That ended in ten minutes, above which a day is read in samples: what is left of them still
    tells percentiles, and a day of ten million jobs takes six seconds of Postgres's processor.
    """
    pairs: int = 200
    """Of queue and kind that are told apart."""
    attempts: int = 50_000
    """Failed attempts that are remembered, so that none is counted twice: of an hour in which 14
    fail a second.
    """
    long_attempts_seconds: float = 60.0
    """From one look for failed attempts that took longer than time takes to settle to the next."""
    inserted_ids: int = 20_000
    """New ids between two ticks, up to which the rows are looked at: 2,000 jobs a second. Of more,
    only the number of ids is told.
    """
    waiting_cap: int = 10_000
    """Available jobs that are counted of each queue."""
    windows: int = 16
    """Windows that are remembered until more is known: those that are looked at over and over."""
    timeout: timedelta = timedelta(seconds=2)
    """For each statement."""
    most_rest_seconds: float = 300.0
    """Between two tries, while the database cannot be read."""


class FigureReadings:
    """Reads the figures of one database into buckets. Every method may raise a DatabaseError; what
    was known before stays then.
    """

    def __init__(
        self,
        limits: CollectorLimits,
        *,
        sinks: Sequence[FigureSink],
        clock: Callable[[], float],
        clients: ClientFigureReader | None = None,
    ) -> None:
        self._clients = clients or NoClientFigures()
        self._limits = limits
        self._sinks = sinks
        self._clock = clock
        self.buckets = Buckets(pairs=limits.pairs, attempts=limits.attempts)
        self._live = Sampler(limits.share, limits.few_jobs)
        self._past = Sampler(limits.share, limits.few_jobs)
        self._new_attempts = Turn(limits.tick_seconds, limits.share, clock)
        self._long_attempts = Turn(limits.long_attempts_seconds, limits.share, clock)
        self._waiting = Turn(limits.tick_seconds, limits.share, clock)
        self._attempts_filled = False
        """Whether those of the hour before the first reading have been read."""
        self._rate = 0.0
        """Jobs that ended in a second of the last slice of the past."""
        self._attempts_since = 0.0
        """The database's clock when failed attempts were last read; 0 before the first time."""
        self._slice_parts = 6
        """Spans of ten seconds in the next slice of the past; a minute at first."""
        self.rows_since = 0.0
        """Before which no completed job is left."""
        self._known_rows_since = False
        self.read_clock = 0.0
        """Our clock when the database's was last read."""
        self._started = 0.0
        """The database's clock when it was first read."""
        self._read_tick = 0.0
        """The database's clock when the newest ends were last read; 0 before the first time."""
        self._ids: list[int] = []
        """The newest ids at the last two ticks."""
        self._gaps: list[tuple[int, int]] = []
        """Ranges of ids yet to be looked at: above the first, up to the second."""

    @property
    def sampling(self) -> int:
        """Return one in how many jobs of the past is read just now."""
        return self._past.sampling

    @property
    def all_inserted(self) -> bool:
        """Return whether the jobs that came have been counted as far back as buckets are kept."""
        return not self._gaps

    async def read_new(self, executor: FigureExecutor) -> None:
        """Read what is new since the last time."""
        clock = await executor.figure_clock_get()
        now = clock.now.timestamp()
        buckets, before = self.buckets, self._read_tick
        buckets.enter(now, back=self._limits.settle_seconds)
        self._started = self._started or now
        self.read_clock = self._clock()
        if now < before - self._limits.settle_seconds:
            before, self._ids, self._gaps = 0.0, [], []
            self._known_rows_since = self._attempts_filled = False
            self._attempts_since = 0.0
            self._new_attempts.reset()
            self._long_attempts.reset()
        await self._read_clients(now)
        await self._read_ends(executor, now, before)
        self._read_tick = now
        await self._read_inserted(executor, now, clock.last_id)
        await self._read_unfinished(executor, now)
        await self._read_waiting(executor, now)

    async def _read_ends(self, executor: FigureExecutor, now: float, before: float) -> None:
        """Read the parts that were not over at the last tick. Of jobs that ended well, failed
        attempts are read when the time has settled: mostly they have been seen before.
        """
        newest = int(now) // PART * PART
        limits = self._limits
        if not before:
            await self._probe(executor, now)
        oldest = int(now - limits.settle_seconds) // PART * PART
        if before:
            before = min(before, now) - limits.commit_seconds
            oldest = max(oldest, int(before) // PART * PART)
        spans = []
        for start in range(oldest, newest + PART, PART):
            bucket = self.buckets.minute(start)
            part = (start - bucket.start) // PART
            if not bucket.final >> part & 1:
                spans += slices(bucket, [part], sampling=self._live.sampling, place=start)
        sampling, started = self._live.sampling, self._clock()
        rows = await executor.job_ended_tally_list(spans, pairs=2 * limits.pairs)
        failed = await executor.job_ended_failure_list(spans, states=_FAILED)
        jobs = sum(row.jobs for row in rows)
        self._live.note(self._clock() - started, newest + PART - oldest, sampling, jobs)
        cells = cells_of(rows, times=sampling)
        for span in {span.place for span in spans}:
            bucket = self.buckets.minute(span)
            bucket.put((span - bucket.start) // PART, cells.get(span, {}), sampling)
        self._add_failures(failed, sampling)

    async def _read_clients(self, now: float) -> None:
        """Read what workers told of the minutes that are not final yet."""
        told = await self._clients.counts(now - self._limits.settle_seconds - 2 * MINUTE)
        for start, counts in told.items():
            if self.buckets.first_minute(now) <= start <= now:
                self.buckets.minute(start).told_by_clients(counts, most=self._limits.pairs)

    async def _probe(self, executor: FigureExecutor, now: float) -> None:
        """Find out how much there is to read by one second of it, some seconds ago."""
        since = _at(int(now - self._limits.commit_seconds) - 1)
        second = TimeSlice(0, since, since + timedelta(seconds=1))
        rows = await executor.job_ended_tally_list([second], pairs=1)
        jobs = sum(row.jobs for row in rows)
        for pace in (self._live, self._past):
            pace.expect(jobs)
        part = max(self._past.cost * PART / self._past.sampling, 1e-6)
        self._slice_parts = min(self._slice_parts, max(1, int(self._limits.slice_seconds / part)))

    def ease(self) -> None:
        """Read less at once, as something took too long."""
        self._live.ease()
        self._past.ease()
        self._slice_parts = max(1, self._slice_parts // 4)

    async def _read_inserted(self, executor: FigureExecutor, now: float, last_id: int) -> None:
        """Count jobs by their ids: those up to the newest of the last tick for good, as ids may be
        committed out of order, and the rest until the next tick.
        """
        most = self._limits.inserted_ids
        if not self._ids:
            self._ids = [last_id]
            self._gaps = [(0, last_id)]
            return
        first = self._ids[0]
        came = await self._inserted(executor, now, first, self._ids[-1], most)
        arriving = await self._inserted(executor, now, self._ids[-1], last_id, most)
        self.buckets.forget_growing()
        self.buckets.insert(came)
        self.buckets.insert(arriving, growing=True)
        self._ids = [self._ids[-1], max(last_id, self._ids[-1])]

    async def _inserted(
        self, executor: FigureExecutor, now: float, after: int, upto: int, most: int
    ) -> list[InsertedTally]:
        if upto <= after:
            return []
        if upto - after > most:
            at = _at(int(now) // MINUTE * MINUTE)
            return [InsertedTally(at, OTHER, OTHER, upto - after)]
        since = _at(self.buckets.first_minute(now))
        page = await executor.job_inserted_tally_list(
            after=after, upto=upto, since=since, limit=most
        )
        return list(page.tallies)

    async def _read_unfinished(self, executor: FigureExecutor, now: float) -> None:
        """Read the attempts that failed of jobs that go on, and began since the last time."""
        if self._new_attempts.due:
            since = (self._attempts_since or now) - self._limits.settle_seconds
            with self._new_attempts.measured():
                failed = await executor.job_unfinished_failure_list(_at(since))
            self._attempts_since = now
            self._add_failures(failed)

    async def _read_long_attempts(self, executor: FigureExecutor, now: float) -> None:
        """Read those that began longer ago: all of the hour at first, then those that took long."""
        since = _at(self.buckets.first_minute(now))
        with self._long_attempts.measured():
            failed = await executor.job_unfinished_failure_list(
                since, earlier=not self._attempts_filled
            )
        self._attempts_filled = True
        self._add_failures(failed)
        self.buckets.version += 1

    async def _read_waiting(self, executor: FigureExecutor, now: float) -> None:
        if self._waiting.due:
            cap = self._limits.waiting_cap
            with self._waiting.measured():
                waiting = await executor.queue_waiting_list(cap=cap)
            self.buckets.add_waiting(waiting, now=now, cap=cap)

    async def read_past(self, executor: FigureExecutor, *, far: bool) -> bool:
        """Read one slice of the past that has settled, back to a day with `far`; return whether
        there is more of it.
        """
        buckets, limits = self.buckets, self._limits
        now = buckets.read_until
        if self._long_attempts.due:
            await self._read_long_attempts(executor, now)
            return True
        since = now - DAY - TEN * 2 if far else buckets.first_minute(now)
        if far and not self._known_rows_since:
            first = await executor.job_first_completed_at(_at(since))
            self.rows_since = first.timestamp() if first else now
            self._known_rows_since = True
        chosen: dict[int, tuple[Bucket, list[int]]] = {}
        count = seconds = 0
        missing = buckets.missing(now, settle=limits.settle_seconds, since=since)
        for bucket, part in missing:
            # Minutes and tens are read apart, as those of a long day may be sampled.
            if count >= self._slice_parts or seconds not in (0, bucket.seconds):
                break
            seconds = bucket.seconds
            chosen.setdefault(bucket.start, (bucket, []))[1].append(part)
            count += 1
        if not chosen or (seconds == TEN and self._gaps):
            return await self._read_inserted_before(executor, now)
        sampling = self._past.sampling
        if seconds == TEN and self._rate * TEN > limits.ten_jobs:
            sampling = SAMPLED
        spans = [
            span
            for bucket, parts in chosen.values()
            for span in slices(bucket, parts, sampling=sampling, place=bucket.start)
        ]
        started = self._clock()
        rows = await executor.job_ended_tally_list(spans, pairs=2 * limits.pairs)
        failed = await executor.job_ended_failure_list(spans)
        took = self._clock() - started
        jobs = sum(row.jobs for row in rows)
        self._past.note(took, count * PART, sampling, jobs)
        self._rate = jobs * sampling / (count * PART)
        wanted = int(self._slice_parts * min(2.0, limits.slice_seconds / max(took, 1e-4)))
        # Of few jobs, smaller slices would only take as long more often.
        least = _MINUTE_PARTS if self._past.few else 1
        self._slice_parts = min(max(least, wanted), limits.slice_parts)
        cells = cells_of(rows, times=sampling)
        over = [start for start, (bucket, parts) in chosen.items() if bucket.completed_by(parts)]
        if seconds == MINUTE and over:
            told = await self._clients.minutes(min(over), max(over) + MINUTE)
            for start in told.keys() & set(over):
                chosen[start][0].take_clients(told[start], most=limits.pairs)
        for start, (bucket, parts) in chosen.items():
            buckets.keep(bucket)
            bucket.settle(parts, cells.get(start, {}), sampling, most=limits.pairs)
        self._add_failures(failed, sampling, settled=True)
        for bucket, _ in chosen.values():
            if bucket.complete and bucket.seconds == MINUTE:
                self._hand_on(bucket)
        buckets.version += 1
        return True

    def _hand_on(self, bucket: Bucket) -> None:
        if self._sinks:
            minute = SettledMinute(
                at=bucket.start,
                cells=bucket.cells(),
                sampled=bucket.sampled,
                early=bucket.end <= self._started,
            )
            for sink in self._sinks:
                sink.settled(minute)

    def _add_failures(
        self, attempts: Sequence[FailedAttempt], times: int = 1, *, settled: bool = False
    ) -> None:
        new = self.buckets.add_failures(attempts, times, settled=settled)
        late = [attempt for attempt in new if attempt.at.timestamp() >= self._started]
        if late:
            for sink in self._sinks:
                sink.failed(late, times=times)

    async def _read_inserted_before(self, executor: FigureExecutor, now: float) -> bool:
        """Count the jobs that came before the first tick, the newest first; return whether there
        may be more.
        """
        if not self._gaps:
            return False
        after, upto = self._gaps[-1]
        since = _at(self.buckets.first_minute(now))
        page = await executor.job_inserted_tally_list(after=after, upto=upto, since=since)
        self._gaps.pop()
        self.buckets.insert(page.tallies)
        if page.tallies and page.first_id - 1 > after:
            self._gaps.append((after, page.first_id - 1))
        self.buckets.version += 1
        return True


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
