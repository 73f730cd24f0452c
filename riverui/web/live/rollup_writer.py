"""Keeps figures also when nobody looks: one dashboard of a database stores what it gathers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import WINDOWS
from riverui.domain.rollups import MINUTE, Rollup, Waiting
from riverui.errors import DatabaseError
from riverui.storage.interface import ROLLUPS, Driver
from riverui.web.config import DashboardConfig
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.collector import Collector
from riverui.web.live.figure_buckets import Bucket
from riverui.web.live.figure_cells import Cells
from riverui.web.live.own_table import OwnTableWatch
from riverui.web.live.rollup_store import store

log = logging.getLogger("riverui.figures")


@dataclass(frozen=True, kw_only=True, slots=True)
class RollupTimes:
    """How often figures are stored, and when another dashboard goes on with it."""

    tick: timedelta = timedelta(seconds=60)
    """From one look for finished minutes to the next."""
    first: timedelta = timedelta(seconds=5)
    """The same until something was stored: the collector has to read the past first."""
    look_for_table: timedelta = timedelta(seconds=30)
    """How often it looks whether somebody has made the table."""
    abandoned: timedelta = timedelta(minutes=6)
    """Age of the newest stored minute from which on nobody seems to store figures. A minute is
    finished two to three minutes after its end.
    """
    far: timedelta = timedelta(minutes=50)
    """The same, from which on what is missing is read back for a day, as far as rows go: the last
    hour is read anyway.
    """


_BATCH = 20
"""Buckets that one transaction stores: a minute brings one or two, a start the last hour."""
_REMEMBERED = timedelta(hours=26)
"""How long it is remembered what was stored of a bucket: longer than a collector has it."""


class RollupWriter:
    """Stores the figures of one database, where no other dashboard does."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        collector: Collector,
        table: OwnTableWatch,
        *,
        times: RollupTimes | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._driver = driver
        self._config = config
        self._collector = collector
        self._table = table
        self._times = times or RollupTimes()
        self._clock = clock
        self._stored: dict[tuple[int, int], tuple[int, int]] = {}
        """What was told of each bucket (seconds, start) when it was stored last."""
        self._newest: datetime | None = None
        """When the newest minute begins that this dashboard has stored."""
        self._trouble = ""
        self._watching: asyncio.Task[None] | None = None
        self.took = 0.0
        """Seconds that the last round of storing took."""

    def watch(self) -> None:
        """Begin to store figures, unless that goes on already."""
        task = self._watching
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop. Another dashboard goes on after `abandoned`."""
        task, self._watching = self._watching, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await cancel_all([task])

    async def tick(self) -> bool:
        """Store what was finished since the last time; return whether this dashboard does that.

        Does nothing without the table, where charts are switched off, where nothing may be written,
        and where another dashboard does it. Raises as the database does.
        """
        if not self._config.charts or self._config.read_only:
            return False
        # Only by asking it is known whether the database takes changes.
        if not await self._table.there() or self._driver.read_only:
            return False
        async with self._driver.reading() as executor:
            newest = (await ROLLUPS.on(executor).rollup_newest_list()).get(MINUTE)
        if newest is None:
            # Nothing yet, or not any more: somebody has deleted it.
            self._stored.clear()
        age = timedelta.max if newest is None else self._clock() - newest
        ours = self._newest is not None and newest is not None and newest <= self._newest
        if not ours and age < self._times.abandoned:
            self._newest = None
            return False
        # Whoever asks keeps the collector going; a wider window makes it read further back.
        await self._collector.read(WINDOWS["24h" if age > self._times.far else "1h"])
        started = time.monotonic()
        while changed := self._changed():
            if not await self._store(changed[:_BATCH]):
                break
        self.took = time.monotonic() - started
        return True

    async def _watch(self) -> None:
        while True:
            pause = self._times.tick
            try:
                if await self.tick():
                    pause = self._times.tick if self._newest else self._times.first
                elif not await self._table.there():
                    pause = self._times.look_for_table
                if self._trouble:
                    log.info("figures are stored again")
                self._trouble = ""
            except DatabaseError as error:
                self._table.ask_again()
                # Once for each kind of trouble: it may last.
                if str(error) != self._trouble:
                    log.warning("figures could not be stored: %s", error)
                self._trouble = str(error)
            except Exception:
                log.exception("storing figures failed")
            await asyncio.sleep(pause.total_seconds())

    def _changed(self) -> list[Bucket]:
        """Return the buckets that tell something that was not stored yet, the oldest first."""
        found = [
            bucket
            for bucket in self._collector.finished()
            if self._stored.get((bucket.seconds, bucket.start)) != _told(bucket)
        ]
        return sorted(found, key=lambda bucket: (bucket.start, bucket.seconds))

    async def _store(self, buckets: list[Bucket]) -> bool:
        """Store some buckets; return whether that could be done now."""
        told = {(bucket.seconds, bucket.start): _told(bucket) for bucket in buckets}
        rollups = [rollup_of(bucket) for bucket in buckets]
        until = max(rollup.at + rollup.span for rollup in rollups)
        stored = await store(self._driver, rollups, until=until)
        if stored is None:
            # Another dashboard is writing: it has read the same rows.
            return False
        log.debug("%d buckets of figures stored, %d rows deleted", stored.written, stored.deleted)
        self._stored |= told
        if stored.newest is not None:
            self._newest = max(stored.newest, self._newest or stored.newest)
        oldest = (self._clock() - _REMEMBERED).timestamp()
        self._stored = {key: each for key, each in self._stored.items() if key[1] >= oldest}
        return True


def _told(bucket: Bucket) -> tuple[int, int]:
    """Return what may still grow of a finished bucket."""
    return sum(bucket.failures().values()), sum(bucket.inserted.values())


def rollup_of(bucket: Bucket) -> Rollup:
    """Return a bucket of the collector as it is stored."""
    cells: Cells = {}
    bucket.merge_ended(cells)
    bucket.merge_counts(cells)
    return Rollup(
        at=datetime.fromtimestamp(bucket.start, UTC),
        span=timedelta(seconds=bucket.seconds),
        pairs=cells,
        waiting={
            queue: Waiting(
                jobs=seen.jobs, capped=seen.capped, oldest=timedelta(seconds=seen.oldest)
            )
            for queue, seen in bucket.waiting.items()
        },
        sampled=bucket.sampled,
    )
