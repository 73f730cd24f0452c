"""Periodic jobs, read once for all viewers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from riverui.domain.periodic import PeriodicHistories
from riverui.errors import DatabaseError, QueryTimeout
from riverui.features.heartbeats.store import ClientStore
from riverui.storage.interface import Driver
from riverui.storage.stores.periodic_runs import PeriodicRunStore
from riverui.web.http.context import Service
from riverui.web.http.kept_reading import KeptReading


async def read_histories(driver: Driver) -> PeriodicHistories:
    """Return the periodic jobs of a database. Raise QueryTimeout if they cannot be read in time,
    NotSupported if the database cannot identify them.
    """
    async with driver.reading() as executor:
        found = await PeriodicRunStore(executor).periodic_history_list()
    if found is None:
        raise QueryTimeout
    return found.with_schedules(await _schedules(driver))


async def _schedules(driver: Driver) -> Mapping[str, str]:
    """Return the schedules reported by running clients; none if they cannot be read."""
    try:
        async with driver.reading() as executor:
            if not await ClientStore.installed(executor):
                return {}
            return await ClientStore(executor).client_schedule_list()
    except DatabaseError:
        return {}


PERIODIC_HISTORIES = Service(
    make=lambda board: KeptReading(
        partial(read_histories, board.reads),
        seconds=board.limits.periodic_seconds,
        clock=board.clock,
    )
)
