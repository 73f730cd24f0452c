"""What the statements of workflow pages may read of river_job: see test_plans."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.domain.workflow_pages import WorkflowPageParams
from tests.storage.plan_case import PKEY, Case

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
insert into riverui_workflow (id, name) select 'few-' || n, '' from generate_series(1, 1000) n;
analyze riverui_workflow, riverui_workflow_task, riverui_workflow_edge
"""


def workflow_cases() -> Mapping[str, Case]:
    """Return the cases by name."""
    calls = {
        "workflow pages": lambda x: x.workflow_page_list(WorkflowPageParams(limit=1_001)),
        "workflow pages by name": lambda x: x.workflow_page_list(WorkflowPageParams(match="many")),
        "workflow pages by kind": lambda x: x.workflow_page_list(
            WorkflowPageParams(kind="no_such_kind")
        ),
        "workflow page": lambda x: x.workflow_page_get("many"),
        "workflow graph": lambda x: x.workflow_graph_get("many"),
        "jobs of a workflow page": lambda x: x.workflow_page_job_list("many"),
        "place in a workflow": lambda x: x.workflow_place_get(id="many", name="task-1"),
        "place of a job": lambda x: x.workflow_place_get(job_id=7),
    }
    return {name: Case(call=call, indexes={PKEY}, reads=TASKS + 10) for name, call in calls.items()}
