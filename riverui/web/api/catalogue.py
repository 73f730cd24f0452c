"""What each address of the API is for, takes and answers, by the name of its route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.queues import QUEUE_VERBS
from riverui.storage.interface.params import JobOrder
from riverui.web.api.described import Described, Parameter, limit, many
from riverui.web.api.pro_catalogue import PRO
from riverui.web.api.schemas import ID, STATES, TEXT, chosen_schema

_JOB_ID = Parameter(name="job_id", told="The job's id.", schema=ID, where="path", needed=True)
_QUEUE = Parameter(name="name", told="The queue's name.", schema=TEXT, where="path", needed=True)
_QUEUES = Parameter(
    name="name",
    told="The queue's name; `*` is every queue.",
    schema=TEXT,
    where="path",
    needed=True,
)
_OPERATION = Parameter(
    name="id",
    told="The operation's id.",
    schema={"type": "string", "minLength": 1},
    where="path",
    needed=True,
)
_FACET = Parameter(
    name="facet",
    told="Which names to list.",
    schema={"type": "string", "enum": ["job_kind", "queue_name"]},
    needed=True,
)
_HEALTH = Parameter(
    name="name",
    told="`minimal`: the process answers. `complete`: so does the database.",
    schema={"type": "string", "enum": ["complete", "minimal"]},
    where="path",
    needed=True,
)
_Q = Parameter(name="q", told="A search, as typed on the pages.", schema=TEXT)
_ORDER = Parameter(
    name="order",
    told="By the relevant time or by id; a minus means latest first.",
    schema={"type": "string", "enum": list(JobOrder)},
)
_JOBS = (
    many("ids", "Any of these ids.", 1000, ID),
    many("kinds", "Any of these kinds.", 100),
    many("queues", "Any of these queues.", 100),
    many("priorities", "Any of these priorities.", 10, {"type": "integer"}),
    many("tags", "At least one of these tags.", 100),
)

CATALOGUE: Mapping[str, Described] = {
    "api.features": Described(
        group="Overview",
        told="Which River Pro tables exist, and whether lists hide args.",
        answer="Features",
    ),
    "api.states": Described(
        group="Overview", told="How many jobs are in each state.", answer="States"
    ),
    "api.autocomplete": Described(
        group="Overview",
        told="Up to 100 kinds or queues by name.",
        answer="Names",
        parameters=(
            _FACET,
            Parameter(name="match", told="Names that contain this, ignoring case.", schema=TEXT),
            Parameter(name="after", told="Names that come after this one.", schema=TEXT),
            many("exclude", "Names to leave out.", 1000),
        ),
    ),
    "health": Described(
        group="Overview",
        told="Health check; needs no sign-in.",
        answer="Status",
        parameters=(_HEALTH,),
        fails=(404,),
    ),
    "api.jobs.index": Described(
        group="Jobs",
        told="Jobs in one state: by default the running ones, longest first.",
        answer="Jobs",
        parameters=(
            many(
                "state",
                "The state; riverui accepts several.",
                8,
                {"type": "string", "enum": STATES},
            ),
            *_JOBS,
            limit(20),
            replace(
                _Q,
                told="A search, as typed on the pages; covers every state by default.",
                ours=True,
            ),
            replace(_ORDER, told=f"{_ORDER.told} Covers every state by default.", ours=True),
            Parameter(
                name="cursor",
                told="The `next_cursor` of the previous page.",
                schema=TEXT,
                ours=True,
            ),
        ),
    ),
    "api.jobs.export": Described(
        group="Jobs",
        told="All selected jobs as a file, in every state by default; secrets are left out.",
        answer="JobMinimal",
        media=("application/x-ndjson", "text/csv"),
        parameters=(
            Parameter(
                name="format",
                told="One JSON object per line, or a table.",
                schema={"type": "string", "enum": ["ndjson", "csv"], "default": "ndjson"},
            ),
            many("state", "Any of these states.", 8, {"type": "string", "enum": STATES}),
            *_JOBS,
            _Q,
            _ORDER,
        ),
        ours=True,
    ),
    "api.jobs.show": Described(
        group="Jobs",
        told="One job with its errors and metadata.",
        answer="Job",
        parameters=(_JOB_ID,),
        fails=(404,),
    ),
    **{
        f"api.jobs.{verb.name}": Described(
            group="Jobs",
            told=verb.summary,
            answer="Status",
            body=chosen_schema(verb),
            accepted="OperationAnswer",
            fails=verb.fails,
            ours=verb.extension,
        )
        for verb in sorted(JOB_VERBS.values(), key=lambda verb: verb.name)
    },
    "api.progress": Described(
        group="Jobs",
        told="Progress of a group of jobs. Jobs must match every parameter; give at least one.",
        answer="Progress",
        parameters=(
            many("tag", "A tag of the group.", 10),
            _Q,
            Parameter(
                name="metadata.KEY",
                told="A value at a dotted path, such as metadata.batch.id=42, or args.KEY.",
                schema=TEXT,
            ),
        ),
        ours=True,
    ),
    "api.operations.index": Described(
        group="Operations",
        told="Actions on all matching jobs since this process started, newest first.",
        answer="Operations",
        ours=True,
    ),
    "api.operations.show": Described(
        group="Operations",
        told="One action on all matching jobs, with its progress.",
        answer="OperationAnswer",
        parameters=(_OPERATION,),
        fails=(404,),
        ours=True,
    ),
    "api.operations.stop": Described(
        group="Operations",
        told="Stops it after the current batch; also needs the right to its action.",
        answer="OperationAnswer",
        parameters=(_OPERATION,),
        fails=(404, 413),
        ours=True,
    ),
    "api.queues.index": Described(
        group="Queues",
        told="Queues that clients have registered, by name.",
        answer="Queues",
        parameters=(limit(100),),
    ),
    "api.queues.show": Described(
        group="Queues", told="One queue.", answer="Queue", parameters=(_QUEUE,), fails=(404,)
    ),
    **{
        f"api.queues.{verb.name}": Described(
            group="Queues",
            told=verb.summary,
            answer="Status",
            parameters=(_QUEUES,),
            fails=(404, 413),
        )
        for verb in QUEUE_VERBS.values()
    },
    "api.queues.update": Described(
        group="Queues",
        told="Sets a queue's limits (River Pro); null removes them. Other metadata is kept.",
        answer="Queue",
        parameters=(_QUEUE,),
        body="QueueUpdate",
        fails=(404,),
    ),
    **PRO,
    "metrics": Described(
        group="This API",
        told="Prometheus metrics: jobs by state and queue, waiting times, response times.",
        answer="",
        media=("text/plain",),
        ours=True,
    ),
    "api.openapi": Described(
        group="This API", told="This API as an OpenAPI 3.1 document.", answer="", ours=True
    ),
}
