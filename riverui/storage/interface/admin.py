"""What people and programs do to jobs and queues. No method commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.queues import QueueRow
from riverui.storage.interface.job_actions import JobActions
from riverui.storage.interface.params import JobSelectParams


class JobAdminExecutor(JobActions, Protocol):
    """Changes jobs by id or by selection."""

    async def job_row_delete_many(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Deletes what matches but running and locked jobs, up to `limit` by id; gives the rows
        deleted.
        """
        ...


class QueueAdminExecutor(Protocol):
    """Changes queues."""

    async def queue_pause(self, name: str) -> Sequence[str]:
        """River's QueuePause, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        ...

    async def queue_resume(self, name: str) -> Sequence[str]:
        """River's QueueResume, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        ...

    async def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Queue rows by name."""
        ...

    async def queue_set_concurrency(self, name: str, concurrency: str | None) -> QueueRow:
        """Puts the limits (a JSON object as text) into the queue's metadata, None takes them out,
        and tells the workers. NotFound without a row.
        """
        ...

    async def queue_touch(self, name: str) -> QueueRow:
        """Sets the queue's updated_at and nothing else. NotFound without a row."""
        ...

    async def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replaces the metadata (JSON text) and tells the workers; NotFound without a row."""
        ...


class AdminExecutor(JobAdminExecutor, QueueAdminExecutor, Protocol):
    """All that can be done to jobs and queues."""
