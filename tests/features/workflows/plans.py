"""What the statements of workflows may read from river_job: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from riverui.features.workflows.domain.pages import WorkflowPageParams
from riverui.features.workflows.domain.tasks import TaskState
from riverui.features.workflows.page_store import WorkflowPageStore
from riverui.features.workflows.store import WorkflowStore
from riverui.storage.interface.engine_params import JobDeleteBeforeParams
from tests.storage.plan_case import FINALIZED, PKEY, Case

TASKS = 1_000
"""Tasks of the workflow in the table."""
WORKFLOW = f"""
insert into riverui_workflow (id, name, open) values ('many', 'Many tasks', {TASKS});
insert into riverui_workflow_task (workflow_id, name, job_id, waits_for, state)
select 'many', 'task-' || n, n, 0, 'staged' from generate_series(1, {TASKS}) n;
insert into riverui_workflow_edge (workflow_id, dependency, task)
select 'many', 'task-1', 'task-' || n from generate_series(2, {TASKS}) n;
insert into riverui_workflow (id) values ('waits');
insert into riverui_workflow_task (workflow_id, name, job_id, state, wait)
select 'waits', 'task-' || n, 50000 + n, 'wait', '{{}}' from generate_series(1, 100) n;
insert into riverui_workflow_edge (workflow_id, dependency, task)
select 'waits', 'task-1', 'task-' || n from generate_series(2, 100) n;
insert into riverui_workflow (id, name, open) values ('pending', 'Tasks that wait', {TASKS});
insert into riverui_workflow_task (workflow_id, name, job_id, waits_for, state)
select 'pending', 'task-' || n, 10000 + n, (n > 1)::int,
  case when n = 1 then 'staged' else 'waiting' end
from generate_series(1, {TASKS}) n;
insert into riverui_workflow_edge (workflow_id, dependency, task)
select 'pending', 'task-1', 'task-' || n from generate_series(2, {TASKS}) n;
insert into riverui_workflow (id, open, parent_job_id)
select 'child-' || n, 1, n from generate_series(1, 10) n;
insert into riverui_workflow (id, name, ended_at)
select 'few-' || n, '', case when n > 500 then now() end from generate_series(1, 1000) n;
insert into riverui_workflow_task (workflow_id, name, job_id, state)
select 'few-' || n, 'only', 100000 + n, 'completed' from generate_series(1, 1000) n;
analyze riverui_workflow, riverui_workflow_task, riverui_workflow_edge
"""


def cases() -> Mapping[str, Case]:
    """Return the cases by name."""
    calls = {
        "workflow pages": lambda x: WorkflowPageStore(x).workflow_page_list(
            WorkflowPageParams(limit=1_001)
        ),
        "workflow pages by name": lambda x: WorkflowPageStore(x).workflow_page_list(
            WorkflowPageParams(match="many")
        ),
        "workflow pages of no job": lambda x: WorkflowPageStore(x).workflow_page_list(
            WorkflowPageParams(top=True)
        ),
        "workflow pages of a job": lambda x: WorkflowPageStore(x).workflow_page_list(
            WorkflowPageParams(parent=7)
        ),
        "workflow pages by kind": lambda x: WorkflowPageStore(x).workflow_page_list(
            WorkflowPageParams(kind="no_such_kind")
        ),
        "workflow page": lambda x: WorkflowPageStore(x).workflow_page_get("many"),
        "workflow graph": lambda x: WorkflowPageStore(x).workflow_graph_get("many"),
        "jobs of a workflow page": lambda x: WorkflowPageStore(x).workflow_page_job_list("many"),
        "place in a workflow": lambda x: WorkflowPageStore(x).workflow_place_get(
            id="many", name="task-1"
        ),
        "place of a job": lambda x: WorkflowPageStore(x).workflow_place_get(job_id=7),
        "ends of tasks": lambda x: WorkflowStore(x).workflow_task_end_many(
            [(job_id, TaskState.COMPLETED) for job_id in (10_001, *range(1, 500))]
        ),
        "ends of tasks that have failed": lambda x: WorkflowStore(x).workflow_task_end_many(
            [(10_001, TaskState.DISCARDED)]
        ),
        "tasks settled": lambda x: WorkflowStore(x).workflow_task_settle_many(
            range(10_001, 11_001)
        ),
        "tasks staged": lambda x: WorkflowStore(x).workflow_stage(range(10_001, 11_001)),
        "tasks restaged": lambda x: WorkflowStore(x).workflow_task_restage_many(
            range(10_001, 11_001)
        ),
        "workflow reopened": lambda x: WorkflowStore(x).workflow_task_reopen(
            "pending", "all", reset=False
        ),
        "stray tasks": lambda x: WorkflowStore(x).workflow_task_stray_list(after=0, limit=1_000),
        "workflows below jobs": lambda x: WorkflowStore(x).workflow_lock_family(
            range(1, 1_001), cancelled=False, limit=100
        ),
        "workflows below a workflow": lambda x: WorkflowStore(x).workflow_lock_family(
            id="pending", cancelled=False, limit=100
        ),
        "forsaken workflows": lambda x: WorkflowStore(x).workflow_forsaken_list(
            after="", limit=1_000
        ),
        "workflows without jobs": lambda x: WorkflowStore(x).workflow_jobless_list(
            after=None, limit=1_000
        ),
        "workflows forgotten": lambda x: WorkflowStore(x).workflow_delete_before(
            datetime.now(UTC), ids=["few-1", "child-1"], limit=10
        ),
        "old workflows forgotten": lambda x: WorkflowStore(x).workflow_delete_before(
            datetime.now(UTC), limit=10
        ),
        "given stray tasks": lambda x: WorkflowStore(x).workflow_task_stray_get_many(
            range(10_001, 11_001)
        ),
    }
    cases = {
        name: Case(call=call, indexes={PKEY}, reads=TASKS + 10) for name, call in calls.items()
    }
    return {**cases, **_cleaning_cases()}


def _cleaning_cases() -> Mapping[str, Case]:
    """Return the plans of cleaners that keep tasks of open workflows."""
    now = datetime.now(UTC)
    held = JobDeleteBeforeParams(
        cancelled_before=now,
        completed_before=now,
        discarded_before=now,
        keep_open_workflows=True,
        limit=1_000,
    )
    behind = replace(
        held,
        cancelled_behind=now - timedelta(days=365),
        completed_behind=now - timedelta(hours=1),
    )
    calls = {
        "clean what no open workflow holds": lambda x: x.work.delete_before(held),
        "clean behind what is held": lambda x: x.work.delete_before(behind),
        "how far the held jobs reach": lambda x: WorkflowStore(x).workflow_held_reach(held),
    }
    return {
        name: Case(call=call, indexes={FINALIZED, PKEY}, reads=6 * 1_000)
        for name, call in calls.items()
    }
