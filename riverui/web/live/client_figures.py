"""What riverui's workers told of the minutes that a dashboard reads out of rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from riverui.domain.figures import Tally
from riverui.errors import DatabaseError
from riverui.storage.interface import ROLLUPS, Driver
from riverui.web.live.figure_cells import Pair
from riverui.web.live.own_table import OwnTableWatch

log = logging.getLogger("riverui.figures")

_TIMEOUT = timedelta(seconds=2)
"""For each statement; what takes longer is done without."""

Minutes = Mapping[int, Mapping[Pair, Tally]]
"""By the seconds since 1970 at which a minute begins: by queue and kind."""


class ClientFigureReader(Protocol):
    """Reads what clients told. Both methods return nothing where that cannot be read."""

    async def counts(self, since: float) -> Minutes:
        """Return failed, snoozed and interrupted attempts since then."""
        ...

    async def minutes(self, since: float, until: float) -> Minutes:
        """Return all of the minutes from `since` up to `until`."""
        ...


class NoClientFigures:
    """Stands where there is no table of them."""

    async def counts(self, since: float) -> Minutes:
        """Return nothing."""
        return {}

    async def minutes(self, since: float, until: float) -> Minutes:
        """Return nothing."""
        return {}


class StoredClientFigures:
    """Reads them from the table of figures."""

    def __init__(self, driver: Driver, table: OwnTableWatch) -> None:
        self._driver = driver
        self._table = table

    async def counts(self, since: float) -> Minutes:
        """Return failed, snoozed and interrupted attempts since then."""
        try:
            if await self._table.there():
                async with self._driver.reading(timeout=_TIMEOUT) as executor:
                    return _seconds(await ROLLUPS.on(executor).rollup_client_count_list(_at(since)))
        except DatabaseError as error:
            self._failed(error)
        return {}

    async def minutes(self, since: float, until: float) -> Minutes:
        """Return all of the minutes from `since` up to `until`."""
        try:
            if await self._table.there():
                async with self._driver.reading(timeout=_TIMEOUT) as executor:
                    rollups = ROLLUPS.on(executor)
                    return _seconds(await rollups.rollup_client_list(_at(since), _at(until)))
        except DatabaseError as error:
            self._failed(error)
        return {}

    def _failed(self, error: DatabaseError) -> None:
        # The rows tell nearly as much.
        self._table.ask_again()
        log.debug("what workers told could not be read: %s", error)


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(told: Mapping[datetime, Mapping[Pair, Tally]]) -> Minutes:
    return {int(at.timestamp()): pairs for at, pairs in told.items()}
