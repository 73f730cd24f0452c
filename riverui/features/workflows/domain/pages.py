"""Workflows of riverui's own tables as pages show them: narrow rows, bounded on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from riverui.domain.jobs import JobState

DELETED = "deleted"
"""Stands for the state of a task whose job is gone, and that did not end before."""
TASK_STATES = (*(state.value for state in JobState), DELETED)
"""What a task may be shown as: its job's state, or that it was deleted."""
FAILED_TASKS = frozenset({JobState.DISCARDED.value, JobState.CANCELLED.value, DELETED})
"""States of tasks that failed, in River Pro's words: what waits for them is cancelled."""
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
"""States in the order in which a person who looks for trouble reads them."""


class WorkflowPageRow(NamedTuple):
    """A workflow with its tasks counted."""

    id: str
    name: str
    attempt: int
    created_at: datetime
    open: int
    """Tasks that have not ended, as far as that has been written down."""
    ended_at: datetime | None
    cancelled_at: datetime | None
    retried_at: datetime | None
    parent_job_id: int | None
    """The job that has begun it and waits for it."""
    counts: Mapping[str, int]
    """Tasks by state, those that there are; up to the cap."""
    counted: bool
    """Whether all its tasks were counted."""

    @property
    def tasks(self) -> int:
        """Tasks counted."""
        return sum(self.counts.values())

    @property
    def began_at(self) -> datetime:
        """When it began, or began again."""
        return self.retried_at or self.created_at

    @property
    def status(self) -> str:
        """The state of the whole, in a word: active, completed, failed, cancelled, or empty."""
        if any(self.counts.get(state) for state in TASK_STATES if state not in ENDED_TASKS):
            return "active"
        if not self.counts:
            return "empty"
        if self.cancelled_at is not None:
            return "cancelled"
        return "failed" if any(self.counts.get(state) for state in FAILED_TASKS) else "completed"


class WorkflowTaskRow(NamedTuple):
    """A task with the little that a graph shows of its job."""

    name: str
    job_id: int
    state: str
    """One of TASK_STATES."""
    kind: str
    """Empty where the job is gone."""
    waits_for: int
    """Other tasks that have not ended well yet."""
    waits_for_terms: bool
    """Whether nothing but signals, timers or terms keeps it."""
    attempt: int
    max_attempts: int
    staged_at: datetime | None
    attempted_at: datetime | None
    scheduled_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowGraph:
    """The tasks of a workflow and what waits for what."""

    tasks: Sequence[WorkflowTaskRow]
    """By name."""
    edges: Sequence[tuple[str, str]]
    """Of a task and one that waits for it, their names."""
    complete: bool
    """Whether these are all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowPageParams:
    """Which workflows to list."""

    after: str = ""
    """The id behind which the page begins; empty for the first."""
    active: bool | None = None
    """Those with tasks that have not ended, or those without; None for both."""
    outcome: str = ""
    """How they ended: completed, failed or cancelled; empty for all, and for those that have not.
    """
    match: str = ""
    """What the name contains, in any case, or the id begins with."""
    kind: str = ""
    """What one of its tasks is."""
    top: bool = False
    """Whether those that a job has begun are left out; not of a search."""
    parent: int | None = None
    """The job that has begun them, whatever else is asked for."""
    limit: int = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowPageList:
    """One page of workflows, the highest id first."""

    rows: Sequence[WorkflowPageRow]
    after: str
    """Where the next page begins; empty where this is the last."""
    looked_at: int | None = None
    """How many were searched to find these, where there may be more that fit; else None."""


class TaskNeighbour(NamedTuple):
    """A task that another waits for, or that waits for it."""

    name: str
    job_id: int
    state: str
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskPlace:
    """A job's place in its workflow."""

    workflow_id: str
    workflow_name: str
    name: str
    job_id: int
    waits_for: int
    """Other tasks that have not ended well yet."""
    state: str
    """The task's own, as riverui's table has it: waiting, wait, staged, or how it ended."""
    ignored: str
    """How tasks that it waits for may fail and count as done: c(ancelled), d(iscarded), x."""
    staged_at: datetime | None
    deps: Sequence[TaskNeighbour]
    """What it waits for, what is not completed first; the first few."""
    deps_count: int
    """Exact below the cap."""
    dependents: Sequence[TaskNeighbour]
    """What waits for it."""
    dependents_count: int

    @property
    def unfinished(self) -> Sequence[TaskNeighbour]:
        """Those it waits for that have not completed."""
        return [each for each in self.deps if each.state != JobState.COMPLETED.value]
