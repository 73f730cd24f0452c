"""River Pro's tables, where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.storage.api import PRO_TABLES
from riverui.storage.postgres import literals
from riverui.storage.postgres.statements import Statements


class Pro(Statements):
    """Reading operations on River Pro's tables."""

    async def pro_tables(self) -> Sequence[str]:
        """Those of PRO_TABLES that exist."""
        rows = await self._rows("pro_tables", {"tables": literals.texts(PRO_TABLES)})
        return [row[0] for row in rows]
