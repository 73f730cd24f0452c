"""The row of river_leader."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.queues import LeaderRow


class Leader(Protocol):
    """Election: each method is one statement on the row of the leader."""

    async def get(self) -> LeaderRow | None:
        """Return who leads; None when nobody does."""
        ...

    async def attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader where nobody is, or where a term has run out; None when somebody is."""
        ...

    async def attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Prolong that very term; None when it is lost."""
        ...

    async def resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Go on with that very term, also where it has run out; None where somebody else has led
        since.
        """
        ...

    async def resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that very term and tell the other clients; return whether there was one to end."""
        ...
