"""The figures of a dashboard, for its pages, reports and metrics."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TypeVar

from riverui.domain.figures import WINDOWS, Figures, PastColumn, Tally, Window
from riverui.domain.health.facts import UsualHour
from riverui.domain.queues import QueueMinute
from riverui.errors import DatabaseError
from riverui.features.figures.domain import (
    DAY,
    EPOCH,
    HOUR,
    MINUTE,
    TEN_MINUTES,
    Stretch,
    begin,
)
from riverui.features.figures.reader.collector import FigureCollector
from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.figures.reader.past import PAST, Past, past_columns, read_past
from riverui.features.figures.reader.totals import EndedTotals
from riverui.features.figures.reader.windows import Gathered, Query, first_column
from riverui.features.figures.reader.writer import FigureWriter
from riverui.features.figures.store import JobFigures, RollupStore
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all, is_running

T = TypeVar("T")

OFF = "Charts are switched off (RIVERUI_CHARTS)."
"""The message if charts are switched off."""
_FRESH_SECONDS = 60.0
"""How long a stored window is shown before it is read again: one minute is stored a minute."""
_USABLE_SECONDS = 600.0
"""How old a stored window may be that is shown while it is read again."""
_WINDOWS = 32
"""Windows that are cached: those of the health report, and some for viewers. One of all jobs takes
up to 2 MB, others less than one.
"""
_USUAL_DAYS = 7
"""Days whose same hour is the usual one: a week has every weekday once."""
_PROMPT_SECONDS = 0.005
"""How long pages wait for secondary figures: less than the page takes anyway."""


async def promptly(reading: Awaitable[T]) -> T | None:
    """Return figures that are available at once; otherwise None."""
    try:
        return await asyncio.wait_for(reading, _PROMPT_SECONDS)
    except TimeoutError:
        return None


@dataclass(kw_only=True, slots=True)
class _Kept:
    """A cached window, without its newest minutes."""

    base: Gathered = field(default_factory=Gathered)
    until: datetime = EPOCH
    """The end of `base`; EPOCH before it was read."""
    made_of: object = None
    """The state of the recent minutes that `base` was made of."""
    read: float = -inf
    """When `base` was read from the table, by the clock."""
    error: str = ""
    """Why the last reading failed."""
    task: asyncio.Task[None] | None = None
    figures: Figures | None = None
    """The window as last returned."""
    state: object = None
    """The state that `figures` was made of."""


class FigureReader:
    """Gathers figures while there are viewers, stores them if the table exists, and reads them."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: FigureLimits | None = None,
        *,
        primary: Driver | None = None,
        totals: EndedTotals | None = None,
        lag: Callable[[], timedelta] = timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read by `driver` and write by `primary`, the same by default; see FigureCollector."""
        self._driver = driver
        self._config = config
        self._limits = limits = limits or FigureLimits()
        self._clock = clock
        self.collector = FigureCollector(
            driver, config, limits, totals=totals, lag=lag, clock=clock
        )
        self.table = self.collector.table
        self.writer = FigureWriter(primary or driver, config, self.collector, limits)
        self._kept: OrderedDict[Query, _Kept] = OrderedDict()
        self._past_until = EPOCH
        self._past: Past | None = None
        self._past_stored: dict[tuple[str, str], Sequence[PastColumn]] = {}

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind if they are given.

        Waits up to a second for the first reading. Does not raise if the database fails:
        `Figures.trouble` has the error.
        """
        if not self.collector.look():
            now = datetime.now(UTC)
            return Gathered().figures(window, now, read_at=None, trouble=OFF, pairs=0)
        if window.span > HOUR and await self.table.seen():
            self.writer.watch()
        await self.collector.first_reading()
        return await self.known(window, queue=queue, kind=kind)

    async def known(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the same as `read`, without starting to read River's rows."""
        collector, query = self.collector, Query(window, queue, kind)
        kept = self._kept.setdefault(query, _Kept())
        self._kept.move_to_end(query)
        while len(self._kept) > _WINDOWS:
            _, forgotten = self._kept.popitem(last=False)
            if forgotten.task is not None:
                forgotten.task.cancel()
        stored = window.span > HOUR and await self.table.seen()
        if stored:
            await self._refresh(kept, query)
        now = collector.now if collector.now > EPOCH else datetime.now(UTC)
        state = (now, collector.recent.changes, collector.error, stored, kept.read)
        if kept.figures is None or kept.state != state:
            kept.figures, kept.state = await self._figures(kept, query, now, stored=stored), state
        return kept.figures

    async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return the minutes of the last hour of each queue that has any figures, the oldest first
        and the newest not over yet; None for unknown minutes.
        """
        return self.collector.recent.queue_minutes() if self.collector.look() else {}

    def arrivals(self) -> Mapping[str, Sequence[int]]:
        """Return how many jobs of each kind were inserted in each minute of the last hour, the
        oldest first; nothing if that is not known of all.
        """
        return self.collector.recent.arrivals() if self.collector.complete else {}

    def failed_jobs(self, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return for each kind the minutes in which its jobs that failed since then failed last."""
        return self.collector.recent.failed_jobs(since)

    async def usual_hour(
        self, at: datetime, *, queue: str = "", kind: str = ""
    ) -> UsualHour | None:
        """Return the figures of the same hour of the last seven days, of one queue or kind if
        given; None if there are none. Raises the database's errors.
        """
        if not await self.table.seen():
            return None
        hour = begin(at, HOUR)
        hours = [
            Stretch(HOUR, hour - n * DAY, hour - n * DAY + HOUR) for n in range(1, _USUAL_DAYS + 1)
        ]
        async with self._driver.reading() as executor:
            store = RollupStore(executor)
            known = await store.rollup_list(hours)
            if kind:
                rows = await store.rollup_pair_list(hours, queue=queue, kind=kind)
            else:
                rows = await store.rollup_list(hours, queue=queue)
        tally = Tally()
        for row in rows:
            tally.merge(row.tally)
        return UsualHour(tally=tally, days=len(known)) if known else None

    async def past(self, at: datetime, *, queue: str = "", kind: str = "") -> Sequence[PastColumn]:
        """Return the hours before the last one in steps of ten minutes, of one queue or kind if
        given: from stored figures, else from a sample of River's rows. Raises the database's
        errors.
        """
        until = begin(at - HOUR + MINUTE, TEN_MINUTES)
        if self._past_until != until:
            self._past_until, self._past, self._past_stored = until, None, {}
        if await self.table.seen():
            if (queue, kind) not in self._past_stored:
                self._past_stored[queue, kind] = await self._stored_past(until, queue, kind)
            if known := self._past_stored[queue, kind]:
                return known
        if self._past is None:
            async with self._driver.reading(timeout=self._limits.timeout) as executor:
                self._past = await read_past(JobFigures(executor), until, pairs=self._limits.pairs)
        return past_columns(self._past, queue=queue, kind=kind)

    async def _stored_past(self, until: datetime, queue: str, kind: str) -> Sequence[PastColumn]:
        """Return the stored hours before then; none if less than half of them are stored."""
        stored = Gathered()
        async with self._driver.reading() as executor:
            query = Query(WINDOWS["6h"], queue, kind)
            await stored.add(RollupStore(executor), query, until - PAST, until)
        if stored.since is None or stored.since > until - PAST / 2:
            return ()
        return [
            PastColumn(at=at, span=TEN_MINUTES, tally=tally)
            for at, tally in sorted(stored.tallies.items())
        ]

    def watch(self) -> None:
        """Begin to store figures, once their table exists."""
        if self._config.charts:
            self.writer.watch()

    def forget(self) -> None:
        """Clear the cache of windows, after stored figures were deleted."""
        self._kept.clear()

    async def close(self) -> None:
        """Stop the background tasks."""
        await self.writer.close()
        await self.collector.close()
        tasks = [kept.task for kept in self._kept.values() if kept.task is not None]
        self._kept.clear()
        await cancel_all(tasks)

    async def _figures(self, kept: _Kept, query: Query, now: datetime, *, stored: bool) -> Figures:
        """Return a window: its cached part, and its newest minutes."""
        collector, recent = self.collector, self.collector.recent
        first, until = first_column(query.window, now), collector.settled
        if not stored and kept.made_of != (first, until, recent.version):
            kept.base, kept.until, kept.made_of = Gathered(), until, (first, until, recent.version)
            await kept.base.add(recent, query, first, until)
        found = kept.base.copy()
        await found.add(recent, query, max(kept.until, first), now + MINUTE)
        read_at = max(recent.now, kept.until)
        return found.figures(
            query.window,
            now,
            read_at=read_at if read_at > EPOCH else None,
            complete=not (kept.error or collector.backlog) if stored else collector.complete,
            source="stored figures" if stored else recent.source,
            trouble=collector.error or (kept.error if stored else ""),
            pairs=self._limits.pairs,
        )

    async def _refresh(self, kept: _Kept, query: Query) -> None:
        """Read a stored window again if it is a minute old. The old one is shown meanwhile."""
        age = self._clock() - kept.read
        if age < _FRESH_SECONDS:
            return
        task = kept.task
        if not is_running(task):
            task = kept.task = asyncio.create_task(self._read_stored(kept, query))
        if age >= _USABLE_SECONDS:
            kept.error = kept.error or "They are still being read."
            await asyncio.wait([task], timeout=self._limits.first_seconds)

    async def _read_stored(self, kept: _Kept, query: Query) -> None:
        base, now = Gathered(), datetime.now(UTC)
        try:
            async with self._driver.reading() as executor:
                store = RollupStore(executor)
                await base.add(store, query, first_column(query.window, now), now + MINUTE)
                newest = (await store.rollup_newest_list()).get(MINUTE)
            kept.base, kept.made_of, kept.error = base, None, ""
            kept.until = EPOCH if newest is None else min(newest + MINUTE, now)
        except DatabaseError as error:
            self.table.ask_again()
            kept.base, kept.made_of, kept.error = Gathered(), None, error.public
            kept.until = EPOCH
        kept.read = self._clock()
