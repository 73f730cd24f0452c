"""Reads the health of a database's jobs: working clients, waiting jobs, the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from riverui.domain.explain.facts import LATE_AFTER
from riverui.domain.health.facts import (
    FIRST,
    DatabaseState,
    LostJob,
    LostJobs,
    OpenTransaction,
    OverdueJobs,
    QueueWaiting,
    Rhythm,
    RunningJob,
    RunningJobs,
    WaitingKind,
)
from riverui.storage.store import Store

_NEWEST = 50
"""Jobs of each state and priority of a queue to read for those that overtook others."""
_TRIED = 100
"""Jobs whose metadata is read: it may be large."""


class HealthStore(Store):
    """Reads for the health report."""

    async def health_running(self, *, cap: int = 1_000) -> RunningJobs:
        """Return the running jobs, by queue; at most `cap`."""
        rows = await self._sql.rows("health_running", {"cap": cap})
        return RunningJobs(jobs=[RunningJob(**row._asdict()) for row in rows.records()], cap=cap)

    async def health_overdue(
        self, queues: Sequence[str], *, due_before: datetime, cap: int = 1_000
    ) -> OverdueJobs:
        """Count the scheduled and retryable jobs of these queues that have been due since before
        then.
        """
        row = await self._sql.row(
            "health_overdue", {"queues": list(queues), "due_before": due_before, "cap": cap}
        )
        return OverdueJobs(jobs=row.jobs, cap=cap, oldest_at=row.oldest_at)

    async def health_waiting(
        self, queues: Sequence[str], *, now: datetime, cap: int = 5_000
    ) -> Mapping[str, QueueWaiting]:
        """Return the due jobs of each of these queues by kind, of the `cap` that come next, and the
        clients that fetched from it last.
        """
        named = {"queues": list(queues)}
        asked = await self._sql.rows(
            "health_waiting_kinds", named | {"now": now, "cap": cap, "first": FIRST}
        )
        kinds = asked.records()
        takers = await self._sql.rows("health_waiting_takers", named | {"now": now})
        passed = await self._sql.rows(
            "health_waiting_overtaken",
            {
                "queues": [row.queue for row in kinds],
                "kinds": [row.kind for row in kinds],
                "priorities": [row.priority for row in kinds],
                "since": [row.since for row in kinds],
                "now": now,
                "grace": LATE_AFTER.total_seconds(),
                "newest": _NEWEST,
            },
        )
        overtaken = {(row.queue, row.kind): row for row in passed.records()}
        by_kind: dict[str, dict[str, WaitingKind]] = {}
        for row in kinds:
            by_others = overtaken[row.queue, row.kind]
            by_kind.setdefault(row.queue, {})[row.kind] = WaitingKind(
                jobs=row.jobs,
                retries=row.retries,
                since=row.since,
                taken_at=by_others.taken_at,
                overtaken=by_others.overtaken,
            )
        by_client: dict[str, dict[str, datetime]] = {}
        for row in takers.records():
            by_client.setdefault(row.queue, {})[row.client] = row.taken_at
        return {
            name: QueueWaiting(
                cap=cap,
                first=sum(row.first for row in kinds if row.queue == name),
                kinds=by_kind.get(name, {}),
                takers=by_client.get(name, {}),
            )
            for name in queues
        }

    async def health_lost(self, *, seen: int = 500, limit: int = 20) -> LostJobs:
        """Return unfinished jobs that were rescued more than once, the most often rescued first, of
        the `seen` of each state that come first.
        """
        row = await self._sql.row("health_tried", {"seen": seen, "most": _TRIED})
        whole = row.most < seen and len(row.ids) < _TRIED
        rows = await self._sql.rows("health_lost", {"ids": row.ids, "limit": limit})
        return LostJobs(jobs=[LostJob(**row._asdict()) for row in rows.records()], whole=whole)

    async def health_rhythms(self, *, kinds: int = 60, most: int = 150) -> Sequence[Rhythm]:
        """Return at what intervals jobs of each kind were inserted, of the first `kinds` kinds and
        only of those with fewer than `most` jobs.
        """
        rows = await self._sql.rows("health_rhythm_list", {"kinds": kinds, "most": most})
        return [Rhythm(**row._asdict()) for row in rows.records() if row.usual is not None]

    async def health_database(self) -> DatabaseState:
        """Return the server's transactions, locks and notifications."""
        row = await self._sql.row("health_database")
        return DatabaseState(
            oldest=_open(row.open_pid, row.open_client, row.open_state, row.open_since),
            hidden=row.hidden,
            blocked=row.blocked,
            blocked_since=row.blocked_since,
            blocker=_open(
                row.blocker_pid, row.blocker_client, row.blocker_state, row.blocker_since
            ),
            notifications=row.notifications,
            standby=row.standby,
            dead_rows=row.dead_rows,
        )


def _open(pid: int | None, client: str, state: str, since: Any) -> OpenTransaction | None:
    if since is None:
        return None
    return OpenTransaction(pid=pid, client=client, state=state, since=since)
