"""Who does River's maintenance."""

from __future__ import annotations

from riverui.domain.queues import LeaderRow
from riverui.storage.postgres.statements import Statements


class Leader(Statements):
    """Operations on river_leader."""

    async def leader_get(self) -> LeaderRow | None:
        """Who leads; None when nobody does."""
        row = await self._row("leader_get")
        return LeaderRow(leader_id=row[0], elected_at=row[1], expires_at=row[2]) if row else None
