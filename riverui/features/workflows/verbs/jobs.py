"""Retries, cancels and deletes jobs that are tasks of workflows, and advances the tasks that wait
for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from riverui.actions.job_part import Inner
from riverui.errors import LockTimeout
from riverui.features.workflows.domain.tasks import TaskState
from riverui.features.workflows.store import FamilyMember, WorkflowStore
from riverui.features.workflows.waits.store import WaitStore
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges, SkipReason

MAX_AT_ONCE = 1_000
"""Jobs that one statement cancels: as many as one call of a verb takes."""

MAX_BELOW = 100
"""Workflows below others that are cancelled or retried with them in one transaction, those of the
upper levels first; the leader finds the rest of cancelled ones.
"""


async def retry(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Retry jobs: tasks among them are worked at once, whatever they wait for, and those that
    depend on them wait again. Their cancelled workflows are retried.
    """
    part = WorkflowStore(executor)
    # Workflows are locked before jobs, so that two transactions cannot deadlock.
    family = await part.workflow_lock_family(ids, cancelled=True, limit=MAX_BELOW)
    changes = await do_inner(ids)
    if family and changes.changed:
        await part.workflow_task_restage_many(changes.changed)
        await retry_below(executor, family, changes.changed)
    return changes


async def cancel(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Cancel jobs; tasks among them count as failed, and workflows that the jobs wait for are
    cancelled.
    """
    return await _end(executor, ids, do_inner, TaskState.CANCELLED)


async def delete(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Delete jobs; unfinished tasks among them count as failed, and workflows that the jobs wait
    for are cancelled.
    """
    return await _end(executor, ids, do_inner, TaskState.DELETED)


async def _end(
    executor: Executor, ids: Sequence[int], do_inner: Inner, state: TaskState
) -> JobChanges:
    part = WorkflowStore(executor)
    family = await part.workflow_lock_family(ids, cancelled=False, limit=MAX_BELOW)
    changes = await do_inner(ids)
    if family and changes.changed:
        await part.workflow_task_end_many([(job_id, state) for job_id in changes.changed])
    # Also below jobs that are only asked to stop: no job would wait for new work of theirs.
    await cancel_below(executor, family, [*changes.changed, *changes.requested])
    return changes


async def cancel_below(
    executor: Executor, family: Sequence[FamilyMember], job_ids: Sequence[int]
) -> None:
    """Cancel those of locked workflows that are below these jobs."""
    for member in _below(family, job_ids):
        await cancel_workflow(executor, member)


async def retry_below(
    executor: Executor, family: Sequence[FamilyMember], job_ids: Sequence[int]
) -> None:
    """Retry those of locked, cancelled workflows that are below these jobs."""
    for member in _below(family, job_ids):
        await reopen(executor, member, "failed_only", reset=False)


def _below(family: Sequence[FamilyMember], job_ids: Sequence[int]) -> list[str]:
    roots = set(job_ids)
    return [member.id for member in family if not roots.isdisjoint(member.roots)]


async def cancel_workflow(executor: Executor, id: str) -> Sequence[int]:
    """Cancel a locked workflow; return the ids of the jobs that were cancelled or asked to stop."""
    part = WorkflowStore(executor)
    touched: list[int] = []
    open_ids = await part.workflow_cancel(id)
    for start in range(0, len(open_ids), MAX_AT_ONCE):
        changes = await executor.jobs.cancel_many(open_ids[start : start + MAX_AT_ONCE])
        if any(reason is SkipReason.LOCKED for _, reason in changes.skipped):
            raise LockTimeout
        touched += [*changes.changed, *changes.requested]
    # All ended tasks, by this or before; running jobs are left.
    await settle(executor, open_ids)
    return sorted(touched)


async def reopen(executor: Executor, id: str, mode: str, *, reset: bool) -> Sequence[int]:
    """Begin a new attempt at a locked workflow whose tasks have all ended; return the ids of the
    jobs that are to be worked again.
    """
    part = WorkflowStore(executor)
    await WaitStore(executor).workflow_wait_reset(id)
    again = await part.workflow_task_reopen(id, mode, reset=reset)
    waiting = [task.job_id for task in again if task.waits_for]
    if waiting:
        await part.workflow_task_settle_many(waiting)
    free = [task.job_id for task in again if not task.waits_for and not task.waits_on]
    if free:
        await part.workflow_stage(free)
    return [task.job_id for task in again]


async def settle(executor: Executor, ids: Sequence[int]) -> int:
    """Record the ends of those tasks of these jobs that are not recorded yet; return how many.

    Needs a transaction, in which it locks their workflows.
    """
    part = WorkflowStore(executor)
    await part.workflow_lock_by_job(ids)
    # Read again under the lock: other transactions can no longer write their ends.
    found = [
        (task.job_id, ended)
        for task in await part.workflow_task_stray_get_many(ids)
        if (ended := task.ended) is not None
    ]
    if found:
        await part.workflow_task_end_many(found)
    return len(found)
