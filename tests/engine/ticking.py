"""A clock that only tests advance, and waits on it."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from inspect import isawaitable

_DEADLINE = 10.0
"""Seconds after which a test gives up waiting."""


class Ticking:
    """`now`, `steady` and `sleep` for services; `advance` lets time pass."""

    def __init__(self, at: datetime | None = None) -> None:
        self._began = at or datetime.now(UTC)
        self._passed = 0.0
        self._set_by = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        """Return the wall clock."""
        return self._began + timedelta(seconds=self._passed + self._set_by)

    def steady(self) -> float:
        """Return the steady clock."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until so much time has been let pass; not at all for no time."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, self._count, waiter))
        await waiter

    def advance(self, seconds: float) -> None:
        """Lets time pass, all of it at once: as after a stop of the process."""
        self._passed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._set_by += seconds

    @property
    def sleeping(self) -> list[float]:
        """How long from now each sleeper still sleeps, the shortest first."""
        return sorted(due - self._passed for due, _, waiter in self._sleepers if not waiter.done())

    @property
    def soonest(self) -> float:
        """How long until the first sleeper wakes."""
        return min(self.sleeping, default=math.inf)


async def eventually(condition: Callable[[], object | Awaitable[object]]) -> None:
    """Wait until it holds; AssertionError when that takes too long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _DEADLINE
    while not await _holds(condition):
        assert loop.time() < end, "this did not happen in time"
        await asyncio.sleep(0.002)


async def _holds(condition: Callable[[], object | Awaitable[object]]) -> bool:
    found = condition()
    return bool(await found if isawaitable(found) else found)


async def settled(rounds: int = 20) -> None:
    """Lets everything run that can without waiting for the database."""
    for _ in range(rounds):
        await asyncio.sleep(0)
