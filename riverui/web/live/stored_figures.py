"""Reads stored figures: windows of up to 90 days, and what is usual at an hour of the day."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from riverui.domain.clock import FIRST
from riverui.domain.figures import FigureColumn, Figures, Tally, Window
from riverui.domain.rollups import (
    DAY,
    HOUR,
    KEPT,
    Pair,
    RollupRow,
    Stretch,
    Waiting,
    add_pairs,
    begin,
    busiest,
    stretches,
)
from riverui.errors import DatabaseError
from riverui.storage.interface import ROLLUPS, Driver, RollupExecutor
from riverui.storage.interface.rollups import ROLLUP_TABLE
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.own_table import OwnTableWatch

SOURCE = "stored figures"
"""Where these figures come from, in words."""
_FRESH_SECONDS = 60.0
"""How long a window is shown before it is read again: a bucket of the finest is added each
minute.
"""
_USABLE_SECONDS = 600.0
"""How old a window may be that is shown while it is read again."""
_FIRST_SECONDS = 1.0
"""That a viewer waits for a window that nobody has asked for lately."""
_WINDOWS = 64
"""Windows of queues and kinds that are remembered, some 100 kB each."""
_TURN = 250
"""Rows that are added up in one go, some 5 milliseconds, before others have their turn."""
_SETTLED = timedelta(hours=3)
"""Age from which on buckets are taken as settled: failures are learned of within the hour, and
what they are part of is folded up again at once.
"""
_USUAL_DAYS = 7
"""Days of which the same hour tells what is usual: a week has every day once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualHour:
    """What was done in one hour of the day, on the days before."""

    tally: Tally
    days: int
    """On how many of the last seven days something is known of that hour."""


@dataclass(kw_only=True, slots=True)
class _Kept:
    """A window as it was read last."""

    figures: Figures | None = None
    read: float = float("-inf")
    """When (of the clock)."""
    task: asyncio.Task[None] | None = None
    first: datetime | None = None
    """When its first column begins."""
    settled: _Told | None = None
    """What was read of the time from then on that does not change any more."""
    until: datetime = FIRST
    """Up to when that is."""


