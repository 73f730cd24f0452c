"""The numbers of jobs by state, counted once for all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from riverui.domain.jobs import JobState
from riverui.errors import DatabaseError, RiveruiError
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind, JobFilter, total_count
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all

log = logging.getLogger("riverui.counts")


@dataclass(frozen=True, kw_only=True, slots=True)
class CountLimits:
    """How often jobs are counted, and how long a count is used."""

    fresh_seconds: float = 1.5
    """How long a count is reused: pages refresh every two seconds."""
    cheap_seconds: float = 0.05
    """A count faster than this is made anew for every program that asks, one at a time."""
    cheap_jobs: int = 1_000_000
    """Jobs from which programs, too, get counts that are a second or two old. River UI's are ten
    seconds old from there on.
    """
    wait_seconds: float = 0.25
    """How long to wait for a new count if an older one can be shown instead."""
    kept_seconds: float = 60.0
    """How long an older count is still shown when counting fails."""
    watched_seconds: float = 60.0
    """How long after the last request the slow exact count goes on."""
    exact_timeout: timedelta = timedelta(seconds=30)
    """Time limit of the exact count of a big state, in the background."""
    exact_share: float = 20.0
    """Pause after an exact count of a big state, as a multiple of its duration."""
    exact_rest_seconds: float = 30.0
    """Shortest pause after an exact count of a big state."""
    exact_kept_seconds: float = 600.0
    """How long an exact count of a big state is shown rather than an estimate, unless the estimate
    contradicts it: a stable figure that is some minutes old is more useful than one that changes
    its precision on every refresh.
    """
    exact_drift: float = 0.2
    """Share by which the database's own estimate may differ from an exact count: such estimates are
    off by some per cent, and by more only after large changes.
    """
    matching_fresh_seconds: float = 5.0
    """Shortest time for which the number of jobs that match a filter is reused."""
    matching_failed_seconds: float = 60.0
    """How long until a failed count of matching jobs is tried again."""
    matching_kept: int = 256
    """Filters whose counts are cached: more than people view within seconds."""
    matching_timeout: timedelta = timedelta(seconds=1)
    """Time limit for a count of matching jobs; without it the page shows none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The last known counts by state."""

    counts: Mapping[JobState, Count] | None = None
    """None if they were never counted, or too long ago."""
    error: DatabaseError | None = None
    """Why they could not be updated."""

    def count(self, state: JobState) -> Count | None:
        """Return one state's count; None if it is unknown."""
        return self.counts.get(state) if self.counts else None

    def total(self, states: tuple[JobState, ...] = ()) -> Count | None:
        """Return the sum over these states (none: all), with the precision of the least
        precise of them.
        """
        if self.counts is None:
            return None
        wanted = states or tuple(JobState)
        return total_count(self.counts[state] for state in wanted if state in self.counts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Exact:
    """The last exact count of a big state, and when one was last tried."""

    value: int
    at: datetime | None
    """None if none has succeeded yet."""
    counted: float
    """When it succeeded, by the monotonic clock."""
    tried: float
    seconds: float
    """How long the last try took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Matching:
    count: Count | None
    monotonic: float
    fresh: float


class Counts:
    """Counts the jobs of one database. Its methods never raise a DatabaseError."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: CountLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._config = config
        self._limits = limits or CountLimits()
        self._clock = clock
        """A monotonic clock, in seconds."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._counts: Mapping[JobState, Count] | None = None
        self._settled: Snapshot | None = None
        """The count for programs until the next is due; None after a newer one."""
        self._counted = -1e9
        self._due = 0.0
        self._cost = 0.0
        """Duration of the last count, in seconds."""
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
        """Return the counts: at most a second or two old while pages are viewed, or older ones if a
        new count takes too long.
        """
        self._enter_loop()
        self._looked = now = self._clock()
        if now >= self._due:
            # With nothing to show, or after an action, it is worth waiting a moment longer.
            eager = self._expired or self._counts is None
            await _wait(
                self._counting(),
                self._limits.wait_seconds * 4 if eager else self._limits.wait_seconds,
            )
        self._watch_slowly()
        return self._snapshot()

    async def thorough(self) -> Snapshot:
        """Return the counts for programs, with big states counted to the end if that takes no
        longer than a page may.

        If counting is cheap and jobs are few, the counts are those of this moment, including
        changes by others.
        """
        now = self._clock()
        if self._settled is not None and now < self._due:
            self._looked = now
            return self._settled
        anew = False
        if self._cost <= self._limits.cheap_seconds and self._error is None:
            known = self._snapshot().total()
            anew = known is None or known.value < self._limits.cheap_jobs
            if anew:
                await self._catch_up()
        snapshot = await self.get()
        counts = snapshot.counts or {}
        rough = [state for state, count in counts.items() if count.kind is not CountKind.EXACT]
        if any(self._exact_due(state) <= self._clock() for state in rough):
            if self._finishing is None or self._finishing.done():
                self._finishing = asyncio.create_task(self._finish())
            await _wait(self._finishing, self._config.page_timeout.total_seconds())
            return self._snapshot()
        if not anew:
            self._settled = snapshot
        return snapshot

    def expire(self) -> None:
        """Discard the counts, because something was changed."""
        self._expired += 1
        self._due = 0.0
        self._matching.clear()

    async def matching(self, key: str, filter: JobFilter) -> Count | None:
        """Return how many jobs match, up to the cap, shared by all with the same key; None if
        counting is too expensive.
        """
        self._enter_loop()
        known = self._matching.get(key)
        if known and self._clock() - known.monotonic < known.fresh:
            return known.count
        if key not in self._matching_flights:
            if len(self._matching_flights) >= 2:
                return known.count if known else None
            self._matching_flights[key] = asyncio.create_task(self._count_matching(key, filter))
        await _wait(
            self._matching_flights[key],
            self._limits.wait_seconds if known else self._limits.wait_seconds * 4,
        )
        known = self._matching.get(key)
        return known.count if known else None

    async def close(self) -> None:
        """Cancel background tasks."""
        running = (self._flight, self._slow, self._finishing, *self._matching_flights.values())
        await cancel_all(task for task in running if task)

    def _enter_loop(self) -> None:
        # A task of a closed event loop would never end.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._flight, self._slow, self._finishing = loop, None, None, None
            self._matching_flights = {}

    async def _catch_up(self) -> None:
        """Wait for a count that begins after this call; concurrent callers share it."""
        self._enter_loop()
        if self._flight is not None and not self._flight.done():
            # A running count may have begun before the change that the caller knows of.
            await _wait(self._flight, self._limits.wait_seconds)
        if self._flight is None or self._flight.done():
            self._due = 0.0
        await _wait(self._counting(), self._limits.wait_seconds)

    def _counting(self) -> asyncio.Task[None]:
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._count())
        return self._flight

    async def _count(self) -> None:
        expired, started = self._expired, self._clock()
        try:
            async with self._driver.reading(timeout=self._config.page_timeout) as executor:
                connected = self._clock()
                counts = await executor.jobs.count_by_state(cap=self._config.count_cap)
                self._cost = self._clock() - connected
        except DatabaseError as error:
            self._error = error
        else:
            self._counts, self._error, self._counted = counts, None, self._clock()
        self._settled = None
        if expired == self._expired:
            self._expired = 0
            now = self._clock()
            # A database that counts slowly is queried less often; jitter spreads several processes.
            rest = max(self._limits.fresh_seconds, 10 * (now - started))
            self._due = now + rest + random.random() * 0.5  # noqa: S311

    def _snapshot(self) -> Snapshot:
        now = self._clock()
        if self._counts is None or (
            self._error and now - self._counted > self._limits.kept_seconds
        ):
            return Snapshot(error=self._error)
        return Snapshot(
            counts={state: self._best(state, count, now) for state, count in self._counts.items()},
            error=self._error,
        )

    def _best(self, state: JobState, count: Count, now: float) -> Count:
        exact = self._exact.get(state)
        if count.kind is CountKind.EXACT or exact is None or exact.at is None:
            return count
        # A much older count means that no one looked for a while: the quick count is nearer the
        # truth.
        if now - exact.counted > max(self._limits.exact_kept_seconds, 2 * self._rest(exact)):
            return count
        drifted = abs(count.value - exact.value) > self._limits.exact_drift * exact.value
        if exact.value < self._config.count_cap or (count.kind is CountKind.ESTIMATED and drifted):
            return count
        return Count(value=exact.value, at=exact.at)

    def _watch_slowly(self) -> None:
        if self._counts is None or (self._slow and not self._slow.done()):
            return
        if any(count.kind is not CountKind.EXACT for count in self._counts.values()):
            self._slow = asyncio.create_task(self._count_slowly())

    async def _count_slowly(self) -> None:
        """Count big states exactly, one at a time and seldom, while the counts are viewed."""
        while self._clock() - self._looked < self._limits.watched_seconds:
            now = self._clock()
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
                await asyncio.sleep(min(due[state] - now, self._limits.watched_seconds / 4))
                continue
            await self._count_exactly(state)
            await asyncio.sleep(1 + random.random())  # noqa: S311 - keeps processes apart

    async def _finish(self) -> None:
        """Count each big state whose exact count is missing, or due again."""
        for state, count in (self._counts or {}).items():
            if count.kind is not CountKind.EXACT and self._exact_due(state) <= self._clock():
                await self._count_exactly(state)

    def _exact_due(self, state: JobState) -> float:
        exact = self._exact.get(state)
        return exact.tried + self._rest(exact) if exact else 0.0

    def _rest(self, exact: _Exact) -> float:
        """Return the seconds from one exact count of a state to the next."""
        return max(self._limits.exact_rest_seconds, exact.seconds * self._limits.exact_share)

    async def _count_exactly(self, state: JobState) -> None:
        started = self._clock()
        before = self._exact.get(state) or _Exact(
            value=0, at=None, counted=0.0, tried=0.0, seconds=0.0
        )
        found = before
        try:
            async with self._driver.reading(timeout=self._limits.exact_timeout) as executor:
                value = (await executor.jobs.count_exact(state)).value
            found = replace(before, value=value, at=datetime.now(UTC), counted=self._clock())
        except DatabaseError as error:
            log.info("could not count %s jobs exactly: %s", state.value, error)
        now = self._clock()
        self._exact[state] = replace(found, tried=now, seconds=now - started)
        self._settled = None

    async def _count_matching(self, key: str, filter: JobFilter) -> None:
        started = self._clock()
        count: Count | None = None
        try:
            timeout = min(self._limits.matching_timeout, self._config.page_timeout)
            async with self._driver.reading(timeout=timeout) as executor:
                count = await executor.jobs.count(filter, cap=self._config.count_cap)
        except RiveruiError as error:
            log.info("could not count matching jobs: %s", error)
        finally:
            now = self._clock()
            fresh = (
                max(self._limits.matching_fresh_seconds, self._limits.exact_share * (now - started))
                if count
                else self._limits.matching_failed_seconds
            )
            self._matching[key] = _Matching(count=count, monotonic=now, fresh=fresh)
            self._matching.move_to_end(key)
            while len(self._matching) > self._limits.matching_kept:
                self._matching.popitem(last=False)
            self._matching_flights.pop(key, None)


async def _wait(task: asyncio.Task[None], seconds: float) -> None:
    """Wait for a shared task without cancelling it; raise its exception."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if done and not task.cancelled():
        task.result()
