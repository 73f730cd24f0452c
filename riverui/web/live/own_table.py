"""Whether a table of riverui's own is there, asked now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from riverui.actions.job_part import KnownTables
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
        self._name = table.name
        self._possible = {part, OWN_TABLES}.issubset(driver.capabilities)
        self._tables = KnownTables(seconds=seconds, clock=clock, pro=False)

    @property
    def known(self) -> bool:
        """Whether it was there when the database was last asked."""
        return self._name in self._tables.known

    async def there(self) -> bool:
        """Return whether it is there. Without a database what was told last still counts; where
        nothing has been told yet, the error is raised (DatabaseError): a table that nobody could
        look for must not be taken for one that is missing.
        """
        if self._possible and self._tables.stale:
            with suppress(DatabaseError) if self._tables.told else nullcontext():
                async with self._driver.reading() as executor:
                    await self._tables.names(executor)
        return self.known

    async def seen(self) -> bool:
        """Return whether it is known to be there, for who does without it where it is not."""
        with suppress(DatabaseError):
            await self.there()
        return self.known

    def ask_again(self) -> None:
        """Ask the database when next asked: what it told does not hold any more."""
        self._tables.ask_again()
