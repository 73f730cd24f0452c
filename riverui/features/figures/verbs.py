"""Deletes stored figures."""

from __future__ import annotations

from datetime import timedelta

from riverui.features.figures.store import RollupStore
from riverui.storage.interface import Driver

_DELETED = 5_000
"""Rows that one transaction deletes if the user may not truncate the table: some 50 milliseconds.
"""


async def figures_delete(driver: Driver, *, time_limit: timedelta | None = None) -> None:
    """Delete all stored figures: at once if the database's user may, otherwise some at a time.

    Dashboards store them again as far as rows remain. Raise SchemaMissing without the table.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        if await RollupStore(transaction).rollup_truncate():
            return
    deleted = _DELETED
    while deleted:
        async with driver.transaction(timeout=time_limit) as transaction:
            deleted = await RollupStore(transaction).rollup_delete_some(limit=_DELETED)
