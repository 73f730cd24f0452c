"""What tells why a job is not running: its place in line, its queue's recent work, its lock."""

from __future__ import annotations

from datetime import UTC, datetime

from riverui.domain.job_facts import JobLine, JobLock, QueueWork
from riverui.storage.postgres.statements import Statements, instant

_SEEN = 50
"""Jobs of each state and priority that are looked at: they tell a pace, and take some
milliseconds.
"""


class Explanations(Statements):
    """Reading what goes on around one job."""

    async def job_line_get(
        self, queue: str, *, priority: int, scheduled_at: datetime, id: int, cap: int = 1_000
    ) -> JobLine:
        """Count the due jobs of the queue that come before this place in River's order, up to
        `cap`.
        """
        row = await self._row(
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
        """Return what the queue's clients were seen to do; running jobs are counted up to `cap`."""
        row = await self._row(
            "queue_work_get", {"queue": queue, "kind": kind, "cap": cap, "seen": _SEEN}
        )
        return QueueWork(
            running=row.running,
            cap=cap,
            clients=dict(zip(row.client_names, map(_utc, row.client_times), strict=True)),
            started={n: _utc(at) for n, at in enumerate(row.started, 1) if at is not None},
            kind_at=row.kind_at,
            ends=tuple(map(_utc, row.ends)),
            ends_since=row.ends_since,
        )

    async def job_lock_get(self, id: int) -> JobLock | None:
        """Return what is known of the lock on a job's row; None without such a job."""
        row = await self._row("job_lock_get", {"id": id})
        return None if row is None else JobLock(**row._asdict())


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
