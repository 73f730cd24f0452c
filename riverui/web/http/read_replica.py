"""Reads from a standby if one is configured: the only module that chooses between the two
servers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from inspect import iscoroutinefunction
from operator import attrgetter
from types import TracebackType
from typing import Any, cast

from riverui.domain.time import duration
from riverui.errors import (
    DatabaseError,
    DatabaseUnavailable,
    SchemaMissing,
    StandbyConflict,
    StandbyLacks,
)
from riverui.storage.interface import Driver, Executor
from riverui.storage.stores.server import ReplicationRow, ServerStore
from riverui.web.http.cancelling import cancel_all, is_running

log = logging.getLogger("riverui.replica")

OF_THE_PRIMARY = frozenset(
    {"dashboard_list", "error_group_list", "job_lock_get", "leader.get", "server_get"}
)
"""Operations and SQL blocks that must not run on the standby: they read about the server itself,
its sessions, locks and unlogged tables, or write while reading.
"""
_STATEMENTS = frozenset({"guarded", "prepared", "row", "rows"})
"""Operations that run the SQL block named by their first argument."""

_FORGIVEN = (DatabaseUnavailable, SchemaMissing, StandbyConflict, StandbyLacks)
"""Errors of the standby after which the primary is queried: a standby may be down, lack recent
migrations and unlogged tables, and cancels queries that conflict with replay. Timeouts are not
included: slow queries must not move to the primary.
"""

_ON_PRIMARY: ContextVar[bool] = ContextVar("riverui_on_primary", default=False)
"""Whether the current reads precede a change of what they read."""

_MAX_SAMPLES = 3_600
"""Positions of the primary to remember: an hour of one per second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaTimes:
    """Intervals and limits of the comparison of the two servers, in seconds."""

    look: float = 1.0
    """Interval of checks while pages are read: two statements of a millisecond."""
    look_soon: float = 0.1
    """The same after a change, until the standby shows it."""
    wait: float = 1.0
    """How long to wait for a check, if the last one is older than `old`."""
    old: float = 3.0
    """Age from which a check no longer proves what a standby shows."""
    changed: float = 30.0
    """How long after a change everything is read from the primary at most."""
    flushed: float = 0.6
    """How long until standbys can receive a commit, even with `synchronous_commit = off`: three
    times Postgres's own `wal_writer_delay`.
    """
    retry: float = 5.0
    """Interval of checks while the standby cannot be read."""
    late: float = 10.0
    """Lag of a standby from which pages warn: longer than people consider normal."""


class ReadReplica:
    """A Driver that reads from a standby and does all else on its primary.

    Viewers see their own changes at once: until the standby shows them, reads go to the primary. So
    they do while the standby cannot be read, or is not a standby. The lag is measured by the time
    between the primary's reaching a WAL position and the standby's: the servers' clocks do not
    matter.
    """

    def __init__(
        self,
        primary: Driver,
        standby: Driver,
        times: ReplicaTimes | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.primary = primary
        self.steady = cast("Driver", _Steady(self))
        """The standby whenever it can be read, regardless of recent changes: for figures, which
        must not switch between two points in time.
        """
        self.problem = "It was not queried yet."
        """Why the standby is not read, as a sentence; empty while it is."""
        self.lag: timedelta | None = None
        """The standby's lag at the last check; None if unknown."""
        self.standby = standby
        self.times = times or ReplicaTimes()
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        """Positions of the primary and their times, the oldest first, which the standby
        has not reached.
        """
        self._shows = -1e9
        """The standby shows all changes made before this time."""
        self._changed = -1e9
        """When something was last changed."""
        self._looked = -1e9
        self._due = -1e9
        self._looking: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.primary, name)

    @property
    def late(self) -> bool:
        """Whether the standby's lag is long enough for a warning."""
        return (
            not self.problem and self.lag is not None and self.lag.total_seconds() > self.times.late
        )

    def figure_lag(self) -> timedelta:
        """Return the lag of the data that figures are read from."""
        return timedelta(0) if self.problem or self.lag is None else self.lag

    @property
    def words(self) -> str:
        """Return which server pages are read from, in a sentence or two."""
        if self.problem:
            return f"Read from the primary, not from its standby. {self.problem}"
        if self.lag is None:
            return "Read from a standby; its lag is unknown."
        return f"Read from a standby, {duration(self.lag)} behind."

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin a read transaction on the standby, or on the primary if that is better."""
        return cast(
            "AbstractAsyncContextManager[Executor]",
            _Reading(self, timeout, steady=False),
        )

    def changed(self, *, seconds_ago: float = 0.0) -> None:
        """Read from the primary until the standby shows a viewer's change made that long ago."""
        now = self._clock()
        self._changed = max(self._changed, now + self.times.flushed - max(0.0, seconds_ago))
        if self._waits:
            self._due = min(self._due, now + self.times.look_soon)

    async def close(self) -> None:
        """Stop checking. The drivers are closed by their owner."""
        if is_running(self._looking):
            await cancel_all([self._looking])
        self._looking = None

    async def look(self) -> None:
        """Compare the positions of the two servers."""
        asked = self._clock()
        primary: ReplicationRow | None = None
        try:
            primary = await _where(self.primary)
        except DatabaseError as error:
            # Fall back on the lag that the standby itself reports.
            log.debug("cannot read the position of the primary: %s", error)
        try:
            standby = await _where(self.standby)
        except DatabaseError as error:
            self._end(f"It cannot be read. {error.public}", self.times.retry)
            return
        if not standby.standby or (
            primary and primary.system and standby.system and primary.system != standby.system
        ):
            self._end("It is not a standby of this database.", self.times.retry)
            return
        self.lag = self._lag(asked, primary, standby)
        self._end("", self.times.look_soon if self._waits else self.times.look)

    @property
    def _waits(self) -> bool:
        """Whether there is a change that the standby does not show yet, and that is not too old to
        wait for.
        """
        waited = self._clock() - self._changed
        return self._shows <= self._changed and waited < self.times.changed

    def _lag(
        self, asked: float, primary: ReplicationRow | None, standby: ReplicationRow
    ) -> timedelta | None:
        if primary is not None and primary.position is not None:
            self._samples.append((asked, primary.position))
        if standby.position is not None:
            while self._samples and self._samples[0][1] <= standby.position:
                self._shows = self._samples.popleft()[0]
        if self._shows == asked:
            return timedelta()
        # The last check may be old: then the newest change is the better reference.
        spans = [timedelta(seconds=asked - self._shows)] if self._shows > -1e9 else []
        spans += [standby.behind] if standby.behind is not None else []
        return max(timedelta(), min(spans)) if spans else None

    def _end(self, problem: str, pause: float) -> None:
        if problem != self.problem:
            if problem:
                log.warning("the read replica is not used: %s", problem)
            else:
                log.info("pages are read from the read replica")
        self.problem = problem
        self._looked = self._clock()
        self._due = self._looked + pause

    async def standby_serves(self, *, steady: bool) -> bool:
        """Return whether to read from the standby now."""
        now = self._clock()
        if now >= self._due:
            task = self._looking
            if not is_running(task):
                task = self._looking = asyncio.create_task(self.look())
            if now - self._looked > self.times.old:
                await asyncio.wait([task], timeout=self.times.wait)
        if self.problem:
            return False
        return steady or not (self._waits or _ON_PRIMARY.get())

    def forgives(self, error: DatabaseError) -> bool:
        """Return whether to query the primary after this error of the standby."""
        if isinstance(error, DatabaseUnavailable):
            self._due = self._clock()
        return isinstance(error, _FORGIVEN)


