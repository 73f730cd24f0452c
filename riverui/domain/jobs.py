"""Jobs as River keeps them: states, rows and the small facts that follow from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, cast

from riverui.domain.json import read_json
from riverui.errors import ArgsError
from riverui.features.encryption.domain import is_sealed

T = TypeVar("T")

OUTPUT = "output"
"""The metadata key of what a job has recorded."""


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
"""States with `finalized_at` set; a job in one of them is not worked again unless it is retried."""

WAITING = frozenset({JobState.AVAILABLE, JobState.PENDING, JobState.RETRYABLE, JobState.SCHEDULED})
"""States whose order is given by `scheduled_at`."""

FAILED = (JobState.RETRYABLE, JobState.DISCARDED)
"""States of jobs whose last attempt failed."""


UNKNOWN_KIND = "job kind is not registered"
"""How River's error begins where a client has no worker for the kind (UnknownJobKindError)."""
CUT = "…"
"""Stands for a text that was too long to be read."""
MOST_NAME = 100
"""Characters of a client's id: River allows no more. A longer one in a row is shown cut."""
MOST_TAGS = 30
"""Tags of a job that its page shows: thirty of the longest make some 200 kB of links."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOutcome:
    """Where a job stands after it was made to run again."""

    state: JobState | None
    """None where the job no longer exists."""
    errors: int
    """Attempts that have failed so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptError:
    """One element of `river_job.errors`. `at` is when the failed attempt started (River's own
    meaning).
    """

    at: datetime | None
    attempt: int
    error: str
    trace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLog:
    """One entry of metadata key `river:log`; `log` may hold only the last of its `size`
    characters.
    """

    attempt: int
    log: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonText:
    """JSON as Postgres prints it, so numbers stay exact; `size` counts the characters of the whole
    text.
    """

    text: str
    size: int

    @property
    def complete(self) -> bool:
        """Whether `text` is all of it; a cut text is not valid JSON."""
        return len(self.text) == self.size


class JobListRow(NamedTuple):
    """A job as lists show it: narrow on purpose, no errors array, no metadata, args cut in SQL.

    A tuple, because a page makes a hundred of them.
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
    """The args as JSON where they are small; of large ones every key with the beginning of its
    value.
    """
    kind: str
    queue: str
    tags: tuple[str, ...]
    last_error: str | None
    """First line of the newest error's message, cut; None without errors."""
    values: tuple[str | None, ...] = ()
    """What stands at each path that the list was asked for: a text as it is, all else as JSON, cut.
    None where nothing does.
    """

    @property
    def matters_at(self) -> datetime:
        """The instant that matters for the state: finished, started, or due."""
        return matters_at(self.state, self.scheduled_at, self.attempted_at, self.finalized_at)


class JobRow(NamedTuple):
    """One job, whole, as River keeps it. JSON stays text, so that numbers are exact.

    A tuple, because an engine makes tens of thousands of them a second.
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
        """The args, read from JSON at each call; ValueError where they are no object, or nested too
        deep.

        A whole number of more digits than Python converts (4,300) is a float.
        """
        return _object(self.args)

    @property
    def metadata_dict(self) -> dict[str, Any]:
        """The metadata, read as the args are."""
        return _object(self.metadata)

    @property
    def output(self) -> Any:
        """What the job has recorded (`record_output`), read from its JSON; None where that is
        nothing.

        UnreadableJson, a ValueError, where the metadata is nested deeper than Python reads.
        """
        if OUTPUT not in self.metadata:
            return None
        metadata = read_json(self.metadata)
        return metadata.get(OUTPUT) if isinstance(metadata, dict) else None

    def args_as(self, args_type: type[T]) -> T:
        """Return the args as their type, read as its worker gets them.

        ArgsError where they do not fit or are encrypted, ConfigError for a type that cannot be job
        args; and what its `upgrade` raises.
        """
        if is_sealed(self.args):
            raise ArgsError("the args are encrypted")
        return cast(T, _reading("job_args").decoder(args_type)(self.args))

    def output_as(self, output_type: type[T]) -> T:
        """Return the output as a type that JSON can become: a dataclass, a pydantic model, a
        TypedDict, `list[int]` and the like.

        OutputError where it does not fit; None, where nothing was recorded, fits few.
        """
        return cast(T, _reading("decoding").output_as(self.output, output_type))


def _reading(module: str) -> Any:
    """Return the engine's part that reads JSON as types: rows are plain data, and only who asks for
    types needs it.
    """
    return import_module(f"riverui.engine.args.{module}")


class ErrorText(NamedTuple):
    """One element of a job's errors as text, whatever it is in the row."""

    at: str | None
    """None where it is no text."""
    attempt: int
    """0 where it is no whole number."""
    error: str
    trace: str


class JobTextRow(NamedTuple):
    """One job with its JSON as text to the letter, as far as an answer may hold it."""

    id: int
    args: str
    """A JSON object as Postgres prints it; an empty one where it is cut."""
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
    """Names of the fields that were too long to be read whole; such args and metadata are empty."""
    errors: tuple[ErrorText, ...] = ()
    """The newest ones; none in a list, which does not read them."""
    metadata: str = "{}"
    """A JSON object as Postgres prints it; an empty one in a list, which does not read it."""
    values: tuple[str | None, ...] = ()
    """The JSON at each path that a list was asked for; None where there is nothing, `…` where it is
    too long.
    """

    @property
    def matters_at(self) -> datetime:
        """The instant that matters for the state: finished, started, or due."""
        return matters_at(self.state, self.scheduled_at, self.attempted_at, self.finalized_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobShowRow:
    """A whole job for its own page; long texts are cut in SQL (`JsonText.complete`,
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
    """How many older entries `attempted_by` has. A name of more than MOST_NAME characters is cut.
    """
    tags_dropped: int = 0
    """How many more tags the row has."""

    @property
    def matters_at(self) -> datetime:
        """The instant that matters for the state: finished, started, or due."""
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
    """Return when the job finished, started or is due, by its state; `scheduled_at` where that time
    is missing.
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
    """Return the states as one number, a bit each."""
    return sum(STATE_BITS[state] for state in set(states))
