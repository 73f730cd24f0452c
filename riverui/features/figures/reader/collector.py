"""Gathers figures from River's rows, once for all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from math import inf
from typing import TypeVar

from riverui.domain.figures import OTHER, Tally
from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError, QueryTimeout, RiveruiError
from riverui.features.figures.domain import (
    EPOCH,
    MINUTE,
    SAMPLED,
    Pair,
    Rollup,
    begin,
    busiest,
    ranges,
)
from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.figures.reader.minutes import RecentMinutes
from riverui.features.figures.reader.totals import EndedTotals
from riverui.features.figures.store import (
    FailedAttempt,
    InsertedTally,
    JobFigures,
    RollupStore,
)
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all
from riverui.web.http.own_table import OwnTableWatch

log = logging.getLogger("riverui.figures")

_MAX_MINUTES = 60
"""Minutes that one statement reads at most, if few jobs ended."""
_MAX_UNSTORED = 120
"""Minutes of the past day that are read before they are stored: they take memory."""
_MAX_DOUBLINGS = 20
"""Doublings of the pause between two tries: after these it exceeds the longest pause."""
_SECOND = timedelta(seconds=1)
_GIVEN_UP = (JobState.CANCELLED, JobState.DISCARDED)

Minutes = Mapping[datetime, Mapping[Pair, Tally]]
"""Tallies by the beginning of their minute, by queue and kind."""
T = TypeVar("T")


class FigureCollector:
    """The figures of one database, gathered while there are viewers.

    It begins with the first viewer, reads new rows every ten seconds and the past in between, and
    stops ten minutes after the last request.
    """

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: FigureLimits | None = None,
        *,
        totals: EndedTotals | None = None,
        lag: Callable[[], timedelta] = timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read by `driver`. `lag` returns how far the database may be behind its own clock, as a
        standby is; `totals` counts the jobs that end from now on.
        """
        self._driver = driver
        self._config = config
        self._limits = limits = limits or FigureLimits()
        self._lag = lag
        self._totals = totals
        self._clock = clock
        self.table = OwnTableWatch(driver, clock=clock)
        self.error = ""
        """Why the last reading failed, as a sentence; empty if it succeeded."""
        self.recent: RecentMinutes
        self.backlog: list[datetime] | None = None
        """Minutes before the last hour that are to be read and stored, the newest first; None if
        this process does not store figures.
        """
        self._looked = -inf
        self._due = 0.0
        self._failures = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Event | None = None
        self._begin()

    def _begin(self) -> None:
        """Reset everything that was read."""
        self.recent = RecentMinutes(attempts=self._limits.attempts, pairs=self._limits.pairs)
        self._started = EPOCH
        """The database's time of the first reading."""
        self._read_clock = 0.0
        """This process's clock at the last reading."""
        self._until = EPOCH
        """Up to when ended jobs have been read for the first time."""
        self._attempts_at = EPOCH
        """When failed attempts were last read."""
        self._hour_at = EPOCH
        """When those of the whole hour were last read."""
        self._ids: list[int] = []
        """The newest ids at the last two readings."""
        self._after = 0
        """The newest id before a pause."""
        self._gaps: list[tuple[int, int]] = []
        """Ranges of ids to be read, above the first and up to the second."""
        self._gaps_since = EPOCH
        """Jobs in these ranges are counted from this time on."""
        self._rate = self._past_rate = 0.0
        """Ended jobs a second, as last read."""
        self._group = 1
        """Minutes in the next statement that reads the past."""

    @property
    def now(self) -> datetime:
        """Return the end of the windows: the last reading or, if that was long ago, the time of the
        database, estimated by this process's clock. EPOCH before the first reading.
        """
        since = self._clock() - self._read_clock
        late = since > 3 * self._limits.tick_seconds and self.recent.now > EPOCH
        return self.recent.now + timedelta(seconds=since) if late else self.recent.now

    @property
    def complete(self) -> bool:
        """Whether the whole last hour has been read."""
        recent = self.recent
        filled = not any(recent.unsettled(self.settled)) and not self._gaps
        return recent.now > EPOCH and filled and self._hour_at > EPOCH

    @property
    def resting(self) -> bool:
        """Whether nothing runs in the background."""
        return self._task is None or self._task.done()

    @property
    def due(self) -> float:
        """When the next reading is due, by the given clock."""
        return self._due

    def look(self) -> bool:
        """Record a viewer, and start reading if necessary; return False if charts are off."""
        if self._config.charts:
            self._looked = self._clock()
            # A task of a closed event loop would never end.
            loop = asyncio.get_running_loop()
            if self._loop is not loop:
                self._loop, self._task, self._first = loop, None, asyncio.Event()
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._run())
        return self._config.charts

    async def first_reading(self) -> None:
        """Wait for the first reading, for a second at most."""
        if self.recent.now == EPOCH and self._first is not None:
            try:
                await asyncio.wait_for(self._first.wait(), self._limits.first_seconds)
            except TimeoutError:
                log.debug("no figures have been read yet")

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            await cancel_all([self._task])
            self._task = None

    async def tick(self) -> None:
        """Read new rows since the last time."""
        started, limits = self._clock(), self._limits
        self._due = started + limits.tick_seconds
        with self._trying():
            first = self.recent.now == EPOCH
            async with self._driver.reading(timeout=self._timeout) as executor:
                jobs = JobFigures(executor)
                now, last_id = await jobs.figure_clock_get()
                self._enter(now - self._lag())
                await self._read_ended(jobs)
                await self._read_inserted(jobs, last_id)
                await self._read_failures(jobs)
                cap = limits.waiting_cap
                self.recent.add_waiting(await jobs.queue_waiting_list(now=now, cap=cap))
            if first:
                await self._load()
            await self._read_clients()
            # Slow readings are done less often.
            pause = min((self._clock() - started) / limits.share, 3 * limits.tick_seconds)
            self._due = started + max(pause, limits.tick_seconds)
            if self.error:
                log.info("figures are read again")
            self._failures, self.error = 0, ""

    async def fill(self) -> bool:
        """Read a part of the past finally; return whether more is left."""
        recent, limits = self.recent, self._limits
        if recent.now == EPOCH:
            return False
        with self._trying():
            if self._hour_at < begin(recent.now, MINUTE):
                await self._read_hour_failures()
            elif hour := list(islice(recent.unsettled(self.settled), self._group)):
                await self._settle(hour, limits.most_per_second)
            elif self._gaps:
                await self._read_inserted_before()
            elif self.backlog and len(recent.unstored(_MAX_UNSTORED)) < _MAX_UNSTORED:
                group = self.backlog[: self._group]
                await self._settle(group, limits.most_per_second_of_day)
                del self.backlog[: len(group)]
            else:
                return False
            return True
        return False

    @property
    def _timeout(self) -> timedelta:
        return min(self._config.page_timeout, self._limits.timeout)

    @property
    def settled(self) -> datetime:
        """When the oldest minute begins that may still change."""
        return begin(self.recent.now - self._limits.settle, MINUTE)

    def _enter(self, now: datetime) -> None:
        """Set the database's current time."""
        if now < self.recent.now - self._limits.settle:
            # Its clock was set back: the figures read belong to other minutes.
            self._begin()
        if self._started == EPOCH:
            self._started = now
        self._read_clock = self._clock()
        self.recent.enter(now, keep_unstored=self.backlog is not None)
        if self._until < self.settled:
            # After a pause in reading, `fill` reads the minutes in between.
            self._until = self.recent.live = self.settled
            self.recent.replace_arriving(())
            self._after, self._ids = self._ids[0] if self._ids else self._after, []

    async def _load(self) -> None:
        """Load the stored minutes of the last hour instead of reading them from rows."""
        first, until = self.recent.first, self.settled
        stored: Sequence[Rollup] = await self._from_table(
            lambda store: store.rollup_part_list(MINUTE, since=first, until=until), ()
        )
        for rollup in stored:
            self.recent.load(rollup)
            self._gaps_since = rollup.at + MINUTE

    async def _read_clients(self) -> None:
        """Read the counts of clients for unsettled minutes."""
        since = self.settled - MINUTE
        counts: Minutes = await self._from_table(
            lambda store: store.rollup_client_count_list(since), {}
        )
        for at, pairs in counts.items():
            known = self.recent.minutes.get(at)
            if known is not None and not known.settled:
                self.recent.minute(at).clients = busiest(dict(pairs))

    async def _read_ended(self, jobs: JobFigures) -> None:
        """Read the jobs that ended since the last time. Of completed jobs, failed attempts are read
        once the minute has settled: most of them have been seen before.
        """
        recent, limits = self.recent, self._limits
        until = (recent.now - limits.commit).replace(microsecond=0)
        seconds = (until - self._until) / _SECOND
        if seconds <= 0:
            return
        if self._until == recent.live and self._rate < inf:
            # Estimate the rate from the last second.
            second = [(until - _SECOND, until)]
            self._rate = self._past_rate = _jobs(await jobs.job_ended_tally_list(second, pairs=1))
        sampled = SAMPLED if self._rate > limits.most_per_second else 1
        spans = list(ranges(self._until, until, sampled=sampled > 1))
        ended = await jobs.job_ended_tally_list(spans, pairs=2 * limits.pairs)
        failed = await jobs.job_ended_failure_list(spans, states=_GIVEN_UP)
        at = begin(self._until, MINUTE)
        while at <= recent.now:
            recent.add_ended(at, _scaled(ended.get(at, {}), sampled), sampled=sampled)
            at += MINUTE
        self._until = until
        self._rate = _jobs(ended) * sampled / seconds
        self._add_failures(failed, sampled)

    async def _read_inserted(self, jobs: JobFigures, last_id: int) -> None:
        """Count inserted jobs by their ids. Ids may be committed out of order: those since the last
        reading are counted again by the next one.
        """
        if not self._ids:
            self._ids = [last_id]
            self._gaps.append((self._after, last_id))
            return
        after = self._ids[-1]
        came = await self._inserted(jobs, self._ids[0], after)
        arriving = await self._inserted(jobs, after, last_id)
        self.recent.add_inserted(came)
        self.recent.replace_arriving(arriving)
        self._ids = [after, max(last_id, after)]

    async def _inserted(self, jobs: JobFigures, after: int, upto: int) -> Sequence[InsertedTally]:
        if upto <= after:
            return []
        if upto - after > self._limits.inserted_ids:
            at = begin(self.recent.now, MINUTE)
            return [InsertedTally(at, OTHER, OTHER, upto - after)]
        since, limit = self.recent.first, self._limits.inserted_ids
        tallies, _ = await jobs.job_inserted_tally_list(
            after=after, upto=upto, since=since, limit=limit
        )
        return tallies

    async def _read_inserted_before(self) -> None:
        """Count jobs that were inserted before the first reading, the newest first."""
        after, upto = self._gaps[-1]
        since = max(self._gaps_since, self.recent.first)
        async with self._driver.reading(timeout=self._timeout) as executor:
            tallies, first_id = await JobFigures(executor).job_inserted_tally_list(
                after=after, upto=upto, since=since
            )
        self._gaps.pop()
        self.recent.add_inserted(tallies)
        if tallies and first_id - 1 > after:
            self._gaps.append((after, first_id - 1))

    async def _read_failures(self, jobs: JobFigures) -> None:
        """Read attempts that failed since the last time, of unfinished jobs."""
        now = self.recent.now
        since = max(self._attempts_at, self._started) - self._limits.settle
        failed = await jobs.job_unfinished_failure_list(since)
        self._attempts_at = now
        self._add_failures(failed)

    async def _read_hour_failures(self) -> None:
        """Read failed attempts of the last hour: all of them at first, then only long ones."""
        async with self._driver.reading(timeout=self._timeout) as executor:
            failed = await JobFigures(executor).job_unfinished_failure_list(
                self.recent.first, earlier=self._hour_at == EPOCH
            )
        self._hour_at = self.recent.now
        self._add_failures(failed)

    async def _settle(self, minutes: Sequence[datetime], most_per_second: float) -> None:
        """Read these minutes finally."""
        limits = self._limits
        sampled = SAMPLED if self._past_rate > most_per_second else 1
        spans = [each for at in minutes for each in ranges(at, at + MINUTE, sampled=sampled > 1)]
        started = self._clock()
        async with self._driver.reading(timeout=self._timeout) as executor:
            jobs = JobFigures(executor)
            ended = await jobs.job_ended_tally_list(spans, pairs=2 * limits.pairs)
            failed = await jobs.job_ended_failure_list(spans)
        fast = self._clock() - started < limits.slice_seconds
        self._group = min(self._group * 2, _MAX_MINUTES) if fast else max(self._group // 2, 1)
        self._past_rate = _jobs(ended) * sampled / (len(minutes) * 60)
        since, until = min(minutes), max(minutes) + MINUTE
        clients: Minutes = await self._from_table(
            lambda store: store.rollup_client_list(since, until), {}
        )
        for at in minutes:
            pairs = self.recent.settle(
                at, _scaled(ended.get(at, {}), sampled), clients.get(at, {}), sampled=sampled
            )
            if self._totals is not None and at + MINUTE > self._started:
                self._totals.add(pairs)
        self._add_failures(failed, sampled)

    async def _from_table(self, read: Callable[[RollupStore], Awaitable[T]], otherwise: T) -> T:
        """Return what `read` returns for the table; `otherwise` if it is missing or cannot be read,
        as River's rows are nearly as good.
        """
        try:
            if await self.table.there(RollupStore):
                async with self._driver.reading(timeout=self._timeout) as executor:
                    return await read(RollupStore(executor))
        except DatabaseError as error:
            self.table.ask_again()
            log.debug("the table of figures could not be read: %s", error)
        return otherwise

    def _add_failures(self, attempts: Sequence[FailedAttempt], times: int = 1) -> None:
        for attempt in self.recent.add_failures(attempts, times):
            if self._totals is not None and attempt.at >= self._started:
                self._totals.add_failed((attempt.queue, attempt.kind), times)

    async def _run(self) -> None:
        """Read for as long as there are viewers."""
        task = asyncio.current_task()
        while self._clock() - self._looked < self._limits.rest_seconds:
            # A pool that hands out a connection at the moment of a cancellation forgets it.
            if task is not None and task.cancelling():
                return
            if self._clock() >= self._due:
                await self.tick()
                if self._first is not None:
                    self._first.set()
            started = self._clock()
            more = not self._failures and await self.fill()
            took, left = self._clock() - started, self._due - self._clock()
            # Half of the time goes into the past.
            await asyncio.sleep(max(0.0, min(left, max(took, 0.02)) if more else left))

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Record an error for the viewers, and read again later."""
        try:
            yield
        except RiveruiError as error:
            if isinstance(error, QueryTimeout):
                self._rate = self._past_rate = inf
                self._group = 1
            self._fail(str(error))
        except Exception:
            log.exception("figures could not be read")
            self._fail("The figures could not be read.")

    def _fail(self, message: str) -> None:
        self._failures += 1
        pause = self._limits.tick_seconds * 2 ** min(self._failures - 1, _MAX_DOUBLINGS)
        self._due = self._clock() + min(pause, self._limits.most_rest_seconds)
        if not self.error:
            log.warning("could not read figures: %s", message)
        self.error = message


def _scaled(pairs: Mapping[Pair, Tally], times: int) -> Mapping[Pair, Tally]:
    return {pair: tally.scaled(times) for pair, tally in pairs.items()} if times > 1 else pairs


def _jobs(minutes: Minutes) -> int:
    return sum(tally.ended for pairs in minutes.values() for tally in pairs.values())
