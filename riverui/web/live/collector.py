"""Gathers figures out of the rows of jobs, once for all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import OTHER, Figures, Window
from riverui.domain.jobs import JobState
from riverui.errors import RiveruiError
from riverui.storage.interface import FIGURES, Driver, FigureExecutor
from riverui.storage.interface.figures import InsertedTally
from riverui.web.config import DashboardConfig
from riverui.web.live import figure_windows
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.figure_buckets import DAY, PART, TEN, Bucket, Buckets
from riverui.web.live.figure_slices import Pace, Turn, cells_of, slices

log = logging.getLogger("riverui.figures")

_FAILED = (JobState.CANCELLED, JobState.DISCARDED)

OFF = "Charts are switched off (RIVERUI_CHARTS)."
"""Told in place of figures where they are not to be gathered."""


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
    slice_parts: int = 360
    """Spans of ten seconds in one slice at most: an hour, where next to nothing ended."""
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


class Collector:
    """The figures of one database, gathered while somebody looks at them."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: CollectorLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._config = config
        self._limits = limits = limits or CollectorLimits()
        self._clock = clock
        """Tells seconds since some moment, without ever going back."""
        self._buckets = Buckets(pairs=limits.pairs, attempts=limits.attempts)
        self._live = Pace(limits.share)
        self._past = Pace(limits.share)
        self._new_attempts = Turn(limits.tick_seconds, limits.share, clock)
        self._long_attempts = Turn(limits.long_attempts_seconds, limits.share, clock)
        self._waiting = Turn(limits.tick_seconds, limits.share, clock)
        self._attempts_since = 0.0
        """The database's clock when failed attempts were last read; 0 before the first time."""
        self._slice_parts = 6
        self._rows_since = 0.0
        """Before which no completed job is left."""
        self._known_rows_since = False
        self._read_clock = 0.0
        """Our clock when the database's was last read."""
        self._read_tick = 0.0
        """The database's clock at the last tick; 0 before the first."""
        self._ids: list[int] = []
        """The newest ids at the last two ticks."""
        self._gaps: list[tuple[int, int]] = []
        """Ranges of ids yet to be looked at: above the first, up to the second."""
        self._looked = -1e9
        self._looked_far = -1e9
        """When a window of more than an hour was last asked for."""
        self._due = 0.0
        self._failures = 0
        self._trouble = ""
        self._settled = figure_windows.Settled(limits.pairs)
        self._kept: dict[tuple[Window, str, str], tuple[tuple[int, float, str], Figures]] = {}
        """Windows that were told lately, the newest last, and what they were made of."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Event | None = None

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named.

        Answers at once with what is known: it starts the collector where it rests, and waits for
        a first reading a second at most. Never raises for the database's sake: `Figures.trouble`
        tells.
        """
        if not self._config.charts:
            return figure_windows.empty(window, datetime.now(UTC), trouble=OFF)
        self._looked = self._clock()
        if timedelta(hours=1) < window.span <= timedelta(days=1):
            self._looked_far = self._looked
        self._start()
        if not self._buckets.read_until and self._first is not None:
            try:
                await asyncio.wait_for(self._first.wait(), self._limits.first_seconds)
            except TimeoutError:
                log.debug("no figures have been read yet")
        return self.known(window, queue=queue, kind=kind)

    def known(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return what is known just now, without reading anything."""
        if not self._buckets.read_until:
            return figure_windows.empty(window, datetime.now(UTC), trouble=self._trouble)
        now = self._now()
        state = (self._buckets.version, now // 1, self._trouble)
        key = (window, queue, kind)
        if (kept := self._kept.get(key)) is not None and kept[0] == state:
            return kept[1]
        figures = figure_windows.window_of(
            self._buckets,
            self._settled,
            window,
            now,
            queue=queue,
            kind=kind,
            pairs=self._limits.pairs,
            since=self._rows_since if window.span > timedelta(hours=1) else 0.0,
            trouble=self._trouble,
            complete=not self._gaps,
        )
        self._kept.pop(key, None)
        self._kept[key] = (state, figures)
        while len(self._kept) > self._limits.windows:
            del self._kept[next(iter(self._kept))]
        return figures

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            await cancel_all([self._task])
            self._task = None

    async def tick(self) -> None:
        """Read what is new since the last time."""
        self._due = self._clock() + self._limits.tick_seconds
        try:
            async with self._driver.reading(timeout=self._timeout) as executor:
                await self._read_new(FIGURES.on(executor))
        except RiveruiError as error:
            self._fail(error)
        else:
            self._recover()

    async def fill(self) -> bool:
        """Read one slice of the past that has settled; return whether there is more of it."""
        if not self._buckets.read_until:
            return False
        try:
            async with self._driver.reading(timeout=self._timeout) as executor:
                return await self._read_past(FIGURES.on(executor))
        except RiveruiError as error:
            self._fail(error)
            return False

    @property
    def _timeout(self) -> timedelta:
        return min(self._config.page_timeout, self._limits.timeout)

    def _now(self) -> float:
        """Return up to when windows reach: to the last reading, or where that was long ago, to the
        database's time as our clock has gone on since.
        """
        since = self._clock() - self._read_clock
        late = since > 2 * self._limits.tick_seconds
        return self._buckets.read_until + (since if late else 0.0)

    def _start(self) -> None:
        # A task of a loop that is gone would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._task, self._first = loop, None, asyncio.Event()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        """Tick, and read the past in between, for as long as somebody looks."""
        while self._clock() - self._looked < self._limits.rest_seconds:
            if self._clock() >= self._due:
                await self.tick()
                if self._first is not None:
                    self._first.set()
            started = self._clock()
            more = not self._failures and await self.fill()
            took = self._clock() - started
            left = self._due - self._clock()
            # Half of the time at most goes into the past.
            await asyncio.sleep(max(0.0, min(left, max(took, 0.02)) if more else left))

    def _fail(self, error: RiveruiError) -> None:
        self._failures += 1
        rest = min(
            self._limits.tick_seconds * 2 ** (self._failures - 1), self._limits.most_rest_seconds
        )
        self._due = self._clock() + rest
        if not self._trouble:
            log.warning("could not read figures: %s", error)
        self._trouble = str(error)

    def _recover(self) -> None:
        if self._trouble:
            log.info("figures are read again")
        self._failures, self._trouble = 0, ""

    async def _read_new(self, executor: FigureExecutor) -> None:
        clock = await executor.figure_clock_get()
        now = clock.now.timestamp()
        buckets, before = self._buckets, self._read_tick
        buckets.enter(now, back=self._limits.settle_seconds)
        self._read_clock, self._read_tick = self._clock(), now
        if now < before - self._limits.settle_seconds:
            before, self._ids, self._gaps = 0.0, [], []
            self._known_rows_since, self._attempts_since = False, 0.0
        await self._read_ends(executor, now, before)
        await self._read_inserted(executor, now, clock.last_id)
        await self._read_unfinished(executor, now)
        await self._read_waiting(executor, now)

    async def _read_ends(self, executor: FigureExecutor, now: float, before: float) -> None:
        """Read the parts that were not over at the last tick. Of jobs that ended well, failed
        attempts are read when the time has settled: mostly they have been seen before.
        """
        newest = int(now) // PART * PART
        limits = self._limits
        oldest = int(now - limits.settle_seconds) // PART * PART
        if before:
            before = min(before, now) - limits.commit_seconds
            oldest = max(oldest, int(before) // PART * PART)
        spans = []
        for start in range(oldest, newest + PART, PART):
            bucket = self._buckets.minute(start)
            part = (start - bucket.start) // PART
            if not bucket.final >> part & 1:
                spans += slices(bucket, [part], sampling=self._live.sampling, place=start)
        sampling, started = self._live.sampling, self._clock()
        rows = await executor.job_ended_tally_list(spans)
        failed = await executor.job_ended_failure_list(spans, states=_FAILED)
        self._live.note(self._clock() - started, now - oldest)
        cells = cells_of(rows, times=sampling)
        for span in {span.place for span in spans}:
            bucket = self._buckets.minute(span)
            bucket.put((span - bucket.start) // PART, cells.get(span, {}), sampling)
        self._buckets.add_failures(failed, sampling)

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
        self._buckets.forget_growing()
        self._buckets.insert(came)
        self._buckets.insert(arriving, growing=True)
        self._ids = [self._ids[-1], max(last_id, self._ids[-1])]

    async def _inserted(
        self, executor: FigureExecutor, now: float, after: int, upto: int, most: int
    ) -> list[InsertedTally]:
        if upto <= after:
            return []
        if upto - after > most:
            at = datetime.fromtimestamp(int(now) // 60 * 60, UTC)
            return [InsertedTally(at, OTHER, OTHER, upto - after)]
        since = datetime.fromtimestamp(self._buckets.first_minute(now), UTC)
        page = await executor.job_inserted_tally_list(
            after=after, upto=upto, since=since, limit=most
        )
        return list(page.tallies)

    async def _read_unfinished(self, executor: FigureExecutor, now: float) -> None:
        """Read the attempts that failed of jobs that go on. They are told by when they began: now
        and then those that took long are looked for too, back to the oldest minute.
        """
        oldest = self._buckets.first_minute(now)
        wide, new = self._long_attempts.due, self._new_attempts.due
        if not (wide or new) and self._attempts_since:
            return
        since = oldest
        if not wide:
            since = max(oldest, int(self._attempts_since - self._limits.settle_seconds))
        with self._long_attempts.measured() if wide else self._new_attempts.measured():
            failed = await executor.job_unfinished_failure_list(datetime.fromtimestamp(since, UTC))
        self._attempts_since = now
        self._buckets.add_failures(failed)

    async def _read_waiting(self, executor: FigureExecutor, now: float) -> None:
        if self._waiting.due:
            cap = self._limits.waiting_cap
            with self._waiting.measured():
                waiting = await executor.queue_waiting_list(cap=cap)
            self._buckets.add_waiting(waiting, now=now, cap=cap)

    async def _read_past(self, executor: FigureExecutor) -> bool:
        buckets, limits = self._buckets, self._limits
        now = buckets.read_until
        far = self._clock() - self._looked_far < limits.rest_seconds
        since = now - DAY - TEN * 2 if far else buckets.first_minute(now)
        if far and not self._known_rows_since:
            first = await executor.job_first_completed_at(datetime.fromtimestamp(since, UTC))
            self._rows_since = first.timestamp() if first else now
            self._known_rows_since = True
        chosen: dict[int, tuple[Bucket, list[int]]] = {}
        count = 0
        missing = buckets.missing(now, settle=limits.settle_seconds, since=since)
        for bucket, part in missing:
            if count >= self._slice_parts:
                break
            chosen.setdefault(bucket.start, (bucket, []))[1].append(part)
            count += 1
        if not chosen:
            return await self._read_inserted_before(executor, now)
        sampling = self._past.sampling
        spans = [
            span
            for bucket, parts in chosen.values()
            for span in slices(bucket, parts, sampling=sampling, place=bucket.start)
        ]
        started = self._clock()
        rows = await executor.job_ended_tally_list(spans)
        failed = await executor.job_ended_failure_list(spans)
        took = self._clock() - started
        self._past.note(took, count * PART)
        wanted = int(self._slice_parts * min(2.0, limits.slice_seconds / max(took, 1e-4)))
        self._slice_parts = min(max(1, wanted), limits.slice_parts)
        cells = cells_of(rows, times=sampling)
        for start, (bucket, parts) in chosen.items():
            buckets.keep(bucket)
            bucket.settle(parts, cells.get(start, {}), sampling, most=limits.pairs)
        buckets.add_failures(failed, sampling, settled=True)
        buckets.version += 1
        return True

    async def _read_inserted_before(self, executor: FigureExecutor, now: float) -> bool:
        """Count the jobs that came before the first tick, the newest first; return whether there
        may be more.
        """
        if not self._gaps:
            return False
        after, upto = self._gaps.pop()
        since = datetime.fromtimestamp(self._buckets.first_minute(now), UTC)
        page = await executor.job_inserted_tally_list(after=after, upto=upto, since=since)
        self._buckets.insert(page.tallies)
        if page.tallies and page.first_id - 1 > after:
            self._gaps.append((after, page.first_id - 1))
        self._buckets.version += 1
        return True
