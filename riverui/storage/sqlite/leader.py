"""Election of the client that does River's maintenance, for a term at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.queues import LeaderRow
from riverui.storage.sqlite.statements import Statements, reads, writes
from riverui.storage.sqlite.values import instant, stamp

_COLUMNS = "leader_id, +elected_at, +expires_at"
_TERM = "leader_id = ? and elected_at = ?"


class Leader(Statements):
    """Operations on the leader."""

    @reads
    def leader_get(self) -> LeaderRow | None:
        """Return the leader's row; None without a leader."""
        return _leader(
            self._rows(
                f"select {_COLUMNS} from river_leader where expires_at >= ?", [stamp(self._now())]
            )
        )

    @writes
    def leader_attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader if there is none or its term has expired; None if there is one."""
        now = now or self._now()
        self._rows("delete from river_leader where expires_at < ?", [stamp(now)])
        return _leader(
            self._rows(
                "insert into river_leader (leader_id, elected_at, expires_at) values (?, ?, ?)"
                f" on conflict do nothing returning {_COLUMNS}",
                [leader_id, stamp(now), stamp(now + ttl)],
            )
        )

    @writes
    def leader_attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term; None if it is lost."""
        now = now or self._now()
        return _leader(
            self._rows(
                f"update river_leader set expires_at = ? where {_TERM} and expires_at >= ?"
                f" returning {_COLUMNS}",
                [stamp(now + ttl), leader_id, stamp(elected_at), stamp(now)],
            )
        )

    @writes
    def leader_resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Extend that term even if it has expired; None if another client has led since."""
        now = now or self._now()
        return _leader(
            self._rows(
                f"update river_leader set expires_at = ? where {_TERM} returning {_COLUMNS}",
                [stamp(now + ttl), leader_id, stamp(elected_at)],
            )
        )

    @writes
    def leader_resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that term and notify the other clients; return whether there was one to end."""
        ended = self._rows(
            f"delete from river_leader where {_TERM} returning 1", [leader_id, stamp(elected_at)]
        )
        if ended:
            self._notify("river_leadership", {"leader_id": leader_id, "action": "resigned"})
        return bool(ended)


def _leader(rows: Sequence[Any]) -> LeaderRow | None:
    for leader_id, elected_at, expires_at in rows:
        return LeaderRow(
            leader_id=leader_id, elected_at=instant(elected_at), expires_at=instant(expires_at)
        )
    return None
