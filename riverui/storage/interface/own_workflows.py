"""riverui's own workflows: tasks, which of them wait for which, and how they are moved on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from riverui.domain.jobs import JobState
from riverui.domain.workflow_tasks import ENDS, TaskState
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.engine_params import JobDeleteBeforeParams
from riverui.storage.interface.own_tables import OwnTable

WORKFLOW_TABLE = OwnTable("riverui_workflow", 8)
"""Where they are kept, with the tables of their tasks and edges."""


class WorkflowTables(NamedTuple):
    """Which tables of workflows there are."""

    own: bool
    pro: bool
    """River Pro's."""
    waits: bool = False
    """What signals and waits need."""


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
    """What became of tasks that waited for others."""

    staged: tuple[tuple[int, JobState], ...] = ()
    """Jobs that may be worked now, with their states: available, or scheduled."""
    wait: tuple[int, ...] = ()
    """Jobs whose tasks go on to wait for what their own `wait` says."""
    cancelled: tuple[int, ...] = ()
    """Jobs cancelled as a task that they wait for has failed."""


class WorkflowHead(NamedTuple):
    """One workflow."""

    id: str
    name: str
    attempt: int
    open: int
    """Tasks that have not ended."""
    cancelled_at: datetime | None
    age: timedelta
    """Since this attempt at it began, by the database's clock."""


class FamilyMember(NamedTuple):
    """A workflow that is held together with others."""

    id: str
    roots: tuple[int, ...]
    """Jobs, of those asked about, that wait for it, directly or not."""


class EndedWorkflow(NamedTuple):
    """Where a workflow stands among those that have ended."""

    ended_at: datetime
    id: str


class HeldReach(NamedTuple):
    """What a look at old jobs has found whose workflows are open."""

    looked: int
    held: int
    behind: Mapping[JobState, datetime]
    """When the last jobs finished of each state before which all are held."""


class StrayTask(NamedTuple):
    """A task, and where its job stands."""

    job_id: int
    job_state: JobState | None
    """None where it is gone."""

    @property
    def ended(self) -> TaskState | None:
        """Return how the task has ended by its job; None where it has not."""
        return TaskState.DELETED if self.job_state is None else ENDS.get(self.job_state)


class ReopenedTask(NamedTuple):
    """A task that is to be worked again."""

    job_id: int
    waits_for: int
    waits_on: bool
    """Whether it has something of its own to wait for."""


class OwnTaskRow(NamedTuple):
    """A task, without its job."""

    name: str
    state: TaskState
    job_id: int
    deps: tuple[str, ...]


class TaskChoice(StrEnum):
    """Which tasks of a workflow are read."""

    ALL = "all"
    """By name, those behind a name."""
    NAMED = "named"
    """The one of a name."""
    DEPS = "deps"
    """Those that the one of a name waits for …"""
    DEPS_RECURSIVE = "deps_recursive"
    """… and all that these wait for in turn."""


