"""What people and programs do to jobs and queues. No method commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.queues import QueueRow
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.interface.job_actions import JobActions


class JobAdminExecutor(JobActions, Protocol):
    """Changes jobs by id or by selection."""

    async def job_row_delete_many(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Delete what matches but running and locked jobs, up to `limit` by id; return the rows
        deleted.
        """
        ...


class QueueAdminExecutor(Protocol):
    """Changes queues."""

    async def queue_pause(self, name: str) -> Sequence[str]:
        """Do River's QueuePause, `*` for every queue; return the queues it changed. NotFound
        without a row.
        """
        ...

    async def queue_resume(self, name: str) -> Sequence[str]:
        """Do River's QueueResume, `*` for every queue; return the queues it changed. NotFound
        without a row.
        """
        ...

    async def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Return queue rows by name."""
        ...

    async def queue_set_metadata_key(self, name: str, key: str, value: str | None) -> QueueRow:
        """Set a key of the metadata to a value (JSON as text), or remove it for None, and notify
        the workers; return the row. NotFound without one.
        """
        ...

    async def queue_touch(self, name: str) -> QueueRow:
        """Set the queue's updated_at and nothing else; return the row. NotFound without one."""
        ...

    async def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replace the metadata (JSON text) and tell the workers; return the row. NotFound without
        one.
        """
        ...


class AdminExecutor(JobAdminExecutor, QueueAdminExecutor, Protocol):
    """All that can be done to jobs and queues."""
