"""Puts a window of stored figures together, stretch by stretch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from riverui.domain.figures import FigureColumn, Figures, Tally, Window
from riverui.domain.rollups import (
    DAY,
    KEPT,
    Pair,
    RollupRow,
    Waiting,
    add_pairs,
    begin,
    busiest,
    stretches,
)
from riverui.storage.interface import RollupExecutor

SOURCE = "stored figures"
"""Where these figures come from, in words."""
_TURN = 250
"""Rows that are added up in one go, some 5 milliseconds, before others have their turn."""


@dataclass(kw_only=True, slots=True)
class Told:
    """What was read of some columns of a window."""

    tallies: dict[datetime, Tally] = field(default_factory=dict)
    """By column, of those of which something is known."""
    sampled: dict[datetime, int] = field(default_factory=dict)
    waiting: dict[datetime, Waiting] = field(default_factory=dict)
    pairs: dict[Pair, Tally] = field(default_factory=dict)
    since: datetime | None = None
    """When the oldest bucket begins."""

    def joined(self, other: Told) -> Told:
        """Return this and what was read of other columns, each to be used on by itself."""
        pairs: dict[Pair, Tally] = {}
        for told in (self, other):
            add_pairs(pairs, told.pairs.items())
        return Told(
            tallies=self.tallies | other.tallies,
            sampled=self.sampled | other.sampled,
            waiting=self.waiting | other.waiting,
            pairs=pairs,
            since=min((at for at in (self.since, other.since) if at is not None), default=None),
        )

    def figures(
        self, window: Window, now: datetime, *, read_at: datetime | None, trouble: str = ""
    ) -> Figures:
        """Return the window up to now."""
        first = first_column(window, now)
        return Figures(
            window=window,
            columns=tuple(
                self._column(first + n * window.step, finished=n < window.columns - 1)
                for n in range(window.columns)
            ),
            pairs=busiest(self.pairs),
            read_at=read_at,
            since=self.since,
            complete=not trouble,
            source=SOURCE,
            trouble=trouble,
        )

    def _column(self, at: datetime, *, finished: bool) -> FigureColumn:
        seen = self.waiting.get(at)
        return FigureColumn(
            at=at,
            tally=self.tallies.get(at),
            sampled=self.sampled.get(at, 1),
            oldest_waiting=None if seen is None else seen.oldest,
            waiting=None if seen is None else seen.jobs,
            waiting_capped=seen is not None and seen.capped,
            finished=finished,
        )


class Asked(NamedTuple):
    """Which figures are wanted."""

    window: Window
    queue: str
    kind: str

    async def read(
        self,
        rollups: RollupExecutor,
        since: datetime,
        until: datetime,
        newest: Mapping[timedelta, datetime],
    ) -> Told:
        """Return what is stored of this time."""
        told, queue, kind = Told(), self.queue, self.kind
        pieces = stretches(since, until, newest, widest=widest(self.window))
        whole = await rollups.rollup_list(pieces)
        for row in whole:
            at = begin(row.at, self.window.step)
            told.tallies.setdefault(at, Tally())
            told.sampled[at] = max(told.sampled.get(at, 1), row.sampled)
            told.since = row.at if told.since is None else min(told.since, row.at)
        rows = whole
        if queue or kind:
            rows = await rollups.rollup_list(pieces, queue=queue, kind=kind)
        for row in rows:
            at = begin(row.at, self.window.step)
            told.tallies.setdefault(at, Tally()).merge(row.tally)
            if row.waiting is not None and not kind:
                told.waiting[at] = row.waiting.max(told.waiting.get(at))
        told.pairs = await self._pairs(rollups, since, until, newest)
        return told

    async def _pairs(
        self,
        rollups: RollupExecutor,
        since: datetime,
        until: datetime,
        newest: Mapping[timedelta, datetime],
    ) -> dict[Pair, Tally]:
        """Return queues and kinds over all of this time, from the widest buckets there are."""
        pieces = stretches(since, until, newest, widest=DAY)
        rows: Sequence[RollupRow]
        if self.kind:
            rows = await rollups.rollup_list(pieces, queue=self.queue, kind=self.kind)
        else:
            rows = await rollups.rollup_pair_list(pieces, queue=self.queue)
        pairs: dict[Pair, Tally] = {}
        for start in range(0, len(rows), _TURN):
            turn = rows[start : start + _TURN]
            add_pairs(pairs, (((row.queue, row.kind), row.tally) for row in turn))
            await asyncio.sleep(0)
        return pairs


def first_column(window: Window, now: datetime) -> datetime:
    """Return when the first column of a window begins."""
    return begin(now, window.step) - (window.columns - 1) * window.step


def widest(window: Window) -> timedelta:
    """Return the span of the widest buckets that go evenly into a column."""
    return max(span for span in KEPT if not window.step % span)
