"""One attempt at a job, from its fetch to its outcome: what the parts of the engine know of it
together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.retries import Retry
from riverui.engine.args import gojson
from riverui.engine.pilot import Pilot
from riverui.engine.work.attempt_log import AttemptLog
from riverui.engine.work.progress import Progress
from riverui.engine.work.worker import Job, WorkUnit
from riverui.storage.interface import Driver


class Cause(Enum):
    """Why an attempt was asked to end."""

    REMOTE = "remote"
    """Somebody cancelled the job."""
    SILENT = "silent"
    """Others may take its client for dead, and work its jobs."""
    STOP = "stop"
    """The client stops."""
    TIMEOUT = "timeout"
    """It took longer than it may."""


class Slots(Protocol):
    """Whoever made room for the attempt."""

    def release(self, attempt: Attempt) -> None:
        """Take back the slot of an attempt that is over."""
        ...

    def stuck(self, attempt: Attempt) -> None:
        """Take note that an attempt should have ended long ago."""
        ...


class Batch(Protocol):
    """Jobs that are worked together, as their attempts know it."""

    @property
    def asked_to_end(self) -> bool:
        """Whether all of its attempts were asked to end."""
        ...

    def attempt_of(self, job_id: int) -> Attempt | None:
        """Return the attempt at a job of the batch; None for all other jobs."""
        ...

    def lose(self, attempt: Attempt) -> None:
        """Wait no longer for an attempt that is over."""
        ...


class Attempt:
    """One job at work."""

    __slots__ = (
        "batch",
        "cause",
        "completed_at",
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
        """The batch that it is worked in, or on its way into."""
        self.seen = row
        """The row as middleware has left it, which the work sees."""
        self.unit = unit
        """None where nobody here works this kind."""
        self.slots = slots
        self.job: Job[Any] | None = None
        """Once the args are decoded."""
        self.task: asyncio.Task[None] | None = None
        self.cause: Cause | None = None
        """What asked it to end first, timeouts apart."""
        self.completed_at: datetime | None = None
        """When it completed its job by itself, in a transaction that may have been undone."""
        self.ephemeral = False
        """Whether the job is removed if it goes well."""
        self.timed_out = False
        self.working = False
        """From its first step on; before, nothing has to be interrupted."""
        self.done = False
        self.overdue = False
        """Whether its time limit has passed."""
        self.stuck = False
        self.slot_given_up = False
        self.updates: dict[str, str] | None = None
        """Metadata to merge at the end: JSON text by key."""
        self.log: AttemptLog | None = None
        self.progress: Progress | None = None
        """Where a resumable job is."""
        self.started_at: datetime = row.created_at
        self.ended_at: datetime = row.created_at

    @property
    def asked_to_end(self) -> bool:
        """Whether it was cancelled, timed out, or its client stops."""
        return self.timed_out or self.cause is not None

    @property
    def asked_by(self) -> Cause | None:
        """What asked it to end; a timeout only where nothing else did."""
        return self.cause or (Cause.TIMEOUT if self.timed_out else None)

    @property
    def closing(self) -> bool:
        """Whether its coroutine is being thrown away, with its loop: nothing can be awaited any
        more then.
        """
        if self.task is None:
            return False
        try:
            return asyncio.current_task() is not self.task
        except RuntimeError:
            return True

    def end(self, cause: Cause) -> None:
        """Ask it to end, by cancelling its task; once, and once more where it heeded no time
        limit.
        """
        if self.done or self.cause is not None:
            return
        if cause is Cause.TIMEOUT:
            self.timed_out = True
        else:
            self.cause = cause
        # A task cancelled before its first step would never begin, and nobody would tell how it
        # ended.
        if self.working and self.task is not None:
            self.task.cancel()

    def complete_at(self, now: datetime) -> None:
        """Take note that it completed its job by itself, in a transaction that may be undone."""
        self.completed_at = now

    def new_progress(self) -> Progress:
        """Return where the job is, before its first step of this attempt."""
        return Progress(self.row.metadata)

    def update(self, key: str, text: str) -> None:
        """Set a key of the job's metadata, as JSON text, when the attempt ends."""
        if self.updates is None:
            self.updates = {}
        self.updates[key] = text

    def metadata(self) -> str | None:
        """Return what to merge into the job's metadata, as JSON text of an object; None for
        nothing.
        """
        if not self.updates:
            return None
        return (
            "{" + ",".join(f"{gojson.dump(key)}:{text}" for key, text in self.updates.items()) + "}"
        )


Work = Callable[[Attempt], Awaitable[None]]
"""Works an attempt; an exception is its error."""

running: ContextVar[Attempt] = ContextVar("riverui_attempt")
"""The attempt that this code is part of."""


batch: ContextVar[Batch | None] = ContextVar("riverui_batch", default=None)
"""The batch that this code works as a whole; None where it is for one job."""


class OwnConfig(Protocol):
    """How that client is configured, as far as jobs need it."""

    @property
    def retry(self) -> Retry | None:
        """How jobs are tried again whose workers do not say."""
        ...


class OwnClient(Protocol):
    """The client that code works for, as far as jobs need it."""

    clock: Callable[[], datetime]
    driver: Driver
    pilot: Pilot

    @property
    def config(self) -> OwnConfig:
        """How it is configured."""
        ...


client: ContextVar[OwnClient] = ContextVar("riverui_client")
"""The client that this code works for, hooks and periodic jobs included."""
