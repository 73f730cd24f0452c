"""Stores figures, with or without viewers: one dashboard of each database does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from riverui.errors import DatabaseError
from riverui.features.figures.domain import DAY, EPOCH, MINUTE, Stretch, begin
from riverui.features.figures.reader.collector import FigureCollector
from riverui.features.figures.reader.limits import FigureLimits
from riverui.features.figures.store import JobFigures, RollupStore
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all, is_running

log = logging.getLogger("riverui.figures")

_BATCH = 20
"""Minutes that one transaction stores: usually there are one or two, at the start sixty."""
_TIMEOUT = timedelta(seconds=10)
"""For each statement; the largest take some 10 milliseconds."""


class FigureWriter:
    """Stores the minutes of one database, if no other dashboard does."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        collector: FigureCollector,
        limits: FigureLimits,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._driver = driver
        self._config = config
        self._collector = collector
        self._limits = limits
        self._clock = clock
        self._newest: datetime | None = None
        """The start of the newest minute that this process has stored."""
        self._error = ""
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin to store figures, unless already begun."""
        if not is_running(self._watching):
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop. Another dashboard continues after `abandoned`."""
        task, self._watching = self._watching, None
        if is_running(task):
            await cancel_all([task])

    async def tick(self) -> bool:
        """Store the minutes that have settled since the last time; return False, and do nothing, if
        the table is missing, nothing may be written, or another dashboard stores figures.

        Raises the database's errors.
        """
        collector = self._collector
        if not await self._may_write() or not await self._is_due():
            collector.backlog = self._newest = None
            return False
        collector.look()
        if collector.backlog is None and collector.recent.now > EPOCH:
            collector.backlog = await self._missing()
        while batch := collector.recent.unstored(_BATCH):
            rollups = [collector.recent.rollup(at) for at in batch]
            async with self._driver.transaction(timeout=_TIMEOUT) as transaction:
                if not await RollupStore(transaction).rollup_add(rollups):
                    # Another dashboard is storing the same minutes.
                    break
            for at, version in batch.items():
                if at in collector.recent.minutes:
                    collector.recent.minutes[at].stored = version
            self._newest = max(max(batch), self._newest or EPOCH)
        return True

    async def _may_write(self) -> bool:
        if not self._config.charts or self._config.read_only:
            return False
        # The driver knows whether the database is read-only only after a first query.
        return await self._collector.table.there(RollupStore) and not self._driver.read_only

    async def _is_due(self) -> bool:
        """Return whether this process has stored the newest minute, or no other process has stored
        one recently.
        """
        async with self._driver.reading() as executor:
            newest = (await RollupStore(executor).rollup_newest_list()).get(MINUTE)
        if newest is None:
            # Nothing is stored yet, or everything was deleted.
            self._collector.recent.forget_stored()
            self._collector.backlog = None
            return True
        if self._newest is not None and newest <= self._newest:
            return True
        return self._clock() - newest >= self._limits.abandoned

    async def _missing(self) -> list[datetime]:
        """Return the starts of the minutes that are not stored, of the day before the last hour, as
        far back as completed jobs exist, the newest first.
        """
        until = self._collector.recent.first
        async with self._driver.reading() as executor:
            oldest = await JobFigures(executor).job_first_completed_at(until - DAY)
            since = until if oldest is None else begin(oldest, MINUTE)
            rows = await RollupStore(executor).rollup_list([Stretch(MINUTE, since, until)])
        stored = {row.at for row in rows}
        minutes = [until - n * MINUTE for n in range(1, (until - since) // MINUTE + 1)]
        return [at for at in minutes if at not in stored]

    async def _watch(self) -> None:
        limits = self._limits
        while True:
            pause = limits.store_seconds
            try:
                if await self.tick():
                    if self._collector.backlog or self._newest is None:
                        pause = limits.store_soon_seconds
                elif not await self._collector.table.there(RollupStore):
                    pause = limits.look_for_table_seconds
                if self._error:
                    log.info("figures are stored again")
                self._error = ""
            except DatabaseError as error:
                self._collector.table.ask_again()
                # Each error once, as it may last.
                if str(error) != self._error:
                    log.warning("figures could not be stored: %s", error)
                self._error = str(error)
            except Exception:
                log.exception("storing figures failed")
            await asyncio.sleep(pause)
