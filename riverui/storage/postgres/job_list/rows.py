"""From SQL's rows to the domain's dataclasses; what jobs have stored may be malformed in any
way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.jobs import AttemptError, JobListRow, JobLog, JobShowRow, JobState, JsonText
from riverui.domain.queues import QueueListRow, QueueRow

_GO_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)

CUT = "…"
"""Stands for a text that was too long to be read."""

MOST_VALUE = 200
"""Characters of a value at a JSON path, in a list."""

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


_STATES = frozenset(state.value for state in JobState)


def known_state(name: str) -> bool:
    """Whether this riverui knows the state; a later River may have added one."""
    return name in _STATES


def job_list_row(row: Sequence[Any]) -> JobListRow:
    """Return a row of `job_list`: its first column is the id, its fifth and all that follow are the
    job's; the values at JSON paths come last.
    """
    return JobListRow(
        id=row[0],
        state=JobState(row[4]),
        attempt=row[5],
        max_attempts=row[6],
        attempted_at=row[7],
        created_at=row[8],
        finalized_at=row[9],
        scheduled_at=row[10],
        priority=row[11],
        args_preview=CUT if row[12] is None else row[12],
        kind=row[13],
        queue=row[14],
        tags=(CUT,) if row[15] is None else texts(row[15]),
        last_error=CUT if row[16] is None and row[17] else row[16],
        values=tuple(_cut(value) for value in row[19:]),
    )


def _cut(value: str | None) -> str | None:
    return f"{value[:MOST_VALUE]}{CUT}" if value and len(value) > MOST_VALUE else value


def job_row(row: Sequence[Any]) -> JobShowRow:
    """A row of `job_get`."""
    return JobShowRow(
        id=row[0],
        state=JobState(row[1]),
        attempt=row[2],
        max_attempts=row[3],
        attempted_at=row[4],
        created_at=row[5],
        finalized_at=row[6],
        scheduled_at=row[7],
        priority=row[8],
        args=JsonText(text=row[9] or "", size=row[10]),
        attempted_by=texts(row[11]),
        kind=row[12],
        metadata=JsonText(text=row[13] or "", size=row[14]),
        output=None if row[15] is None else JsonText(text=row[15], size=row[16]),
        queue=row[17],
        tags=texts(row[18]),
        unique_key=row[19],
        unique_states=unique_states(row[20]),
        cancel_attempted_at=go_time(row[21]),
        snoozes=whole(row[22]),
        rescues=whole(row[23]),
        errors=attempt_errors(row[24]),
        logs=job_logs(row[25]),
        attempted_by_dropped=row[26] or 0,
        tags_dropped=row[27] or 0,
    )


def queue_row(row: Sequence[Any]) -> QueueRow:
    """The first six columns of a queue: name, created_at, metadata and its size, paused_at,
    updated_at.
    """
    metadata = JsonText(text="{}", size=2) if row[2] is None else JsonText(text=row[2], size=row[3])
    return QueueRow(
        name=row[0], created_at=row[1], metadata=metadata, paused_at=row[4], updated_at=row[5]
    )


def queue_list_row(row: Sequence[Any]) -> QueueListRow:
    """A row of `queue_list`."""
    return QueueListRow(
        queue=queue_row(row),
        available=row[6],
        running=row[7],
        scheduled=row[8],
        retryable=row[9],
        oldest_waiting_at=row[10],
    )


def attempt_errors(text: str | None) -> tuple[AttemptError, ...]:
    """From JSON lists of `at`, `attempt`, `error` and `trace`, all text or null."""
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
    """From JSON lists of `attempt`, `log` and the log's whole size."""
    return tuple(
        JobLog(attempt=whole(attempt), log=log, size=size)
        for attempt, log, size in json.loads(text or "[]")
    )


def go_time(text: str | None) -> datetime | None:
    """A time as Go writes it in JSON (up to nine decimals, any offset), in UTC; None for all
    else.
    """
    match = _GO_TIME.fullmatch(text) if text else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    offset = match[8]
    try:
        local = datetime(
            year,
            month,
            day,
            hour,
            minute,
            second,
            int((match[7] or "").ljust(6, "0")[:6]),
            tzinfo=UTC,
        )
        if offset == "Z":
            return local
        shift = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:6]))
        return local + shift if offset[0] == "-" else local - shift
    except (ValueError, OverflowError):
        return None


def whole(text: str | None) -> int:
    """A whole number from JSON text; 0 for anything else, as River counts it."""
    return int(text) if text and _WHOLE.fullmatch(text) else 0


def unique_states(bits: str | None) -> tuple[JobState, ...]:
    """The states in a `bit(8)` as text, in the order of a job's life."""
    if not bits or len(bits) != len(_UNIQUE_BITS):
        return ()
    chosen = {state for state, bit in zip(_UNIQUE_BITS, bits, strict=True) if bit == "1"}
    return tuple(state for state in JobState if state in chosen)


def texts(values: Any) -> tuple[str, ...]:
    """A text array, flat and without nulls."""
    if values is None:
        return ()
    if isinstance(values, list):
        return tuple(text for value in values for text in texts(value))
    return (str(values),)
