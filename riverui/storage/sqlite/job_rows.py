"""Rows of `river_job` as SQL selects them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from riverui.domain.attempt_errors import attempt_error
from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.storage.sqlite.file import json_text
from riverui.storage.sqlite.values import instant

# Columns of times are expressions, so that the caller's connection does not convert them.
PLAIN = (
    "id, state, attempt, max_attempts, +attempted_at, +created_at, +finalized_at, +scheduled_at,"
    " priority"
)
_ARGS, _ATTEMPTED_BY, _ERRORS, _METADATA, _TAGS = map(
    json_text, ("args", "attempted_by", "errors", "metadata", "tags")
)
_REST = f"kind, {_METADATA}, queue, {_TAGS}, unique_key, unique_states"

COLUMNS = f"{PLAIN}, {_ARGS}, {_ATTEMPTED_BY}, {_ERRORS}, {_REST}"
"""The columns of `job_row`."""
LEAN = f"{PLAIN}, '{{}}', {_ATTEMPTED_BY}, null, {_REST}"
"""The same without args and errors, which may be long."""
HOLDS_KEY = (
    "unique_key is not null and unique_states is not null and case state"
    " when 'available' then unique_states & (1 << 0)"
    " when 'cancelled' then unique_states & (1 << 1)"
    " when 'completed' then unique_states & (1 << 2)"
    " when 'discarded' then unique_states & (1 << 3)"
    " when 'pending' then unique_states & (1 << 4)"
    " when 'retryable' then unique_states & (1 << 5)"
    " when 'running' then unique_states & (1 << 6)"
    " when 'scheduled' then unique_states & (1 << 7)"
    " else 0 end >= 1"
)
"""The condition of River's unique index."""
APPENDED = (
    "jsonb(json_insert(case when errors is null then '[]'"
    f" when json_valid({_ERRORS}) and json_type({_ERRORS}) = 'array' then {_ERRORS}"
    f" else json_array({_ERRORS}) end, '$[#]', json(?)))"
)
"""The errors of a job with another one appended."""
STATES = {state.value: state for state in JobState}

_texts = msgspec.json.Decoder(list[str])
_errors = msgspec.json.Decoder(list[msgspec.Raw])


def job_row(values: Sequence[Any]) -> JobRow:
    """Return the job in a row of `COLUMNS` or `LEAN`."""
    (
        job_id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at,
        priority, args, attempted_by, errors, kind, metadata, queue, tags, key, states,
    ) = values  # fmt: skip
    return JobRow(
        job_id,
        STATES[state],
        attempt,
        max_attempts,
        attempted_at and instant(attempted_at),
        instant(created_at),
        finalized_at and instant(finalized_at),
        instant(scheduled_at),
        priority,
        args,
        texts(attempted_by),
        attempt_errors(errors),
        kind,
        metadata,
        queue,
        texts(tags),
        key,
        states,
    )


def texts(text: str | None) -> tuple[str, ...]:
    """Return the texts of a JSON array; none for anything else."""
    if text is None or text == "[]":
        return ()
    try:
        return tuple(_texts.decode(text))
    except msgspec.MsgspecError:
        return ()


def attempt_errors(text: str | None) -> tuple[AttemptError, ...]:
    """Return the errors in a JSON array; anything else is the message of one."""
    if text is None or text == "[]":
        return ()
    try:
        return tuple(attempt_error(bytes(each).decode()) for each in _errors.decode(text))
    except msgspec.MsgspecError:
        return (AttemptError(at=None, attempt=0, error=text, trace=""),)
