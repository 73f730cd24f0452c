"""Reads whether a database's jobs are well, beyond counts and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.health.facts import (
    DatabaseState,
    LostJobs,
    OverdueJobs,
    QueueWaiting,
    RunningJobs,
)
from riverui.storage.interface.capabilities import Capability


class HealthExecutor(Protocol):
    """Reads what the health report needs, each fact in a bounded statement of its own."""

    async def health_running(self, *, cap: int = 1_000) -> RunningJobs:
        """Return the running jobs, by queue; at most `cap`."""
        ...

    async def health_overdue(
        self, queues: Sequence[str], *, due_before: datetime, cap: int = 1_000
    ) -> OverdueJobs:
        """Count the scheduled and retryable jobs of these queues that have been due since before
        then.
        """
        ...

    async def health_waiting(
        self, queues: Sequence[str], *, now: datetime, cap: int = 5_000, seen: int = 300
    ) -> Mapping[str, QueueWaiting]:
        """Return the due jobs of each of these queues, counted up to `cap`, the kinds of the `seen`
        that come next, and who took jobs of it last.
        """
        ...

    async def health_lost(self, *, seen: int = 500, limit: int = 20) -> LostJobs:
        """Return unfinished jobs that were rescued more than once, the most often rescued first, of
        the `seen` of each state that come first.
        """
        ...

    async def health_database(self) -> DatabaseState:
        """Return what the server tells of transactions, locks and notifications."""
        ...


HEALTH: Capability[HealthExecutor] = Capability(
    "health",
    "Whether work flows is told without who works, what waits and what the database itself does.",
)
