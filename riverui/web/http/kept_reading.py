"""A value read from the database and cached for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptReading(Generic[T]):
    """The last value, cached for as long as it is new enough."""

    def __init__(
        self, read: Callable[[], Awaitable[T]], *, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._reading = asyncio.Lock()
        self._kept: tuple[float, T] | None = None

    async def get(self) -> T:
        """Return the value, at most so many seconds old; concurrent callers wait for one read. An
        exception of the read is raised and not cached.
        """
        async with self._reading:
            kept, now = self._kept, self._clock()
            if kept is None or now - kept[0] >= self._seconds:
                kept = self._kept = (now, await self._read())
            return kept[1]

    def expire(self) -> None:
        """Read again at the next call: the value was changed by this process."""
        self._kept = None
