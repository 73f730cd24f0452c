"""Operations on workflows for the client without asyncio; see OwnWorkflowExecutor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from riverui.domain.workflow_tasks import TaskState
from riverui.storage.interface.own_workflows import (
    FamilyMember,
    OwnTaskRow,
    ReopenedTask,
    StrayTask,
    TaskChoice,
    TaskInsertParams,
    TaskMoves,
    WorkflowHead,
    WorkflowInsertParams,
    WorkflowTables,
)
from riverui.storage.postgres.own import waits, workflows
from riverui.storage.postgres.statements import Steps

_T = TypeVar("_T")


class SyncWorkflows:
    """Operations on workflows, by a `_drive` that runs their statements."""

    _schema: str | None

    def _drive(self, steps: Steps[_T]) -> _T:
        raise NotImplementedError

    def workflow_tables(self) -> WorkflowTables:
        """Return which tables of workflows there are; see OwnWorkflowExecutor."""
        return self._drive(workflows.tables())

    def workflow_head_get(self, id: str) -> WorkflowHead | None:
        """Return one workflow, or None; see OwnWorkflowExecutor."""
        return self._drive(workflows.head_get(id))

    def workflow_task_list_of(
        self, id: str, choice: TaskChoice, name: str = "", *, limit: int
    ) -> Sequence[OwnTaskRow]:
        """Return tasks of a workflow; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_list_of(id, choice, name, limit=limit))

    def workflow_begin_many(self, begun: Sequence[WorkflowInsertParams]) -> Sequence[str]:
        """Make and lock workflows; see OwnWorkflowExecutor."""
        return self._drive(workflows.begin_many(begun))

    def workflow_lock_by_job(self, job_ids: Sequence[int]) -> Sequence[str]:
        """Lock the workflows of jobs; see OwnWorkflowExecutor."""
        return self._drive(workflows.lock_by_job(job_ids))

    def workflow_task_end_many(self, ended: Sequence[tuple[int, TaskState]]) -> TaskMoves:
        """Write how tasks ended; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_end_many(ended, schema=self._schema))

    def workflow_task_insert_many(
        self, tasks: Sequence[TaskInsertParams]
    ) -> tuple[str, str] | None:
        """Add tasks to workflows; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_insert_many(tasks, schema=self._schema))

    def workflow_task_missing(self, job_ids: Sequence[int]) -> tuple[str, str] | None:
        """Return what a task waits for in vain; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_missing(job_ids))

    def workflow_task_settle_many(self, job_ids: Sequence[int]) -> TaskMoves:
        """Take in what had ended before; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_settle_many(job_ids, schema=self._schema))

    def workflow_lock_family(
        self, job_ids: Sequence[int] = (), *, id: str | None = None, cancelled: bool, limit: int
    ) -> Sequence[FamilyMember]:
        """Lock workflows and those below them; see OwnWorkflowExecutor."""
        return self._drive(workflows.lock_family(job_ids, id=id, cancelled=cancelled, limit=limit))

    def workflow_lock_by_id(self, id: str) -> WorkflowHead | None:
        """Lock one workflow and return it, or None; see OwnWorkflowExecutor."""
        return self._drive(workflows.lock_by_id(id))

    def workflow_stage(self, job_ids: Sequence[int]) -> TaskMoves:
        """Let jobs be worked; see OwnWorkflowExecutor."""
        return self._drive(workflows.stage(job_ids, schema=self._schema))

    def workflow_task_reopen(self, id: str, mode: str, *, reset: bool) -> Sequence[ReopenedTask]:
        """Begin a new attempt at a workflow; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_reopen(id, mode, reset=reset))

    def workflow_cancel(self, id: str) -> Sequence[int]:
        """Note that a workflow is cancelled; see OwnWorkflowExecutor."""
        return self._drive(workflows.cancel(id))

    def workflow_task_staged_list(self, id: str) -> Sequence[int]:
        """Return the jobs of tasks that can be worked; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_staged_list(id))

    def workflow_task_stray_get_many(self, job_ids: Sequence[int]) -> Sequence[StrayTask]:
        """Return tasks that have not ended; see OwnWorkflowExecutor."""
        return self._drive(workflows.task_stray_get_many(job_ids))

    def workflow_wait_reset(self, id: str) -> None:
        """Let the waits of a workflow begin anew; see WaitExecutor."""
        self._drive(waits.wait_reset(id, schema=self._schema))
