"""Which tables of riverui's own there are."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.storage.interface.own_tables import OwnTableSize
from riverui.storage.postgres.statements import Statements


class OwnTables(Statements):
    """Names and sizes of the tables of the line `riverui`."""

    async def own_table_list(self) -> frozenset[str]:
        """Return the names of the tables that begin with `riverui_`."""
        return frozenset((await self.rows("own_table_list", {"schema": self.schema})).values())

    async def own_table_size_list(self) -> Sequence[OwnTableSize]:
        """Return how large each of those tables is, by name."""
        rows = await self.rows("own_table_size_list", {"schema": self.schema})
        return [OwnTableSize(**row._asdict()) for row in rows.records()]
