"""Workflows in `riverui_workflow` and the tables of their tasks and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from riverui.domain.jobs import JobState
from riverui.domain.time import rfc3339_nano
from riverui.domain.values import is_bigint
from riverui.features.workflows.domain.tasks import ENDS, TaskState
from riverui.features.workflows.waits.store import WaitNotices
from riverui.storage.interface.engine_params import JobDeleteBeforeParams
from riverui.storage.interface.sql_blocks import Fragment, Rows
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.postgres.browse.rows import known_state
from riverui.storage.postgres.engine.job_upkeep import old_jobs
from riverui.storage.postgres.statements import instant


class WorkflowInsertParams(NamedTuple):
    """A workflow that tasks are added to."""

    id: str
    name: str = ""
    parent_job_id: int | None = None


class TaskInsertParams(NamedTuple):
    """A task whose job has just been inserted."""

    workflow_id: str
    name: str
    job_id: int
    deps: tuple[str, ...] = ()
    ignored: str = ""
    wait: str | None = None


class TaskMoves(NamedTuple):
    """The changes to tasks that waited for others."""

    staged: tuple[tuple[int, JobState], ...] = ()
    """Jobs that may be worked now, with their states: available, or scheduled."""
    wait: tuple[int, ...] = ()
    """Jobs whose tasks now wait for their own `wait`."""
    cancelled: tuple[int, ...] = ()
    """Jobs cancelled because a dependency has failed."""


class WorkflowHead(NamedTuple):
    """One workflow."""

    id: str
    name: str
    attempt: int
    open: int
    """Tasks that have not ended."""
    cancelled_at: datetime | None
    age: timedelta
    """Time since the start of its current attempt, by the database's clock."""


class FamilyMember(NamedTuple):
    """A workflow that is locked together with others."""

    id: str
    roots: tuple[int, ...]
    """Of the given jobs, those that wait for it, directly or indirectly."""


class EndedWorkflow(NamedTuple):
    """The place of a workflow among those that have ended."""

    ended_at: datetime
    id: str


class HeldReach(NamedTuple):
    """The result of a search for old jobs of open workflows."""

    looked: int
    held: int
    behind: Mapping[JobState, datetime]
    """By state, when the last of the oldest jobs finished that are all kept."""


class StrayTask(NamedTuple):
    """A task, and the state of its job."""

    job_id: int
    job_state: JobState | None
    """None if it was deleted."""

    @property
    def ended(self) -> TaskState | None:
        """Return how the task ended, according to its job; None if it has not."""
        return TaskState.DELETED if self.job_state is None else ENDS.get(self.job_state)


class ReopenedTask(NamedTuple):
    """A task that is to be worked again."""

    job_id: int
    waits_for: int
    waits_on: bool
    """Whether it has a wait of its own."""


class OwnTaskRow(NamedTuple):
    """A task, without its job."""

    name: str
    state: TaskState
    job_id: int
    deps: tuple[str, ...]


class TaskChoice(StrEnum):
    """Which tasks of a workflow are read."""

    ALL = "all"
    """By name, those after a name."""
    NAMED = "named"
    """The one with a name."""
    DEPS = "deps"
    """The direct dependencies of the one with a name."""
    DEPS_RECURSIVE = "deps_recursive"
    """Its dependencies, direct and indirect."""


_ENDS = Fragment("workflow_moved_by_ends")
_HELD_JOBS = Fragment("workflow_held_jobs", held=Fragment("workflow_holds_job"))
_WORKFLOWS_GIVEN = Fragment("workflow_given")
_CHOICES = {
    TaskChoice.DEPS: Fragment("workflow_task_dep_direct"),
    TaskChoice.DEPS_RECURSIVE: Fragment("workflow_task_dep_all"),
    TaskChoice.NAMED: Fragment("workflow_task_dep_names"),
}
_GIVEN = Fragment("workflow_task_stray_given")
_BEFORE = Fragment("workflow_moved_by_ends", resolved=Fragment("workflow_resolved_before"))


def _notice_values(schema: str | None) -> dict[str, str | None]:
    return {"schema": schema, "at": rfc3339_nano(datetime.now(UTC))}


def _stray(row: Any) -> StrayTask:
    return StrayTask(job_id=row.job_id, job_state=None if row.gone else known_state(row.job_state))


