"""The tables of River Pro: workflows, durable periodic jobs, producers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.jobs import JobTextRow
from riverui.features.workflows.domain.workflows import (
    PeriodicJobRow,
    ProducerRow,
    SignalRow,
    WorkflowListRow,
    WorkflowRow,
)
from riverui.storage.interface.capabilities import Capability

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
WORKFLOW_TABLES = frozenset(table for table in PRO_TABLES if table.startswith("river_workflow"))
"""Those that workflows need, all of them."""


class WorkflowExecutor(Protocol):
    """Reads the tables of River Pro, and retries tasks of workflows."""

    async def pro_tables(self) -> Sequence[str]:
        """Return those of PRO_TABLES that exist."""
        ...

    async def periodic_job_list(
        self, *, updated_after: datetime, limit: int
    ) -> Sequence[PeriodicJobRow]:
        """Return durable periodic jobs that are still kept up, by id."""
        ...

    async def producer_list(self, queue_name: str) -> Sequence[ProducerRow]:
        """Return the producers of one queue, by id."""
        ...

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Return workflows by id, the last first; `active` ones have a task that has not ended."""
        ...

    async def workflow_id_order(self, ids: Sequence[str]) -> Sequence[str]:
        """Return ids in the order of the list, for lists of several tables to become one."""
        ...

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one workflow, or None."""
        ...

    async def workflow_task_list(self, id: str) -> Sequence[JobTextRow]:
        """Return the jobs of a workflow, by id."""
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
        """Return signals with one of these keys by id, behind the one with `cursor_id`."""
        ...

    async def workflow_retry(
        self, ids: Sequence[int], *, waiting: Sequence[int], reset: bool
    ) -> Sequence[int]:
        """Let ended tasks run again, those of `waiting` after others; return the ids changed.

        Raise UniqueConflict where a task's unique key is taken.
        """
        ...


WORKFLOWS: Capability[WorkflowExecutor] = Capability(
    "workflows",
    "Workflows, durable periodic jobs and producers are not supported on this database.",
)
