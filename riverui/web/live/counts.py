"""How many jobs there are, counted once for all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError, RiveruiError
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind, JobFilter
from riverui.web.config import DashboardConfig

log = logging.getLogger("riverui.counts")

_FRESH = 1.5
"""Seconds for which a count answers everyone."""
_CHEAP = 0.05
"""Seconds of a count that is made anew for every program that asks, one at a time."""
_LONGEST_WAIT = 0.25
"""Seconds to wait for a new count where an older one can be shown instead."""
_KEPT = 60.0
"""Seconds for which an older count is still shown when counting fails."""
_WATCHED = 60.0
"""Seconds after the last look at the counts, for which the slow exact count goes on."""
_EXACT_TIMEOUT = timedelta(seconds=30)
"""Longest exact count of a big state, in the background."""
_EXACT_SHARE = 20
"""An exact count of a big state rests this many times as long as it took."""
_EXACT_REST = 30.0
"""Seconds that an exact count of a big state rests at least."""
_EXACT_HOLDS = 600.0
"""Seconds for which an exact count of a big state is shown rather than a guess, if nothing speaks
against it: a figure that changed its precision with every look would tell less than one that is
some minutes old.
"""
_EXACT_DRIFT = 0.2
"""Share by which the database's own estimate may differ from an exact count: such estimates are off
by some per cent, and by more only where much has changed.
"""
_MATCHING_FRESH = 5.0
"""Seconds for which the number of jobs that match a filter answers everyone, at least."""
_MATCHING_FAILED = 60.0
"""Seconds until a number that could not be counted is tried again."""
_MATCHING_KEPT = 256
"""Filters whose numbers are remembered: more than people look at within seconds."""
_MATCHING_TIMEOUT = timedelta(seconds=1)
"""Longest count of the jobs that match: the page does without the number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The counts by state as last known."""

    counts: Mapping[JobState, Count] | None = None
    """None where they were never counted, or too long ago."""
    error: DatabaseError | None = None
    """Why they are not newer."""

    def of(self, state: JobState) -> Count | None:
        """Return one state's count, None where it is not known."""
        return self.counts.get(state) if self.counts else None

    def total(self, states: tuple[JobState, ...] = ()) -> Count | None:
        """Return the sum over these states (none: all), as trustworthy as the worst of them."""
        if self.counts is None:
            return None
        counts = [self.counts[state] for state in states or JobState if state in self.counts]
        kinds = {count.kind for count in counts}
        kind = next(
            (kind for kind in (CountKind.ESTIMATED, CountKind.AT_LEAST) if kind in kinds),
            CountKind.EXACT,
        )
        oldest = min((count.at for count in counts if count.at), default=None)
        return Count(value=sum(count.value for count in counts), kind=kind, at=oldest)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exact:
    """The last exact count of a big state, and when one was last tried."""

    value: int
    at: datetime | None
    """None where none has succeeded yet."""
    counted: float
    """When it succeeded, by the monotonic clock."""
    tried: float
    seconds: float
    """How long the last try took."""

    @property
    def rest(self) -> float:
        """Return the seconds until this state may be counted again."""
        return max(_EXACT_REST, self.seconds * _EXACT_SHARE)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Matching:
    count: Count | None
    monotonic: float
    fresh: float


