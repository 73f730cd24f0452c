"""What the paths of River Pro need: its tables, a workflow, a task of it."""

from __future__ import annotations

from starlette.requests import Request

from riverui.errors import BadRequest, NotFound
from riverui.features.workflows.domain.workflows import Task, WorkflowRow
from riverui.features.workflows.verbs import workflows as actions
from riverui.storage.interface import WORKFLOWS, Executor, WorkflowExecutor
from riverui.storage.interface.workflows import WORKFLOW_TABLES
from riverui.web.api import serializers
from riverui.web.api.endpoints import in_path
from riverui.web.api.models import NeededText

GROUP = "River Pro"
"""The heading under which these paths stand."""
LIMIT = 100
"""Rows that an answer holds unless another number is asked for, as in River UI."""
WORKFLOW = in_path("id", "The workflow's id.", NeededText)


async def need(
    executor: Executor, tables: set[str] | frozenset[str], words: str
) -> WorkflowExecutor:
    """Return the executor for these tables; BadRequest with `words` where they do not exist."""
    pro = WORKFLOWS.on(executor)
    if not tables.issubset(await pro.pro_tables()):
        raise BadRequest(words)
    return pro


async def need_workflows(executor: Executor) -> WorkflowExecutor:
    """Return the executor for workflows; BadRequest where their tables do not exist."""
    return await need(
        executor,
        WORKFLOW_TABLES,
        "Workflow queries require River Pro migrations version 6 or newer.",
    )


async def workflow_of(request: Request, pro: WorkflowExecutor) -> WorkflowRow:
    """Return the workflow that an address names; NotFound where there is none."""
    workflow_id = request.path_params["id"]
    found = await pro.workflow_get(workflow_id)
    if found is None:
        raise NotFound(f"Workflow not found: {workflow_id[:200]}.")
    return found


async def task_of(pro: WorkflowExecutor, found: WorkflowRow, name: str) -> Task:
    """Return a workflow's task by its name; NotFound where there is none, BadRequest without a
    name.
    """
    if not name:
        raise BadRequest("`task_name` is missing.")
    for task in actions.tasks(await pro.workflow_task_list(found.id)):
        if task.name == name:
            return task
    raise NotFound(f"task {quoted(name)} not found in workflow {quoted(found.id)}.")


def quoted(text: str) -> str:
    """Return a name for an error, bounded."""
    return serializers.dump(text[:200])
