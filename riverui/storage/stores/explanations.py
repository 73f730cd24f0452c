"""Reads why a job is not running: its place in line, its queue's recent work, its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from riverui.domain.explain.facts import (
    JobHolder,
    JobLine,
    JobLock,
    Overtaking,
    QueueWork,
    ShareLine,
)
from riverui.domain.jobs import UNKNOWN_KIND
from riverui.domain.partitions import Partition
from riverui.storage.postgres.statements import instant
from riverui.storage.store import Store
from riverui.storage.stores.candidates import key_of

_SEEN = 50
"""Jobs of each state and priority to read: enough for a rate, within some milliseconds."""


class ExplanationStore(Store):
    """Reads the surroundings of one job."""

    async def job_line_get(
        self, queue: str, *, priority: int, scheduled_at: datetime, id: int, cap: int = 1_000
    ) -> JobLine:
        """Count the due jobs of the queue that come before this place in River's order, up to
        `cap`.
        """
        row = await self._sql.row(
            "job_line_get",
            {
                "queue": queue,
                "priority": priority,
                "scheduled_at": instant(scheduled_at),
                "id": id,
                "cap": cap,
            },
        )
        return JobLine(before=row.before, more_urgent=row.more_urgent, cap=cap)

    async def queue_work_get(self, queue: str, *, kind: str, cap: int = 1_000) -> QueueWork:
        """Return the recent work of the queue's clients; running jobs are counted up to `cap`."""
        row = await self._sql.row(
            "queue_work_get",
            {
                "queue": queue,
                "kind": kind,
                "unknown_kind": UNKNOWN_KIND,
                "cap": cap,
                "seen": _SEEN,
            },
        )
        return QueueWork(
            running=row.running,
            cap=cap,
            clients=dict(zip(row.client_names, map(_utc, row.client_times), strict=True)),
            started={n: _utc(at) for n, at in enumerate(row.started, 1) if at is not None},
            kind_at=row.kind_at,
            unknown_at=row.unknown_at,
            kind_running=row.kind_running,
            ends=tuple(map(_utc, row.ends)),
            ends_since=row.ends_since,
        )

    async def job_overtaken_get(
        self,
        queue: str,
        *,
        kind: str,
        priority: int,
        scheduled_at: datetime,
        id: int,
        after: datetime,
        cap: int = 500,
    ) -> Overtaking:
        """Count the jobs of other kinds that come after this place in River's order and were taken
        later than `after`, and than any of this kind, among the `cap` of each state and priority
        that were due last.
        """
        row = await self._sql.row(
            "job_overtaken_get",
            {
                "queue": queue,
                "kind": kind,
                "priority": priority,
                "scheduled_at": instant(scheduled_at),
                "id": id,
                "after": instant(after),
                "cap": cap,
            },
        )
        return Overtaking(jobs=row.jobs, cap=cap, kind_at=row.kind_at, kind_by=row.kind_by)

    async def job_lock_get(self, id: int) -> JobLock | None:
        """Return the lock on a job's row; None without such a job."""
        row = await self._sql.row("job_lock_get", {"id": id})
        return None if row is None else JobLock(**row._asdict())

    async def job_holder_list(
        self, queue: str, partition: Partition, key: str, *, cap: int = 1_000, limit: int = 3
    ) -> Sequence[JobHolder]:
        """Return running jobs of one key of a queue, the first of them by priority; read up to
        `cap` running jobs of the queue.
        """
        values = {"queue": queue, "held": key, "cap": cap, "limit": limit}
        rows = await self._sql.rows("job_holder_list", values, key=key_of(partition))
        return [JobHolder(row.id, row.client or "") for row in rows.records()]

    async def job_share_get(
        self,
        queue: str,
        partition: Partition,
        *,
        priority: int,
        scheduled_at: datetime,
        id: int,
        window: int = 10_000,
        keys: int = 1_000,
    ) -> ShareLine:
        """Return which keys the first `window` due jobs of the queue have, in River's order, and
        how many of the job's own key come before it; up to `keys` of them by name.
        """
        values = {
            "queue": queue,
            "priority": priority,
            "scheduled_at": instant(scheduled_at),
            "id": id,
            "window": window,
            "keys": keys,
        }
        rows = (await self._sql.rows("job_share_get", values, key=key_of(partition))).records()
        found = [row for row in rows if row.key is not None]
        first = rows[0]
        return ShareLine(
            job_key=first.own,
            before=sum(row.before for row in found if row.key == first.own),
            reached=any(row.reached for row in found),
            keys=first.keys - any(row.key == first.own for row in found),
            others={row.key: row.jobs for row in found if row.key != first.own},
            looked_at=first.looked_at,
            window=window,
        )


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
