"""Tasks of riverui's own workflows: what a job's metadata says of its task, and how tasks end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from riverui.domain.jobs import JobState
from riverui.domain.json import UnreadableJson, read_json
from riverui.errors import InsertError
from riverui.features.workflows.waits.domain import WAIT_KEY, Wait

MARK = "riverui:workflow"
"""The metadata key of the tasks of riverui's own workflows. Its value is an object with `ignored`
and `parent`, each only if set. The keys that River UI reads are beside it.
"""
MARK_TEXT = f'"{MARK}"'
"""A text that the metadata of each such job contains."""


class TaskState(StrEnum):
    """The progress of a task; its job's state has the details."""

    WAITING = "waiting"
    """For other tasks."""
    WAIT = "wait"
    """For signals, timers or terms of its own."""
    STAGED = "staged"
    """Its job is available, or further."""
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    DELETED = "deleted"


ENDED = frozenset(
    {TaskState.COMPLETED, TaskState.CANCELLED, TaskState.DISCARDED, TaskState.DELETED}
)
"""States in which a task changes no more unless it is retried."""

ENDS = {
    JobState.CANCELLED: TaskState.CANCELLED,
    JobState.COMPLETED: TaskState.COMPLETED,
    JobState.DISCARDED: TaskState.DISCARDED,
}
"""The end of a task by its job's state."""

_LETTERS = {TaskState.CANCELLED: "c", TaskState.DISCARDED: "d", TaskState.DELETED: "x"}


def ignored_letters(states: Iterable[TaskState]) -> str:
    """Return the letters by which the tables store the failures of dependencies that count as
    success.
    """
    return "".join(_LETTERS[state] for state in sorted(states))


class TaskSpec(NamedTuple):
    """A task, as described by its job's metadata for the insert."""

    workflow_id: str
    name: str
    deps: tuple[str, ...] = ()
    workflow_name: str = ""
    ignored: str = ""
    """Which failures of dependencies count as success: letters of `ignored_letters`."""
    wait: str | None = None
    """JSON text of what it waits for once its dependencies have ended."""
    parent: int | None = None
    """The job that waits for the whole workflow."""


def task_metadata(spec: TaskSpec) -> dict[str, Any]:
    """Return the metadata of a task's job."""
    own: dict[str, Any] = {}
    if spec.ignored:
        own["ignored"] = spec.ignored
    if spec.parent is not None:
        own["parent"] = spec.parent
    keys: dict[str, Any] = {
        MARK: own,
        "deps": list(spec.deps),
        "task": spec.name,
        "workflow_id": spec.workflow_id,
    }
    if spec.workflow_name:
        keys["workflow_name"] = spec.workflow_name
    if spec.wait is not None:
        keys[WAIT_KEY] = read_json(spec.wait)
    return keys


def task_of(metadata: str) -> TaskSpec | None:
    """Return the task described by a job's metadata (JSON text); None if the job is no task.

    Raise InsertError if the metadata describes an invalid task.
    """
    if MARK_TEXT not in metadata:
        return None
    try:
        keys = read_json(metadata)
    except UnreadableJson as error:
        raise InsertError(f"The metadata of a task cannot be read: {error}") from None
    own = keys.get(MARK) if isinstance(keys, dict) else None
    if own is None:
        return None
    if "seq_key" in keys:
        raise InsertError("A task of a workflow cannot be a job of a sequence.")
    deps, parent = keys.get("deps") or [], own.get("parent") if isinstance(own, dict) else None
    texts = (keys.get("workflow_id"), keys.get("task"), keys.get("workflow_name", ""))
    if (
        not isinstance(own, dict)
        or not isinstance(deps, list)
        or not all(isinstance(text, str) for text in (*texts, *deps, own.get("ignored", "")))
        or not (parent is None or isinstance(parent, int))
    ):
        raise InsertError("The metadata of a workflow's task is invalid.")
    return TaskSpec(
        workflow_id=texts[0],
        name=texts[1],
        deps=tuple(deps),
        workflow_name=texts[2],
        ignored=own.get("ignored", ""),
        wait=None if keys.get(WAIT_KEY) is None else Wait.from_object(keys[WAIT_KEY]).to_json(),
        parent=parent,
    )


def workflow_of(metadata: str) -> str | None:
    """Return the id of the workflow to which a job's metadata (JSON text) assigns it, or None."""
    try:
        spec = task_of(metadata)
    except InsertError:
        return None
    return None if spec is None else spec.workflow_id
