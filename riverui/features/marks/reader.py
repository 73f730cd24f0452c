"""The marks that charts show, read every few seconds at most."""

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
from riverui.storage.tables import installed
from riverui.web.http.context import Service

_SPAN = timedelta(days=91)
"""How far back marks are read: a day more than the longest chart."""
_MOST = 500
"""Marks that are kept in memory, the newest: more cannot be told apart in a chart."""
_FRESH_SECONDS = 5.0
"""How long what was read is believed: as long as a person who has just made a mark may wait."""


class Marks:
    """Marks of one database, the newest kept in memory."""

    def __init__(self, driver: Driver, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._marks: tuple[Mark, ...] = ()
        self._until = float("-inf")
        """Up to when (of the clock) they are believed."""
        self._reading = asyncio.Lock()

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        """Return the newest marks from `since` on and before `until`, the oldest of them first.

        There are none without the tables of riverui, or before the database has answered once;
        errors of the database are not raised.
        """
        async with self._reading:
            if self._clock() >= self._until:
                self._until = self._clock() + _FRESH_SECONDS
                await self._look()
        return [mark for mark in self._marks if since <= mark.at < until]

    def expire(self) -> None:
        """Read them anew when next asked: somebody has made one here."""
        self._until = float("-inf")

    async def _look(self) -> None:
        """Read the newest marks; without a database charts go on with what they had."""
        now = datetime.now(UTC)
        with suppress(DatabaseError):
            async with self._driver.reading() as executor:
                found: Sequence[Mark] = ()
                if await installed(executor):
                    found = await MarkStore(executor).mark_list(
                        since=now - _SPAN, until=now + timedelta(days=1), limit=_MOST
                    )
            self._marks = tuple(reversed(found))


MARKS = Service(make=lambda board: Marks(board.reads, clock=board.clock))
