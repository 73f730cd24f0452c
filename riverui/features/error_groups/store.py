"""Error groups in `riverui_error_group`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from riverui.features.error_groups.domain.groups import (
    ErrorDecision,
    ErrorGroupRow,
    ErrorGroupSighting,
    ErrorState,
    Reopening,
)
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store

_COLUMNS = Fragment("error_group_columns")


class ErrorGroupStore(Store):
    """Operations on the table of groups."""

    async def error_group_list(self, fingerprints: Collection[str]) -> Sequence[ErrorGroupRow]:
        """Return the stored rows of these groups."""
        values = {"fingerprints": list(fingerprints)}
        rows = await self._sql.rows("error_group_list", values, columns=_COLUMNS)
        return [_group(row) for row in rows.records()]

    async def error_group_turn(self) -> bool:
        """Return whether this dashboard may write until the end of the transaction: only one does
        at a time.
        """
        return bool((await self._sql.row("error_group_turn", {"schema": self._sql.schema})).ours)

    async def error_group_see(self, seen: Sequence[ErrorGroupSighting], *, most: int) -> None:
        """Store what was read of groups; new ones only while there are fewer than `most`."""
        values = {
            "fingerprints": [group.fingerprint for group in seen],
            "titles": [group.title for group in seen],
            "firsts": [group.first_at for group in seen],
            "lasts": [group.last_at for group in seen],
            "numbers": [group.number for group in seen],
            "samples": [group.sample_job_id for group in seen],
            "most": most,
        }
        await self._sql.rows("error_group_see", values)

    async def error_group_reopen(self, ended: Sequence[Reopening]) -> None:
        """Make groups unresolved whose decision no longer holds, unless there is a later one."""
        values = {
            "fingerprints": [group.fingerprint for group in ended],
            "decided": [group.decided_at for group in ended],
            "regressed": [group.regressed_at for group in ended],
        }
        await self._sql.rows("error_group_reopen", values)

    async def error_group_decide(
        self, seen: ErrorGroupSighting, decision: ErrorDecision, *, username: str
    ) -> ErrorGroupRow:
        """Store a decision about a group, and return the row. It is created if it does not
        exist.
        """
        values = {
            "fingerprint": seen.fingerprint,
            "title": seen.title,
            "first_at": seen.first_at,
            "last_at": seen.last_at,
            "number": seen.number,
            "sample_job_id": seen.sample_job_id,
            "state": decision.state.value,
            "username": username,
            "reason": decision.reason,
            "release": decision.release,
            "old_releases": list(decision.old_releases),
            "until_at": instant(decision.until_at),
            "until_rate": decision.until_rate,
            "until_total": decision.until_total,
        }
        return _group(await self._sql.row("error_group_decide", values, columns=_COLUMNS))

    async def error_group_delete_before(self, before: datetime, *, limit: int) -> int:
        """Delete groups that were last seen and decided about before `before`, at most `limit`;
        return how many.
        """
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("error_group_delete_before", values))


def _group(row: Any) -> ErrorGroupRow:
    return ErrorGroupRow(
        fingerprint=row.fingerprint,
        title=row.title,
        first_at=row.first_at,
        last_at=row.last_at,
        number=row.number,
        sample_job_id=row.sample_job_id,
        decision=ErrorDecision(
            state=ErrorState(row.state),
            reason=row.reason,
            release=row.release,
            old_releases=tuple(row.old_releases),
            until_at=row.until_at,
            until_rate=row.until_rate,
            until_total=row.until_total,
        ),
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        regressed_at=row.regressed_at,
    )
