"""Gathers figures out of the rows of jobs, once for all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from riverui.domain.figures import Figures, Window
from riverui.domain.queues import QueueMinute
from riverui.errors import QueryTimeout, RiveruiError
from riverui.storage.interface import FIGURES, Driver
from riverui.web.config import DashboardConfig
from riverui.web.live import figure_windows
from riverui.web.live.cancelling import cancel_all
from riverui.web.live.client_figures import ClientFigureReader
from riverui.web.live.figure_buckets import Bucket
from riverui.web.live.figure_readings import CollectorLimits, FigureReadings
from riverui.web.live.figure_sink import FigureSink
from riverui.web.live.queue_minutes import QueueMinutes

log = logging.getLogger("riverui.figures")

_MOST_DOUBLINGS = 20
"""Of the rest between two tries: more than it takes to the longest, and no number grows without
end.
"""

OFF = "Charts are switched off (RIVERUI_CHARTS)."
"""Told in place of figures where they are not to be gathered."""


class Collector:
    """The figures of one database, gathered while somebody looks at them.

    It begins with the first look, reads what is new every ten seconds and the past in between, and
    rests ten minutes after the last look. It holds 65 MB at most: some 220 buckets of at most 200
    kB, and 20 MB of names, counts and what is being read; an hour of 400,000 jobs takes 22.
    """

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: CollectorLimits | None = None,
        *,
        sinks: Sequence[FigureSink] = (),
        clients: ClientFigureReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._config = config
        self._limits = limits = limits or CollectorLimits()
        self._clock = clock
        """Tells seconds since some moment, without ever going back."""
        self._readings = FigureReadings(limits, sinks=sinks, clock=clock, clients=clients)
        self._buckets = self._readings.buckets
        self._queue_minutes = QueueMinutes()
        self._looked = -1e9
        self._looked_far = -1e9
        """When a window of more than an hour was last asked for."""
        self._due = 0.0
        self._failures = 0
        self._trouble = ""
        self._settled = figure_windows.Settled(limits.pairs)
        self._kept: dict[tuple[Window, str, str], tuple[tuple[int, float, str], Figures]] = {}
        """Windows that were told lately, the newest last, and what they were made of."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Event | None = None

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named.

        Answers at once with what is known: it starts the collector where it rests, and waits for
        a first reading a second at most. Never raises for the database's sake: `Figures.trouble`
        tells.
        """
        if not self.look():
            return figure_windows.empty(window, datetime.now(UTC), trouble=OFF)
        if timedelta(hours=1) < window.span <= timedelta(days=1):
            self._looked_far = self._looked
        if not self._buckets.read_until and self._first is not None:
            try:
                await asyncio.wait_for(self._first.wait(), self._limits.first_seconds)
            except TimeoutError:
                log.debug("no figures have been read yet")
        return self.known(window, queue=queue, kind=kind)

    def look(self) -> bool:
        """Go on reading as somebody looks, and start where nobody did; return whether figures are
        gathered at all.
        """
        if self._config.charts:
            self._looked = self._clock()
            self._start()
        return self._config.charts

    def known(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return what is known just now, without reading anything."""
        if not self._buckets.read_until:
            return figure_windows.empty(window, datetime.now(UTC), trouble=self._trouble)
        now = self._now()
        state = (self._buckets.version, now // 1, self._trouble)
        key = (window, queue, kind)
        if (kept := self._kept.get(key)) is not None and kept[0] == state:
            return kept[1]
        figures = figure_windows.window_of(
            self._buckets,
            self._settled,
            window,
            now,
            queue=queue,
            kind=kind,
            pairs=self._limits.pairs,
            since=self._readings.rows_since if window.span > timedelta(hours=1) else 0.0,
            trouble=self._trouble,
            complete=self._readings.all_inserted,
        )
        self._kept.pop(key, None)
        self._kept[key] = (state, figures)
        while len(self._kept) > self._limits.windows:
            del self._kept[next(iter(self._kept))]
        return figures

    async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return what each queue did in the minutes of the last hour, as far as is known at once;
        see FigureReader.
        """
        return self._queue_minutes.of(self._buckets) if self.look() else {}

    def finished(self) -> Iterator[Bucket]:
        """Yield the buckets that were read for good: of ten minutes those from which rows are left,
        and the minutes of the last hour.
        """
        for bucket in self._buckets.tens.values():
            if bucket.complete and bucket.end > self._readings.rows_since:
                yield bucket
        yield from (bucket for bucket in self._buckets.minutes.values() if bucket.complete)

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            await cancel_all([self._task])
            self._task = None

    async def tick(self) -> None:
        """Read what is new since the last time."""
        self._due = self._clock() + self._limits.tick_seconds
        with self._trying():
            async with self._driver.reading(timeout=self._timeout) as executor:
                await self._readings.read_new(FIGURES.on(executor))
            self._recover()

    async def fill(self) -> bool:
        """Read one slice of the past that has settled; return whether there is more of it."""
        if self._buckets.read_until:
            with self._trying():
                async with self._driver.reading(timeout=self._timeout) as executor:
                    far = self._clock() - self._looked_far < self._limits.rest_seconds
                    return await self._readings.read_past(FIGURES.on(executor), far=far)
        return False

    @property
    def resting(self) -> bool:
        """Return whether nothing runs in the background."""
        return self._task is None or self._task.done()

    async def rested(self) -> None:
        """Wait until nobody has looked for a while and nothing runs any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def due(self) -> float:
        """Return when the next tick comes, by the given clock."""
        return self._due

    @property
    def _timeout(self) -> timedelta:
        return min(self._config.page_timeout, self._limits.timeout)

    def _now(self) -> float:
        """Return up to when windows reach: to the last reading, or where that was long ago, to the
        database's time as our clock has gone on since.
        """
        since = self._clock() - self._readings.read_clock
        late = since > 2 * self._limits.tick_seconds
        return self._buckets.read_until + (since if late else 0.0)

    def _start(self) -> None:
        # A task of a loop that is gone would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._task, self._first = loop, None, asyncio.Event()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        """Tick, and read the past in between, for as long as somebody looks."""
        task = asyncio.current_task()
        while self._clock() - self._looked < self._limits.rest_seconds:
            # A pool that hands out a connection at the moment of a cancellation forgets it.
            if task is not None and task.cancelling():
                return
            if self._clock() >= self._due:
                await self.tick()
                if self._first is not None:
                    self._first.set()
            started = self._clock()
            more = not self._failures and await self.fill()
            took = self._clock() - started
            left = self._due - self._clock()
            # Half of the time goes into the past, and less where it is much.
            pause = max(took, 0.02) * self._readings.sampling
            await asyncio.sleep(max(0.0, min(left, pause) if more else left))

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Keep what goes wrong from ending anything: it is told, and tried again later."""
        try:
            yield
        except RiveruiError as error:
            if isinstance(error, QueryTimeout):
                self._readings.ease()
            self._fail(str(error))
        except Exception:
            log.exception("figures could not be read")
            self._fail("The figures could not be read.")

    def _fail(self, trouble: str) -> None:
        self._failures += 1
        rest = min(
            self._limits.tick_seconds * 2 ** min(self._failures - 1, _MOST_DOUBLINGS),
            self._limits.most_rest_seconds,
        )
        self._due = self._clock() + rest
        if not self._trouble:
            log.warning("could not read figures: %s", trouble)
        self._trouble = trouble

    def _recover(self) -> None:
        if self._trouble:
            log.info("figures are read again")
        self._failures, self._trouble = 0, ""
