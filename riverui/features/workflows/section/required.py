"""Requirements of River Pro's paths: its tables, a workflow, a task of it."""

from __future__ import annotations

from collections.abc import Set

from starlette.requests import Request

from riverui.errors import BadRequest, NotFound
from riverui.features.workflows.domain.workflows import Task, WorkflowRow
from riverui.features.workflows.pro_store import ProStore
from riverui.features.workflows.verbs import workflows as actions
from riverui.storage.interface import Executor
from riverui.storage.tables import PRO_WORKFLOW_TABLES, table_names
from riverui.web.api import serializers
from riverui.web.api.endpoints import in_path
from riverui.web.api.models import NeededText

GROUP = "River Pro"
"""The heading of these paths."""
LIMIT = 100
"""Rows of an answer unless another number is requested, as in River UI."""
WORKFLOW = in_path("id", "The workflow's id.", NeededText)


async def need(executor: Executor, tables: Set[str], words: str) -> ProStore:
    """Return River Pro's store; raise BadRequest with `words` without its tables."""
    pro = ProStore(executor)
    if not tables <= await table_names(executor):
        raise BadRequest(words)
    return pro


async def need_workflows(executor: Executor) -> ProStore:
    """Return the store of workflows; raise BadRequest without their tables."""
    return await need(
        executor,
        PRO_WORKFLOW_TABLES,
        "Workflow queries require River Pro migrations version 6 or newer.",
    )


async def workflow_of(request: Request, pro: ProStore) -> WorkflowRow:
    """Return the workflow that an address names; raise NotFound if there is none."""
    workflow_id = request.path_params["id"]
    found = await pro.workflow_get(workflow_id)
    if found is None:
        raise NotFound(f"Workflow not found: {workflow_id[:200]}.")
    return found


async def task_of(pro: ProStore, found: WorkflowRow, name: str) -> Task:
    """Return a workflow's task by its name; raise NotFound if there is none, BadRequest without a
    name.
    """
    if not name:
        raise BadRequest("`task_name` is missing.")
    for task in actions.tasks(await pro.workflow_task_list(found.id)):
        if task.name == name:
            return task
    raise NotFound(f"task {quoted(name)} not found in workflow {quoted(found.id)}.")


def quoted(text: str) -> str:
    """Return a name for an error, shortened."""
    return serializers.dump(text[:200])
