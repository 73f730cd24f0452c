"""Parameters of the methods, as in River's adapter contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from riverui import JobState
from tests.conformance.echo import ECHO


class Params(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a method; an unknown one is rejected."""


Behavior = Literal[
    "",
    "barrier_output",
    "barrier_wait",
    "cancel",
    "cancel_error",
    "cancel_panic",
    "cooperative_cancel",
    "discard",
    "error",
    "ignored_cancel",
    "output",
    "panic",
    "resumable",
    "resumable_cursor",
    "resumable_duplicate",
    "sleep",
    "snooze_once",
    "snooze_then_cancel",
    "transactional_complete",
]
Count = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]


class Nothing(Params):
    pass


class One(Params):
    id: Count


class Get(One):
    schema: str = ""


class Named(Params):
    name: Name


class Update(One):
    output: Any = None


class UniqueParams(Params):
    by_args: bool = False
    by_period_ms: Milliseconds = 0
    by_queue: bool = False
    by_state: tuple[JobState, ...] | None = None
    exclude_kind: bool = False


class OptsParams(Params):
    max_attempts: Count | None = None
    metadata: dict[str, Any] | None = None
    pending: bool = False
    priority: int | None = None
    queue: str | None = None
    scheduled_at: str | None = None
    tags: tuple[str, ...] | None = None
    unique: UniqueParams | None = None


class NewJob(Params):
    behavior: Behavior = ""
    duration_ms: Milliseconds = 0
    message: str = ""
    opts: OptsParams | None = None


class Insert(NewJob):
    schema: str = ""


class RawInsert(NewJob):
    kind: Name = ECHO


class InsertMany(Params):
    jobs: tuple[NewJob, ...]


class InsertInTransaction(Params):
    job: NewJob


class Listing(Params):
    after: Name | None = None
    direction: Literal["asc", "desc"] = "asc"
    ids: tuple[Count, ...] | None = None
    kinds: tuple[str, ...] | None = None
    limit: Count = 100
    metadata: dict[str, Any] | None = None
    order_by: Literal["finalized_at", "id", "scheduled_at", "time"] = "id"
    priorities: tuple[int, ...] | None = None
    queues: tuple[str, ...] | None = None
    states: tuple[JobState, ...] | None = None
    tags_all: tuple[str, ...] | None = None
    tags_any: tuple[str, ...] | None = None


class DeleteMany(Params):
    all: bool = False
    ids: tuple[Count, ...] | None = None
    kinds: tuple[str, ...] | None = None
    limit: Count = 100
    queues: tuple[str, ...] | None = None
    states: tuple[JobState, ...] | None = None


class Migrate(Params):
    direction: Literal["down", "up"] = "up"
    dry_run: bool = False
    max_steps: Count | None = None
    schema: str = ""
    target_version: int | None = None


class QueueAdd(Named):
    max_workers: Count = 1


class QueueList(Params):
    limit: Count = 100


class QueueUpdate(Named):
    metadata: dict[str, Any] = {}


class Reset(Params):
    schema: str = ""


class Finalize(One):
    state: Literal["completed", "discarded"]
    metadata: dict[str, Any] = {}


class ExactJson(Params):
    id: Count | None = None
    metadata_json: str | None = None


class After(Params):
    after_id: Annotated[int, msgspec.Meta(ge=0)]


class Application(Params):
    application_name: Annotated[str, msgspec.Meta(pattern="^river-conformance-")]


class Now(Params):
    now: datetime


class Seed(Params):
    seed: Annotated[int, msgspec.Meta(ge=0)]


class RetryDelay(Params):
    error_count: Count
    job_id: int


class CronNext(Params):
    count: Count
    expression: str
    from_: datetime = msgspec.field(name="from")


class Benchmark(Params):
    jobs: Count


class Wait(One):
    states: tuple[JobState, ...] = ()


class Work(One):
    client_id: Name = "python-conformance-adapter"
    schema: str = ""


class Stop(Params):
    cancel: bool = False


class Start(Params):
    client_id: Name
    cancelled_job_retention_ms: int | None = None
    claim_barrier: Name | None = None
    completed_job_retention_ms: int | None = None
    discarded_job_retention_ms: int | None = None
    elect_interval_ms: Count | None = None
    error_handler_cancel: bool = False
    fetch_poll_interval_ms: Count = 10
    instrumented: bool = False
    job_cleaner_interval_ms: Count | None = None
    job_stuck_threshold_ms: Count | None = None
    job_timeout_disabled: bool = False
    job_timeout_ms: Count | None = None
    leader_election_disabled: bool = False
    max_workers: Count = 4
    periodic_run_on_start: bool = False
    periodic_unique: bool = False
    poll_only: bool = False
    queue: Name = "default"
    queue_cleaner_interval_ms: Count | None = None
    reindexer_index_names: tuple[str, ...] | None = None
    reindexer_interval_ms: Count | None = None
    rescue_after_ms: Count | None = None
    rescuer_interval_ms: Count | None = None
    retry_delay_ms: Milliseconds | None = None
    scheduler_interval_ms: Count | None = None
    schema: str = ""


class UniqueKeyOptions(Params):
    by_args: bool
    by_period_nanos: Annotated[int, msgspec.Meta(ge=0)]
    by_queue: bool
    exclude_kind: bool
    by_state: tuple[JobState, ...] | None = None


class UniqueKey(Params):
    args: msgspec.Raw
    kind: str
    now: datetime
    options: UniqueKeyOptions
    queue: str
    expected_error: str | None = None
    expected_sha256: str | None = None
    expected_state_mask: int | None = None
    name: str = ""
    scheduled_at: datetime | None = None
    selected_unique_components: tuple[tuple[str, ...], ...] | None = None
    selected_unique_paths: tuple[str, ...] | None = None
