"""Whether a table of riverui's own is there, asked now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from riverui.errors import DatabaseError
from riverui.storage.interface import OWN_TABLES, Capability, Driver
from riverui.storage.interface.own_tables import OwnTable

_BELIEVED_SECONDS = 30.0
"""How long an answer is believed, where nobody says otherwise: so soon a running dashboard notices
that somebody has made the table.
"""


class OwnTableWatch:
    """Tells whether one table is there, and the part of the driver that uses it."""

    def __init__(
        self,
        driver: Driver,
        table: OwnTable,
        part: Capability[Any],
        *,
        seconds: float = _BELIEVED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._table = table
        self._possible = {part, OWN_TABLES}.issubset(driver.capabilities)
        self._clock = clock
        self._seconds = seconds
        """How long an answer is believed."""
        self._there = False
        self._asked = float("-inf")

    @property
    def known(self) -> bool:
        """Whether it was there when the database was last asked."""
        return self._there

    async def there(self, *, surely: bool = False) -> bool:
        """Return whether it is there, as far as the database has told; `surely` raises what keeps
        it from telling (DatabaseError).
        """
        if self._possible and self._clock() - self._asked >= self._seconds:
            # Without a database nobody learns anything new.
            with nullcontext() if surely else suppress(DatabaseError):
                async with self._driver.reading() as executor:
                    self._there = await self._table.exists(executor)
                self._asked = self._clock()
        return self._there

    def ask_again(self) -> None:
        """Ask the database when next asked: what it told does not hold any more."""
        self._asked = float("-inf")
