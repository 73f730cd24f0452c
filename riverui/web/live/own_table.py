"""Whether the tables of riverui are there, asked now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver
from riverui.storage.tables import installed
from riverui.web.live.cancelling import cancel_all

_BELIEVED_SECONDS = 30.0
"""How long an answer is believed unless another time is given: a running dashboard notices within
this time that somebody has made the tables.
"""


class OwnTableWatch:
    """Keeps the answer of one database."""

    def __init__(
        self,
        driver: Driver,
        *,
        seconds: float = _BELIEVED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._seconds = seconds
        self._until = float("-inf")
        """Up to when (of the clock) the answer is believed."""
        self._answered = False
        self.known = False
        """Whether they were there when the database was last asked."""
        self._watching: asyncio.Task[None] | None = None

    async def there(self) -> bool:
        """Return whether they are there. While the database is away the last answer counts;
        DatabaseError where there has been none: tables that could not be looked for must not be
        taken for missing ones.
        """
        if self._clock() >= self._until:
            with suppress(DatabaseError) if self._answered else nullcontext():
                async with self._driver.reading() as executor:
                    self.known = await installed(executor)
                self._until = self._clock() + self._seconds
                self._answered = True
        return self.known

    async def seen(self) -> bool:
        """Return whether they are known to be there, for who can do without them."""
        with suppress(DatabaseError):
            await self.there()
        return self.known

    def ask_again(self) -> None:
        """Ask the database at the next call: its last answer does not hold any more."""
        self._until = float("-inf")

    def watch(self, *, retry_seconds: float) -> None:
        """Find out in the background, for `known`; try again while the database does not answer."""
        self._watching = asyncio.create_task(self._look(retry_seconds))

    async def close(self) -> None:
        """Stop looking."""
        if self._watching is not None:
            await cancel_all([self._watching])
            self._watching = None

    async def _look(self, retry_seconds: float) -> None:
        while True:
            with suppress(DatabaseError):
                await self.there()
                return
            await asyncio.sleep(retry_seconds)
