"""Jobs as River stores them: states and rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, cast

from riverui.domain.json import read_json
from riverui.domain.sealed_args import is_sealed
from riverui.errors import ArgsError

T = TypeVar("T")

OUTPUT = "output"
"""The metadata key of a job's output."""


class JobState(StrEnum):
    """The eight states of `river_job_state`, in the order of a job's life."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    RUNNING = "running"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"


FINALIZED = frozenset({JobState.CANCELLED, JobState.COMPLETED, JobState.DISCARDED})
"""States with `finalized_at` set; jobs in them are not worked again unless retried."""

WAITING = frozenset({JobState.AVAILABLE, JobState.PENDING, JobState.RETRYABLE, JobState.SCHEDULED})
"""States whose order is given by `scheduled_at`."""

FAILED = (JobState.RETRYABLE, JobState.DISCARDED)
"""States of jobs whose last attempt failed."""


UNKNOWN_KIND = "job kind is not registered"
"""The beginning of River's UnknownJobKindError, if a client has no worker for the kind."""
CUT = "…"
"""Replaces a text that is too long."""
MAX_NAME = 100
"""Maximum characters of a client's id: River's limit. A longer one is shown truncated."""
MAX_TAGS = 30
"""Maximum tags on a job's page: thirty of the longest make some 200 kB of links."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOutcome:
    """The state of a job after a retry."""

    state: JobState | None
    """None if the job no longer exists."""
    errors: int
    """Attempts that have failed so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptError:
    """One element of `river_job.errors`; `at` is when the failed attempt started, as in River."""

    at: datetime | None
    attempt: int
    error: str
    trace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLog:
    """One entry of the metadata key `river:log`; `log` may be the end of `size` characters."""

    attempt: int
    log: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonText:
    """JSON as Postgres prints it, with exact numbers; `size` is the length of the whole text."""

    text: str
    size: int

    @property
    def complete(self) -> bool:
        """Whether `text` is complete; truncated text is not valid JSON."""
        return len(self.text) == self.size


class JobListRow(NamedTuple):
    """A job for lists: without errors array and metadata, with args truncated in SQL.

    A tuple, because a page creates a hundred of them.
    """

    id: int
    state: JobState
    attempt: int
    max_attempts: int
    attempted_at: datetime | None
    created_at: datetime
    finalized_at: datetime | None
    scheduled_at: datetime
    priority: int
    args_preview: str
    """Small args as JSON; of large ones every key with the beginning of its value."""
    kind: str
    queue: str
    tags: tuple[str, ...]
    last_error: str | None
    """First line of the newest error's message, truncated; None without errors."""
    values: tuple[str | None, ...] = ()
    """The value at each requested path: a string unchanged, others as JSON, truncated; None if
    missing.
    """

    @property
    def matters_at(self) -> datetime:
        """When the job finished, started or is due, by its state."""
        return matters_at(self.state, self.scheduled_at, self.attempted_at, self.finalized_at)


class JobRow(NamedTuple):
    """One complete job. JSON is text, so that numbers are exact.

    A tuple, because an engine creates tens of thousands of them a second.
    """

    id: int
    state: JobState
    attempt: int
    max_attempts: int
    attempted_at: datetime | None
    created_at: datetime
    finalized_at: datetime | None
    scheduled_at: datetime
    priority: int
    args: str
    """A JSON object."""
    attempted_by: tuple[str, ...]
    """Client ids, oldest first; River keeps the last 100."""
    errors: tuple[AttemptError, ...]
    kind: str
    metadata: str
    """A JSON object."""
    queue: str
    tags: tuple[str, ...]
    unique_key: bytes | None
    """SHA-256 of the unique properties."""
    unique_states: int | None
    """The states in which the job is unique: one bit each, see `state_bits`."""

    @property
    def args_dict(self) -> dict[str, Any]:
        """The args, parsed at each access; ValueError if not an object or nested too deeply.

        A whole number of more digits than Python converts (4,300) is a float.
        """
        return _object(self.args)

    @property
    def metadata_dict(self) -> dict[str, Any]:
        """The metadata, parsed as the args are."""
        return _object(self.metadata)

    @property
    def output(self) -> Any:
        """What the job recorded with `record_output`; None if it recorded nothing.

        Raises UnreadableJson, a ValueError, if the metadata is nested too deeply.
        """
        if OUTPUT not in self.metadata:
            return None
        metadata = read_json(self.metadata)
        return metadata.get(OUTPUT) if isinstance(metadata, dict) else None

    def args_as(self, args_type: type[T]) -> T:
        """Return the args as their type, as a worker gets them.

        Raise ArgsError if they do not fit or are encrypted, ConfigError for a type that cannot be
        job args, and whatever its `upgrade` raises.
        """
        if is_sealed(self.args):
            raise ArgsError("the args are encrypted")
        return cast(T, _reading("job_args").decoder(args_type)(self.args))

    def output_as(self, output_type: type[T]) -> T:
        """Return the output as a type: a dataclass, a pydantic model, a TypedDict, `list[int]` and
        the like.

        Raise OutputError if it does not fit. The output is None if nothing was recorded.
        """
        return cast(T, _reading("decoding").output_as(self.output, output_type))


