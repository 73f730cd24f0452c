"""What a client and a child process that works its jobs send each other.

What the client sends holds functions and rows, pickled. Nothing of what a child sends is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

Plain: TypeAlias = str | int | float | bool | None
"""Values of an error or a log record that are sent."""


class Setup(msgspec.Struct, tag=True):
    """The first message: what the child needs to know before it works jobs."""

    path: Sequence[str]
    """The client's `sys.path`."""
    uses_django: bool
    """Whether to set Django up, with the settings that the environment names."""
    keeps_logs: bool
    """Whether what jobs log is kept with them, from INFO up."""
    levels: Mapping[str, tuple[int, bool]]
    """The level of each logger that has one or is disabled, and whether it is; the root's is ""."""
    disabled_level: int
    """What `logging.disable` was called with."""
    measures_memory: bool


class Assignment(msgspec.Struct, tag=True):
    """A job to be worked."""

    job_id: int
    row: bytes
    """The JobRow, pickled."""
    key: int
    """Names the worker."""
    worker: bytes | None
    """The worker of that key as of `transfer.pickled`, in its first assignment."""
    ephemeral: bool
    trace_context: Mapping[str, str] | None
    """OpenTelemetry's, serialized."""


class Ask(msgspec.Struct, tag=True):
    """A job should end, for the reason that a `Cause` names."""

    job_id: int
    cause: str


class Terminate(msgspec.Struct, tag=True):
    """The process should end now, in the middle of its job."""


Order: TypeAlias = Setup | Assignment | Ask | Terminate


class Ready(msgspec.Struct, tag=True):
    """The child waits for jobs."""


class Failure(msgspec.Struct):
    """An error of a job."""

    classes: list[tuple[str, str]]
    """Module and qualified name of its class, and of those that it is a subclass of."""
    text: str
    trace: str
    args: list[Plain]
    attributes: dict[str, Plain]
    cancels: bool = False
    """Whether it is a JobCancel."""
    interrupted: bool = False
    """Whether the job ended because it was asked to."""
    snoozes: timedelta | None = None


class Begun(msgspec.Struct, tag=True):
    """A job begins whose worker had to be loaded first."""

    job_id: int


class Updated(msgspec.Struct, tag=True):
    """A job has set a key of its metadata, as JSON text."""

    job_id: int
    key: str
    text: str


class Completed(msgspec.Struct, tag=True):
    """A job was completed in a transaction of its own."""

    job_id: int
    at: datetime


class Progressed(msgspec.Struct, tag=True):
    """What an attempt would leave for the next one if it failed now: metadata, JSON text by key."""

    job_id: int
    updates: dict[str, str]


class Logged(msgspec.Struct, tag=True):
    """A log record; `job_id` is None outside of a job."""

    job_id: int | None
    name: str
    level: int
    message: str
    created: float
    path: str
    line: int
    function: str | None
    thread: str | None
    trace: str | None
    stack: str | None
    extra: dict[str, Plain]


class Ended(msgspec.Struct, tag=True):
    """An attempt is over."""

    job_id: int
    failure: Failure | None
    memory: int | None
    """Bytes that the child holds, where they are measured."""


class Interrupted(msgspec.Struct, tag=True):
    """The process ends in the middle of a job, as it was asked to; `trace` is where that was."""

    job_id: int
    trace: str


Report: TypeAlias = Ready | Begun | Updated | Completed | Progressed | Logged | Ended | Interrupted
