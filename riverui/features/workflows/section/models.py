"""Workflows, periodic jobs and producers, as River UI's API has them (River Pro)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import UNSET, Meta, UnsetType

from riverui.domain.jobs import JobState
from riverui.domain.json import UnreadableJson, read_json, read_object
from riverui.domain.queues import ProducerRow
from riverui.features.workflows.domain.workflows import (
    RETRY_MODES,
    PeriodicJobRow,
    SignalRow,
    WorkflowListRow,
)
from riverui.features.workflows.section.wait_models import Evidence, Wait
from riverui.web.api.job_models import EXAMPLE_JOB, Job, JobMinimal
from riverui.web.api.models import EXAMPLE_TIME, Body, Concurrency, Count, Id, Model, Refusal, Time
from riverui.web.api.serializers import instant, optional_instant

WaitReason = Literal["none", "dependencies", "wait", "dependencies_and_wait"]
Scope = Literal["history", "evidence"]
Activity = Literal["active", "inactive"]


class PeriodicJob(Model, frozen=True, kw_only=True):
    """A durable periodic job."""

    id: str
    created_at: Time
    next_run_at: Time
    updated_at: Time

    @classmethod
    def from_row(cls, row: PeriodicJobRow) -> Self:
        """Return a row of the database."""
        return cls(
            id=row.id,
            created_at=instant(row.created_at),
            next_run_at=instant(row.next_run_at),
            updated_at=instant(row.updated_at),
        )

    @classmethod
    def example(cls) -> Self:
        """Return a job that runs each day."""
        return cls(
            id="daily",
            created_at=EXAMPLE_TIME,
            next_run_at="2026-11-22T09:00:00Z",
            updated_at=EXAMPLE_TIME,
        )


class PeriodicJobs(Model, frozen=True, kw_only=True):
    """Durable periodic jobs by id."""

    data: list[PeriodicJob]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[PeriodicJob.example()])


class Producer(Model, frozen=True, kw_only=True):
    """How one client fetches from one queue."""

    id: Id
    client_id: str
    concurrency: Concurrency | None
    created_at: Time
    max_workers: int
    paused_at: Time | None
    queue_name: str
    running: int
    updated_at: Time

    @classmethod
    def from_row(cls, row: ProducerRow) -> Self:
        """Return a row of the database; what runs by partition is beside its limits."""
        limits = read_object(row.metadata).get("concurrency") or {}
        running = limits.get("running") if isinstance(limits, dict) else None
        counts = [
            item.get("count") if isinstance(item, dict) else item
            for item in (running.values() if isinstance(running, dict) else ())
        ]
        return cls(
            id=row.id,
            client_id=row.client_id,
            concurrency=Concurrency.read(limits),
            created_at=instant(row.created_at),
            max_workers=row.max_workers,
            paused_at=optional_instant(row.paused_at),
            queue_name=row.queue_name,
            running=sum(count for count in counts if isinstance(count, int)),
            updated_at=instant(row.updated_at),
        )

    @classmethod
    def example(cls) -> Self:
        """Return a client that works three jobs."""
        return cls(
            id=1,
            client_id="host_2026_11_21T08_59_12_345678",
            concurrency=Concurrency(),
            created_at=EXAMPLE_TIME,
            max_workers=10,
            paused_at=None,
            queue_name="default",
            running=3,
            updated_at=EXAMPLE_TIME,
        )


class Producers(Model, frozen=True, kw_only=True):
    """The clients that fetch from a queue."""

    data: list[Producer]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[Producer.example()])


class WorkflowListed(Model, frozen=True, kw_only=True):
    """A workflow with its tasks counted."""

    count_available: Count
    count_cancelled: Count
    count_completed: Count
    count_discarded: Count
    count_failed_deps: Count
    count_pending: Count
    count_retryable: Count
    count_running: Count
    count_scheduled: Count
    created_at: Time
    id: str
    name: str | None

    @classmethod
    def from_row(cls, row: WorkflowListRow) -> Self:
        """Return a row of the database."""
        return cls(
            **{f"count_{state.value}": row.counts[state] for state in JobState},
            count_failed_deps=row.failed_deps,
            created_at=instant(row.created_at),
            id=row.id,
            name=row.name,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a workflow that is half done."""
        return cls(
            count_available=0,
            count_cancelled=0,
            count_completed=1,
            count_discarded=0,
            count_failed_deps=0,
            count_pending=1,
            count_retryable=0,
            count_running=0,
            count_scheduled=0,
            created_at=EXAMPLE_TIME,
            id="wf_1",
            name="import",
        )