class on_primary:  # noqa: N801 - used like a function
    """Read everything inside from the primary, because it is about to be changed."""

    def __enter__(self) -> None:
        self._token = _ON_PRIMARY.set(True)

    def __exit__(self, *error: object) -> None:
        _ON_PRIMARY.reset(self._token)


async def _where(driver: Driver) -> ReplicationRow:
    async with driver.reading() as executor:
        return await ServerStore(executor).replication_get()


class _Steady:
    """Reads from the standby regardless of recent changes."""

    def __init__(self, replica: ReadReplica) -> None:
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin a read transaction on the standby, or on the primary if it cannot be read."""
        replica = self._replica
        return cast(
            "AbstractAsyncContextManager[Executor]",
            _Reading(replica, timeout, steady=True),
        )


class _Reading(AbstractAsyncContextManager[Any]):
    """Provides an executor of the standby, or of the primary."""

    def __init__(self, replica: ReadReplica, timeout: timedelta | None, *, steady: bool) -> None:
        self._replica = replica
        self._steady = steady
        self._timeout = timeout
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Any:
        replica = self._replica
        if await replica.standby_serves(steady=self._steady):
            try:
                reading = replica.standby.reading(timeout=self._timeout)
                executor = await self._stack.enter_async_context(reading)
            except DatabaseError as error:
                if not replica.forgives(error):
                    raise
            else:
                return _StandbyExecutor(replica, executor, self.primary)
        return await self.primary()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def primary(self) -> Executor:
        """Return an executor of the primary, for the lifetime of this one."""
        reading = self._replica.primary.reading(timeout=self._timeout)
        return await self._stack.enter_async_context(reading)


class _StandbyExecutor:
    """The operations of a standby, falling back on the primary if it fails."""

    def __init__(
        self, replica: ReadReplica, executor: Executor, primary: Callable[[], Any]
    ) -> None:
        self._replica = replica
        self._executor = executor
        self._primary = primary
        self._opened: Executor | None = None
        self._failed = False

    @property
    def sql(self) -> Any:
        """The statements of features, which fall back on the primary as well."""
        return self

    @property
    def jobs(self) -> Any:
        """The operations on jobs, which fall back on the primary as well."""
        return _StandbyPart(self, "jobs")

    @property
    def queues(self) -> Any:
        """The operations on queues."""
        return _StandbyPart(self, "queues")

    @property
    def leader(self) -> Any:
        """The operations on the row of the leader."""
        return _StandbyPart(self, "leader")

    def __getattr__(self, name: str) -> Any:
        found = attrgetter(name)(self._executor)
        return partial(self._call, name, found) if iscoroutinefunction(found) else found

    async def _call(
        self, name: str, operation: Callable[..., Any], *given: Any, **named: Any
    ) -> Any:
        read = given[0] if name in _STATEMENTS else name
        if not self._failed and read not in OF_THE_PRIMARY:
            try:
                answer = await operation(*given, **named)
            except DatabaseError as error:
                if not self._replica.forgives(error):
                    raise
                log.debug("queried the primary instead of the read replica: %s", error)
                # A missing unlogged table does not affect other reads; after any other failure the
                # whole page is read from the primary, so that it shows one server's rows.
                self._failed = not isinstance(error, StandbyLacks)
            else:
                return answer
        if self._opened is None:
            self._opened = await self._primary()
        return await attrgetter(name)(self._opened)(*given, **named)


class _StandbyPart:
    """The operations of one part of a standby's executor."""

    def __init__(self, executor: _StandbyExecutor, part: str) -> None:
        self._executor = executor
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return self._executor.__getattr__(f"{self._part}.{name}")
