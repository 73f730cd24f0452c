"""Checks now and then whether the tables of riverui exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver
from riverui.storage.store import Store
from riverui.storage.tables import complete
from riverui.web.http.cancelling import cancel_all

_CACHED_SECONDS = 30.0
"""How long an answer is cached by default: a running dashboard notices new tables within
this time.
"""


class OwnTableWatch:
    """Caches the answer of one database."""

    def __init__(
        self,
        driver: Driver,
        *,
        seconds: float = _CACHED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._seconds = seconds
        self._until = float("-inf")
        """Until when (of the clock) the answer is cached."""
        self._answered = False
        self._complete = False
        """Whether they existed at the last check."""
        self._watching: asyncio.Task[None] | None = None

    def known(self, store: type[Store]) -> bool:
        """Return whether the store could be used at the last check."""
        return self._complete and store.supported(self._driver)

    async def there(self, store: type[Store] = Store) -> bool:
        """Return whether the tables exist, and the store's statements for this database. While the
        database does not answer, the last answer is used. Raise DatabaseError if there is none:
        tables that could not be checked must not count as missing.
        """
        if self._clock() >= self._until:
            with suppress(DatabaseError) if self._answered else nullcontext():
                async with self._driver.reading() as executor:
                    self._complete = await complete(executor)
                self._until = self._clock() + self._seconds
                self._answered = True
        return self.known(store)

    async def seen(self, store: type[Store] = Store) -> bool:
        """Return the same, for callers that can do without the tables: False if not known."""
        with suppress(DatabaseError):
            await self.there(store)
        return self.known(store)

    def ask_again(self) -> None:
        """Discard the cached answer."""
        self._until = float("-inf")

    def watch(self, *, retry_seconds: float) -> None:
        """Check in the background, for `known`; try again while the database does not answer."""
        self._watching = asyncio.create_task(self._look(retry_seconds))

    async def close(self) -> None:
        """Stop checking."""
        if self._watching is not None:
            await cancel_all([self._watching])
            self._watching = None

    async def _look(self, retry_seconds: float) -> None:
        while True:
            with suppress(DatabaseError):
                await self.there()
                return
            await asyncio.sleep(retry_seconds)
