"""Build a workflow task by task, and insert it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, Unpack

from riverui.engine.args.job_args import JobArgs
from riverui.engine.insert.insert_opts import (
    InsertKeywords,
    InsertManyParams,
    InsertOpts,
    opts_with,
)
from riverui.errors import DuplicateTaskError, InsertError
from riverui.features.workflows.domain.dag import (
    MAX_TASK_NAME,
    MAX_WORKFLOW_ID,
    MAX_WORKFLOW_NAME,
    check_name,
    check_text,
    in_order,
    shown,
)
from riverui.features.workflows.domain.tasks import (
    TaskSpec,
    TaskState,
    ignored_letters,
    task_metadata,
)
from riverui.features.workflows.waits.domain import Wait
from riverui.features.workflows.waits.expressions import check_wait

if TYPE_CHECKING:
    from riverui.engine.client import Client
    from riverui.engine.sync_client import Calls

Deps = Iterable["WorkflowTask | str"]
"""Tasks that another waits for, or their names."""


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """A task of a workflow being built; others may wait for it."""

    name: str
    deps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkflowMap:
    """Similar tasks, one for each item of a list, and the task that waits for all of them."""

    tasks: tuple[WorkflowTask, ...]
    then: WorkflowTask | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredDeps:
    """Which failures of dependencies count as success."""

    cancelled: bool = False
    discarded: bool = False
    deleted: bool = False

    def letters(self, cancelled: bool | None, discarded: bool | None, deleted: bool | None) -> str:
        """Return the stored letters for a task that may override these."""
        given = {
            TaskState.CANCELLED: self.cancelled if cancelled is None else cancelled,
            TaskState.DISCARDED: self.discarded if discarded is None else discarded,
            TaskState.DELETED: self.deleted if deleted is None else deleted,
        }
        return ignored_letters(state for state, ignored in given.items() if ignored)


class WorkflowBuilder:
    """Tasks that wait for one another: `add` them, and insert them together.

    `id` is a ULID by default; any other id must be unique for all time, and should sort by time.
    """

    def __init__(
        self,
        id: str,
        name: str = "",
        *,
        ignored: IgnoredDeps | None = None,
        is_new: bool = True,
        parent: int | None = None,
    ) -> None:
        self.id = check_name(id, "workflow's id", MAX_WORKFLOW_ID)
        if not isinstance(name, str) or len(name) > MAX_WORKFLOW_NAME:
            raise InsertError(
                f"A workflow's name is a text of at most {MAX_WORKFLOW_NAME:,} characters."
            )
        self.name = check_text(name, "workflow's name")
        self._existing: set[str] = set()
        """Names of tasks that this has inserted."""
        self._is_new = is_new
        self._ignored = ignored or IgnoredDeps()
        self._parent = parent
        self._tasks: dict[str, _Added] = {}

    def bound(self, client: Client | Calls) -> Self:
        """Return the workflow, to be inserted by this client."""
        self._client = client
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {shown(self.name)}: {len(self._tasks)} new tasks>"

    def add(
        self,
        name: str,
        args: JobArgs,
        insert_opts: InsertOpts | None = None,
        *,
        deps: Deps = (),
        wait: Wait | None = None,
        ignore_cancelled_deps: bool | None = None,
        ignore_discarded_deps: bool | None = None,
        ignore_deleted_deps: bool | None = None,
        **keywords: Unpack[InsertKeywords],
    ) -> WorkflowTask:
        """Add a task that waits for `deps`: tasks or their names, also of tasks added later; and
        then for `wait`. Options are InsertOpts or keywords, as in `insert`.

        Ignored failures of dependencies count as success; None uses the workflow's setting. Raise
        DuplicateTaskError for a name that another task has.
        """
        check_name(name)
        if name in self._tasks or name in self._existing:
            raise DuplicateTaskError(f"The workflow already has a task {shown(name)}.")
        letters = self._ignored.letters(
            ignore_cancelled_deps, ignore_discarded_deps, ignore_deleted_deps
        )
        task = WorkflowTask(name, _names(deps))
        if wait is not None:
            check_wait(wait, task.deps)
        self._tasks[name] = _Added(task, args, opts_with(insert_opts, keywords), letters, wait)
        return task

    def map(
        self,
        name: str,
        args: Iterable[JobArgs],
        insert_opts: InsertOpts | None = None,
        *,
        deps: Deps = (),
        then: JobArgs | None = None,
        ignore_cancelled_deps: bool | None = None,
        ignore_discarded_deps: bool | None = None,
        ignore_deleted_deps: bool | None = None,
        **keywords: Unpack[InsertKeywords],
    ) -> WorkflowMap:
        """Add a task for each of the args, named `name 1`, `name 2`, …; all wait for `deps` and
        have the same options.

        With `then` add the task `after name`, which waits for all of them, or for `deps` if there
        are none; the ignored failures apply to it.
        """
        names = _names(deps)
        tasks = tuple(
            self.add(f"{name} {number}", each, insert_opts, deps=names, **keywords)
            for number, each in enumerate(args, 1)
        )
        joined = None
        if then is not None:
            joined = self.add(
                f"after {name}",
                then,
                deps=tasks or names,
                ignore_cancelled_deps=ignore_cancelled_deps,
                ignore_discarded_deps=ignore_discarded_deps,
                ignore_deleted_deps=ignore_deleted_deps,
            )
        return WorkflowMap(tasks, joined)

    def prepare(self) -> list[InsertManyParams]:
        """Return the jobs of the tasks added, for any `insert_many` or `insert_many_tx`; each task
        comes after those it waits for. Dependencies on tasks inserted earlier are checked when
        these are inserted.

        Raise DependencyCycleError, MissingDependencyError or DuplicateTaskError if the tasks are no
        workflow, InsertError for tasks with unsuitable options.
        """
        deps = {name: added.task.deps for name, added in self._tasks.items()}
        known = self._existing if self._is_new else None
        return [self._job(self._tasks[name]) for name in in_order(deps, known)]

    def _job(self, added: _Added) -> InsertManyParams:
        spec = TaskSpec(
            workflow_id=self.id,
            name=added.task.name,
            deps=added.task.deps,
            workflow_name=self.name,
            ignored=added.ignored,
            wait=None if added.wait is None else added.wait.to_json(),
            parent=self._parent,
        )
        opts = added.insert_opts or InsertOpts()
        if opts.pending:
            raise InsertError(
                f"Task {shown(spec.name)} cannot be pending: a task waits by its dependencies."
            )
        metadata = {**(opts.metadata or {}), **task_metadata(spec)}
        return InsertManyParams(
            added.args, replace(opts, metadata=metadata, pending=bool(spec.deps or spec.wait))
        )

    def _check_parent(self) -> None:
        """Raise InsertError unless a job waits for the workflow."""
        if self._parent is None:
            raise InsertError("run() needs a workflow with a parent: workflows.new(parent=job).")

    def _inserted(self) -> None:
        """Mark the added tasks as inserted, so that more can be added."""
        self._existing.update(self._tasks)
        self._tasks.clear()


@dataclass(frozen=True, slots=True)
class _Added:
    task: WorkflowTask
    args: JobArgs
    insert_opts: InsertOpts | None
    ignored: str
    wait: Wait | None


def _names(deps: Deps) -> tuple[str, ...]:
    """Return the names of tasks, each once; raise InsertError for an invalid one."""
    if isinstance(deps, str):
        raise InsertError(f"deps is a list of tasks or names, not the text {shown(deps)}.")
    if isinstance(deps, WorkflowTask):
        raise InsertError("deps is a list of tasks or names, not one task.")
    names: dict[str, None] = {}
    for dep in deps:
        name = dep.name if isinstance(dep, WorkflowTask) else dep
        if not isinstance(name, str):
            raise InsertError(f"deps has tasks or their names, not {shown(name)}.")
        if len(name) > MAX_TASK_NAME:
            raise InsertError(f"{shown(name)} is too long for a task's name.")
        names[name] = None
    return tuple(names)