def _reading(module: str) -> Any:
    """Return a module of the engine, which is imported only to decode JSON as types."""
    return import_module(f"riverui.engine.args.{module}")


class ErrorText(NamedTuple):
    """One element of a job's errors as text, also if it does not have River's form."""

    at: str | None
    """None if it is not a string."""
    attempt: int
    """0 if it is not a whole number."""
    error: str
    trace: str


class JobTextRow(NamedTuple):
    """One job with its JSON as unchanged text, within the limits of a response."""

    id: int
    args: str
    """A JSON object as Postgres prints it; an empty one if it is too long."""
    attempt: int
    attempted_at: datetime | None
    attempted_by: tuple[str, ...]
    created_at: datetime
    finalized_at: datetime | None
    kind: str
    max_attempts: int
    priority: int
    queue: str
    scheduled_at: datetime
    state: JobState
    tags: tuple[str, ...]
    cut: tuple[str, ...] = ()
    """Names of fields that were too long; such args and metadata are empty."""
    errors: tuple[ErrorText, ...] = ()
    """The newest errors; empty in lists, which do not read them."""
    metadata: str = "{}"
    """A JSON object as Postgres prints it; empty in lists, which do not read it."""
    values: tuple[str | None, ...] = ()
    """The JSON at each requested path; None if missing, `…` if too long."""

    @property
    def matters_at(self) -> datetime:
        """When the job finished, started or is due, by its state."""
        return matters_at(self.state, self.scheduled_at, self.attempted_at, self.finalized_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobShowRow:
    """A complete job for its page; long texts are truncated in SQL (`JsonText.complete`,
    `JobLog.size`).
    """

    id: int
    state: JobState
    attempt: int
    max_attempts: int
    attempted_at: datetime | None
    created_at: datetime
    finalized_at: datetime | None
    scheduled_at: datetime
    priority: int
    args: JsonText
    attempted_by: tuple[str, ...]
    errors: tuple[AttemptError, ...]
    kind: str
    metadata: JsonText
    """Without the keys `output` and `river:log`, which have their own fields."""
    output: JsonText | None
    logs: tuple[JobLog, ...]
    queue: str
    tags: tuple[str, ...]
    unique_key: bytes | None
    unique_states: tuple[JobState, ...]
    cancel_attempted_at: datetime | None
    snoozes: int
    rescues: int
    attempted_by_dropped: int = 0
    """How many older entries `attempted_by` has. Names above MAX_NAME characters are truncated."""
    tags_dropped: int = 0
    """How many more tags the row has."""

    @property
    def matters_at(self) -> datetime:
        """When the job finished, started or is due, by its state."""
        return matters_at(self.state, self.scheduled_at, self.attempted_at, self.finalized_at)


def _object(text: str) -> dict[str, Any]:
    found = read_json(text)
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, got {type(found).__name__}")
    return found


def matters_at(
    state: JobState,
    scheduled_at: datetime,
    attempted_at: datetime | None,
    finalized_at: datetime | None,
) -> datetime:
    """Return when the job finished, started or is due, by its state; `scheduled_at` if that time is
    missing.
    """
    if state in FINALIZED:
        return finalized_at or scheduled_at
    if state is JobState.RUNNING:
        return attempted_at or scheduled_at
    return scheduled_at


STATE_BITS = {
    JobState.AVAILABLE: 1,
    JobState.CANCELLED: 2,
    JobState.COMPLETED: 4,
    JobState.DISCARDED: 8,
    JobState.PENDING: 16,
    JobState.RETRYABLE: 32,
    JobState.RUNNING: 64,
    JobState.SCHEDULED: 128,
}
"""The bit of each state in `unique_states` (River's `river_job_state_in_bitmask`)."""


def state_bits(states: Iterable[JobState]) -> int:
    """Return the states as a bitmask."""
    return sum(STATE_BITS[state] for state in set(states))
