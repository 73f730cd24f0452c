"""River Pro's workflows and periodic jobs, as far as their tables show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from riverui.domain.jobs import FINALIZED, JobState, JobTextRow

FAILED = frozenset({JobState.CANCELLED, JobState.DISCARDED})

RETRY_MODES = ("all", "failed_only", "failed_and_downstream")


class PeriodicJobRow(NamedTuple):
    """A durable periodic job."""

    id: str
    created_at: datetime
    next_run_at: datetime
    updated_at: datetime


class WorkflowRow(NamedTuple):
    """A workflow; `attempt` is its current one."""

    id: str
    name: str
    attempt: int


class WorkflowListRow(NamedTuple):
    """A workflow with its tasks counted."""

    id: str
    name: str | None
    created_at: datetime
    failed_deps: int
    counts: Mapping[JobState, int]


class SignalRow(NamedTuple):
    """One signal that a workflow was sent."""

    attempt: int
    created_at: datetime
    id: int
    key: str
    payload: str
    """JSON."""
    source: str
    """JSON."""


class Task(NamedTuple):
    """A task of a workflow: its job, and what the job's metadata says of it."""

    job: JobTextRow
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The task's name within its workflow."""
        return str(self.metadata.get("task") or "")

    @property
    def deps(self) -> Sequence[str]:
        """Names of the tasks that it waits for."""
        found = self.metadata.get("deps")
        return [str(name) for name in found] if isinstance(found, list) else []


def to_retry(tasks: Iterable[Task], mode: str) -> tuple[list[int], list[int]]:
    """Return the ids of the jobs that a retry makes available, and of those that must first wait
    for others.

    Only ended tasks are retried: with `all` every one; else the failed ones, and with
    `failed_and_downstream` also the tasks that depend on them.
    """
    by_name = {task.name: task for task in tasks}
    chosen = {
        name
        for name, task in by_name.items()
        if task.job.state in FINALIZED and (mode == "all" or task.job.state in FAILED)
    }
    grows = mode == "failed_and_downstream"
    while grows:
        more = {
            name
            for name, task in by_name.items()
            if name not in chosen and task.job.state in FINALIZED and chosen.intersection(task.deps)
        }
        chosen |= more
        grows = bool(more)
    ready: list[int] = []
    waiting: list[int] = []
    for name in chosen:
        task = by_name[name]
        met = all(
            dep not in chosen and by_name[dep].job.state is JobState.COMPLETED
            for dep in task.deps
            if dep in by_name
        )
        (ready if met else waiting).append(task.job.id)
    return sorted(ready), sorted(waiting)
