"""The figures of a dashboard: of the last hour from the rows of jobs, of longer times from stored
figures where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from riverui.domain.figures import Figures, Window
from riverui.domain.queues import QueueMinute
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.live.client_figures import StoredClientFigures
from riverui.web.live.collector import Collector
from riverui.web.live.figure_readings import CollectorLimits
from riverui.web.live.figure_sink import FigureSink
from riverui.web.live.rollup_writer import RollupTimes, RollupWriter
from riverui.web.live.stored_figures import StoredFigures

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class KeptFigures:
    """A FigureReader of what is gathered here and of what is stored."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: CollectorLimits,
        times: RollupTimes,
        *,
        primary: Driver | None = None,
        sinks: Sequence[FigureSink] = (),
        clock: Callable[[], float],
    ) -> None:
        """Make one that reads by `driver` and stores by `primary`, which is the same by default."""
        self.stored = StoredFigures(driver, clock=clock)
        self.collector = Collector(
            driver,
            config,
            limits,
            sinks=sinks,
            clients=StoredClientFigures(driver, self.stored.table),
            clock=clock,
        )
        self.writer = RollupWriter(
            primary or driver, config, self.collector, self.stored.table, times=times
        )
        self._charts = config.charts

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named; see
        FigureReader.
        """
        if window.span <= _HOUR or not self._charts or not await self.stored.table.seen():
            return await self.collector.read(window, queue=queue, kind=kind)
        self.writer.watch()
        kept = await self.stored.read(window, queue=queue, kind=kind)
        if window.span > _DAY:
            return kept
        if kept.since is None or kept.since > kept.columns[0].at + window.step:
            # Stored figures begin within the window: rows may go further back.
            return await self.collector.read(window, queue=queue, kind=kind)
        return _newer(kept, self.collector.known(window, queue=queue, kind=kind))

    async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return what each queue did in the minutes of the last hour; see FigureReader."""
        return await self.collector.read_queues()

    @property
    def resting(self) -> bool:
        """Return whether nothing is gathered in the background."""
        return self.collector.resting

    def watch(self) -> None:
        """Begin to store figures, where there is a table for them."""
        if self._charts:
            self.writer.watch()

    async def close(self) -> None:
        """Stop what runs in the background."""
        await self.writer.close()
        await self.collector.close()
        await self.stored.close()


def _newer(kept: Figures, known: Figures) -> Figures:
    """Return stored figures whose last columns are told as they are known here, where more is."""
    here = {column.at: column for column in known.columns}
    columns, read_at = [], kept.read_at
    for column in kept.columns:
        newer, over = here.get(column.at), column.at + kept.window.step
        stored = kept.read_at is not None and over <= kept.read_at
        if stored or newer is None or newer.tally is None:
            columns.append(column)
        else:
            columns.append(newer)
            read_at = known.read_at
    return replace(kept, columns=tuple(columns), read_at=read_at)
