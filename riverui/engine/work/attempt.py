"""One attempt at a job, from its fetch to its outcome: the state that parts of the engine share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.retries import Retry
from riverui.engine.args import gojson
from riverui.engine.pilot import Pilot
from riverui.engine.work.attempt_log import AttemptLog
from riverui.engine.work.cpu_time import CpuTime
from riverui.engine.work.progress import Progress
from riverui.engine.work.worker import Job, WorkUnit
from riverui.storage.interface import Driver

if TYPE_CHECKING:
    from riverui.engine.work.batches import Batch


class Cause(Enum):
    """Why an attempt was asked to end."""

    FULL = "full"
    """No slot became free for it."""
    REMOTE = "remote"
    """The job was cancelled."""
    SILENT = "silent"
    """Other clients may consider this one dead, and work its jobs."""
    STOP = "stop"
    """The client stops."""
    TIMEOUT = "timeout"
    """Its time limit has passed."""


class Slots(Protocol):
    """Counts the slot of an attempt."""

    def release(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that is over."""
        ...

    def stuck(self, attempt: Attempt) -> None:
        """Record an attempt that runs long past its time limit."""
        ...


class Attempt:
    """One running job."""

    __slots__ = (
        "batch",
        "cause",
        "completed_at",
        "cpu",
        "done",
        "ended_at",
        "ephemeral",
        "job",
        "log",
        "overdue",
        "progress",
        "row",
        "seen",
        "slot_given_up",
        "slots",
        "started_at",
        "stuck",
        "task",
        "timed_out",
        "unit",
        "updates",
        "working",
    )

    def __init__(self, row: JobRow, unit: WorkUnit | None, slots: Slots) -> None:
        self.row = row
        self.batch: Batch | None = None
        """The batch that it is in, or is about to join."""
        self.seen = row
        """The row after middleware, for the worker."""
        self.unit = unit
        """None if the client has no worker of this kind."""
        self.slots = slots
        self.job: Job[Any] | None = None
        """Set when the args are decoded."""
        self.task: asyncio.Task[None] | None = None
        self.cause: Cause | None = None
        """Why it was asked to end, except by a timeout; the first reason counts."""
        self.completed_at: datetime | None = None
        """When the job completed itself, in a transaction that may have been rolled back."""
        self.cpu: CpuTime | None = None
        """What measures its processor time, if anything does."""
        self.ephemeral = False
        """Whether the job is deleted on success."""
        self.timed_out = False
        self.working = False
        """Whether it has begun, and so can be interrupted."""
        self.done = False
        self.overdue = False
        """Whether its time limit has passed."""
        self.stuck = False
        self.slot_given_up = False
        self.updates: dict[str, str] | None = None
        """Metadata to merge at the end: JSON text by key."""
        self.log: AttemptLog | None = None
        self.progress: Progress | None = None
        """The progress of a resumable job."""
        self.started_at: datetime = row.created_at
        self.ended_at: datetime = row.created_at

    @property
    def asked_to_end(self) -> bool:
        """Whether it was cancelled, timed out, or its client is stopping."""
        return self.timed_out or self.cause is not None

    @property
    def asked_by(self) -> Cause | None:
        """Why it was asked to end; a timeout only without another reason."""
        return self.cause or (Cause.TIMEOUT if self.timed_out else None)

    @property
    def closing(self) -> bool:
        """Whether its coroutine is being closed along with its loop, so that it cannot await
        anything.
        """
        if self.task is None:
            return False
        try:
            return asyncio.current_task() is not self.task
        except RuntimeError:
            return True

    def end(self, cause: Cause) -> None:
        """Ask it to end, by cancelling its task: once, and a second time if it ignored its time
        limit.
        """
        if self.done or self.cause is not None:
            return
        if cause is Cause.TIMEOUT:
            self.timed_out = True
        else:
            self.cause = cause
        # A task cancelled before its first step would never start, nor report its outcome.
        if self.working and self.task is not None:
            self.task.cancel()

    def complete_at(self, now: datetime) -> None:
        """Record that the job completed itself, in a transaction that may be rolled back."""
        self.completed_at = now

    def new_progress(self) -> Progress:
        """Return the progress before the first step of this attempt."""
        return Progress(self.row.metadata)

    def update(self, key: str, text: str) -> None:
        """Set a key of the job's metadata, as JSON text, when the attempt ends."""
        if self.updates is None:
            self.updates = {}
        self.updates[key] = text

    def metadata(self) -> str | None:
        """Return the metadata to merge into the job's, as JSON text of an object, or None."""
        if not self.updates:
            return None
        return (
            "{" + ",".join(f"{gojson.dump(key)}:{text}" for key, text in self.updates.items()) + "}"
        )


Work = Callable[[Attempt], Awaitable[None]]
"""Works an attempt, and raises its error."""

running: ContextVar[Attempt] = ContextVar("riverui_attempt")
"""The attempt whose code is running."""


batch: ContextVar[Batch | None] = ContextVar("riverui_batch", default=None)
"""The batch that the running code works as a whole; None in code of one job."""


class OwnConfig(Protocol):
    """The part of a client's config that jobs use."""

    @property
    def retry(self) -> Retry | None:
        """The Retry of jobs whose workers have none."""
        ...


class OwnClient(Protocol):
    """The part of a client that jobs use."""

    clock: Callable[[], datetime]
    driver: Driver
    pilot: Pilot

    @property
    def config(self) -> OwnConfig:
        """Its config."""
        ...


client: ContextVar[OwnClient] = ContextVar("riverui_client")
"""The client for which code is running: set for jobs, hooks and periodic jobs."""
