"""What the JSON API asks of a database besides what the pages do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.jobs import JobTextRow
from riverui.domain.queues import QueueCountRow, QueueRow
from riverui.domain.workflows import (
    PeriodicJobRow,
    ProducerRow,
    SignalRow,
    WorkflowListRow,
    WorkflowRow,
)
from riverui.storage.interface.params import JobFilter, JobListParams, JobMinimalPage, JobProgress

PRO_TABLES = (
    "river_job_sequence",
    "river_periodic_job",
    "river_producer",
    "river_workflow",
    "river_workflow_attempt",
    "river_workflow_attempt_task",
    "river_workflow_signal",
    "river_workflow_timer",
    "river_workflow_worklist",
)
"""Tables by which River UI knows what of River Pro there is."""


class ApiExecutor(Protocol):
    """Operations on River's tables that answer as River UI's API does."""

    async def job_minimal_list(
        self, params: JobListParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobMinimalPage:
        """Return one page of jobs by keyset; `lean` means nothing here.

        Args of more than `args` characters are left out. The page ends before it is full once its
        args may take `unpacked` bytes; there is always one.
        """
        ...

    async def job_text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its JSON as text, as far as an answer may hold it (`cut`), or
        None.
        """
        ...

    async def job_kind_page(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Distinct kinds by name: those behind `after` that contain `match` (any case), but
        `exclude`.
        """
        ...

    async def queue_name_page(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Names of served queues, chosen as those of `job_kind_page`."""
        ...

    async def queue_count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """River's queue rows by name with their counts, exact up to `cap`."""
        ...

    async def queue_count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """One queue's row with its counts; None without a row."""
        ...

    async def queue_set_concurrency(self, name: str, concurrency: str | None) -> QueueRow:
        """Puts the limits (a JSON object as text) into the queue's metadata, None takes them out,
        and tells the workers. NotFound without a row.
        """
        ...

    async def queue_touch(self, name: str) -> QueueRow:
        """Sets the queue's updated_at and nothing else. NotFound without a row."""
        ...

    async def periodic_job_list(
        self, *, updated_after: datetime, limit: int
    ) -> Sequence[PeriodicJobRow]:
        """Durable periodic jobs that are still kept up, by id."""
        ...

    async def producer_list(self, queue_name: str) -> Sequence[ProducerRow]:
        """The producers of one queue, by id."""
        ...

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Workflows by id, the last first; `active` ones have a task that has not ended."""
        ...

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """One workflow, or None."""
        ...

    async def workflow_task_list(self, id: str) -> Sequence[JobTextRow]:
        """The jobs of a workflow, by id."""
        ...

    async def workflow_signal_list(
        self,
        id: str,
        *,
        attempt: int,
        keys: Sequence[str],
        cursor_id: int = 0,
        descending: bool = True,
        limit: int,
    ) -> Sequence[SignalRow]:
        """Signals with one of these keys by id, behind the one with `cursor_id`."""
        ...

    async def workflow_retry(
        self, ids: Sequence[int], *, waiting: Sequence[int], reset: bool
    ) -> Sequence[int]:
        """Lets ended tasks run again, those of `waiting` after others; the ids changed.
        UniqueConflict.
        """
        ...

    async def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """The filter's jobs by state; looks at no more than `window` rows where no index finds
        them.
        """
        ...

    async def pro_tables(self) -> Sequence[str]:
        """Those of PRO_TABLES that exist."""
        ...
