"""Make the domain's dataclasses from rows; stored values may be malformed in any way."""

from __future__ import annotations

import json
from typing import Any

from riverui.domain.attempt_errors import go_time, whole
from riverui.domain.jobs import (
    CUT,
    AttemptError,
    JobListRow,
    JobLog,
    JobShowRow,
    JobState,
    JsonText,
)
from riverui.domain.queues import QueueListRow, QueueRow

MAX_VALUE = 200
"""Most characters of a value at a JSON path, in a list."""

# The bit of each state in `river_job_state_in_bitmask`, counted from the left.
_UNIQUE_BITS = (
    JobState.SCHEDULED,
    JobState.RUNNING,
    JobState.RETRYABLE,
    JobState.PENDING,
    JobState.DISCARDED,
    JobState.COMPLETED,
    JobState.CANCELLED,
    JobState.AVAILABLE,
)


_STATES: dict[str, JobState] = {state.value: state for state in JobState}


def known_state(name: str) -> JobState | None:
    """Return the state of that name; None for one that a later River has added."""
    return _STATES.get(name)


def job_list_row(row: Any) -> JobListRow | None:
    """Return a row of `job_list`; None for a job in a state that a later River has added."""
    state = known_state(row.state)
    if state is None:
        return None
    return JobListRow(
        id=row.id,
        state=state,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        attempted_at=row.attempted_at,
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        scheduled_at=row.scheduled_at,
        priority=row.priority,
        args_preview=CUT if row.args_preview is None else row.args_preview,
        kind=row.kind,
        queue=row.queue,
        tags=(CUT,) if row.tags is None else texts(row.tags),
        last_error=CUT if row.last_error is None and row.has_errors else row.last_error,
        values=tuple([_cut(value) for value in row.path_values or ()]),
    )


def _cut(value: str | None) -> str | None:
    return f"{value[:MAX_VALUE]}{CUT}" if value and len(value) > MAX_VALUE else value


def job_show_row(row: Any, unknown: JobState | None = None) -> JobShowRow | None:
    """Return a row of `job_get`, in the state `unknown` if a later River has added the job's state;
    None if that is not given.
    """
    state = known_state(row.state) or unknown
    if state is None:
        return None
    return JobShowRow(
        id=row.id,
        state=state,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        attempted_at=row.attempted_at,
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        scheduled_at=row.scheduled_at,
        priority=row.priority,
        args=JsonText(text=row.args or "", size=row.args_size),
        attempted_by=texts(row.attempted_by),
        kind=row.kind,
        metadata=JsonText(text=row.metadata or "", size=row.metadata_size),
        output=None if row.output is None else JsonText(text=row.output, size=row.output_size),
        queue=row.queue,
        tags=texts(row.tags),
        unique_key=row.unique_key,
        unique_states=unique_states(row.unique_states),
        cancel_attempted_at=go_time(row.cancel_attempted_at),
        snoozes=whole(row.snoozes),
        rescues=whole(row.rescues),
        errors=attempt_errors(row.errors),
        logs=job_logs(row.logs),
        attempted_by_dropped=row.attempted_by_dropped or 0,
        tags_dropped=row.tags_dropped or 0,
    )


def queue_row(row: Any) -> QueueRow:
    """Return a queue from its columns, with an empty object as metadata if it has no row."""
    size = row.metadata_size
    return QueueRow(
        name=row.name,
        created_at=row.created_at,
        metadata=JsonText(text=row.metadata or "{}", size=2 if size is None else size),
        paused_at=row.paused_at,
        updated_at=row.updated_at,
    )


def queue_list_row(row: Any) -> QueueListRow:
    """Return a row of `queue_list`."""
    return QueueListRow(
        queue=queue_row(row),
        available=row.available,
        running=row.running,
        scheduled=row.scheduled,
        retryable=row.retryable,
        oldest_waiting_at=row.oldest_waiting_at,
    )


def attempt_errors(text: str | None) -> tuple[AttemptError, ...]:
    """Return errors from JSON lists of `at`, `attempt`, `error` and `trace`, all text or null."""
    return tuple(
        AttemptError(
            at=go_time(at),
            attempt=whole(attempt),
            error=CUT if error is None else error,
            trace=trace or "",
        )
        for at, attempt, error, trace in json.loads(text or "[]")
    )


def job_logs(text: str | None) -> tuple[JobLog, ...]:
    """Return logs from JSON lists of `attempt`, `log` and the log's whole size."""
    return tuple(
        JobLog(attempt=whole(attempt), log=log, size=size)
        for attempt, log, size in json.loads(text or "[]")
    )


def unique_states(bits: str | None) -> tuple[JobState, ...]:
    """Return the states in a `bit(8)` as text, in the order of a job's life."""
    if not bits or len(bits) != len(_UNIQUE_BITS):
        return ()
    chosen = {state for state, bit in zip(_UNIQUE_BITS, bits, strict=True) if bit == "1"}
    return tuple(state for state in JobState if state in chosen)


def texts(values: Any) -> tuple[str, ...]:
    """Return a text array, flat and without nulls."""
    if values is None:
        return ()
    if not isinstance(values, list):
        return (str(values),)
    for value in values:
        if type(value) is not str:
            return tuple(text for nested in values for text in texts(nested))
    return tuple(values)
