"""The marks that charts show, read at most every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from riverui.domain.marks import Mark
from riverui.errors import DatabaseError
from riverui.features.marks.store import MarkStore
from riverui.storage.interface import Driver

_SPAN = timedelta(days=91)
"""How far back marks are read: a day more than the longest chart."""
_MAX_MARKS = 500
"""Newest marks kept in memory: a chart cannot show more side by side."""
_FRESH_SECONDS = 5.0
"""How long marks are cached: as long as a user who has just made one elsewhere may wait."""


class Marks:
    """Marks of one database, the newest kept in memory."""

    def __init__(self, driver: Driver, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._marks: tuple[Mark, ...] = ()
        self._until = float("-inf")
        """Until when (of the clock) the cache is valid."""
        self._reading = asyncio.Lock()

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        """Return the newest marks from `since` on and before `until`, oldest first.

        Return none without riverui's tables, or before the first successful read. Database errors
        are not raised.
        """
        async with self._reading:
            if self._clock() >= self._until:
                self._until = self._clock() + _FRESH_SECONDS
                await self._look()
        return [mark for mark in self._marks if since <= mark.at < until]

    def expire(self) -> None:
        """Read again at the next request: a mark was made in this process."""
        self._until = float("-inf")

    async def _look(self) -> None:
        """Read the newest marks; keep the cached ones if the database does not answer."""
        now = datetime.now(UTC)
        with suppress(DatabaseError):
            async with self._driver.reading() as executor:
                found: Sequence[Mark] = ()
                if await MarkStore.installed(executor):
                    found = await MarkStore(executor).mark_list(
                        since=now - _SPAN, until=now + timedelta(days=1), limit=_MAX_MARKS
                    )
            self._marks = tuple(reversed(found))
