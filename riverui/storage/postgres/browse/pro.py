"""River Pro's tables, where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.workflows import (
    PeriodicJobRow,
    ProducerRow,
    SignalRow,
    WorkflowListRow,
    WorkflowRow,
)
from riverui.storage.interface.workflows import PRO_TABLES
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.river_ui import TASK_LIMITS, text_row
from riverui.storage.postgres.job_list.filters import storable
from riverui.storage.postgres.statements import Statements

_BY_BITMAP = "set local enable_bitmapscan = on"
"""The tasks of a workflow are found by a GIN index, which is only read by way of a bitmap."""

_TASKS = 10_000


class Pro(Statements):
    """Operations on River Pro's tables."""

    async def pro_tables(self) -> Sequence[str]:
        """Those of PRO_TABLES that exist."""
        rows = await self._rows("pro_tables", {"tables": array_literals.texts(PRO_TABLES)})
        return [row[0] for row in rows]

    async def periodic_job_list(
        self, *, updated_after: datetime, limit: int
    ) -> Sequence[PeriodicJobRow]:
        """Durable periodic jobs that are still kept up, by id."""
        rows = await self._rows(
            "periodic_job_list", {"updated_after": updated_after, "limit": limit}
        )
        return [PeriodicJobRow._make(row) for row in rows]

    async def producer_list(self, queue_name: str) -> Sequence[ProducerRow]:
        """The producers of one queue, by id."""
        rows = (
            await self._rows("producer_list", {"queue_name": queue_name})
            if storable(queue_name)
            else []
        )
        return [ProducerRow._make(row) for row in rows]

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Workflows by id, the last first; `active` ones have a task that has not ended."""
        if not storable(after):
            return []
        clause = {None: "", True: "workflow_active", False: "workflow_inactive"}[active]
        await self._run(_BY_BITMAP)
        rows = await self._rows(
            "workflow_list",
            {"after": after, "limit": limit},
            active=self._queries.text(clause) if clause else "",
        )
        states = sorted(JobState)
        return [
            WorkflowListRow(
                id=row[0],
                name=row[1],
                created_at=row[2],
                failed_deps=row[3],
                counts=dict(zip(states, row[4:], strict=True)),
            )
            for row in rows
        ]

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """One workflow, or None."""
        row = await self._row("workflow_get", {"id": id}) if storable(id) else None
        return WorkflowRow._make(row) if row else None

    async def workflow_task_list(self, id: str) -> Sequence[JobTextRow]:
        """The jobs of a workflow, by id."""
        if not storable(id):
            return []
        await self._run(_BY_BITMAP)
        rows = await self._rows(
            "workflow_task_list",
            {"id": id, "limit": _TASKS, **TASK_LIMITS},
            columns=self._queries.text("job_minimal_columns"),
            texts=self._queries.text("job_text_columns"),
        )
        return [task for row in rows if (task := text_row(row, TASK_LIMITS)) is not None]

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
        parameters = {"id": id, "attempt": attempt, "cursor_id": cursor_id, "limit": limit}
        slots = (
            {"desc": "desc", "beyond": self._queries.text("workflow_signal_before")}
            if descending
            else {}
        )
        rows = await self._rows(
            "workflow_signal_list",
            {**parameters, "keys": array_literals.texts(list(keys))},
            **slots,
        )
        return [SignalRow._make(row) for row in rows]

    async def workflow_retry(
        self, ids: Sequence[int], *, waiting: Sequence[int], reset: bool
    ) -> Sequence[int]:
        """Lets ended tasks run again, those of `waiting` after others; the ids changed.
        UniqueConflict.
        """
        parameters = {"ids": list(ids), "waiting": list(waiting), "reset": reset}
        return sorted(row[0] for row in await self._rows("workflow_retry", parameters))
