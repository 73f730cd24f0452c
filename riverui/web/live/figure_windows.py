"""Puts a window of figures together from what a collector knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import FigureColumn, Figures, Tally, Window
from riverui.web.live.figure_buckets import DAY, Bucket, Buckets, Waiting
from riverui.web.live.figure_cells import Cells, fold

SOURCE = "the rows of jobs"
"""Where these figures come from, in words."""
SOURCE_WITH_WORKERS = "workers and rows"
"""The same where workers told the ends of some queue."""


def empty(window: Window, now: datetime, *, trouble: str = "") -> Figures:
    """Return a window of which nothing is known."""
    columns = tuple(
        FigureColumn(at=_at(start), tally=None, finished=not last)
        for start, last in _starts(window, now.timestamp())
    )
    return Figures(
        window=window,
        columns=columns,
        pairs={},
        read_at=None,
        since=None,
        complete=False,
        source=SOURCE,
        trouble=trouble,
    )


class Settled:
    """What the buckets of a window hold that do not change any more, added up once for all that ask
    until another one is complete.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        """Pairs that are told apart in a window: twice as many are while it is added up."""
        self._kept: dict[str, tuple[Sequence[Bucket], Cells]] = {}

    def cells(self, window: Window, buckets: Sequence[Bucket]) -> Cells:
        """Return the ends of these complete buckets, to be changed at will."""
        known, cells = self._kept.get(window.name, ((), Cells()))
        if not set(known) <= set(buckets):
            known, cells = (), Cells()
        for bucket in set(buckets).difference(known):
            bucket.merge_ended(cells)
            if len(cells) > 10 * self._most:
                cells = fold(cells, 2 * self._most)
        self._kept[window.name] = (buckets, cells)
        return {pair: tally.copy() for pair, tally in cells.items()}


def window_of(
    buckets: Buckets,
    settled: Settled,
    window: Window,
    now: float,
    *,
    queue: str,
    kind: str,
    pairs: int,
    since: float,
    trouble: str,
    complete: bool,
) -> Figures:
    """Return a window up to this time. Before `since` there are no rows, so nothing is known.
    `complete` tells whether everything was read but what ended.
    """
    columns, cells, used = [], Cells(), list[Bucket]()
    known = window.span <= timedelta(seconds=DAY)
    oldest: int | None = None
    for start, last in _starts(window, now):
        end = start + int(window.step.total_seconds())
        found = _buckets(buckets, start, end, now) if known and end > since else None
        if found is not None and oldest is None:
            oldest = start
        columns.append(_column(found, start, queue, kind, finished=not last))
        used += found or ()
    if queue or kind:
        for bucket in used:
            bucket.merge_ended(cells, queue=queue, kind=kind)
    else:
        cells = settled.cells(window, [bucket for bucket in used if bucket.complete])
        for bucket in used:
            if not bucket.complete:
                bucket.merge_ended(cells)
    for bucket in used:
        bucket.merge_counts(cells, queue=queue, kind=kind)
    return Figures(
        window=window,
        columns=columns,
        pairs=fold(cells, pairs),
        read_at=_at(buckets.read_until),
        since=None if oldest is None else _at(oldest),
        complete=known
        and complete
        and all(column.tally is not None or column.at.timestamp() < since for column in columns),
        source=SOURCE_WITH_WORKERS if any(bucket.by_clients for bucket in used) else SOURCE,
        trouble=trouble,
    )


def _starts(window: Window, now: float) -> Iterator[tuple[int, bool]]:
    """Yield when each column of a window begins, and whether it is the last."""
    step = int(window.step.total_seconds())
    newest = int(now) // step * step
    for n in range(window.columns - 1, -1, -1):
        yield newest - n * step, n == 0


def _buckets(buckets: Buckets, start: int, end: int, now: float) -> Sequence[Bucket] | None:
    """Return the buckets that make up this span as far as it is over; None where one is not
    known.
    """
    found, at, until = [], start, min(buckets.read_until, now)
    if until <= start:
        return None
    while at < min(end, until):
        bucket = buckets.minutes.get(at) or buckets.tens.get(at)
        if bucket is None or not bucket.known(until):
            return None
        found.append(bucket)
        at = bucket.end
    return found


def _column(
    found: Sequence[Bucket] | None, start: int, queue: str, kind: str, *, finished: bool
) -> FigureColumn:
    if found is None:
        return FigureColumn(at=_at(start), tally=None, finished=finished)
    tally, waiting = Tally(), None
    for bucket in found:
        tally.merge(bucket.tally(queue=queue, kind=kind))
        seen = bucket.waiting.get(queue) if not kind else None
        if seen is None and queue and not kind and "" in bucket.waiting:
            seen = Waiting()
        if seen is not None:
            waiting = waiting or Waiting()
            waiting.jobs = max(waiting.jobs, seen.jobs)
            waiting.capped = waiting.capped or seen.capped
            waiting.oldest = max(waiting.oldest, seen.oldest)
    return FigureColumn(
        at=_at(start),
        tally=tally,
        sampled=max(bucket.sampled for bucket in found),
        oldest_waiting=None if waiting is None else timedelta(seconds=waiting.oldest),
        waiting=None if waiting is None else waiting.jobs,
        waiting_capped=waiting is not None and waiting.capped,
        finished=finished,
    )


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