class WorkflowStore(WaitNotices):
    """Operations on workflows."""

    async def workflow_begin_many(self, workflows: Sequence[WorkflowInsertParams]) -> Sequence[str]:
        """Create workflows that do not exist yet, and lock all; return the ids of
        cancelled ones.
        """
        values = {
            "ids": array_literals.texts([workflow.id for workflow in workflows]),
            "names": array_literals.texts([workflow.name for workflow in workflows]),
            "parents": array_literals.numbers([workflow.parent_job_id for workflow in workflows]),
        }
        rows = await self._sql.rows("workflow_begin_many", values)
        return [row.id for row in rows.records() if row.cancelled]

    async def workflow_lock_by_job(self, job_ids: Sequence[int]) -> Sequence[str]:
        """Lock the workflows of these jobs until the end of the transaction, always in the same
        order; return their ids.
        """
        values = {"job_ids": array_literals.numbers(job_ids)}
        found: Sequence[str] = (await self._sql.rows("workflow_lock_by_job", values)).values()
        return found

    async def workflow_lock_family(
        self, job_ids: Sequence[int] = (), *, id: str | None = None, cancelled: bool, limit: int
    ) -> Sequence[FamilyMember]:
        """Lock the workflows of jobs, or one workflow, and up to `limit` below them, as
        workflow_lock_by_job does: those that the jobs started and wait for, directly or indirectly.
        Only open ones, or those that were cancelled.
        """
        values = {
            "job_ids": array_literals.numbers([each for each in job_ids if is_bigint(each)]),
            "id": id if id is None or is_storable(id) else None,
            "cancelled": cancelled,
            "limit": limit,
        }
        rows = await self._sql.rows("workflow_lock_family", values)
        return [FamilyMember(row.id, tuple(row.roots)) for row in rows.records()]

    async def workflow_forsaken_list(
        self, *, after: str, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """Return open workflows whose parent was cancelled, among `limit` open ones after the id
        `after`, and the last id read; None if there are no more.
        """
        rows = await self._sql.rows("workflow_forsaken_list", {"after": after, "limit": limit})
        found = rows.records()
        last = found[-1].id if found else None
        return [row.id for row in found if row.forsaken], last

    async def workflow_task_insert_many(
        self, tasks: Sequence[TaskInsertParams]
    ) -> tuple[str, str] | None:
        """Add tasks to workflows; return None, or the workflow and name of a task that existed
        already: then the transaction must be rolled back.
        """
        edges = [(task.workflow_id, dep, task.name) for task in tasks for dep in task.deps]
        values = {
            "workflow_ids": array_literals.texts([task.workflow_id for task in tasks]),
            "names": array_literals.texts([task.name for task in tasks]),
            "job_ids": array_literals.numbers([task.job_id for task in tasks]),
            "waits_for": array_literals.numbers([len(task.deps) for task in tasks]),
            "ignored": array_literals.texts([task.ignored for task in tasks]),
            "waits": array_literals.optional_texts([task.wait for task in tasks]),
            "edge_workflow_ids": array_literals.texts([edge[0] for edge in edges]),
            "edge_dependencies": array_literals.texts([edge[1] for edge in edges]),
            "edge_tasks": array_literals.texts([edge[2] for edge in edges]),
        }
        row = await self._sql.row("workflow_task_insert_many", values)
        if any(task.wait is not None and not task.deps for task in tasks):
            await self._notify_waits()
        return None if row is None else (row.workflow_id, row.name)

    async def workflow_task_missing(self, job_ids: Sequence[int]) -> tuple[str, str] | None:
        """Return a task of these jobs and the name of a dependency that does not exist; None if all
        exist.
        """
        values = {"job_ids": array_literals.numbers(job_ids)}
        row = await self._sql.row("workflow_task_missing", values)
        return None if row is None else (row.name, row.dependency)

    async def workflow_task_settle_many(self, job_ids: Sequence[int]) -> TaskMoves:
        """Apply to these tasks the dependencies that ended before they were added."""
        settled = {"settled": array_literals.numbers(job_ids)}
        values = {"job_ids": "{}", "states": "{}", **settled, **_notice_values(self._sql.schema)}
        rows = await self._sql.rows("workflow_stage", values, moved=_BEFORE)
        return await self._moves(rows)

    async def workflow_task_end_many(self, ended: Sequence[tuple[int, TaskState]]) -> TaskMoves:
        """Write how tasks ended, and advance those that wait for them: by job, each once. Tasks
        that had ended before are unchanged.
        """
        states = dict(sorted(ended))
        values = {
            "job_ids": array_literals.numbers(states),
            "states": array_literals.texts([state.value for state in states.values()]),
            **_notice_values(self._sql.schema),
        }
        rows = await self._sql.prepared("workflow_stage", values, moved=_ENDS)
        return await self._moves(rows)

    async def workflow_stage(self, job_ids: Sequence[int]) -> TaskMoves:
        """Stage the tasks of these jobs, whose own `wait` is over, and notify the workers."""
        values = {"job_ids": array_literals.numbers(job_ids), **_notice_values(self._sql.schema)}
        rows = await self._sql.rows("workflow_stage", values)
        return await self._moves(rows)

    async def workflow_lock_by_id(self, id: str) -> WorkflowHead | None:
        """Lock one workflow until the end of the transaction and return it; None if it does not
        exist.
        """
        if not is_storable(id):
            return None
        row = await self._sql.row("workflow_lock_by_id", {"id": id})
        return None if row is None else WorkflowHead(**row._asdict())

    async def workflow_head_get(self, id: str) -> WorkflowHead | None:
        """Return one workflow, or None."""
        if not is_storable(id):
            return None
        row = await self._sql.row("workflow_head_get", {"id": id})
        return None if row is None else WorkflowHead(**row._asdict())

    async def workflow_task_list_of(
        self, id: str, choice: TaskChoice, name: str = "", *, limit: int
    ) -> Sequence[OwnTaskRow]:
        """Return tasks of a workflow, by name."""
        if not is_storable(id) or not is_storable(name):
            return []
        slots = {} if choice is TaskChoice.ALL else {"which": _CHOICES[choice]}
        values = {"id": id, "after": name, "limit": limit}
        rows = await self._sql.rows("workflow_task_list_of", values, **slots)
        return [
            OwnTaskRow(row.name, TaskState(row.state), row.job_id, tuple(row.deps))
            for row in rows.records()
        ]

    async def workflow_task_restage_many(self, job_ids: Sequence[int]) -> None:
        """Mark tasks as open again whose jobs have been made available by hand, whatever they
        waited for.
        """
        await self._sql.rows("workflow_task_restage", {"job_ids": list(job_ids)})

    async def workflow_task_reopen(
        self, id: str, mode: str, *, reset: bool
    ) -> Sequence[ReopenedTask]:
        """Begin a new attempt at a workflow whose tasks have all ended: those of `mode` are to be
        worked again, and their jobs are pending. Raise UniqueConflict if a job's unique key is
        taken.
        """
        values = {"id": id, "mode": mode, "reset": reset}
        rows = await self._sql.rows("workflow_task_reopen", values)
        return [ReopenedTask(**row._asdict()) for row in rows.records()]

    async def workflow_cancel(self, id: str) -> Sequence[int]:
        """Mark a workflow as cancelled; return the jobs of its unfinished tasks."""
        found: Sequence[int] = (await self._sql.rows("workflow_cancel", {"id": id})).values()
        return found

    async def workflow_task_staged_list(self, id: str) -> Sequence[int]:
        """Return the jobs of a workflow's staged tasks that have not ended."""
        rows = await self._sql.rows("workflow_task_staged_list", {"id": id})
        found: Sequence[int] = rows.values()
        return found

    async def workflow_task_stray_list(self, *, after: int, limit: int) -> Sequence[StrayTask]:
        """Return staged tasks by job, after this one, with the states of their jobs."""
        rows = await self._sql.rows("workflow_task_stray_list", {"after": after, "limit": limit})
        return [_stray(row) for row in rows.records()]

    async def workflow_task_stray_get_many(self, job_ids: Sequence[int]) -> Sequence[StrayTask]:
        """Return the unfinished tasks of these jobs, with the states of the jobs."""
        values = {"job_ids": array_literals.numbers(job_ids)}
        rows = await self._sql.rows("workflow_task_stray_list", values, which=_GIVEN)
        return [_stray(row) for row in rows.records()]

    async def workflow_held_reach(self, params: JobDeleteBeforeParams) -> HeldReach:
        """Return how far the jobs reach that `job_delete_before` would read next and keep, because
        their workflows are open.
        """
        block = old_jobs(replace(params, keep_open_workflows=False), deleted=_HELD_JOBS)
        rows = (await self._sql.rows("job_delete_before", block.values, **block.slots)).records()
        return HeldReach(
            looked=sum(row.looked for row in rows),
            held=sum(row.held for row in rows),
            behind={JobState(row.state): row.behind for row in rows if row.behind is not None},
        )

    async def workflow_jobless_list(
        self, *, after: EndedWorkflow | None, limit: int
    ) -> tuple[Sequence[str], EndedWorkflow | None]:
        """Return those of `limit` ended workflows, the first ended first and after `after`, that
        have no job left, and the last one read; None if there are no more after it.
        """
        values = {
            "after_at": instant(
                datetime.min.replace(tzinfo=UTC) if after is None else after.ended_at
            ),
            "after_id": "" if after is None else after.id,
            "limit": limit,
        }
        found = (await self._sql.rows("workflow_jobless_list", values)).records()
        gone = [row.id for row in found if row.gone]
        if not found or found[-1].looked < limit:
            return gone, None
        return gone, EndedWorkflow(found[-1].ended_at, found[-1].id)

    async def workflow_delete_before(
        self, before: datetime, *, ids: Sequence[str] | None = None, limit: int
    ) -> Sequence[str]:
        """Delete workflows that ended before then, the first ended first, or the given ones if
        ended; return their ids. Those whose parents have not ended are kept.
        """
        values = {"before": instant(before), "ids": list(ids or ()), "limit": limit}
        slots = {} if ids is None else {"which": _WORKFLOWS_GIVEN}
        return (await self._sql.rows("workflow_delete_before", values, **slots)).values()

    async def _moves(self, rows: Rows) -> TaskMoves:
        """Return what has moved, and notify the leader of waits that have begun."""
        found = [row for row in rows.records() if row.job_id is not None]
        moves = TaskMoves(
            staged=tuple(
                (row.job_id, JobState(row.job_state))
                for row in found
                if row.state == TaskState.STAGED and row.job_state is not None
            ),
            wait=tuple(row.job_id for row in found if row.state == TaskState.WAIT),
            cancelled=tuple(row.job_id for row in found if row.state == TaskState.CANCELLED),
        )
        if moves.wait:
            await self._notify_waits()
        return moves
