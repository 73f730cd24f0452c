"""Readers of the workflows that programs request: of River Pro's tables, or riverui's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from riverui.domain.jobs import JobState, JobTextRow
from riverui.domain.json import read_object
from riverui.errors import BadRequest, NotFound, NotSupported
from riverui.features.workflows.domain.pages import WorkflowPageParams
from riverui.features.workflows.domain.workflows import Task, WorkflowListRow, WorkflowRow
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.pro_store import ProStore
from riverui.features.workflows.verbs import workflows as actions
from riverui.storage.interface import SQL, Executor
from riverui.storage.tables import OWN_TABLES, PRO_WORKFLOW_TABLES, table_names

_OWN = "riverui:workflow"
"""The metadata key in which riverui's own tasks keep what River Pro keeps beside it."""
_IGNORED = {
    "ignore_cancelled_deps": "c",
    "ignore_discarded_deps": "d",
    "ignore_deleted_deps": "x",
}
"""River Pro's keys, and the letters that riverui's tables use for them."""


class WorkflowReader(Protocol):
    """Reads workflows as River UI's API has them."""

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Return workflows by id, the last first; `active` ones have an unfinished task."""
        ...

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one workflow, or None."""
        ...

    async def workflow_tasks(self, id: str) -> Sequence[Task]:
        """Return the tasks of a workflow by the ids of their jobs."""
        ...


async def readers(executor: Executor) -> Sequence[WorkflowReader]:
    """Return the available readers, River Pro's first; raise BadRequest if there are none."""
    found: list[WorkflowReader] = []
    if SQL not in executor.capabilities:
        raise NotSupported(SQL.missing)
    names = await table_names(executor)
    if names >= PRO_WORKFLOW_TABLES:
        found.append(ProWorkflows(ProStore(executor)))
    if names >= OWN_TABLES:
        found.append(OwnWorkflows(WorkflowPageStore(executor)))
    if not found:
        raise BadRequest("Workflow queries require River Pro migrations version 6 or newer.")
    return found


async def workflow_list(
    executor: Executor, *, after: str, active: bool | None, limit: int
) -> Sequence[WorkflowListRow]:
    """Return workflows by id, the last first: River Pro's and riverui's own as one list."""
    lists = [
        await reader.workflow_list(after=after, active=active, limit=limit)
        for reader in await readers(executor)
    ]
    if len(lists) == 1:
        return lists[0]
    found: dict[str, WorkflowListRow] = {}
    for rows in lists:
        for row in rows:
            # If an id is in both, use River Pro's, as for a single workflow.
            found.setdefault(row.id, row)
    order = await ProStore(executor).workflow_id_order(list(found))
    return [found[each] for each in order[:limit]]


async def workflow_and_tasks(executor: Executor, id: str) -> tuple[WorkflowRow, Sequence[Task]]:
    """Return a workflow with its tasks; raise NotFound if no reader has it."""
    for reader in await readers(executor):
        if (found := await reader.workflow_get(id)) is not None:
            return found, await reader.workflow_tasks(found.id)
    raise NotFound(f"Workflow not found: {id[:200]}.")


class ProWorkflows:
    """Reads River Pro's tables."""

    def __init__(self, pro: ProStore) -> None:
        self._pro = pro
        self.workflow_list = pro.workflow_list
        self.workflow_get = pro.workflow_get

    async def workflow_tasks(self, id: str) -> Sequence[Task]:
        """Return the tasks of a workflow by the ids of their jobs."""
        return actions.tasks(await self._pro.workflow_task_list(id))


class OwnWorkflows:
    """Reads riverui's own tables."""

    def __init__(self, pages: WorkflowPageStore) -> None:
        self._pages = pages

    async def workflow_list(
        self, *, after: str = "", active: bool | None = None, limit: int
    ) -> Sequence[WorkflowListRow]:
        """Return workflows by id, the last first."""
        params = WorkflowPageParams(after=after, active=active, limit=limit)
        rows = (await self._pages.workflow_page_list(params)).rows
        failed = await self._pages.workflow_failed_dep_list(
            [row.id for row in rows if row.counts.get(JobState.CANCELLED.value)]
        )
        return [
            WorkflowListRow(
                id=row.id,
                name=row.name or None,
                created_at=row.created_at,
                failed_deps=failed.get(row.id, 0),
                counts={state: row.counts.get(state.value, 0) for state in sorted(JobState)},
            )
            for row in rows
        ]

    async def workflow_get(self, id: str) -> WorkflowRow | None:
        """Return one workflow, or None."""
        row = await self._pages.workflow_page_get(id)
        return None if row is None else WorkflowRow(row.id, row.name, row.attempt)

    async def workflow_tasks(self, id: str) -> Sequence[Task]:
        """Return the tasks of a workflow by the ids of their jobs."""
        rows = await self._pages.workflow_page_job_list(id)
        graph = await self._pages.workflow_graph_get(id)
        names = {task.job_id: task.name for task in graph.tasks}
        deps: dict[str, list[str]] = {}
        for dependency, task in graph.edges:
            deps.setdefault(task, []).append(dependency)
        return [
            Task(job=row, metadata=_metadata(row, id, names.get(row.id, ""), deps)) for row in rows
        ]


def _metadata(row: JobTextRow, id: str, name: str, deps: dict[str, list[str]]) -> dict[str, Any]:
    """Return a job's metadata with the keys of its task, from the tables: metadata may be too long
    to be read.
    """
    found = dict(read_object(row.metadata))
    own = found.get(_OWN)
    ignored = own.get("ignored") if isinstance(own, dict) else None
    letters = ignored if isinstance(ignored, str) else ""
    name = name or str(found.get("task") or "")
    return found | {
        "workflow_id": id,
        "task": name,
        "deps": sorted(deps.get(name, ())),
        **{key: letter in letters for key, letter in _IGNORED.items()},
    }
