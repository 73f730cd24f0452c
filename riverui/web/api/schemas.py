"""The JSON of the API as schemas: what openapi.json tells, and what the tests hold answers to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState

Schema = Mapping[str, Any]

STATES = sorted(state.value for state in JobState)
TIME: Schema = {"type": "string", "format": "date-time"}
OPTIONAL_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"type": "integer"}
ID: Schema = {"type": "integer", "format": "int64"}
INT32: Schema = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}


def ref(name: str) -> Schema:
    """Points to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def optional(schema: Schema) -> Schema:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(
    properties: Mapping[str, Schema],
    *,
    needed: bool = True,
    besides: Mapping[str, Schema] | None = None,
    **more: Any,
) -> Schema:
    """An object with these fields, all of them there unless `needed` is off; those `besides` may
    be.
    """
    found: dict[str, Any] = {
        "type": "object",
        "properties": {**properties, **(besides or {})},
        **more,
    }
    return found | ({"required": list(properties)} if needed else {})


def rows(name: str, **more: Schema) -> Schema:
    """A list as the API wraps it; fields in `more` may be there besides."""
    return {
        "type": "object",
        "properties": {"data": {"type": "array", "items": ref(name)}, **more},
        "required": ["data"],
    }


def chosen_schema(verb: JobVerb) -> str:
    """Return the name of the schema of what a verb takes: the jobs, and its parameters."""
    return f"Chosen{verb.label}" if verb.parameters else "Chosen"


_JOB = {
    "id": 9381022,
    "args": '{"customer": {"id": 42}}',
    "attempt": 1,
    "attempted_at": "2026-11-21T09:00:00.123456Z",
    "attempted_by": ["host_2026_11_21T08_59_12_345678"],
    "created_at": "2026-11-21T08:59:59Z",
    "finalized_at": None,
    "kind": "mail_send",
    "max_attempts": 25,
    "priority": 1,
    "queue": "default",
    "scheduled_at": "2026-11-21T08:59:59Z",
    "state": "running",
    "tags": ["newsletter"],
}
_QUEUE = {
    "count_available": 12,
    "count_running": 3,
    "created_at": "2026-11-01T07:00:00Z",
    "concurrency": None,
    "name": "default",
    "paused_at": None,
    "updated_at": "2026-11-21T08:55:00Z",
}
_OPERATION = {
    "id": "q3vJ0yYbXq2R",
    "verb": "retry",
    "parameters": {},
    "query": "state:discarded kind:mail_send",
    "user": "ci",
    "status": "running",
    "started_at": "2026-11-21T09:00:00Z",
    "ended_at": None,
    "total": 48000,
    "total_exact": True,
    "changed": 12000,
    "requested": 0,
    "skipped": {"unique_conflict": 1},
    "skipped_samples": {"unique_conflict": [9381022]},
    "error": "",
}
_PROGRESS = {
    "total": 4000,
    "completed": 1523,
    "failed": 2,
    "running": 5,
    "pending": 2470,
    "exact": True,
    "states": dict.fromkeys(STATES, 0)
    | {"available": 2469, "completed": 1523, "discarded": 2, "retryable": 1, "running": 5},
}
_MINIMAL: Mapping[str, Schema] = {
    "id": ID,
    "args": {
        "type": "string",
        "contentMediaType": "application/json",
        "description": 'JSON text, with every digit; `{"left_out": …}` if it is too long.',
    },
    "attempt": COUNT,
    "attempted_at": OPTIONAL_TIME,
    "attempted_by": TEXTS,
    "created_at": TIME,
    "finalized_at": OPTIONAL_TIME,
    "kind": TEXT,
    "max_attempts": COUNT,
    "priority": NUMBER,
    "queue": TEXT,
    "scheduled_at": TIME,
    "state": {"type": "string", "enum": STATES},
    "tags": TEXTS,
}

_CUT: Mapping[str, Schema] = {
    "cut": {
        **TEXTS,
        "description": "Fields too long to include in full; present only if there are any.",
    }
}