class Workflows(Model, frozen=True, kw_only=True):
    """Workflows, highest id first."""

    data: list[WorkflowListed]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[WorkflowListed.example()])


class WorkflowTask(Job, frozen=True, kw_only=True):
    """A task of a workflow, with its job."""

    deps: list[str]
    ignore_cancelled_deps: bool
    ignore_discarded_deps: bool
    ignore_deleted_deps: bool
    name: str
    staged_at: str | UnsetType = UNSET
    wait: Wait | UnsetType = UNSET
    wait_reason: WaitReason
    workflow_id: str

    @classmethod
    def example(cls) -> Self:
        """Return a task that waits for another."""
        return cls.of_text(
            EXAMPLE_JOB,
            deps=["read_file"],
            ignore_cancelled_deps=False,
            ignore_discarded_deps=False,
            ignore_deleted_deps=False,
            name="send_mails",
            wait_reason="dependencies",
            workflow_id="wf_1",
        )


class Workflow(Model, frozen=True, kw_only=True):
    """A workflow with its tasks."""

    id: str
    name: str
    tasks: list[WorkflowTask]

    @classmethod
    def example(cls) -> Self:
        """Return a workflow of one task."""
        return cls(id="wf_1", name="import", tasks=[WorkflowTask.example()])


class Cancelled(Model, frozen=True, kw_only=True):
    """The tasks that were cancelled."""

    cancelled_jobs: list[JobMinimal]

    @classmethod
    def example(cls) -> Self:
        """Return one task."""
        return cls(cancelled_jobs=[JobMinimal.example()])


class Retried(Model, frozen=True, kw_only=True):
    """The tasks that will run again."""

    retried_jobs: list[JobMinimal]

    @classmethod
    def example(cls) -> Self:
        """Return one task."""
        return cls(retried_jobs=[JobMinimal.example()])


class WorkflowRetry(Body, frozen=True, kw_only=True):
    """Which tasks to retry, and whether their earlier attempts are removed."""

    mode: Literal["all", "failed_only", "failed_and_downstream"] = "all"
    reset_history: bool = False

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "mode": f"`mode` must be one of {', '.join(RETRY_MODES)}.",
        "reset_history": "`reset_history` must be true or false.",
    }

    @classmethod
    def tidied(cls, posted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was posted without empty values, which mean the default."""
        return {name: value for name, value in posted.items() if value}

    @classmethod
    def example(cls) -> Self:
        """Return a retry of what has failed."""
        return cls(mode="failed_only")


class Signal(Model, frozen=True, kw_only=True):
    """One signal that a workflow was sent."""

    attempt: int
    created_at: Time
    id: Id
    key: str
    payload: Any
    source: Any

    @classmethod
    def from_row(cls, row: SignalRow) -> Self:
        """Return a row of the database."""
        return cls(
            attempt=row.attempt,
            created_at=instant(row.created_at),
            id=row.id,
            key=row.key,
            payload=_value(row.payload),
            source=_value(row.source),
        )

    @classmethod
    def example(cls) -> Self:
        """Return an approval."""
        return cls(
            attempt=1,
            created_at=EXAMPLE_TIME,
            id=7,
            key="approval",
            payload={"by": "ada"},
            source=None,
        )


class Signals(Model, frozen=True, kw_only=True):
    """Signals that a task waits for."""

    evidence: Evidence | UnsetType = UNSET
    has_more: bool
    next_cursor_id: Annotated[Id | UnsetType, Meta(description="Present if more may follow.")] = (
        UNSET
    )
    scope: Scope
    signals: list[Signal]

    @classmethod
    def example(cls) -> Self:
        """Return the first of several signals."""
        return cls(has_more=True, next_cursor_id=7, scope="history", signals=[Signal.example()])


def _value(text: str | None) -> Any:
    """Return a JSON value; null if Python cannot hold it."""
    try:
        return read_json(text or "null")
    except UnreadableJson:
        return None
