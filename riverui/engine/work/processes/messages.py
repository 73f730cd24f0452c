"""Messages between a client and a child process that works its jobs.

Messages of the client contain functions and rows, pickled. Nothing that a child sends is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

Plain: TypeAlias = str | int | float | bool | None
"""Values of an error or a log record that can be sent."""


class Setup(msgspec.Struct, tag=True):
    """The first message: what the child needs before it works jobs."""

    path: Sequence[str]
    """The client's `sys.path`."""
    uses_django: bool
    """Whether to set up Django, with the settings that the environment names."""
    keeps_logs: bool
    """Whether logs of jobs are stored with them, from INFO up."""
    levels: Mapping[str, tuple[int, bool]]
    """The level of each logger that has one or is disabled, and whether it is disabled; the root's
    name is "".
    """
    disabled_level: int
    """The level passed to `logging.disable`."""
    measures_memory: bool


class Assignment(msgspec.Struct, tag=True):
    """A job to work."""

    job_id: int
    row: bytes
    """The JobRow, pickled."""
    key: int
    """The key of the worker."""
    worker: bytes | None
    """The worker of that key, pickled by `transfer.pickled`, in its first assignment."""
    ephemeral: bool
    trace_context: Mapping[str, str] | None
    """OpenTelemetry's trace context, serialized."""


class Ask(msgspec.Struct, tag=True):
    """Asks a job to end, for the reason that a `Cause` names."""

    job_id: int
    cause: str


class Terminate(msgspec.Struct, tag=True):
    """Asks the process to end now, in the middle of its job."""


Order: TypeAlias = Setup | Assignment | Ask | Terminate


class Ready(msgspec.Struct, tag=True):
    """Reports that the child waits for jobs."""


class Failure(msgspec.Struct):
    """An error of a job."""

    classes: list[tuple[str, str]]
    """Module and qualified name of its class and the base classes."""
    text: str
    trace: str
    args: list[Plain]
    attributes: dict[str, Plain]
    cancels: bool = False
    """Whether it is a JobCancel."""
    interrupted: bool = False
    """Whether the job ended because it was asked to end."""
    snoozes: timedelta | None = None


class Begun(msgspec.Struct, tag=True):
    """Reports that a job begins, if its worker had to be loaded first."""

    job_id: int


class Updated(msgspec.Struct, tag=True):
    """Reports that a job has set a key of its metadata, as JSON text."""

    job_id: int
    key: str
    text: str


class Completed(msgspec.Struct, tag=True):
    """Reports that a job was completed in a transaction of its own."""

    job_id: int
    at: datetime


class Progressed(msgspec.Struct, tag=True):
    """Reports the progress to keep if the attempt fails now: metadata, JSON text by key."""

    job_id: int
    updates: dict[str, str]


class Logged(msgspec.Struct, tag=True):
    """A log record; `job_id` is None outside a job."""

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
    """Reports the end of an attempt."""

    job_id: int
    failure: Failure | None
    cpu_ns: int
    """Processor time of the attempt, with all threads of the child."""
    memory: int | None
    """Resident bytes of the child, if they are measured."""


class Interrupted(msgspec.Struct, tag=True):
    """Reports that the process ends in the middle of a job, as requested, with the traceback."""

    job_id: int
    trace: str


Report: TypeAlias = Ready | Begun | Updated | Completed | Progressed | Logged | Ended | Interrupted
