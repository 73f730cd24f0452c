"""Whole jobs out of SQL's rows, fast: an engine makes tens of thousands of them a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riverui.domain.jobs import AttemptError, JobRow, JobState
from riverui.domain.stored_json import UnreadableJson, read_json, write_json
from riverui.storage.postgres.job_list.rows import go_time, texts

_STATES: dict[str, JobState] = {state.value: state for state in JobState}
_RUNNING = JobState.RUNNING
_new = tuple.__new__


def job_row(row: Sequence[Any]) -> JobRow:
    """A row of the block `job_columns`."""
    found = JobRow(*row)
    return found._replace(
        state=_STATES[row[1]],
        attempted_by=texts(found.attempted_by),
        errors=attempt_errors(found.errors),
        tags=texts(found.tags),
    )


def job_rows(rows: Sequence[Sequence[Any]]) -> list[JobRow]:
    """Rows of the block `job_columns`, without those in a state that a later River has added."""
    return [job_row(row) for row in rows if row[1] in _STATES]


def fetched_rows(rows: Sequence[Sequence[Any]], client_id: str, queue: str) -> list[JobRow]:
    """Rows of `job_get_available`, which leaves out what is known or as usual."""
    first = (client_id,)
    return [
        _new(
            JobRow,
            (
                job_id, _RUNNING, attempt, max_attempts, attempted_at, created_at, None,
                scheduled_at, priority, args, texts(attempted_by) if attempted_by else first,
                attempt_errors(errors) if errors else (), kind, metadata, queue,
                texts(tags) if tags else (), unique_key, unique_states,
            ),
        )
        for (
            job_id, attempt, max_attempts, attempted_at, created_at, scheduled_at, priority, args,
            attempted_by, errors, kind, metadata, tags, unique_key, unique_states,
        ) in rows
    ]  # fmt: skip


def attempt_errors(values: Any) -> tuple[AttemptError, ...]:
    """From JSON texts, each of which may be anything: one that is no error is shown as it is."""
    return tuple(_attempt_error(text) for text in texts(values))


def _attempt_error(text: str) -> AttemptError:
    try:
        found = read_json(text)
    except UnreadableJson:
        found = None
    if not isinstance(found, dict):
        return AttemptError(at=None, attempt=0, error=text, trace="")
    at, attempt = found.get("at"), found.get("attempt")
    return AttemptError(
        at=go_time(at) if isinstance(at, str) else None,
        attempt=attempt if type(attempt) is int else 0,
        error=_text(found.get("error")),
        trace=_text(found.get("trace")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else write_json(value)
