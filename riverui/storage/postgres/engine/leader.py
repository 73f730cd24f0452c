"""Election of the client that does River's maintenance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from riverui.domain.queues import LeaderRow
from riverui.storage.postgres.statements import Part


class PostgresLeader(Part):
    """Operations on river_leader."""

    async def get(self) -> LeaderRow | None:
        """Return the leader's row; None without a leader."""
        return _leader(await self._sql.row("leader_get"))

    async def attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader if there is none or its term has expired; return None if there is one."""
        parameters: dict[str, Any] = {
            "leader_id": leader_id,
            "ttl": ttl.total_seconds(),
            "now": now,
        }
        return _leader(await self._sql.row("leader_attempt_elect", parameters))

    async def attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term; return None if it is lost."""
        return await self._prolong("leader_attempt_reelect", leader_id, elected_at, ttl, now)

    async def resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term even if it has expired; return None if another client has led since."""
        return await self._prolong("leader_resume", leader_id, elected_at, ttl, now)

    async def _prolong(
        self, block: str, leader_id: str, elected_at: datetime, ttl: timedelta, now: datetime | None
    ) -> LeaderRow | None:
        parameters: dict[str, Any] = {
            "leader_id": leader_id,
            "elected_at": elected_at,
            "ttl": ttl.total_seconds(),
            "now": now,
        }
        return _leader(await self._sql.row(block, parameters))

    async def resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that term and notify the other clients; return whether there was one to end."""
        parameters: dict[str, Any] = {
            "leader_id": leader_id,
            "elected_at": elected_at,
            "schema": self._sql.schema,
        }
        return await self._sql.row("leader_resign", parameters) is not None


def _leader(row: Any) -> LeaderRow | None:
    return None if row is None else LeaderRow(**row._asdict())
