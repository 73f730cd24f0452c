"""Records which jobs are tasks of workflows, and advances waiting tasks when others end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from riverui.actions.job_part import Inner as JobInner
from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext
from riverui.engine.pilot import Feature, Inner, InsertBatch, JobEnd
from riverui.errors import (
    ConfigError,
    DuplicateTaskError,
    InsertError,
    MissingDependencyError,
    WorkflowCancelled,
)
from riverui.features.workflows.domain.dag import (
    MAX_WORKFLOW_ID,
    MAX_WORKFLOW_NAME,
    check_name,
    check_text,
    shown,
)
from riverui.features.workflows.domain.tasks import ENDS, MARK_TEXT, TaskSpec, task_of
from riverui.features.workflows.engine.loading import own
from riverui.features.workflows.engine.retention import OpenWorkflowKeeper
from riverui.features.workflows.engine.services import (
    ForsakenWorkflowFinder,
    StrayTaskFinder,
    WorkflowCleaner,
)
from riverui.features.workflows.store import (
    TaskInsertParams,
    TaskMoves,
    WorkflowInsertParams,
    WorkflowStore,
)
from riverui.features.workflows.verbs import jobs
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobDeleteBeforeParams,
)
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.tables import table_names


class Workflows(Feature):
    """Lets jobs wait for one another. Affects only changes to tasks.

    On a database with River Pro's tables it refuses to insert tasks, unless `beside_pro` says that
    no Pro client works there.
    """

    built_in = True
    ends_at_once = True
    marked = MARK_TEXT

    def __init__(
        self,
        *,
        beside_pro: bool = False,
        retention: timedelta | None = timedelta(days=7),
    ) -> None:
        self._beside_pro = beside_pro
        self._keeper = OpenWorkflowKeeper()
        self._retention = retention

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        """Insert jobs, and the tasks among them with their dependencies.

        Raise DuplicateTaskError, MissingDependencyError or WorkflowCancelled if a workflow rejects
        them, SchemaMissing without its tables.
        """
        specs = [
            (place, spec)
            for place, job in enumerate(batch.jobs)
            if (spec := task_of(job.metadata)) is not None
        ]
        if not specs:
            return await do_inner(batch)
        _check(spec for _, spec in specs)
        part = await self._part(executor)
        begun = {
            spec.workflow_id: WorkflowInsertParams(
                spec.workflow_id, spec.workflow_name, spec.parent
            )
            for _, spec in specs
        }
        for cancelled in await part.workflow_begin_many([begun[key] for key in sorted(begun)]):
            raise WorkflowCancelled(
                f"The workflow {shown(cancelled)} was cancelled: nothing can be added to it until"
                " it is retried."
            )
        jobs = list(batch.jobs)
        for place, spec in specs:
            if spec.deps or spec.wait is not None:
                jobs[place] = jobs[place]._replace(state=JobState.PENDING)
        results = list(await do_inner(batch._replace(jobs=jobs, fast=False)))
        tasks = [_inserted(spec, results[place]) for place, spec in specs]
        if found := await part.workflow_task_insert_many(tasks):
            raise DuplicateTaskError(
                f"The workflow {shown(found[0])} already has a task {shown(found[1])}."
            )
        if late := _late(tasks):
            if lacks := await part.workflow_task_missing(late):
                raise MissingDependencyError(
                    f"Task {shown(lacks[0])} waits for {shown(lacks[1])}, which is not a task of"
                    " the workflow."
                )
            moves = await part.workflow_task_settle_many(late)
            _update(results, [place for place, _ in specs], moves)
        return results

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        """Write how attempts ended; ended tasks advance those that wait for them."""
        tasks = {end.job.id for end in ends if MARK_TEXT in end.job.metadata}
        if not tasks or not await WorkflowStore.installed(executor):
            return await do_inner(ends)
        part = WorkflowStore(executor)
        # Workflows are locked before jobs, as everywhere.
        await part.workflow_lock_by_job(sorted(tasks))
        rows = await do_inner(ends)
        ended = [
            (row.id, ENDS[row.state]) for row in rows if row.id in tasks and row.state in FINALIZED
        ]
        if ended:
            await part.workflow_task_end_many(ended)
        return rows

    async def delete_before(
        self,
        executor: Executor,
        params: JobDeleteBeforeParams,
        do_inner: Inner[JobDeleteBeforeParams, int],
    ) -> int:
        """Remove finished jobs, except tasks of unfinished workflows: later tasks may read their
        output.
        """
        if not await WorkflowStore.installed(executor):
            return await do_inner(params)
        return await self._keeper.delete_before(executor, params, do_inner)

    async def takes_part(self, executor: Executor) -> bool:
        """Return whether the tables of workflows exist."""
        return await WorkflowStore.installed(executor)

    async def retry(self, executor: Executor, ids: Sequence[int], do_inner: JobInner) -> JobChanges:
        """Retry jobs, and continue their workflows."""
        return await jobs.retry(executor, ids, do_inner)

    async def cancel(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Cancel jobs, and the tasks that depend on them."""
        return await jobs.cancel(executor, ids, do_inner)

    async def delete(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Delete jobs; their tasks end as deleted."""
        return await jobs.delete(executor, ids, do_inner)

    def services(self, context: ServiceContext) -> Sequence[MaintenanceService]:
        """Return the services that find tasks that ended unnoticed, workflows that no job waits for
        any more, and old workflows to delete.
        """
        return [
            StrayTaskFinder(context),
            ForsakenWorkflowFinder(context),
            WorkflowCleaner(context, after=self._retention),
        ]

    async def _part(self, executor: Executor) -> WorkflowStore:
        """Return the store that writes tasks. Raise SchemaMissing without the tables, ConfigError
        if a client of River Pro may work.
        """
        part = await own(executor)
        if not self._beside_pro and "river_workflow" in await table_names(executor):
            raise ConfigError(
                "This database has the tables of River Pro's workflows, whose clients would move"
                " the same jobs. If none of them works here, set workflows_beside_pro=True."
            )
        return part


def _check(specs: Any) -> None:
    for spec in specs:
        check_name(spec.workflow_id, "workflow's id", MAX_WORKFLOW_ID)
        check_name(spec.name)
        if len(spec.workflow_name) > MAX_WORKFLOW_NAME:
            raise InsertError(f"A workflow's name has at most {MAX_WORKFLOW_NAME:,} characters.")
        for text in (spec.workflow_name, *spec.deps):
            check_text(text, "name")


def _inserted(spec: TaskSpec, result: InsertResult) -> TaskInsertParams:
    """Return a task with its job; InsertError for a job that was not inserted."""
    if result.unique_skipped_as_duplicate:
        raise InsertError(
            f"Task {shown(spec.name)} cannot be inserted: its job is unique, and job"
            f" {result.job.id} exists already."
        )
    return TaskInsertParams(
        workflow_id=spec.workflow_id,
        name=spec.name,
        job_id=result.job.id,
        deps=tuple(dict.fromkeys(spec.deps)),
        ignored=spec.ignored,
        wait=spec.wait,
    )


def _late(tasks: Sequence[TaskInsertParams]) -> list[int]:
    """Return the jobs of tasks that wait for tasks inserted earlier."""
    names = {(task.workflow_id, task.name) for task in tasks}
    return [
        task.job_id
        for task in tasks
        if any((task.workflow_id, dep) not in names for dep in task.deps)
    ]


def _update(results: list[InsertResult], places: Sequence[int], moves: TaskMoves) -> None:
    """Update the results with the current states of their jobs."""
    states = {**dict(moves.staged), **dict.fromkeys(moves.cancelled, JobState.CANCELLED)}
    if not states:
        return
    for place in places:
        result = results[place]
        if (state := states.get(result.job.id)) is not None:
            results[place] = result._replace(job=result.job._replace(state=state))
