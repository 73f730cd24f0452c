"""Rows of river_queue, and what their jobs add up to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.jobs import JobListRow, JobState
from riverui.domain.queues import NO_REASON, QueueCountRow, QueueListRow, QueueRow, Reason
from riverui.storage.interface.params import (
    Count,
)


class Queues(Protocol):
    """Operations on queues."""

    async def get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        ...

    async def list(self, *, match: str = "", cap: int, limit: int = 200) -> Sequence[QueueListRow]:
        """Return queues by name: those with a row and those that only have waiting or running
        jobs.
        """
        ...

    async def state_count(
        self, pairs: Sequence[tuple[str, JobState]], *, cap: int
    ) -> Mapping[tuple[str, JobState], int]:
        """Count the jobs of queues in states, exact up to `cap`."""
        ...

    async def kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Count the queue's unfinished jobs by kind, among at most `cap` rows of each state."""
        ...

    async def failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """Return the queue's newest failed jobs: discarded and retryable, newest attempt first."""
        ...

    async def name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match` (any case), by name."""
        ...

    async def row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `job_kind_list`."""
        ...

    async def count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """Return River's queue rows by name with their counts, exact up to `cap`."""
        ...

    async def count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """Return one queue's row with its counts; None without a row."""
        ...

    async def pause(self, name: str, reason: Reason = NO_REASON) -> Sequence[str]:
        """Do River's QueuePause, `*` for every queue; return the queues it changed. NotFound
        without a row. A reason that is not empty is kept as their `last_pause`.
        """
        ...

    async def resume(self, name: str, by: str = "") -> Sequence[str]:
        """Do River's QueueResume, `*` for every queue; return the queues it changed. NotFound
        without a row. Their `last_pause`, if they have one, says when and by whom.
        """
        ...

    async def row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Return queue rows by name."""
        ...

    async def set_metadata_key(self, name: str, key: str, value: str | None) -> QueueRow:
        """Set a key of the metadata to a value (JSON as text), or remove it for None, and notify
        the workers; return the row. NotFound without one.
        """
        ...

    async def touch(self, name: str) -> QueueRow:
        """Set the queue's updated_at and nothing else; return the row. NotFound without one."""
        ...

    async def update(self, name: str, *, metadata: str) -> QueueRow:
        """Replace the metadata (JSON text) and notify the workers; return the row. NotFound without
        one.
        """
        ...

    async def upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Create the queue's row or set its updated_at; return it. Never touches metadata or
        paused_at.
        """
        ...

    async def upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Do as queue_upsert for distinct queues in one statement; return their rows in any
        order.
        """
        ...

    async def row_get(self, name: str) -> QueueRow | None:
        """Return the `river_queue` row alone; None if there is none."""
        ...

    async def row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Return the rows of those of the queues that have one, in any order."""
        ...

    async def restore_many(self, rows: Sequence[QueueRow]) -> None:
        """Write whole rows of queues as they are, in place of those with the same names."""
        ...

    async def with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the queues that have an available job, of any kind."""
        ...

    async def delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Remove rows of queues that no client has reported since; return their names."""
        ...
