"""What tells why a job is not running."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.explain.facts import (
    JobHolder,
    JobLine,
    JobLock,
    Overtaking,
    QueueWork,
    ShareLine,
)
from riverui.domain.partitions import Partition
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
        later than `after`, and than any of this kind; of each state and priority the `cap` that
        were due last are looked at.
        """
        ...

    async def job_lock_get(self, id: int) -> JobLock | None:
        """Return what is known of the lock on a job's row; None without such a job."""
        ...

    async def job_holder_list(
        self, queue: str, partition: Partition, key: str, *, cap: int = 1_000, limit: int = 3
    ) -> Sequence[JobHolder]:
        """Return running jobs of one key of a queue, the first of them by priority; up to `cap`
        running jobs of the queue are looked at.
        """
        ...

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
        ...


EXPLANATIONS: Capability[ExplanationExecutor] = Capability(
    "explanations",
    "Why a job is not running is told without its place in line, its queue's recent work and the"
    " locks on its row.",
)
