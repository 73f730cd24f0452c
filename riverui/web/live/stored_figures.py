"""Reads stored figures: windows of up to 90 days, and what is usual at an hour of the day."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import Figures, Tally, Window
from riverui.domain.health.facts import UsualHour
from riverui.domain.rollups import DAY, HOUR, Stretch, begin
from riverui.domain.time import FIRST
from riverui.errors import DatabaseError
from riverui.storage.interface import ROLLUPS, Driver
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.live.stored_windows import Asked, Told, first_column, widest

_FRESH_SECONDS = 60.0
"""How long a window is shown before it is read again: a bucket of the finest is added each
minute.
"""
_USABLE_SECONDS = 600.0
"""How old a window may be that is shown while it is read again."""
_FIRST_SECONDS = 1.0
"""That a viewer waits for a window that nobody has asked for lately."""
_WINDOWS = 32
"""Windows of queues and kinds that are remembered: those that the health report asks for, and some
for viewers. One of everything takes up to 2 MB, others less than one.
"""
_SETTLED = timedelta(hours=3)
"""Age from which on buckets are taken as settled: failures are learned of within the hour, and
what they are part of is folded up again at once.
"""
_USUAL_DAYS = 7
"""Days of which the same hour tells what is usual: a week has every day once."""


@dataclass(kw_only=True, slots=True)
class _Kept:
    """A window as it was read last."""

    figures: Figures | None = None
    read: float = float("-inf")
    """When (of the clock)."""
    task: asyncio.Task[None] | None = None
    first: datetime | None = None
    """When its first column begins."""
    settled: Told | None = None
    """What was read of the time from then on that does not change any more."""
    until: datetime = FIRST
    """Up to when that is."""


class StoredFigures:
    """The stored figures of one database; without their table it has none."""

    def __init__(self, driver: Driver, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self.table = OwnTableWatch(driver, clock=clock)
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return a window, of one queue or kind where they are named, a minute old at most.

        An older one is answered while it is read again; one that was never read is waited for a
        second at most. Never raises for the database's sake: `Figures.trouble` tells.
        """
        key = (window.name, queue, kind)
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > _WINDOWS:
            _, forgotten = self._kept.popitem(last=False)
            if forgotten.task is not None:
                forgotten.task.cancel()
        age = self._clock() - kept.read
        if age >= _FRESH_SECONDS:
            task = self._begin(kept, window, queue, kind)
            if kept.figures is None or age >= _USABLE_SECONDS:
                await asyncio.wait([task], timeout=_FIRST_SECONDS)
        return kept.figures or _nothing(window, "They are still being read.")

    async def usual_hour(
        self, at: datetime, *, queue: str = "", kind: str = ""
    ) -> UsualHour | None:
        """Return what was done in the same hour of the last seven days, of one queue or kind where
        they are named; None where nothing is known of it. Raises as the database does.
        """
        if not await self.table.seen():
            return None
        hour = begin(at, HOUR)
        hours = [
            Stretch(HOUR, hour - n * DAY, hour - n * DAY + HOUR) for n in range(1, _USUAL_DAYS + 1)
        ]
        async with self._driver.reading() as executor:
            rollups = ROLLUPS.on(executor)
            known = await rollups.rollup_list(hours)
            rows = await rollups.rollup_list(hours, queue=queue, kind=kind)
        tally = Tally()
        for row in rows:
            tally.merge(row.tally)
        return UsualHour(tally=tally, days=len(known)) if known else None

    def forget(self) -> None:
        """Read everything anew when next asked: somebody has deleted what was stored."""
        for kept in self._kept.values():
            kept.read = float("-inf")
            kept.figures = kept.settled = None

    async def close(self) -> None:
        """Stop reading."""
        tasks = [kept.task for kept in self._kept.values() if kept.task is not None]
        self._kept.clear()
        await cancel_all(tasks)

    def _begin(self, kept: _Kept, window: Window, queue: str, kind: str) -> asyncio.Task[None]:
        """Return the task that reads a window, begun unless it is under way."""
        task = kept.task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = kept.task = asyncio.create_task(self._refresh(kept, window, queue, kind))
        return task

    async def _refresh(self, kept: _Kept, window: Window, queue: str, kind: str) -> None:
        try:
            kept.figures = await self._load(kept, window, queue, kind)
        except DatabaseError as error:
            self.table.ask_again()
            kept.figures = _nothing(window, error.public)
        kept.read = self._clock()

    async def _load(self, kept: _Kept, window: Window, queue: str, kind: str) -> Figures:
        """Read a window: what may still change, and the rest unless it is known already."""
        now = datetime.now(UTC)
        first, asked = first_column(window, now), Asked(window, queue, kind)
        settled = max(first, begin(now - _SETTLED, window.step))
        async with self._driver.reading() as executor:
            rollups = ROLLUPS.on(executor)
            newest = await rollups.rollup_newest_list()
            known, until = kept.settled, kept.until
            if known is None or kept.first != first or widest(window) not in newest:
                # Another column has become the first, or somebody has deleted what was stored.
                known, until = Told(), first
            if until < settled:
                known = known.joined(await asked.read(rollups, until, settled, newest))
            kept.settled, kept.first, kept.until = known, first, max(until, settled)
            told = known.joined(await asked.read(rollups, kept.until, now, newest))
        read_at = max((at + span for span, at in newest.items()), default=None)
        return told.figures(window, now, read_at=read_at)


def _nothing(window: Window, trouble: str) -> Figures:
    return Told().figures(window, datetime.now(UTC), read_at=None, trouble=trouble)
