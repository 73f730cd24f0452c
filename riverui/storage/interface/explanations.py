"""What tells why a job is not running."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from riverui.domain.job_facts import JobLine, JobLock, QueueWork
from riverui.storage.interface.capabilities import Capability


class ExplanationExecutor(Protocol):
    """Reads what goes on around one job, each fact in a bounded statement of its own."""

    async def job_line_get(
        self, queue: str, *, priority: int, scheduled_at: datetime, id: int, cap: int = 1_000
    ) -> JobLine:
        """Count the due jobs of the queue that come before this place in River's order, up to
        `cap`.
        """
        ...

    async def queue_work_get(self, queue: str, *, kind: str, cap: int = 1_000) -> QueueWork:
        """Return what the queue's clients were seen to do; running jobs are counted up to `cap`."""
        ...

    async def job_lock_get(self, id: int) -> JobLock | None:
        """Return what is known of the lock on a job's row; None without such a job."""
        ...


EXPLANATIONS: Capability[ExplanationExecutor] = Capability(
    "explanations",
    "Why a job is not running is told without its place in line, its queue's recent work and the"
    " locks on its row.",
)
