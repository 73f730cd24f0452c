"""Reads from a standby where there is one: the only place that chooses between the two servers."""

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
from riverui.web.live.cancelling import cancel_all

log = logging.getLogger("riverui.replica")

OF_THE_PRIMARY = frozenset(
    {"dashboard_list", "error_group_list", "job_lock_get", "leader_get", "server_get"}
)
"""Operations and SQL blocks that read about the server itself, its sessions, its locks and its
unlogged tables, for which the standby's own would mislead; and what a dashboard writes while it
reads.
"""
_STATEMENTS = frozenset({"guarded", "prepared", "row", "rows"})
"""Operations that run the SQL block which their first argument names."""

_FORGIVEN = (DatabaseUnavailable, SchemaMissing, StandbyConflict, StandbyLacks)
"""What the primary is asked after: a standby may be away, lack what was migrated lately and what is
unlogged, and ends queries that are in the way of replay. Not a timeout: the primary is to be spared
what takes long.
"""

_ON_PRIMARY: ContextVar[bool] = ContextVar("riverui_on_primary", default=False)
"""Whether what is read here is read to be changed."""

_MOST_SAMPLES = 3_600
"""Positions of the primary that are remembered: of an hour, looked at every second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaTimes:
    """How often it is looked where the two servers stand, and what follows from it; in seconds."""

    look: float = 1.0
    """From one look to the next, while pages are read: two statements of a millisecond."""
    look_soon: float = 0.1
    """The same after a change, until the standby shows it."""
    wait: float = 1.0
    """For a look to end, where the last one is older than `old`."""
    old: float = 3.0
    """Age from which a look says nothing any more of what a standby shows."""
    changed: float = 30.0
    """How long after a change everything is read from the primary at most."""
    flushed: float = 0.6
    """After which a commit is in what standbys can follow, also with `synchronous_commit = off`:
    three times Postgres's own `wal_writer_delay`.
    """
    retry: float = 5.0
    """From one look to the next, while the standby cannot be read."""
    late: float = 10.0
    """How far a standby may be behind before pages warn: longer than people take for normal."""


class ReadReplica:
    """A Driver that reads from a standby and does all else on its primary.

    What viewers change they see at once: until the standby shows it, reading is the primary's. So
    it is where the standby cannot be read, and where it is none. How far it is behind is known by
    where the primary stood at a time, and when the standby comes to that place: no clock of theirs
    counts.
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
        """The standby alone as long as it can be read, whatever was changed: for what gathers
        figures, and should not go to and fro between two times.
        """
        self.trouble = "It was not asked yet."
        """Why nothing is read from the standby, as a sentence; empty where it is."""
        self.lag: timedelta | None = None
        """How far the standby was behind when last looked; None where that is not known."""
        self.standby = standby
        self.times = times or ReplicaTimes()
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MOST_SAMPLES)
        """Where the primary stood and when, the oldest first, as far as the standby has yet to come
        there.
        """
        self._shows = -1e9
        """All that was changed before then is shown by the standby."""
        self._changed = -1e9
        """When something was changed last."""
        self._looked = -1e9
        self._due = -1e9
        self._looking: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.primary, name)

    @property
    def late(self) -> bool:
        """Whether the standby is so far behind that people should be warned."""
        return (
            not self.trouble and self.lag is not None and self.lag.total_seconds() > self.times.late
        )

    def figure_lag(self) -> timedelta:
        """Return how far what is read for figures is behind the standby's clock."""
        return timedelta(0) if self.trouble or self.lag is None else self.lag

    @property
    def words(self) -> str:
        """What pages are read from, as a sentence or two."""
        if self.trouble:
            return f"Read from the primary, not from its standby. {self.trouble}"
        if self.lag is None:
            return "Read from a standby; how far it is behind is not known."
        return f"Read from a standby, {duration(self.lag)} behind."

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin to read from the standby, or from the primary where that is better."""
        return cast(
            "AbstractAsyncContextManager[Executor]",
            _Reading(self, timeout, steady=False),
        )

    def changed(self, *, seconds_ago: float = 0.0) -> None:
        """Have the primary read until the standby shows what a viewer changed that long ago."""
        now = self._clock()
        self._changed = max(self._changed, now + self.times.flushed - max(0.0, seconds_ago))
        if self._waits:
            self._due = min(self._due, now + self.times.look_soon)

    async def close(self) -> None:
        """Stop looking. The drivers are closed by who made them."""
        if self._looking is not None and self._looking.get_loop() is asyncio.get_running_loop():
            await cancel_all([self._looking])
        self._looking = None

    async def look(self) -> None:
        """Find out where the two servers stand."""
        asked = self._clock()
        primary: ReplicationRow | None = None
        try:
            primary = await _where(self.primary)
        except DatabaseError as error:
            # Then what the standby tells of itself has to do.
            log.debug("the primary cannot be asked where it stands: %s", error)
        try:
            standby = await _where(self.standby)
        except DatabaseError as error:
            self._end(f"It cannot be read. {error.public}", self.times.retry)
            return
        if not standby.standby or (
            primary and primary.system and standby.system and primary.system != standby.system
        ):
            self._end("It is no standby of this database.", self.times.retry)
            return
        self.lag = self._lag(asked, primary, standby)
        self._end("", self.times.look_soon if self._waits else self.times.look)

    @property
    def _waits(self) -> bool:
        """Whether something was changed that the standby does not show yet, nor has taken too long
        to.
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
        # The last look may be long ago: then the newest change says more.
        spans = [timedelta(seconds=asked - self._shows)] if self._shows > -1e9 else []
        spans += [standby.behind] if standby.behind is not None else []
        return max(timedelta(), min(spans)) if spans else None

    def _end(self, trouble: str, pause: float) -> None:
        if trouble != self.trouble:
            if trouble:
                log.warning("the read replica is not used: %s", trouble)
            else:
                log.info("pages are read from the read replica")
        self.trouble = trouble
        self._looked = self._clock()
        self._due = self._looked + pause

    async def standby_serves(self, *, steady: bool) -> bool:
        """Return whether the standby is to be read just now."""
        now = self._clock()
        if now >= self._due:
            task = self._looking
            if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
                task = self._looking = asyncio.create_task(self.look())
            if now - self._looked > self.times.old:
                await asyncio.wait([task], timeout=self.times.wait)
        if self.trouble:
            return False
        return steady or not (self._waits or _ON_PRIMARY.get())

    def forgives(self, error: DatabaseError) -> bool:
        """Return whether the primary is to be asked after this failure of the standby's."""
        if isinstance(error, DatabaseUnavailable):
            self._due = self._clock()
        return isinstance(error, _FORGIVEN)