class StoredFigures:
    """The stored figures of one database; without their table it has none."""

    def __init__(self, driver: Driver, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self.table = OwnTableWatch(driver, ROLLUP_TABLE, ROLLUPS, clock=clock)
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
        return kept.figures or _nothing(window, datetime.now(UTC), trouble="Still reading.")

    async def usual_hour(
        self, at: datetime, *, queue: str = "", kind: str = ""
    ) -> UsualHour | None:
        """Return what was done in the same hour of the last seven days, of one queue or kind where
        they are named; None where nothing is known of it. Raises as the database does.
        """
        if not await self.table.there():
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
            kept.figures = _nothing(window, datetime.now(UTC), trouble=error.public)
        kept.read = self._clock()

    async def _load(self, kept: _Kept, window: Window, queue: str, kind: str) -> Figures:
        """Read a window: what may still change, and the rest unless it is known already."""
        now = datetime.now(UTC)
        first, asked = _first(window, now), _Asked(window, queue, kind)
        settled = max(first, begin(now - _SETTLED, window.step))
        async with self._driver.reading() as executor:
            rollups = ROLLUPS.on(executor)
            newest = await rollups.rollup_newest_list()
            wide = max(span for span in KEPT if not window.step % span)
            gone = kept.settled is not None and bool(kept.settled.whole) and wide not in newest
            if kept.settled is None or kept.first != first or gone:
                kept.first, kept.settled, kept.until = first, _Told(), first
            if kept.until < settled:
                await asked.read(rollups, kept.settled, kept.until, settled, newest)
                kept.until = settled
            told = kept.settled.copy()
            await asked.read(rollups, told, settled, now, newest)
        return Figures(
            window=window,
            columns=_columns(window, now, told.whole, told.rows, waits=not kind),
            pairs=busiest(told.pairs),
            read_at=max((at + span for span, at in newest.items()), default=None),
            since=min((row.at for row in told.whole), default=None),
            complete=True,
            source=SOURCE,
        )


@dataclass(kw_only=True, slots=True)
class _Told:
    """What was read of some time."""

    whole: list[RollupRow] = field(default_factory=list)
    """Of everything: tells of which buckets something is known."""
    rows: list[RollupRow] = field(default_factory=list)
    """Of what was asked for."""
    pairs: dict[Pair, Tally] = field(default_factory=dict)

    def copy(self) -> _Told:
        """Return the same, to be added to by itself."""
        pairs: dict[Pair, Tally] = {}
        add_pairs(pairs, self.pairs.items())
        return _Told(whole=[*self.whole], rows=[*self.rows], pairs=pairs)


class _Asked(NamedTuple):
    """Which figures are wanted."""

    window: Window
    queue: str
    kind: str

    async def read(
        self,
        rollups: RollupExecutor,
        told: _Told,
        since: datetime,
        until: datetime,
        newest: Mapping[timedelta, datetime],
    ) -> None:
        """Add what is stored of this time to what was told before."""
        queue, kind = self.queue, self.kind
        # Whatever is as wide as a column, or goes into it evenly.
        widest = max(span for span in KEPT if not self.window.step % span)
        pieces = stretches(since, until, newest, widest=widest)
        whole = await rollups.rollup_list(pieces)
        told.whole += whole
        if queue or kind:
            told.rows += await rollups.rollup_list(pieces, queue=queue, kind=kind)
        else:
            told.rows += whole
        wide = stretches(since, until, newest, widest=DAY)
        if kind:
            rows = await rollups.rollup_list(wide, queue=queue, kind=kind)
        else:
            rows = await rollups.rollup_pair_list(wide, queue=queue)
        for start in range(0, len(rows), _TURN):
            turn = rows[start : start + _TURN]
            add_pairs(told.pairs, (((row.queue, row.kind), row.tally) for row in turn))
            await asyncio.sleep(0)


def _first(window: Window, now: datetime) -> datetime:
    """Return when the first column of a window begins."""
    return begin(now, window.step) - (window.columns - 1) * window.step


def _nothing(window: Window, now: datetime, *, trouble: str = "") -> Figures:
    return Figures(
        window=window,
        columns=_columns(window, now, (), (), waits=False),
        pairs={},
        read_at=None,
        since=None,
        complete=False,
        source=SOURCE,
        trouble=trouble,
    )


def _columns(
    window: Window,
    now: datetime,
    whole: Sequence[RollupRow],
    rows: Sequence[RollupRow],
    *,
    waits: bool,
) -> tuple[FigureColumn, ...]:
    """Return the columns: `whole` tells of which something is known, `rows` what."""
    sampled: dict[datetime, int] = {}
    for row in whole:
        at = begin(row.at, window.step)
        sampled[at] = max(sampled.get(at, 1), row.sampled)
    tallies: Mapping[datetime, Tally] = {at: Tally() for at in sampled}
    waiting: dict[datetime, Waiting] = {}
    for row in rows:
        at = begin(row.at, window.step)
        tallies[at].merge(row.tally)
        if row.waiting is not None:
            waiting[at] = row.waiting.max(waiting.get(at))
    first = _first(window, now)
    return tuple(
        _column(
            first + n * window.step,
            tallies,
            sampled,
            waiting if waits else {},
            finished=n < window.columns - 1,
        )
        for n in range(window.columns)
    )


def _column(
    at: datetime,
    tallies: Mapping[datetime, Tally],
    sampled: Mapping[datetime, int],
    waiting: Mapping[datetime, Waiting],
    *,
    finished: bool,
) -> FigureColumn:
    seen = waiting.get(at)
    return FigureColumn(
        at=at,
        tally=tallies.get(at),
        sampled=sampled.get(at, 1),
        oldest_waiting=None if seen is None else seen.oldest,
        waiting=None if seen is None else seen.jobs,
        waiting_capped=seen is not None and seen.capped,
        finished=finished,
    )
