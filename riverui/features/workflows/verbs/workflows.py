"""Cancels and retries workflows, riverui's own and River Pro's, and finds a job's place in one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.jobs import FINALIZED, JobShowRow, JobTextRow
from riverui.domain.json import read_object
from riverui.errors import BadRequest, LockTimeout, NotFound, WorkflowActive
from riverui.features.workflows.domain.pages import TaskPlace
from riverui.features.workflows.domain.workflows import RETRY_MODES, Task, to_retry
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.pro_store import ProStore
from riverui.features.workflows.store import WorkflowStore
from riverui.features.workflows.verbs import jobs as workflow_jobs
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.job_actions import SkipReason


async def cancel(
    driver: Driver, id: str, *, time_limit: timedelta | None = None
) -> Sequence[JobTextRow]:
    """Cancel the unfinished tasks, asking running ones to stop; return the changed jobs by id.

    No tasks can be added to a workflow of riverui's own from then on, until it is retried. Raise
    LockTimeout if another transaction has locked one of the jobs.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        if await _is_own(transaction, id):
            return await _listed(transaction, id, await _cancel(transaction, id))
        pro = ProStore(transaction)
        unfinished = [
            row.id for row in await pro.workflow_task_list(id) if row.state not in FINALIZED
        ]
        if not unfinished:
            return []
        changes = await transaction.jobs.cancel_many(unfinished)
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
    """Run ended tasks again (see `to_retry`), with `reset_history` as if for the first time, else
    with one more attempt each; return the changed jobs.

    A workflow of riverui's own begins a new attempt. Raise WorkflowActive if one of its tasks has
    not ended, BadRequest for an unknown mode, UniqueConflict if an active job has the same unique
    key.
    """
    if mode not in RETRY_MODES:
        raise BadRequest(f"The mode of a retry is one of {', '.join(RETRY_MODES)}.")
    async with driver.transaction(timeout=time_limit) as transaction:
        if await _is_own(transaction, id):
            return await _listed(
                transaction, id, await _retry(transaction, id, mode, reset_history)
            )
        pro = ProStore(transaction)
        ready, waiting = to_retry(tasks(await pro.workflow_task_list(id)), mode)
        if not ready and not waiting:
            return []
        changed = set(
            await pro.workflow_retry([*ready, *waiting], waiting=waiting, reset=reset_history)
        )
        return [row for row in await pro.workflow_task_list(id) if row.id in changed]


async def cancel_tx(executor: Executor, id: str) -> Sequence[int]:
    """Cancel a workflow of riverui's own as `cancel` does, in the caller's transaction; return the
    ids of the jobs. Raise NotFound if it does not exist.
    """
    await _needed(executor, id)
    return await _cancel(executor, id)


async def retry_tx(
    executor: Executor, id: str, mode: str = "all", *, reset_history: bool = False
) -> Sequence[int]:
    """Retry a workflow of riverui's own as `retry` does, in the caller's transaction; return the
    ids of the jobs. Raise NotFound if it does not exist.
    """
    if mode not in RETRY_MODES:
        raise BadRequest(f"The mode of a retry is one of {', '.join(RETRY_MODES)}.")
    await _needed(executor, id)
    return await _retry(executor, id, mode, reset_history)


async def place(driver: Driver, job: JobShowRow) -> TaskPlace | None:
    """Return a job's place in a workflow of riverui's own; None if it is in none."""
    if not _may_be_task(job):
        return None
    async with driver.reading() as executor:
        return await place_tx(executor, job)


async def place_tx(executor: Executor, job: JobShowRow) -> TaskPlace | None:
    """Return a job's place as `place` does, in the caller's transaction."""
    if not _may_be_task(job) or not await WorkflowStore.installed(executor):
        return None
    return await WorkflowPageStore(executor).workflow_place_get(job_id=job.id)


def _may_be_task(job: JobShowRow) -> bool:
    # Shortened metadata may have had the key.
    return '"workflow_id"' in job.metadata.text or not job.metadata.complete


async def _needed(executor: Executor, id: str) -> None:
    if not await _is_own(executor, id):
        raise NotFound(f"Workflow not found: {id[:200]}.")


async def _is_own(executor: Executor, id: str) -> bool:
    """Return whether riverui has a workflow of its own with that id."""
    if not await WorkflowStore.installed(executor):
        return False
    return await WorkflowStore(executor).workflow_head_get(id) is not None


async def _cancel(executor: Executor, id: str) -> Sequence[int]:
    """Cancel a workflow, and those that its tasks wait for; return the ids of its jobs that were
    cancelled or asked to stop.
    """
    part = WorkflowStore(executor)
    family = await part.workflow_lock_family(id=id, cancelled=False, limit=workflow_jobs.MAX_BELOW)
    touched = await workflow_jobs.cancel_workflow(executor, id)
    await workflow_jobs.cancel_below(executor, family, touched)
    return touched


async def _retry(executor: Executor, id: str, mode: str, reset_history: bool) -> Sequence[int]:
    """Retry a workflow, and the cancelled ones that its tasks waited for; return the ids of its
    jobs that are to be worked again.
    """
    part = WorkflowStore(executor)
    family = await part.workflow_lock_family(id=id, cancelled=True, limit=workflow_jobs.MAX_BELOW)
    workflow = await part.workflow_lock_by_id(id)
    if workflow is not None and workflow.open:
        # Another client without workflows may have worked them.
        await workflow_jobs.settle(executor, await part.workflow_task_staged_list(id))
        workflow = await part.workflow_lock_by_id(id)
    if workflow is not None and workflow.open:
        raise WorkflowActive
    again = await workflow_jobs.reopen(executor, id, mode, reset=reset_history)
    await workflow_jobs.retry_below(executor, family, again)
    return again


async def _listed(executor: Executor, id: str, ids: Sequence[int]) -> Sequence[JobTextRow]:
    """Return those of the jobs that are among a workflow's jobs read."""
    wanted = set(ids)
    if not wanted:
        return []
    rows = await ProStore(executor).workflow_task_list(id)
    return [row for row in rows if row.id in wanted]


def tasks(rows: Sequence[JobTextRow]) -> list[Task]:
    """Return the jobs of a workflow as its tasks."""
    return [Task(job=row, metadata=read_object(row.metadata)) for row in rows]