class OwnWorkflowExecutor(Protocol):
    """Writes what becomes of tasks. All methods but the first are for a transaction, and whoever
    calls one of those that move tasks has locked their workflows before anything else.
    """

    async def workflow_tables(self) -> WorkflowTables:
        """Return which tables there are."""
        ...

    async def workflow_begin_many(self, workflows: Sequence[WorkflowInsertParams]) -> Sequence[str]:
        """Make workflows where they are not there yet, and lock them; return the ids of those that
        were cancelled.
        """
        ...

    async def workflow_lock_by_job(self, job_ids: Sequence[int]) -> Sequence[str]:
        """Lock the workflows of these jobs, in one order for all who do, until the end of the
        transaction; return their ids.
        """
        ...

    async def workflow_lock_family(
        self, job_ids: Sequence[int] = (), *, id: str | None = None, cancelled: bool, limit: int
    ) -> Sequence[FamilyMember]:
        """Lock the workflows of jobs, or one workflow, and up to `limit` below them, as
        workflow_lock_by_job does: those that the jobs have begun and wait for, directly or not. Of
        these the open ones, or those that were cancelled.
        """
        ...

    async def workflow_forsaken_list(
        self, *, after: str, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """Return open workflows whose parent was cancelled, of `limit` open ones behind the id
        `after`, and the last id looked at; None where there are no more.
        """
        ...

    async def workflow_task_insert_many(
        self, tasks: Sequence[TaskInsertParams]
    ) -> tuple[str, str] | None:
        """Add tasks to workflows; return None, or the workflow and name of one that was there
        already: nothing may be kept then.
        """
        ...

    async def workflow_task_missing(self, job_ids: Sequence[int]) -> tuple[str, str] | None:
        """Return a task of these jobs and the name of one that it waits for and that is not there;
        None where all are.
        """
        ...

    async def workflow_task_settle_many(self, job_ids: Sequence[int]) -> TaskMoves:
        """Take into account what has ended before these tasks came to wait for it."""
        ...

    async def workflow_task_end_many(self, ended: Sequence[tuple[int, TaskState]]) -> TaskMoves:
        """Write how tasks ended, and move on those that wait for them: by job, each once.
        Tasks that had ended before stay as they were.
        """
        ...

    async def workflow_stage(self, job_ids: Sequence[int]) -> TaskMoves:
        """Let the jobs of tasks be worked whose own `wait` is over, and tell the workers."""
        ...

    async def workflow_lock_by_id(self, id: str) -> WorkflowHead | None:
        """Lock one workflow until the end of the transaction and return it; None where there is
        none.
        """
        ...

    async def workflow_head_get(self, id: str) -> WorkflowHead | None:
        """Return one workflow, or None."""
        ...

    async def workflow_task_list_of(
        self, id: str, choice: TaskChoice, name: str = "", *, limit: int
    ) -> Sequence[OwnTaskRow]:
        """Return tasks of a workflow, by name."""
        ...

    async def workflow_task_restage_many(self, job_ids: Sequence[int]) -> None:
        """Take tasks as open again whose jobs somebody has let run, whatever they waited for."""
        ...

    async def workflow_task_reopen(
        self, id: str, mode: str, *, reset: bool
    ) -> Sequence[ReopenedTask]:
        """Begin a new attempt at a workflow whose tasks have all ended: those of `mode` are to be
        worked again, and their jobs are pending. UniqueConflict where a job's unique key is taken.
        """
        ...

    async def workflow_cancel(self, id: str) -> Sequence[int]:
        """Note that a workflow is cancelled; return the jobs of its tasks that have not ended."""
        ...

    async def workflow_task_staged_list(self, id: str) -> Sequence[int]:
        """Return the jobs of a workflow's tasks that can be worked and have not ended."""
        ...

    async def workflow_task_stray_list(self, *, after: int, limit: int) -> Sequence[StrayTask]:
        """Return tasks that can be worked, by job and behind this one, and where their jobs
        stand.
        """
        ...

    async def workflow_task_stray_get_many(self, job_ids: Sequence[int]) -> Sequence[StrayTask]:
        """Return those of the tasks of these jobs that have not ended, and where the jobs stand."""
        ...

    async def workflow_held_reach(self, params: JobDeleteBeforeParams) -> HeldReach:
        """Return how far the jobs reach that `job_delete_before` would look at next and leave, as
        their workflows are open.
        """
        ...

    async def workflow_gone_list(
        self, *, after: EndedWorkflow | None, limit: int
    ) -> tuple[Sequence[str], EndedWorkflow | None]:
        """Return those of `limit` ended workflows, the first ended first and behind `after`, that
        have no job left, and the last one looked at; None where there are no more behind it.
        """
        ...

    async def workflow_delete_before(
        self, before: datetime, *, ids: Sequence[str] | None = None, limit: int
    ) -> Sequence[str]:
        """Forget workflows that ended before then, the first ended first, or given ones that have
        ended; return their ids. Those whose parents have not ended stay.
        """
        ...


OWN_WORKFLOWS: Capability[OwnWorkflowExecutor] = Capability(
    "own_workflows",
    "Workflows need PostgreSQL, and this database is none: in tests, give InlineClient or"
    " rolled_back the URL of one.",
)
