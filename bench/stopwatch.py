"""Times every statement that psycopg sends, from sending it to having its whole result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import psycopg

from riverui.storage.postgres import round_trips


@dataclass(slots=True)
class Stopwatch:
    """Milliseconds of each statement since `clear`."""

    laps: list[float] = field(default_factory=list)

    @property
    def total(self) -> float:
        """All statements together."""
        return sum(self.laps)

    @property
    def longest(self) -> float:
        """The longest of them."""
        return max(self.laps, default=0.0)

    def clear(self) -> None:
        """Forget all times."""
        self.laps.clear()


@contextlib.contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Take the times of statements of every asynchronous connection of this process."""
    watch = Stopwatch()
    execute = psycopg.AsyncCursor.execute

    async def timed(
        self: psycopg.AsyncCursor[Any], *args: Any, **kwargs: Any
    ) -> psycopg.AsyncCursor[Any]:
        start = time.perf_counter()
        try:
            return await execute(self, *args, **kwargs)
        finally:
            watch.laps.append((time.perf_counter() - start) * 1000)

    read = round_trips.read

    async def timed_read(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return await read(*args, **kwargs)
        finally:
            watch.laps.append((time.perf_counter() - start) * 1000)

    with (
        patch.object(psycopg.AsyncCursor, "execute", timed),
        patch.object(round_trips, "read", timed_read),
    ):
        yield watch
