"""Periodic jobs, read once for everybody who looks at them."""

from __future__ import annotations

from riverui.domain.periodic_runs import PeriodicHistories
from riverui.errors import QueryTimeout
from riverui.storage.interface import PERIODIC_RUNS, Driver


async def read_histories(driver: Driver) -> PeriodicHistories:
    """Return the periodic jobs of a database; QueryTimeout where they cannot be read in time, and
    NotSupported where they cannot be told from others.
    """
    async with driver.reading() as executor:
        found = await PERIODIC_RUNS.on(executor).periodic_history_list()
    if found is None:
        raise QueryTimeout
    return found
