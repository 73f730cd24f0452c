"""Deletes the figures that riverui has stored."""

from __future__ import annotations

from datetime import timedelta

from riverui.storage.interface import ROLLUPS, Driver

_DELETED = 5_000
"""Rows that one transaction deletes, where the user may not empty the table: some 50
milliseconds.
"""


async def stored_figures_delete(driver: Driver, *, time_limit: timedelta | None = None) -> None:
    """Delete all stored figures: at once where the database's user may, else some at a time.

    Whoever stores figures goes on with what is new. SchemaMissing without their table.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        if await ROLLUPS.on(transaction).rollup_truncate():
            return
    deleted = _DELETED
    while deleted:
        async with driver.transaction(timeout=time_limit) as transaction:
            deleted = await ROLLUPS.on(transaction).rollup_delete_some(limit=_DELETED)
