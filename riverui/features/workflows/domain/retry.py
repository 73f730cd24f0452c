"""How many tasks of a workflow each mode of a retry would run again."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from riverui.features.workflows.domain.pages import (
    DELETED,
    ENDED_TASKS,
    FAILED_TASKS,
    WorkflowGraph,
)
from riverui.features.workflows.domain.workflows import RETRY_MODES


class RetryCount(NamedTuple):
    """How many tasks run again."""

    tasks: int
    at_once: int
    """Those that need not wait for others."""


def retry_counts(graph: WorkflowGraph) -> Mapping[str, RetryCount]:
    """Return how many tasks each mode runs again. A task without a job cannot run."""
    state = {task.name: task.state for task in graph.tasks}
    runs = {name for name, found in state.items() if found in ENDED_TASKS and found != DELETED}
    failed = {name for name in runs if state[name] in FAILED_TASKS}
    dependents: dict[str, list[str]] = {}
    deps: dict[str, list[str]] = {}
    for dependency, task in graph.edges:
        dependents.setdefault(dependency, []).append(task)
        deps.setdefault(task, []).append(dependency)
    chosen = {"all": runs, "failed_only": failed}
    reached, ahead = set(failed), list(failed)
    while ahead:
        for task in dependents.get(ahead.pop(), ()):
            if task not in reached:
                reached.add(task)
                ahead.append(task)
    chosen["failed_and_downstream"] = reached & runs
    return {mode: _count(chosen[mode], deps) for mode in RETRY_MODES}


def _count(names: Set[str], deps: Mapping[str, list[str]]) -> RetryCount:
    at_once = sum(names.isdisjoint(deps.get(name, ())) for name in names)
    return RetryCount(tasks=len(names), at_once=at_once)
