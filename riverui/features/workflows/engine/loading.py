"""Reads workflows: their tasks with the jobs and their recorded output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riverui.domain.jobs import OUTPUT, JobRow
from riverui.errors import NotFound, OutputMissing, SchemaMissing
from riverui.features.workflows.domain.dag import shown
from riverui.features.workflows.domain.tasks import TaskState
from riverui.features.workflows.store import TaskChoice, WorkflowHead, WorkflowStore
from riverui.storage import tables
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobSelectParams

MAX_TASKS = 10_000
"""Tasks that one call loads unless fewer are requested: whole jobs, which must all fit
in memory.
"""
_JOBS = 1_000
"""Jobs that one statement reads."""


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task of a workflow as read."""

    name: str
    state: TaskState
    deps: tuple[str, ...]
    job_id: int
    job: JobRow | None
    """None if it was deleted, or is past its retention."""

    @property
    def output(self) -> Any:
        """The job's recorded output (`record_output`), parsed from JSON. Raises OutputMissing if
        there is none, or the job was deleted.
        """
        metadata = {} if self.job is None else self.job.metadata_dict
        if OUTPUT not in metadata:
            raise OutputMissing(f"Task {shown(self.name)} has recorded no output.")
        return metadata[OUTPUT]

    @property
    def failed(self) -> bool:
        """Whether it was cancelled, discarded or deleted."""
        return self.state in (TaskState.CANCELLED, TaskState.DISCARDED, TaskState.DELETED)


class LoadedTasks(Mapping[str, LoadedTask]):
    """Tasks of a workflow by name."""

    def __init__(self, tasks: Sequence[LoadedTask]) -> None:
        self._tasks = {task.name: task for task in tasks}

    def __repr__(self) -> str:
        return f"<LoadedTasks: {len(self._tasks)}>"

    def __getitem__(self, name: str) -> LoadedTask:
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def output(self, name: str) -> Any:
        """Return a task's recorded output. Raise NotFound if the task is not among these,
        OutputMissing if it recorded nothing.
        """
        task = self._tasks.get(name)
        if task is None:
            raise _no_task(name)
        return task.output


async def head_of(executor: Executor, id: str) -> WorkflowHead:
    """Return a workflow. Raise NotFound if it does not exist, SchemaMissing without the tables."""
    head = await (await own(executor)).workflow_head_get(id)
    if head is None:
        raise NotFound(f"Workflow not found: {id[:200]}.")
    return head


async def own(executor: Executor) -> WorkflowStore:
    """Return the store that reads workflows. Raise SchemaMissing without the tables."""
    if not await WorkflowStore.installed(executor):
        raise SchemaMissing(tables.message("Workflows need"))
    return WorkflowStore(executor)


async def load(
    executor: Executor, id: str, choice: TaskChoice, name: str = "", *, limit: int = MAX_TASKS
) -> LoadedTasks:
    """Return tasks of a workflow with their jobs, by name. Raise NotFound if the task given by name
    does not exist.
    """
    part = await own(executor)
    if choice in (TaskChoice.DEPS, TaskChoice.DEPS_RECURSIVE) and not (
        await part.workflow_task_list_of(id, TaskChoice.NAMED, name, limit=1)
    ):
        raise _no_task(name)
    rows = await part.workflow_task_list_of(id, choice, name, limit=limit)
    if not rows and choice is TaskChoice.NAMED:
        raise _no_task(name)
    ids = [row.job_id for row in rows]
    jobs: dict[int, JobRow] = {}
    for start in range(0, len(ids), _JOBS):
        some = tuple(ids[start : start + _JOBS])
        found = await executor.jobs.row_list(JobSelectParams(ids=some, limit=len(some)))
        jobs.update((job.id, job) for job in found)
    return LoadedTasks(
        [
            LoadedTask(row.name, row.state, row.deps, row.job_id, jobs.get(row.job_id))
            for row in rows
        ]
    )


def _no_task(name: str) -> NotFound:
    return NotFound(f"The workflow has no task {shown(name)}.")
