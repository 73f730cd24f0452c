"""What a person or a program does to workflows: riverui's own, and River Pro's as far as their jobs
tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.actions import workflow_jobs
from riverui.domain.jobs import FINALIZED, JobTextRow
from riverui.domain.stored_json import read_object
from riverui.domain.workflows import RETRY_MODES, Task, to_retry
from riverui.errors import BadRequest, LockTimeout, NotFound, WorkflowActive
from riverui.storage.interface import OWN_WORKFLOWS, WAITS, WORKFLOWS, Driver, Executor
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.interface.own_workflows import WorkflowHead

MOST_AT_ONCE = 1_000
"""Jobs that one statement cancels: as many as one call of a verb takes."""


async def cancel(
    driver: Driver, id: str, *, time_limit: timedelta | None = None
) -> Sequence[JobTextRow]:
    """Cancel what has not ended, asking running tasks to stop; return those jobs as they are then,
    by id.

    Nothing can be added to a workflow of riverui's own from then on, until it is retried. Raise
    LockTimeout where another transaction holds one of the jobs.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        if await _own(transaction, id) is not None:
            return await _listed(transaction, id, await _cancel(transaction, id))
        pro = WORKFLOWS.on(transaction)
        unfinished = [
            row.id for row in await pro.workflow_task_list(id) if row.state not in FINALIZED
        ]
        if not unfinished:
            return []
        changes = await transaction.job_cancel_many(unfinished)
        if any(reason is SkipReason.LOCKED for _, reason in changes.skipped):
            raise LockTimeout
        touched = {*changes.changed, *changes.requested}
        return [row for row in await pro.workflow_task_list(id) if row.id in touched]


async def retry(
    driver: Driver,
    id: str,
    mode: str = "all",
    *,
    reset_history: bool = False,
    time_limit: timedelta | None = None,
) -> Sequence[JobTextRow]:
    """Let ended tasks run again (see `to_retry`), with `reset_history` as if they never had, else
    with one more attempt each; return those jobs as they are then.

    A workflow of riverui's own begins a new attempt. Raise WorkflowActive where one of its tasks
    has not ended, BadRequest for a mode that is none, UniqueConflict where an active job has the
    same unique key.
    """
    if mode not in RETRY_MODES:
        raise BadRequest(f"The mode of a retry is one of {', '.join(RETRY_MODES)}.")
    async with driver.transaction(timeout=time_limit) as transaction:
        if (found := await _own(transaction, id)) is not None:
            return await _listed(
                transaction, id, await _retry(transaction, found, mode, reset_history)
            )
        pro = WORKFLOWS.on(transaction)
        ready, waiting = to_retry(tasks(await pro.workflow_task_list(id)), mode)
        if not ready and not waiting:
            return []
        changed = set(
            await pro.workflow_retry([*ready, *waiting], waiting=waiting, reset=reset_history)
        )
        return [row for row in await pro.workflow_task_list(id) if row.id in changed]


async def cancel_tx(executor: Executor, id: str) -> Sequence[int]:
    """Cancel a workflow of riverui's own as `cancel` does, in the caller's transaction; return the
    ids of the jobs. NotFound where there is none.
    """
    await _needed(executor, id)
    return await _cancel(executor, id)


async def retry_tx(
    executor: Executor, id: str, mode: str = "all", *, reset_history: bool = False
) -> Sequence[int]:
    """Retry a workflow of riverui's own as `retry` does, in the caller's transaction; return the
    ids of the jobs. NotFound where there is none.
    """
    if mode not in RETRY_MODES:
        raise BadRequest(f"The mode of a retry is one of {', '.join(RETRY_MODES)}.")
    return await _retry(executor, await _needed(executor, id), mode, reset_history)


async def _needed(executor: Executor, id: str) -> WorkflowHead:
    found = await _own(executor, id)
    if found is None:
        raise NotFound(f"Workflow not found: {id[:200]}.")
    return found


async def _own(executor: Executor, id: str) -> WorkflowHead | None:
    """Return a workflow of riverui's own, locked; None where there is none of that id."""
    if OWN_WORKFLOWS not in executor.capabilities:
        return None
    part = OWN_WORKFLOWS.on(executor)
    return await part.workflow_lock_by_id(id) if (await part.workflow_tables()).own else None


async def _cancel(executor: Executor, id: str) -> Sequence[int]:
    """Cancel a locked workflow; return the ids of the jobs that were cancelled or asked to stop."""
    part = OWN_WORKFLOWS.on(executor)
    touched: list[int] = []
    open_ids = await part.workflow_cancel(id)
    for start in range(0, len(open_ids), MOST_AT_ONCE):
        changes = await executor.job_cancel_many(open_ids[start : start + MOST_AT_ONCE])
        if any(reason is SkipReason.LOCKED for _, reason in changes.skipped):
            raise LockTimeout
        touched += [*changes.changed, *changes.requested]
    # All that has ended, by this or before, unless it runs.
    await workflow_jobs.settle(executor, open_ids)
    return sorted(touched)


async def _retry(
    executor: Executor, workflow: WorkflowHead, mode: str, reset_history: bool
) -> Sequence[int]:
    """Retry a locked workflow; return the ids of the jobs that are to be worked again."""
    part = OWN_WORKFLOWS.on(executor)
    left = workflow.open
    if left:
        # Perhaps another client has worked them, which knows nothing of workflows.
        left -= await workflow_jobs.settle(
            executor, await part.workflow_task_staged_list(workflow.id)
        )
    if left > 0 and (now := await part.workflow_lock_by_id(workflow.id)) is not None and now.open:
        raise WorkflowActive
    if WAITS in executor.capabilities and (await part.workflow_tables()).waits:
        await WAITS.on(executor).workflow_wait_reset(workflow.id)
    again = await part.workflow_task_reopen(workflow.id, mode, reset=reset_history)
    waiting = [task.job_id for task in again if task.waits_for]
    if waiting:
        await part.workflow_task_settle_many(waiting)
    free = [task.job_id for task in again if not task.waits_for and not task.waits_on]
    if free:
        await part.workflow_stage(free)
    return [task.job_id for task in again]


async def _listed(executor: Executor, id: str, ids: Sequence[int]) -> Sequence[JobTextRow]:
    """Return those of the jobs that are read of a workflow."""
    wanted = set(ids)
    if not wanted:
        return []
    rows = await WORKFLOWS.on(executor).workflow_task_list(id)
    return [row for row in rows if row.id in wanted]


def tasks(rows: Sequence[JobTextRow]) -> list[Task]:
    """Return the jobs of a workflow as its tasks."""
    return [Task(job=row, metadata=read_object(row.metadata)) for row in rows]
