"""What must hold when people and programs retry, cancel or delete jobs that are tasks of workflows:
those that wait for them move on.
"""

from __future__ import annotations

from collections.abc import Sequence

from riverui.actions.job_part import Inner, JobPart
from riverui.domain.workflow_tasks import TaskState
from riverui.storage.interface import OWN_WORKFLOWS, Executor
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.own_workflows import WORKFLOW_TABLE


async def retry(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Retry jobs: tasks among them are worked at once, whatever they wait for, and those that wait
    for them wait again.
    """
    part = OWN_WORKFLOWS.on(executor)
    # Workflows before jobs: so nobody who holds the one waits for the other.
    locked = await part.workflow_lock_by_job(ids)
    changes = await do_inner(ids)
    if locked and changes.changed:
        await part.workflow_task_restage_many(changes.changed)
    return changes


async def cancel(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Cancel jobs; tasks among them have failed."""
    return await _end(executor, ids, do_inner, TaskState.CANCELLED)


async def delete(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Delete jobs; tasks among them that had not ended have failed."""
    return await _end(executor, ids, do_inner, TaskState.DELETED)


async def _end(
    executor: Executor, ids: Sequence[int], do_inner: Inner, state: TaskState
) -> JobChanges:
    part = OWN_WORKFLOWS.on(executor)
    locked = await part.workflow_lock_by_job(ids)
    changes = await do_inner(ids)
    if locked and changes.changed:
        await part.workflow_task_end_many([(job_id, state) for job_id in changes.changed])
    return changes


async def settle(executor: Executor, ids: Sequence[int]) -> int:
    """Take in how those tasks of these jobs have ended that do not know it yet; return how many.

    For a transaction, whose workflows are locked here.
    """
    part = OWN_WORKFLOWS.on(executor)
    await part.workflow_lock_by_job(ids)
    # Only now nobody else writes how they end.
    found = [
        (task.job_id, ended)
        for task in await part.workflow_task_stray_get_many(ids)
        if (ended := task.ended) is not None
    ]
    if found:
        await part.workflow_task_end_many(found)
    return len(found)


WORKFLOW_PART = JobPart(
    tables=frozenset({WORKFLOW_TABLE.name}), retry=retry, cancel=cancel, delete=delete
)
