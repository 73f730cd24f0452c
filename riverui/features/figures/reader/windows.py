"""Puts windows of figures together from rollups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from riverui.domain.figures import FigureColumn, Figures, Tally, Window
from riverui.features.figures.domain import (
    DAY,
    KEPT,
    NOTHING_WAITS,
    Pair,
    RollupRow,
    Waiting,
    add_pairs,
    begin,
    busiest,
    stretches,
)
from riverui.features.figures.reader.minutes import RecentMinutes
from riverui.features.figures.store import RollupStore

_TURN = 250
"""Rows that are added up in one go, some 5 milliseconds, before other tasks run."""


@dataclass(frozen=True, slots=True)
class Query:
    """The requested figures: of everything, or of one queue or kind."""

    window: Window
    queue: str = ""
    kind: str = ""


@dataclass(kw_only=True, slots=True)
class Gathered:
    """The figures read for the columns of a window."""

    tallies: dict[datetime, Tally] = field(default_factory=dict)
    """By column, for columns with any figures."""
    sampled: dict[datetime, int] = field(default_factory=dict)
    waiting: dict[datetime, Waiting] = field(default_factory=dict)
    pairs: dict[Pair, Tally] = field(default_factory=dict)
    since: datetime | None = None
    """When the oldest rollup begins."""

    def copy(self) -> Gathered:
        """Return a mutable copy."""
        return Gathered(
            tallies={at: tally.copy() for at, tally in self.tallies.items()},
            sampled=dict(self.sampled),
            waiting=dict(self.waiting),
            pairs={pair: tally.copy() for pair, tally in self.pairs.items()},
            since=self.since,
        )

    async def add(
        self, store: RollupStore | RecentMinutes, query: Query, since: datetime, until: datetime
    ) -> None:
        """Add a store's figures of a range of time."""
        window, queue, kind = query.window, query.queue, query.kind
        newest = await store.rollup_newest_list()
        pieces = stretches(since, until, newest, widest=_widest(window))
        whole = await store.rollup_list(pieces)
        for row in whole:
            at = begin(row.at, window.step)
            self.tallies.setdefault(at, Tally())
            self.sampled[at] = max(self.sampled.get(at, 1), row.sampled)
            self.since = row.at if self.since is None else min(self.since, row.at)
            if row.waiting is not None and queue and not kind:
                # Queues without waiting jobs have no row.
                self.waiting.setdefault(at, NOTHING_WAITS)
        rows: Sequence[RollupRow] = whole
        if kind:
            rows = await store.rollup_pair_list(pieces, queue=queue, kind=kind)
        elif queue:
            rows = await store.rollup_list(pieces, queue=queue)
        for row in rows:
            at = begin(row.at, window.step)
            self.tallies.setdefault(at, Tally()).merge(row.tally)
            if row.waiting is not None:
                self.waiting[at] = row.waiting.max(self.waiting.get(at))
        # For the whole window, from the widest rollups available.
        pieces = stretches(since, until, newest, widest=DAY)
        rows = await store.rollup_pair_list(pieces, queue=queue, kind=kind)
        for start in range(0, len(rows), _TURN):
            turn = rows[start : start + _TURN]
            add_pairs(self.pairs, (((row.queue, row.kind), row.tally) for row in turn))
            if isinstance(store, RollupStore):
                await asyncio.sleep(0)

    def figures(
        self,
        window: Window,
        now: datetime,
        *,
        read_at: datetime | None,
        complete: bool = False,
        source: str = "",
        trouble: str = "",
        pairs: int,
    ) -> Figures:
        """Return the window up to now."""
        first = first_column(window, now)
        return Figures(
            window=window,
            columns=tuple(
                self._column(first + n * window.step, finished=n < window.columns - 1)
                for n in range(window.columns)
            ),
            pairs=busiest(self.pairs, pairs),
            read_at=read_at,
            since=None if self.since is None else max(self.since, first),
            complete=complete,
            source=source,
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


def first_column(window: Window, now: datetime) -> datetime:
    """Return when the first column of a window begins."""
    return begin(now, window.step) - (window.columns - 1) * window.step


def _widest(window: Window) -> timedelta:
    """Return the span of the widest rollups that fit evenly into a column."""
    return max(span for span in KEPT if not window.step % span)
