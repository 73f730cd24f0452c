"""What a person or a program does to River Pro's workflows: to their jobs, as far as those tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.domain.jobs import FINALIZED, JobTextRow
from riverui.domain.stored_json import read_object
from riverui.domain.workflows import Task, to_retry
from riverui.errors import LockTimeout
from riverui.storage.interface import WORKFLOWS, Driver
from riverui.storage.interface.job_actions import SkipReason


async def cancel(
    driver: Driver, id: str, *, time_limit: timedelta | None = None
) -> Sequence[JobTextRow]:
    """Cancel what has not ended, asking running tasks to stop; return those jobs as they are then,
    by id.

    Raise LockTimeout where another transaction holds one of them.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
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
    driver: Driver, id: str, mode: str, *, reset: bool, time_limit: timedelta | None = None
) -> Sequence[JobTextRow]:
    """Let ended tasks run again (see `to_retry`), with `reset` as if they never had; return those
    jobs as they are then.

    Raise UniqueConflict where an active job has the same unique key.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        pro = WORKFLOWS.on(transaction)
        ready, waiting = to_retry(tasks(await pro.workflow_task_list(id)), mode)
        if not ready and not waiting:
            return []
        changed = set(await pro.workflow_retry([*ready, *waiting], waiting=waiting, reset=reset))
        return [row for row in await pro.workflow_task_list(id) if row.id in changed]


def tasks(rows: Sequence[JobTextRow]) -> list[Task]:
    """Return the jobs of a workflow as its tasks."""
    return [Task(job=row, metadata=read_object(row.metadata)) for row in rows]