class on_primary:  # noqa: N801 - used like a function
    """Have all that is read inside be read from the primary: it is read to be changed."""

    def __enter__(self) -> None:
        self._token = _ON_PRIMARY.set(True)

    def __exit__(self, *error: object) -> None:
        _ON_PRIMARY.reset(self._token)


async def _where(driver: Driver) -> ReplicationRow:
    async with driver.reading() as executor:
        return await ServerStore(executor).replication_get()


class _Steady:
    """Reads from the standby whatever was changed."""

    def __init__(self, replica: ReadReplica) -> None:
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replica, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """Begin to read from the standby, or from the primary where it cannot be read."""
        replica = self._replica
        return cast(
            "AbstractAsyncContextManager[Executor]",
            _Reading(replica, timeout, steady=True),
        )


class _Reading(AbstractAsyncContextManager[Any]):
    """Lends an executor of the standby's, or of the primary's."""

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
        """Return an executor of the primary's, for as long as this one is lent."""
        reading = self._replica.primary.reading(timeout=self._timeout)
        return await self._stack.enter_async_context(reading)


class _StandbyExecutor:
    """The operations of a standby, and the primary's where the standby fails."""

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

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._executor, name)
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
                log.debug("asked the primary after the read replica: %s", error)
                # What is unlogged says nothing of the rest; else one page shows one server's rows.
                self._failed = not isinstance(error, StandbyLacks)
            else:
                return answer
        if self._opened is None:
            self._opened = await self._primary()
        return await getattr(self._opened, name)(*given, **named)
