"""Whether the tables of riverui are there, asked now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver
from riverui.storage.tables import installed

_BELIEVED_SECONDS = 30.0
"""How long an answer is believed: a running dashboard notices within this time that somebody has
made the tables.
"""


class OwnTableWatch:
    """Keeps the answer of one database."""

    def __init__(self, driver: Driver, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._until = float("-inf")
        """Up to when (of the clock) the answer is believed."""
        self._answered = False
        self.known = False
        """Whether they were there when the database was last asked."""

    async def there(self) -> bool:
        """Return whether they are there. While the database is away the last answer counts;
        DatabaseError where there has been none: tables that could not be looked for must not be
        taken for missing ones.
        """
        if self._clock() >= self._until:
            with suppress(DatabaseError) if self._answered else nullcontext():
                async with self._driver.reading() as executor:
                    self.known = await installed(executor)
                self._until = self._clock() + _BELIEVED_SECONDS
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
