"""Run operations as statements: one at a time, atomic, waiting for rows that other transactions
hold.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import wraps
from operator import attrgetter
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from riverui.domain.jobs import STATE_BITS, JobRow
from riverui.errors import LockTimeout, UniqueConflict
from riverui.storage.memory.tables import Changes, Held, Tables

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Statements")

Clock = Callable[[], datetime]
Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds, while others run."""

_LOOK_AGAIN = 0.001
"""Seconds between two checks of a row that another transaction holds: short for a test, long for a
processor.
"""


class Statements:
    """Operations on the tables, in one transaction or each in its own."""

    def __init__(self, changes: Changes, clock: Clock, pause: Pause) -> None:
        self._changes = changes
        self._clock = clock
        self._pause = pause

    @property
    def _tables(self) -> Tables:
        return self._changes.tables

    async def _run(self, operation: Callable[[], T]) -> T:
        """Return the result of an operation, run atomically; LockTimeout if a row stays held."""
        # Other tasks run first, as they do during a round trip to a server.
        await self._pause(0)
        give_up = time.monotonic() + self._tables.lock_timeout.total_seconds()
        while True:
            try:
                with self._changes.statement():
                    return operation()
            except Held:
                if time.monotonic() > give_up:
                    raise LockTimeout from None
            await self._pause(_LOOK_AGAIN)

    def _jobs(self) -> list[JobRow]:
        """Return all jobs by id."""
        return sorted(self._changes.all(self._tables.jobs), key=attrgetter("id"))

    def _some(self, ids: Iterable[int]) -> list[JobRow]:
        """Return those of the jobs that exist, by id."""
        found = (self._job(each) for each in sorted(set(ids)))
        return [row for row in found if row is not None]

    def _job(self, id: int) -> JobRow | None:
        return self._changes.get(self._tables.jobs, id)

    def _free(self, row: JobRow) -> bool:
        """Return whether no other transaction holds the job: SQL's SKIP LOCKED."""
        return self._changes.is_free(self._tables.jobs, row.id)

    def _put(self, row: JobRow) -> JobRow:
        """Write a job and return it; UniqueConflict if another one holds its unique key."""
        before = self._job(row.id)
        old, new = held_key(before), held_key(row)
        self._changes.put(self._tables.jobs, row.id, row)
        if old != new:
            if old is not None:
                self._changes.put(self._tables.keys, old, None)
            if new is not None:
                if self._changes.get(self._tables.keys, new) is not None:
                    raise UniqueConflict
                self._changes.put(self._tables.keys, new, row.id)
        return row

    def _remove(self, row: JobRow) -> None:
        self._changes.put(self._tables.jobs, row.id, None)
        if (key := held_key(row)) is not None:
            self._changes.put(self._tables.keys, key, None)


def statement(
    operation: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]:
    """Make a statement of an operation, which must be quick and may raise Held."""

    @wraps(operation)
    async def run(self: S, /, *args: P.args, **given: P.kwargs) -> T:
        return await self._run(lambda: operation(self, *args, **given))

    # pyright's return type of a coroutine function, so that it accepts these in a driver.
    return cast("Callable[Concatenate[S, P], CoroutineType[Any, Any, T]]", run)


def held_key(row: JobRow | None) -> bytes | None:
    """Return the unique key that the job holds in the state that it is in; None if it holds
    none.
    """
    if row is None or row.unique_key is None:
        return None
    return row.unique_key if (row.unique_states or 0) & STATE_BITS[row.state] else None
