"""Workflows of riverui's own tables, as read by pages and programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from riverui.domain.jobs import FINALIZED, JobState, JobTextRow
from riverui.features.workflows.domain.pages import (
    DELETED,
    TASK_STATES,
    TaskNeighbour,
    TaskPlace,
    WorkflowGraph,
    WorkflowPageList,
    WorkflowPageParams,
    WorkflowPageRow,
    WorkflowTaskRow,
)
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.postgres.browse.job_texts import JOB_TEXT_COLUMNS, TASK_LIMITS, job_text_row
from riverui.storage.store import Store

_CAP = 5_000
"""Tasks of a workflow that a list counts: a page of workflows then takes a tenth of a second."""
_CAP_ONE = 20_000
"""The same on the page of one workflow."""
_WINDOW = 5_000
"""Workflows that a search by name or id reads: some milliseconds."""
_KIND_WINDOW = 300
"""Workflows that a search by kind reads, each with _KIND_TASKS."""
_KIND_TASKS = 100
"""Tasks of each, whose jobs are read one by one."""
_OUTCOME_WINDOW = 300
"""Workflows that a search by outcome reads: all tasks of each may have to be read."""
_OUTCOMES = {
    "cancelled": Fragment("workflow_page_cancelled"),
    "completed": Fragment("workflow_page_completed"),
    "failed": Fragment("workflow_page_failed"),
}
_TASKS = 10_000
"""Jobs of a workflow that a program gets."""
_NAME_LENGTH = 200
"""Characters of a kind: a page shows no more."""
_NEIGHBOURS = 5_000
"""Neighbours of a task that are counted."""
_STATES = array_literals.texts([state.value for state in JobState])
_ENDED = frozenset(state.value for state in FINALIZED) | {DELETED}


class WorkflowPageStore(Store):
    """Operations on workflows."""

    async def workflow_page_list(self, params: WorkflowPageParams) -> WorkflowPageList:
        """Return one page of workflows by keyset, their tasks counted up to a cap. A search reads
        only so many workflows.
        """
        if not all(map(is_storable, (params.after, params.match, params.kind))):
            return WorkflowPageList(rows=(), after="")
        values: dict[str, Any] = {"after": params.after, "limit": params.limit, "cap": _CAP + 1}
        slots = {}
        window = params.limit + 1
        if params.active is not None:
            slots["active"] = Fragment(
                "workflow_page_active" if params.active else "workflow_page_ended"
            )
        if params.parent is not None:
            slots["active"] = Fragment("workflow_page_of_job", {"parent": params.parent})
        if params.kind:
            given = {"kind": params.kind, "kind_tasks": _KIND_TASKS}
            slots["match"] = Fragment("workflow_page_kind", given)
            window = _KIND_WINDOW
        elif params.match:
            slots["match"] = Fragment("workflow_page_match", {"match": params.match})
            window = _WINDOW
        elif params.top:
            slots["match"] = Fragment("workflow_page_top")
            window = _WINDOW
        if params.outcome:
            slots["active"] = Fragment("workflow_page_ended")
            slots["outcome"] = _OUTCOMES[params.outcome]
            most = _WINDOW if params.outcome == "cancelled" else _OUTCOME_WINDOW
            window = min(most, window) if "match" in slots else most
        found = await self._sql.rows("workflow_page_list", {**values, "window": window}, **slots)
        records = found.records()
        first = records[0]
        rows = [_workflow(row, _CAP) for row in records if row.id is not None]
        searched = not slots.keys().isdisjoint(("match", "outcome"))
        more = first.looked_at == window
        after = ""
        if rows and len(rows) == params.limit and (searched or more):
            after = rows[-1].id
        elif searched and more:
            after = first.last_seen
        return WorkflowPageList(
            rows=rows, after=after, looked_at=first.looked_at if searched and more else None
        )

    async def workflow_page_get(self, id: str) -> WorkflowPageRow | None:
        """Return one workflow with its tasks counted, or None."""
        if not is_storable(id):
            return None
        row = await self._sql.row(
            "workflow_page_list",
            {"after": "", "limit": 1, "window": 1, "cap": _CAP_ONE + 1},
            active=Fragment("workflow_page_id", {"id": id}),
        )
        return None if row.id is None else _workflow(row, _CAP_ONE)

    async def workflow_graph_get(
        self, id: str, *, tasks: int = 10_000, edges: int = 20_000
    ) -> WorkflowGraph:
        """Return the tasks of a workflow by name, and its edges, up to the given numbers."""
        if not is_storable(id):
            return WorkflowGraph(tasks=(), edges=(), complete=True)
        found = await self._sql.rows(
            "workflow_graph_task_list",
            {"id": id, "limit": tasks + 1, "name_length": _NAME_LENGTH, "states": _STATES},
        )
        joined = await self._sql.rows("workflow_graph_edge_list", {"id": id, "limit": edges + 1})
        return WorkflowGraph(
            tasks=list(map(WorkflowTaskRow._make, found[:tasks])),
            edges=[(dependency, task) for dependency, task in joined[:edges]],
            complete=len(found) <= tasks and len(joined) <= edges,
        )

    async def workflow_place_get(
        self, *, job_id: int | None = None, id: str = "", name: str = "", most: int = 20
    ) -> TaskPlace | None:
        """Return the place of a job, or of the task of that name, in its workflow, with `most`
        neighbours on either side; None if there is no such task.
        """
        if job_id is not None:
            found = await self._sql.row(
                "workflow_place_get", {"job_id": job_id, "cap": _NEIGHBOURS}
            )
        elif is_storable(id) and is_storable(name):
            by_name = Fragment("workflow_place_by_name", {"id": id, "name": name})
            found = await self._sql.row("workflow_place_get", {"cap": _NEIGHBOURS}, task=by_name)
        else:
            return None
        if found is None:
            return None
        values = {
            "id": found.workflow_id,
            "name": found.name,
            "most": most,
            "cap": _NEIGHBOURS,
            "name_length": _NAME_LENGTH,
        }
        deps = await self._sql.rows("workflow_neighbour_list", values)
        dependents = await self._sql.rows(
            "workflow_neighbour_list",
            values,
            other=Fragment("workflow_task_name"),
            own=Fragment("workflow_dependency_name"),
        )
        return TaskPlace(
            **found._asdict(),
            deps=[_neighbour(row) for row in deps.records()],
            dependents=[_neighbour(row) for row in dependents.records()],
        )

    async def workflow_failed_dep_list(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return by workflow how many of its tasks were cancelled because a dependency failed, up
        to a cap.
        """
        values = {"ids": array_literals.texts(list(ids)), "cap": _CAP}
        return dict(await self._sql.rows("workflow_failed_dep_list", values))

    async def workflow_page_job_list(self, id: str) -> Sequence[JobTextRow]:
        """Return the jobs of a workflow by id, up to 10,000."""
        if not is_storable(id):
            return []
        rows = await self._sql.rows(
            "workflow_page_job_list",
            {"id": id, "limit": _TASKS, **TASK_LIMITS},
            **JOB_TEXT_COLUMNS,
        )
        tasks = [job_text_row(row, TASK_LIMITS) for row in rows.records()]
        return [task for task in tasks if task is not None]


def _workflow(row: Any, cap: int) -> WorkflowPageRow:
    counts = {
        state: number
        for state, number in json.loads(row.counts or "{}").items()
        if state in TASK_STATES
    }
    return WorkflowPageRow(
        id=row.id,
        name=row.name,
        attempt=row.attempt,
        created_at=row.created_at,
        open=row.open,
        ended_at=row.ended_at,
        cancelled_at=row.cancelled_at,
        retried_at=row.retried_at,
        parent_job_id=row.parent_job_id,
        counts=counts,
        counted=sum(counts.values()) <= cap,
    )


def _neighbour(row: Any) -> TaskNeighbour:
    return TaskNeighbour(
        name=row.name,
        job_id=row.job_id,
        state=_state(row.task_state, row.job_state),
        kind=row.kind or "",
    )


def _state(task: str, job: str | None) -> str:
    """Return the state a task is shown in: its job's, or how it ended if the job was
    deleted. A state added by a later River is shown as pending.
    """
    if job is not None:
        return job if job in TASK_STATES else "pending"
    return task if task in _ENDED else DELETED