class Counts:
    """The counter of one database. Its methods never raise a DatabaseError."""

    def __init__(self, driver: Driver, config: DashboardConfig) -> None:
        self._driver = driver
        self._config = config
        self._loop: asyncio.AbstractEventLoop | None = None
        self._counts: Mapping[JobState, Count] | None = None
        self._counted = -1e9
        self._due = 0.0
        self._cost = 0.0
        """Seconds that the last count took."""
        self._error: DatabaseError | None = None
        self._expired = 0
        self._flight: asyncio.Task[None] | None = None
        self._exact: dict[JobState, _Exact] = {}
        self._slow: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._looked = -1e9
        self._matching: OrderedDict[str, _Matching] = OrderedDict()
        self._matching_flights: dict[str, asyncio.Task[None]] = {}

    async def get(self) -> Snapshot:
        """Return the counts, at most a second or two old while people look; older ones rather than
        after a long wait.
        """
        self._enter_loop()
        self._looked = now = time.monotonic()
        if now >= self._due:
            # With nothing to show, or after an action whose effect is awaited, it is worth a moment
            # more.
            eager = self._expired or self._counts is None
            await _wait(self._counting(), _LONGEST_WAIT * 4 if eager else _LONGEST_WAIT)
        self._watch_slowly()
        return self._snapshot()

    async def thorough(self) -> Snapshot:
        """Return the same for programs: big states counted to the end, if that takes no longer than
        a page may.

        Where counting is cheap, the figures are those of the moment of asking, whoever changed
        them.
        """
        if self._cost <= _CHEAP and self._error is None:
            await self._catch_up()
        snapshot = await self.get()
        counts = snapshot.counts or {}
        if any(count.kind is not CountKind.EXACT for count in counts.values()):
            if self._finishing is None or self._finishing.done():
                self._finishing = asyncio.create_task(self._finish())
            await _wait(self._finishing, self._config.page_timeout.total_seconds())
            return self._snapshot()
        return snapshot

    def expire(self) -> None:
        """Have the next look count anew, as something was changed."""
        self._expired += 1
        self._due = 0.0
        self._matching.clear()

    async def matching(self, key: str, filter: JobFilter) -> Count | None:
        """Return how many jobs match, up to the cap, shared by all with the same key; None where it
        is not cheap.
        """
        self._enter_loop()
        known = self._matching.get(key)
        if known and time.monotonic() - known.monotonic < known.fresh:
            return known.count
        if key not in self._matching_flights:
            if len(self._matching_flights) >= 2:
                return known.count if known else None
            self._matching_flights[key] = asyncio.create_task(self._count_matching(key, filter))
        await _wait(self._matching_flights[key], _LONGEST_WAIT if known else _LONGEST_WAIT * 4)
        known = self._matching.get(key)
        return known.count if known else None

    async def close(self) -> None:
        """Stop what runs in the background."""
        running = (self._flight, self._slow, self._finishing, *self._matching_flights.values())
        tasks = [task for task in running if task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _enter_loop(self) -> None:
        # A task of a loop that is gone would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._flight, self._slow, self._finishing = loop, None, None, None
            self._matching_flights = {}

    async def _catch_up(self) -> None:
        """Wait for a count that begins from now on; those who wait share it."""
        self._enter_loop()
        if self._flight is not None and not self._flight.done():
            # It may have begun before what the asker knows to have happened.
            await _wait(self._flight, _LONGEST_WAIT)
        if self._flight is None or self._flight.done():
            self._due = 0.0
        await _wait(self._counting(), _LONGEST_WAIT)

    def _counting(self) -> asyncio.Task[None]:
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._count())
        return self._flight

    async def _count(self) -> None:
        expired, started = self._expired, time.monotonic()
        try:
            async with self._driver.reading(timeout=self._config.page_timeout) as executor:
                connected = time.monotonic()
                counts = await executor.job_count_by_state(cap=self._config.count_cap)
                self._cost = time.monotonic() - connected
        except DatabaseError as error:
            self._error = error
        else:
            self._counts, self._error, self._counted = counts, None, time.monotonic()
        if expired == self._expired:
            self._expired = 0
            now = time.monotonic()
            # A database that counts slowly is asked less often; jitter keeps several processes
            # apart.
            self._due = now + max(_FRESH, 10 * (now - started)) + random.random() * 0.5  # noqa: S311

    def _snapshot(self) -> Snapshot:
        now = time.monotonic()
        if self._counts is None or (self._error and now - self._counted > _KEPT):
            return Snapshot(error=self._error)
        return Snapshot(
            counts={state: self._best(state, count, now) for state, count in self._counts.items()},
            error=self._error,
        )

    def _best(self, state: JobState, count: Count, now: float) -> Count:
        exact = self._exact.get(state)
        if count.kind is CountKind.EXACT or exact is None or exact.at is None:
            return count
        # Much older means that nobody looked for a while: the quick figure is nearer the truth.
        if now - exact.counted > max(_EXACT_HOLDS, 2 * exact.rest):
            return count
        drifted = abs(count.value - exact.value) > _EXACT_DRIFT * exact.value
        if exact.value < self._config.count_cap or (count.kind is CountKind.ESTIMATED and drifted):
            return count
        return Count(value=exact.value, at=exact.at)

    def _watch_slowly(self) -> None:
        if self._counts is None or (self._slow and not self._slow.done()):
            return
        if any(count.kind is not CountKind.EXACT for count in self._counts.values()):
            self._slow = asyncio.create_task(self._count_slowly())

    async def _count_slowly(self) -> None:
        """Count big states exactly, one at a time and seldom, for as long as somebody looks."""
        while time.monotonic() - self._looked < _WATCHED:
            now = time.monotonic()
            big = [
                state
                for state, count in (self._counts or {}).items()
                if count.kind is not CountKind.EXACT
            ]
            if not big:
                return
            due = {state: self._exact_due(state) for state in big}
            state = min(big, key=due.__getitem__)
            if due[state] > now:
                await asyncio.sleep(min(due[state] - now, _WATCHED / 4))
                continue
            await self._count_exactly(state)
            await asyncio.sleep(1 + random.random())  # noqa: S311 - keeps processes apart

    async def _finish(self) -> None:
        """Count each big state whose exact count is not known yet, or may be asked for again."""
        for state, count in (self._counts or {}).items():
            if count.kind is not CountKind.EXACT and self._exact_due(state) <= time.monotonic():
                await self._count_exactly(state)

    def _exact_due(self, state: JobState) -> float:
        exact = self._exact.get(state)
        return exact.tried + exact.rest if exact else 0.0

    async def _count_exactly(self, state: JobState) -> None:
        started = time.monotonic()
        before = self._exact.get(state) or _Exact(
            value=0, at=None, counted=0.0, tried=0.0, seconds=0.0
        )
        found = before
        try:
            async with self._driver.reading(timeout=_EXACT_TIMEOUT) as executor:
                value = (await executor.job_count_exact(state)).value
            found = replace(before, value=value, at=datetime.now(UTC), counted=time.monotonic())
        except DatabaseError as error:
            log.info("could not count %s jobs exactly: %s", state.value, error)
        now = time.monotonic()
        self._exact[state] = replace(found, tried=now, seconds=now - started)

    async def _count_matching(self, key: str, filter: JobFilter) -> None:
        started = time.monotonic()
        count: Count | None = None
        try:
            timeout = min(_MATCHING_TIMEOUT, self._config.page_timeout)
            async with self._driver.reading(timeout=timeout) as executor:
                count = await executor.job_count(filter, cap=self._config.count_cap)
        except RiveruiError as error:
            log.info("could not count matching jobs: %s", error)
        finally:
            now = time.monotonic()
            fresh = (
                max(_MATCHING_FRESH, _EXACT_SHARE * (now - started)) if count else _MATCHING_FAILED
            )
            self._matching[key] = _Matching(count=count, monotonic=now, fresh=fresh)
            self._matching.move_to_end(key)
            while len(self._matching) > _MATCHING_KEPT:
                self._matching.popitem(last=False)
            self._matching_flights.pop(key, None)


async def _wait(task: asyncio.Task[None], seconds: float) -> None:
    """Wait for a shared task without ending it; raises what it raised."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if done and not task.cancelled():
        task.result()
