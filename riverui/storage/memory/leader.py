"""Election of the client that does River's maintenance, for a term at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from riverui.domain.queues import LeaderRow
from riverui.storage.memory.statements import Statements, statement
from riverui.storage.memory.values import written

_ROW = "default"
"""The key of the only row: River's name for it."""


class Leader(Statements):
    """Operations on the leader."""

    @statement
    def leader_get(self) -> LeaderRow | None:
        """Return the leader's row; None without a leader."""
        row = self._leader()
        return row if row is not None and row.expires_at >= self._clock() else None

    @statement
    def leader_attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader if there is none or its term has expired; None if there is one."""
        now, row = now or self._clock(), self._leader()
        if row is not None and row.expires_at >= now:
            return None
        return self._lead(LeaderRow(leader_id=leader_id, elected_at=now, expires_at=now + ttl))

    @statement
    def leader_attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term; None if it is lost."""
        now, row = now or self._clock(), self._term(leader_id, elected_at)
        if row is None or row.expires_at < now:
            return None
        return self._lead(
            LeaderRow(leader_id=leader_id, elected_at=elected_at, expires_at=now + ttl)
        )

    @statement
    def leader_resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term even if it has expired; None if another client has led since."""
        now = now or self._clock()
        if self._term(leader_id, elected_at) is None:
            return None
        return self._lead(
            LeaderRow(leader_id=leader_id, elected_at=elected_at, expires_at=now + ttl)
        )

    @statement
    def leader_resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that term and notify the other clients; return whether there was one to end."""
        if self._term(leader_id, elected_at) is None:
            return False
        self._changes.put(self._tables.leader, _ROW, None)
        payload = written({"leader_id": leader_id, "action": "resigned"})
        self._changes.notify("river_leadership", payload)
        return True

    def _leader(self) -> LeaderRow | None:
        return self._changes.get(self._tables.leader, _ROW)

    def _term(self, leader_id: str, elected_at: datetime) -> LeaderRow | None:
        row = self._leader()
        known = row is not None and (row.leader_id, row.elected_at) == (leader_id, elected_at)
        return row if known else None

    def _lead(self, row: LeaderRow) -> LeaderRow:
        self._changes.put(self._tables.leader, _ROW, row)
        return row
