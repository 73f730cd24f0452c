"""Figures made by hand: a reader of any, as pages get them from whatever gathers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

from msgspec.structs import replace

from riverui.domain.figures import OTHER, FigureColumn, Figures, Tally, Window
from riverui.domain.queues import QueueMinute
from riverui.domain.sketch import Sketch
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.web.http.context import Dashboard


def tally(
    completed: int = 0,
    *,
    wait: float = 0.5,
    run: float = 0.2,
    failed_run: float = 2.0,
    **counts: int,
) -> Tally:
    """Return a tally whose jobs all waited and ran as long, in seconds."""
    found = replace(Tally(completed=completed), **counts)
    found.wait.add(timedelta(seconds=wait), max(found.ended, 1))
    if completed:
        found.run.add(timedelta(seconds=run), completed)
    if found.discarded:
        found.failed_run.add(timedelta(seconds=failed_run), found.discarded)
    return found


def sketch(*seconds: float) -> Sketch:
    """Return a sketch of these spans."""
    return Sketch.from_spans(timedelta(seconds=each) for each in seconds)


def figures(
    window: Window,
    make: Callable[[int], FigureColumn | Tally | None],
    *,
    now: datetime | None = None,
    **more: object,
) -> Figures:
    """Return figures whose columns `make` makes by their number, the oldest first: a column, of
    which only the place is changed, or its tally.
    """
    now = now or datetime.now(UTC)
    newest = now - (now - datetime(1970, 1, 1, tzinfo=UTC)) % window.step
    n = window.columns
    columns = []
    for number in range(n):
        made = make(number)
        column = made if isinstance(made, FigureColumn) else FigureColumn(at=newest, tally=made)
        at = newest - (n - 1 - number) * window.step
        columns.append(replace(column, at=at, finished=number < n - 1))
    plain = Figures(
        window=window,
        columns=columns,
        pairs={},
        read_at=now,
        since=columns[0].at,
        complete=True,
        source="the rows of jobs",
    )
    return replace(plain, **more)


@dataclass(kw_only=True, slots=True)
class MadeFigures:
    """A reader that answers with what `make` gives for a window, a queue and a kind."""

    make: Callable[[Window, str, str], Figures]
    queues: Mapping[str, Sequence[QueueMinute | None]] = field(default_factory=dict)
    asked: list[Sequence[str]] = field(default_factory=list)
    instead_of: FigureReader | None = None
    """What was there before: parts of a dashboard that had it earlier go on with it."""

    def put_into(self, dashboard: Dashboard) -> None:
        """Take the place of a dashboard's own reader."""
        self.instead_of, dashboard.figures = dashboard.figures, cast("FigureReader", self)

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return them."""
        self.asked.append((window.name, queue, kind))
        return self.make(window, queue, kind)

    async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return those made by hand."""
        return self.queues

    async def close(self) -> None:
        """Stop what the reader of before has begun."""
        if self.instead_of is not None:
            await self.instead_of.close()


def busy(window: Window, queue: str, kind: str) -> Figures:
    """Return ten completed jobs in each column, three failures in the newest but one."""
    newest = window.columns - 1
    return figures(
        window,
        lambda n: tally(10, discarded=1, failed=3) if n == newest - 1 else tally(10),
        pairs={
            ("mail", "mail_send"): tally(400, run=2, failed=3, discarded=1),
            ("hooks", "mail_send"): tally(100, run=2),
            ("hooks", "ping"): tally(9_000, run=0.01),
            (OTHER, OTHER): tally(5, run=1, failed=1),
        },
    )
