"""River Pro's paths: what they take and answer."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.domain.jobs import JobState
from riverui.domain.workflows import RETRY_MODES
from riverui.web.api.described import Described, Parameter, limit
from riverui.web.api.schemas import (
    COUNT,
    ID,
    NUMBER,
    OPTIONAL_TIME,
    TEXT,
    TEXTS,
    TIME,
    Schema,
    optional,
    record,
    ref,
    rows,
)

_NEEDED_TEXT: Schema = {"type": "string", "minLength": 1}
_WORKFLOW = Parameter(
    name="id", told="The workflow's id.", schema=_NEEDED_TEXT, where="path", needed=True
)
_TASK = Parameter(name="task_name", told="The task's name.", schema=_NEEDED_TEXT, needed=True)
_ANYTHING: Schema = {"type": "object"}
_BOOLEAN: Schema = {"type": "boolean"}

PRO_SCHEMAS: Mapping[str, Schema] = {
    "PeriodicJob": record(
        {"id": TEXT, "created_at": TIME, "next_run_at": TIME, "updated_at": TIME}
    ),
    "PeriodicJobs": rows("PeriodicJob"),
    "Producer": record(
        {
            "id": ID,
            "client_id": TEXT,
            "concurrency": optional(ref("Concurrency")),
            "created_at": TIME,
            "max_workers": NUMBER,
            "paused_at": OPTIONAL_TIME,
            "queue_name": TEXT,
            "running": NUMBER,
            "updated_at": TIME,
        }
    ),
    "Producers": rows("Producer"),
    "WorkflowListed": record(
        {
            **{f"count_{state.value}": COUNT for state in sorted(JobState)},
            "count_failed_deps": COUNT,
            "created_at": TIME,
            "id": TEXT,
            "name": {"type": ["string", "null"]},
        }
    ),
    "Workflows": rows("WorkflowListed"),
    "Task": {
        "allOf": [
            ref("Job"),
            record(
                {
                    "deps": TEXTS,
                    "ignore_cancelled_deps": _BOOLEAN,
                    "ignore_deleted_deps": _BOOLEAN,
                    "ignore_discarded_deps": _BOOLEAN,
                    "name": TEXT,
                    "staged_at": TEXT,
                    "wait": ref("Wait"),
                    "wait_reason": {
                        "enum": ["none", "dependencies", "wait", "dependencies_and_wait"]
                    },
                    "workflow_id": TEXT,
                },
                required=["deps", "name", "wait_reason", "workflow_id"],
                needed=False,
            ),
        ]
    },
    "Wait": record(
        {
            "evidence": ref("Evidence"),
            "expr_cel": TEXT,
            "inputs": ref("Inputs"),
            "phase": {"enum": ["not_started", "waiting", "resolved"]},
            "resolved_at": TEXT,
            "started_at": TEXT,
            "summary": TEXT,
            "terms": {"type": "array", "items": _ANYTHING},
        },
        required=["expr_cel", "inputs", "phase", "terms"],
        needed=False,
    ),
    "Inputs": record(
        {name: {"type": "array", "items": _ANYTHING} for name in ("deps", "signals", "timers")}
    ),
    "Evidence": record({"evaluated_at": TEXT, "workflow_attempt": NUMBER}),
    "Workflow": record(
        {"id": TEXT, "name": TEXT, "tasks": {"type": "array", "items": ref("Task")}}
    ),
    "Cancelled": record({"cancelled_jobs": {"type": "array", "items": ref("JobMinimal")}}),
    "WorkflowRetry": record(
        {"mode": {"type": "string", "enum": list(RETRY_MODES)}, "reset_history": _BOOLEAN},
        needed=False,
        examples=[{"mode": "failed_only", "reset_history": False}],
    ),
    "Retried": record({"retried_jobs": {"type": "array", "items": ref("JobMinimal")}}),
    "Signal": record(
        {"attempt": NUMBER, "created_at": TIME, "id": ID, "key": TEXT, "payload": {}, "source": {}}
    ),
    "Signals": record(
        {
            "evidence": ref("Evidence"),
            "has_more": _BOOLEAN,
            "next_cursor_id": ID,
            "scope": {"enum": ["history", "evidence"]},
            "signals": {"type": "array", "items": ref("Signal")},
        },
        required=["has_more", "scope", "signals"],
        needed=False,
    ),
    "Diagnostics": record(
        {
            "eval_error": TEXT,
            "inputs": ref("Inputs"),
            "inspected_at": TIME,
            "phase": {"enum": ["not_started", "waiting", "resolved"]},
            "signal_scan_count": COUNT,
            "signal_scan_limit": COUNT,
            "terms": {"type": "array", "items": _ANYTHING},
            "truncated": _BOOLEAN,
            "workflow_attempt": NUMBER,
        }
    ),
}

PRO: Mapping[str, Described] = {
    "api.pro.periodic_jobs": Described(
        group="River Pro",
        told="Durable periodic jobs updated within the last day.",
        answer="PeriodicJobs",
        parameters=(limit(100),),
    ),
    "api.pro.producers": Described(
        group="River Pro",
        told="The clients that fetch from a queue.",
        answer="Producers",
        parameters=(
            Parameter(name="queue_name", told="The queue.", schema=_NEEDED_TEXT, needed=True),
        ),
    ),
    "api.pro.workflows": Described(
        group="River Pro",
        told="Workflows with their task counts, highest id first.",
        answer="Workflows",
        parameters=(
            Parameter(
                name="state",
                told="With unfinished tasks, or without.",
                schema={"type": "string", "enum": ["active", "inactive"]},
            ),
            Parameter(name="after", told="Continue after this id.", schema=TEXT),
            limit(100),
        ),
    ),
    "api.pro.workflow": Described(
        group="River Pro",
        told="One workflow with all its tasks.",
        answer="Workflow",
        parameters=(_WORKFLOW,),
        fails=(404,),
    ),
    "api.pro.cancel": Described(
        group="River Pro",
        told="Cancels the unfinished tasks of a workflow.",
        answer="Cancelled",
        parameters=(_WORKFLOW,),
        fails=(404, 413),
    ),
    "api.pro.retry": Described(
        group="River Pro",
        told="Retries finished tasks of a workflow.",
        answer="Retried",
        body="WorkflowRetry",
        parameters=(_WORKFLOW,),
        fails=(404, 409),
    ),
    "api.pro.signals": Described(
        group="River Pro",
        told="The signals that a task waits for.",
        answer="Signals",
        parameters=(
            _WORKFLOW,
            _TASK,
            Parameter(name="key", told="Only those with this key.", schema=TEXT),
            Parameter(name="term_name", told="Only those of this term.", schema=TEXT),
            Parameter(
                name="scope",
                told="All, or only those that resolved the wait.",
                schema={"type": "string", "enum": ["history", "evidence"], "default": "history"},
            ),
            Parameter(
                name="cursor_id", told="Continue after this signal.", schema={**ID, "minimum": 0}
            ),
            Parameter(name="desc", told="The latest first.", schema={**_BOOLEAN, "default": True}),
            Parameter(
                name="limit",
                told="Maximum number of signals, up to 100.",
                schema={**COUNT, "minimum": 1, "default": 20},
            ),
            Parameter(
                name="workflow_attempt",
                told="Of this attempt instead of the latest.",
                schema={**NUMBER, "minimum": 1},
            ),
        ),
        fails=(404,),
    ),
    "api.pro.diagnostics": Described(
        group="River Pro",
        told="What a task waits for and what has arrived; expressions are not evaluated.",
        answer="Diagnostics",
        parameters=(_WORKFLOW, _TASK),
        fails=(404,),
    ),
}
