"""Sizes of the tables of riverui."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from riverui.storage.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnTableSize:
    """The size of one table."""

    name: str
    rows_estimated: int
    """-1 before the first ANALYZE."""
    bytes: int
    """With its indexes and TOAST."""


class OwnTableStore(Store):
    """Reads the catalog."""

    async def own_table_size_list(self) -> Sequence[OwnTableSize]:
        """Return the size of each table of riverui, by name."""
        rows = await self._sql.rows("own_table_size_list", {"schema": self._sql.schema})
        return [OwnTableSize(**row._asdict()) for row in rows.records()]
