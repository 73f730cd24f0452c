"""One reading of the database for everybody who asks within some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeptReading(Generic[T]):
    """What was read last, for as long as it is new enough."""

    def __init__(
        self, read: Callable[[], Awaitable[T]], *, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._reading = asyncio.Lock()
        self._kept: tuple[float, T] | None = None

    async def get(self) -> T:
        """Return what was read, at most so many seconds ago; one reads while others wait for it.
        What the reading raises is raised, and not kept.
        """
        async with self._reading:
            kept, now = self._kept, self._clock()
            if kept is None or now - kept[0] >= self._seconds:
                kept = self._kept = (now, await self._read())
            return kept[1]
