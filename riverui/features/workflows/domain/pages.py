"""Workflows of riverui's own tables as pages show them: bounded rows with few columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from riverui.domain.jobs import JobState

DELETED = "deleted"
"""The state of a task whose job was deleted before it ended."""
TASK_STATES = (*(state.value for state in JobState), DELETED)
"""How a task may be shown: its job's state, or as deleted."""
FAILED_TASKS = frozenset({JobState.DISCARDED.value, JobState.CANCELLED.value, DELETED})
"""States of failed tasks, in River Pro's words: tasks that wait for them are cancelled."""
ENDED_TASKS = FAILED_TASKS | {JobState.COMPLETED.value}
WORST_FIRST = (
    "discarded",
    "cancelled",
    DELETED,
    "retryable",
    "running",
    "available",
    "scheduled",
    "pending",
    "completed",
)
"""States in the order in which an operator looks for problems."""


class WorkflowPageRow(NamedTuple):
    """A workflow with its tasks counted."""

    id: str
    name: str
    attempt: int
    created_at: datetime
    open: int
    """Tasks that have not ended, as far as recorded."""
    ended_at: datetime | None
    cancelled_at: datetime | None
    retried_at: datetime | None
    parent_job_id: int | None
    """The job that started it and waits for it."""
    counts: Mapping[str, int]
    """Existing tasks by state; up to the cap."""
    counted: bool
    """Whether all its tasks were counted."""

    @property
    def tasks(self) -> int:
        """The number of tasks counted."""
        return sum(self.counts.values())

    @property
    def began_at(self) -> datetime:
        """When it started, or was last retried."""
        return self.retried_at or self.created_at

    @property
    def status(self) -> str:
        """The state of the whole workflow in a word: active, completed, failed, cancelled, or
        empty.
        """
        if any(self.counts.get(state) for state in TASK_STATES if state not in ENDED_TASKS):
            return "active"
        if not self.counts:
            return "empty"
        if self.cancelled_at is not None:
            return "cancelled"
        return "failed" if any(self.counts.get(state) for state in FAILED_TASKS) else "completed"


class WorkflowTaskRow(NamedTuple):
    """A task with the columns of its job that a graph shows."""

    name: str
    job_id: int
    state: str
    """One of TASK_STATES."""
    kind: str
    """Empty if the job was deleted."""
    waits_for: int
    """Other tasks that have not completed yet."""
    waits_for_terms: bool
    """Whether it waits only for signals, timers or conditions."""
    attempt: int
    max_attempts: int
    staged_at: datetime | None
    attempted_at: datetime | None
    scheduled_at: datetime | None
    ended_at: datetime | None


class WorkflowGraph(Struct, frozen=True, kw_only=True):
    """The tasks of a workflow and their dependencies."""

    tasks: Sequence[WorkflowTaskRow]
    """By name."""
    edges: Sequence[tuple[str, str]]
    """The names of a task and of one that waits for it."""
    complete: bool
    """Whether these are all of them."""

    @property
    def causes(self) -> Mapping[str, str]:
        """Return a failed dependency of each cancelled task that has one, by the task's name."""
        states = {task.name: task.state for task in self.tasks}
        return {
            task: dependency
            for dependency, task in self.edges
            if states.get(task) == JobState.CANCELLED and states.get(dependency) in FAILED_TASKS
        }


class WorkflowPageParams(Struct, frozen=True, kw_only=True):
    """Which workflows to list."""

    after: str = ""
    """The id after which the page begins; empty for the first."""
    active: bool | None = None
    """Those with unfinished tasks, or those without; None for both."""
    outcome: str = ""
    """How they ended: completed, failed or cancelled; empty for all, including unfinished ones."""
    match: str = ""
    """What the name contains, in any case, or the id begins with."""
    kind: str = ""
    """The kind of at least one of its tasks."""
    top: bool = False
    """Whether those started by a job are left out; ignored in searches."""
    parent: int | None = None
    """The job that started them, regardless of the other parameters."""
    limit: int = 20


class WorkflowPageList(Struct, frozen=True, kw_only=True):
    """One page of workflows, the highest id first."""

    rows: Sequence[WorkflowPageRow]
    after: str
    """Where the next page begins; empty if this is the last."""
    looked_at: int | None = None
    """How many were searched for these, if more may match; else None."""


class TaskNeighbour(NamedTuple):
    """A task that another waits for, or that waits for it."""

    name: str
    job_id: int
    state: str
    kind: str


class TaskPlace(Struct, frozen=True, kw_only=True):
    """A job's place in its workflow."""

    workflow_id: str
    workflow_name: str
    name: str
    job_id: int
    waits_for: int
    """Other tasks that have not completed yet."""
    state: str
    """The task's own state, as in riverui's table: waiting, wait, staged, or how it ended."""
    ignored: str
    """Which failures of its dependencies count as success: c(ancelled), d(iscarded), x
    (deleted).
    """
    staged_at: datetime | None
    deps: Sequence[TaskNeighbour]
    """Its dependencies, unfinished ones first; the first few."""
    deps_count: int
    """Exact below the cap."""
    dependents: Sequence[TaskNeighbour]
    """The tasks that wait for it."""
    dependents_count: int

    @property
    def unfinished(self) -> Sequence[TaskNeighbour]:
        """The dependencies that have not completed."""
        return [each for each in self.deps if each.state != JobState.COMPLETED.value]
