"""The row of river_leader."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.queues import LeaderRow


class Leader(Protocol):
    """Election: each method is one statement on the row of the leader."""

    async def get(self) -> LeaderRow | None:
        """Return the leader's row; None without a leader."""
        ...

    async def attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader if there is none or its term has expired; None if there is one."""
        ...

    async def attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term; None if it is lost."""
        ...

    async def resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term even if it has expired; None if another client has led since."""
        ...

    async def resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that term and notify the other clients; return whether there was one to end."""
        ...
