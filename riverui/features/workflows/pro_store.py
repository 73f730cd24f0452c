"""River Pro's tables, if they exist."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.queues import ProducerRow
from riverui.features.workflows.domain.workflows import (
    PeriodicJobRow,
    SignalRow,
    WorkflowListRow,
    WorkflowRow,
)
from riverui.storage.interface.sql_blocks import Fragment, word
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.postgres.browse.job_texts import JOB_TEXT_COLUMNS, TASK_LIMITS, job_text_row
from riverui.storage.store import Store

_TASKS = 10_000
"""Jobs of a workflow that are read."""


class ProStore(Store):
    """Operations on River Pro's tables."""

    async def periodic_job_list(
        self, *, updated_after: datetime, limit: int
    ) -> Sequence[PeriodicJobRow]:
        """Return durable periodic jobs that are still updated, by id."""
        rows = await self._sql.rows(
            "periodic_job_list", {"updated_after": updated_after, "limit": limit}
        )
        return [PeriodicJobRow(**row._asdict()) for row in rows.records()]

    async def producer_list(self, queue_name: str) -> Sequence[ProducerRow]:
        """Return the producers of one queue, by id."""
        if not is_storable(queue_name):
            return []
        rows = await self._sql.rows("producer_list", {"queue_name": queue_name})
        return [ProducerRow(**row._asdict()) for row in rows.records()]

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Return workflows by id, the last first; `active` ones have an unfinished task."""
        if not is_storable(after):
            return []
        slots = {}
        if active is not None:
            slots["active"] = Fragment("workflow_active" if active else "workflow_inactive")
        async with self._sql.bitmaps():
            rows = await self._sql.rows("workflow_list", {"after": after, "limit": limit}, **slots)
        return [
            WorkflowListRow(
                id=row.id,
                name=row.name,
                created_at=row.created_at,
                failed_deps=row.failed_deps,
                counts={state: getattr(row, state.value) for state in sorted(JobState)},
            )
            for row in rows.records()
        ]

    async def workflow_id_order(self, ids: Sequence[str]) -> Sequence[str]:
        """Return ids in the order of the list, to merge lists of several tables."""
        rows = await self._sql.rows("workflow_id_order", {"ids": list(ids)})
        return [row.id for row in rows.records()]

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one workflow, or None."""
        row = await self._sql.row("workflow_get", {"id": id}) if is_storable(id) else None
        return None if row is None else WorkflowRow(**row._asdict())

    async def workflow_task_list(self, id: str) -> Sequence[JobTextRow]:
        """Return the jobs of a workflow, by id."""
        if not is_storable(id):
            return []
        async with self._sql.bitmaps():
            rows = await self._sql.rows(
                "workflow_task_list",
                {"id": id, "limit": _TASKS, **TASK_LIMITS},
                **JOB_TEXT_COLUMNS,
            )
        tasks = [job_text_row(row, TASK_LIMITS) for row in rows.records()]
        return [task for task in tasks if task is not None]

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
        """Return signals with one of these keys by id, after the one with `cursor_id`."""
        parameters = {"id": id, "attempt": attempt, "cursor_id": cursor_id, "limit": limit}
        slots = (
            {"desc": word("desc"), "beyond": Fragment("workflow_signal_before")}
            if descending
            else {}
        )
        rows = await self._sql.rows(
            "workflow_signal_list",
            {**parameters, "keys": array_literals.texts(list(keys))},
            **slots,
        )
        return [SignalRow(**row._asdict()) for row in rows.records()]

    async def workflow_retry(
        self, ids: Sequence[int], *, waiting: Sequence[int], reset: bool
    ) -> Sequence[int]:
        """Run ended tasks again, those of `waiting` after others; return the ids changed.

        Raise UniqueConflict if a task's unique key is taken.
        """
        parameters = {"ids": list(ids), "waiting": list(waiting), "reset": reset}
        return sorted((await self._sql.rows("workflow_retry", parameters)).values())