SCHEMAS: dict[str, Schema] = {
    "Error": record({"message": TEXT}, examples=[{"message": "Job not found: 7."}]),
    "Status": record({"status": {"const": "ok"}}, examples=[{"status": "ok"}]),
    "Names": record({"data": TEXTS}, examples=[{"data": ["mail_bounce", "mail_send"]}]),
    "Features": record(
        {
            "extensions": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "job_list_hide_args_by_default": {"type": "boolean"},
        },
        examples=[
            {"extensions": {"workflow_queries": False}, "job_list_hide_args_by_default": False}
        ],
    ),
    "States": record(
        dict.fromkeys(STATES, COUNT),
        examples=[dict.fromkeys(STATES, 0) | {"available": 12, "completed": 98102, "running": 3}],
    ),
    "JobMinimal": record(_MINIMAL, besides=_CUT, examples=[_JOB]),
    "JobError": record({"at": TEXT, "attempt": NUMBER, "error": TEXT, "trace": TEXT}),
    "Job": record(
        {**_MINIMAL, "errors": {"type": "array", "items": ref("JobError")}, "metadata": {}},
        besides=_CUT,
        examples=[
            _JOB
            | {
                "errors": [
                    {
                        "at": "2026-11-21T08:58:00Z",
                        "attempt": 1,
                        "error": "connection reset",
                        "trace": "",
                    }
                ],
                "metadata": {"trace_id": "abc"},
            }
        ],
    ),
    "Jobs": {
        **rows(
            "JobMinimal",
            next_cursor={"type": ["string", "null"], "description": "Present if more may follow."},
        ),
        "examples": [{"data": [_JOB], "next_cursor": "2026-11-21T09:00:00.123456+00:00~9381022"}],
    },
    "Ids": record(
        {
            "ids": {
                "type": "array",
                "items": {"anyOf": [ID, {"type": "string", "pattern": "^[+-]?[0-9]{1,19}$"}]},
                "minItems": 1,
                "maxItems": 1000,
                "description": "Numbers, or numbers as strings.",
            }
        },
        examples=[{"ids": ["9381022", "9381023"]}],
    ),
    "Progress": record(
        {
            "total": COUNT,
            "completed": COUNT,
            "failed": {**COUNT, "description": "Discarded and cancelled jobs."},
            "running": COUNT,
            "pending": {**COUNT, "description": "Jobs that will still run: all others."},
            "exact": {
                "type": "boolean",
                "description": "False if there may be more jobs than were found.",
            },
            "states": ref("States"),
        },
        examples=[_PROGRESS],
    ),
    "Query": record(
        {
            "query": {
                "type": "string",
                "maxLength": 2000,
                "description": "A search text; empty means every job.",
            },
            "state": {"type": "array", "items": {"type": "string", "enum": STATES}},
        },
        needed=False,
        required=["query"],
        examples=[{"query": "kind:mail_send error:timeout", "state": ["discarded"]}],
    ),
    "Chosen": {"anyOf": [ref("Ids"), ref("Query")], "examples": [{"ids": ["9381022", "9381023"]}]},
    "Operation": record(
        {
            "id": TEXT,
            "verb": {"type": "string", "enum": sorted(JOB_VERBS)},
            "parameters": {
                "type": "object",
                "description": "What the verb takes besides the jobs.",
            },
            "query": TEXT,
            "user": TEXT,
            "status": {
                "type": "string",
                "enum": ["running", "stopping", "done", "stopped", "failed"],
            },
            "started_at": TIME,
            "ended_at": OPTIONAL_TIME,
            "total": COUNT,
            "total_exact": {"type": "boolean"},
            "changed": COUNT,
            "requested": COUNT,
            "skipped": {"type": "object", "additionalProperties": COUNT},
            "skipped_samples": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": ID},
            },
            "error": TEXT,
        },
        examples=[_OPERATION],
    ),
    "OperationAnswer": record(
        {"operation": ref("Operation")}, examples=[{"operation": _OPERATION}]
    ),
    "Operations": {**rows("Operation"), "examples": [{"data": [_OPERATION]}]},
    "Partition": record(
        {"by_args": {"type": ["array", "null"], "items": TEXT}, "by_kind": {"type": "boolean"}},
        needed=False,
    ),
    "Concurrency": record(
        {"global_limit": INT32, "local_limit": INT32, "partition": ref("Partition")}, needed=False
    ),
    "Queue": record(
        {
            "count_available": COUNT,
            "count_running": COUNT,
            "created_at": TIME,
            "concurrency": optional(ref("Concurrency")),
            "name": TEXT,
            "paused_at": OPTIONAL_TIME,
            "updated_at": TIME,
        },
        examples=[_QUEUE],
    ),
    "Queues": {**rows("Queue"), "examples": [{"data": [_QUEUE]}]},
    "QueueUpdate": record(
        {"concurrency": optional(ref("Concurrency"))},
        needed=False,
        examples=[
            {
                "concurrency": {
                    "global_limit": 10,
                    "local_limit": 5,
                    "partition": {"by_args": ["customer_id"]},
                }
            }
        ],
    ),
}
SCHEMAS |= {
    chosen_schema(verb): {
        "allOf": [
            ref("Chosen"),
            record(
                {parameter.name: parameter.schema for parameter in verb.parameters}, needed=False
            ),
        ],
    }
    for verb in JOB_VERBS.values()
    if verb.parameters
}
