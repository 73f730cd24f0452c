"""Jobs as pages and the API show them, made from whole rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from riverui.domain.jobs import (
    MAX_TAGS,
    OUTPUT,
    STATE_BITS,
    ErrorText,
    JobListRow,
    JobLog,
    JobRow,
    JobShowRow,
    JobState,
    JobTextRow,
    JsonText,
)
from riverui.domain.json import read_json, read_object
from riverui.domain.time import aware_instant, rfc3339_nano
from riverui.storage.interface.params import Field, JobPageParams, JsonPath
from riverui.storage.sqlite.file import json_text, valid_json
from riverui.storage.sqlite.job_rows import PLAIN, STATES, texts
from riverui.storage.sqlite.values import CANCEL_ATTEMPTED_AT, instant, written

MAX_ARGS = 10_000_000
"""Most characters of one job's args in an answer: as on Postgres."""
LOG = "river:log"
"""The metadata key of the log of a job's attempts."""
_PREVIEW = 300
"""Characters of args and of an error in a list."""
_ARGS, _METADATA = json_text("args"), json_text("metadata")
_MAX_NAMES = 100
"""Clients of a job that its page shows."""


LIST_COLUMNS = (
    f"{PLAIN}, substr({_ARGS}, 1, {_PREVIEW}), kind, queue, {json_text('tags')},"
    f" substr({valid_json('errors')} ->> '$[#-1].error', 1, {_PREVIEW}), {_ARGS}, {_METADATA}"
)
"""The columns of `list_row`."""
LEAN_LIST_COLUMNS = f"{PLAIN}, '', kind, queue, '[]', null, {_ARGS}, {_METADATA}"
"""The same without texts, for bulk actions."""


def list_columns(params: JobPageParams) -> str:
    """Return the columns of a list, without the args and metadata if no path needs them."""
    columns = LEAN_LIST_COLUMNS if params.lean else LIST_COLUMNS
    return columns if params.paths else columns.removesuffix(f", {_ARGS}, {_METADATA}")


def list_row(values: Sequence[Any], paths: Sequence[JsonPath] = ()) -> JobListRow:
    """Return the job in a row of `list_columns`."""
    (
        job_id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at,
        priority, preview, kind, queue, tags, error, *whole,
    ) = values  # fmt: skip
    return JobListRow(
        job_id,
        STATES[state],
        attempt,
        max_attempts,
        attempted_at and instant(attempted_at),
        instant(created_at),
        finalized_at and instant(finalized_at),
        instant(scheduled_at),
        priority,
        preview,
        kind,
        queue,
        texts(tags),
        error and error.partition("\n")[0],
        tuple(_shown(_at_path(whole[0], whole[1], path)) for path in paths),
    )


def text_row(
    row: JobRow, *, args: int, whole: bool = False, paths: Sequence[JsonPath] = ()
) -> JobTextRow:
    """Return a job with its JSON as text, with errors and metadata if it is to be whole."""
    complete = len(row.args) <= args
    return JobTextRow(
        id=row.id,
        args=row.args if complete else "{}",
        attempt=row.attempt,
        attempted_at=row.attempted_at,
        attempted_by=row.attempted_by,
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        kind=row.kind,
        max_attempts=row.max_attempts,
        priority=row.priority,
        queue=row.queue,
        scheduled_at=row.scheduled_at,
        state=row.state,
        tags=row.tags,
        cut=() if complete else ("args",),
        errors=_error_texts(row) if whole else (),
        metadata=row.metadata if whole else "{}",
        values=tuple(
            None if (found := _at_path(row.args, row.metadata, p)) is None else written(found)
            for p in paths
        ),
    )


def show_row(row: JobRow, *, cut: int, lean: bool) -> JobShowRow:
    """Return a job for its own page; `lean` leaves out its JSON."""
    metadata = {} if lean else read_object(row.metadata)
    output, logs = metadata.pop(OUTPUT, None), metadata.pop(LOG, None)
    entries = _objects(logs)
    states = row.unique_states or 0
    return JobShowRow(
        id=row.id,
        state=row.state,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        attempted_at=row.attempted_at,
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        scheduled_at=row.scheduled_at,
        priority=row.priority,
        args=_cut("" if lean else row.args, cut, len(row.args)),
        attempted_by=row.attempted_by[-_MAX_NAMES:],
        errors=() if lean else row.errors,
        kind=row.kind,
        metadata=_cut("" if lean else written(metadata), cut, len(row.metadata) if lean else None),
        output=None if output is None else _cut(written(output), cut),
        logs=tuple(
            JobLog(attempt=_whole(entry.get("attempt")), log=log[-cut:], size=len(log))
            for entry in entries
            for log in [str(entry.get("log") or "")]
        ),
        queue=row.queue,
        tags=row.tags[:MAX_TAGS],
        unique_key=row.unique_key,
        unique_states=tuple(state for state in JobState if states & STATE_BITS[state]),
        cancel_attempted_at=aware_instant(str(metadata.get(CANCEL_ATTEMPTED_AT, ""))),
        snoozes=_whole(metadata.get("snoozes")),
        rescues=_whole(metadata.get("river:rescue_count")),
        attempted_by_dropped=max(len(row.attempted_by) - _MAX_NAMES, 0),
        tags_dropped=max(len(row.tags) - MAX_TAGS, 0),
    )


def log_text(row: JobRow, attempt: int) -> str | None:
    """Return the log of one attempt, one line per entry; None without one."""
    found = [
        str(entry.get("log") or "")
        for entry in _objects(read_object(row.metadata).get(LOG))
        if _whole(entry.get("attempt")) == attempt
    ]
    if not found:
        return None
    ended = [log if log.endswith("\n") else f"{log}\n" for log in found[:-1]]
    return "".join([*ended, found[-1]])


def field_text(row: JobRow, field: str) -> str | None:
    """Return the JSON of one field of a job, or of all of it (`job`); None for no output."""
    if field in ("args", "metadata"):
        return str(getattr(row, field))
    if field == "output":
        metadata = read_object(row.metadata)
        return written(metadata[OUTPUT]) if OUTPUT in metadata else None
    errors = [error._asdict() for error in _error_texts(row)]
    if field == "errors":
        return written(errors)
    return json.dumps(
        {
            **row._asdict(),
            "args": read_json(row.args),
            "errors": errors,
            "metadata": read_json(row.metadata),
            "unique_key": None if row.unique_key is None else row.unique_key.hex(),
            "unique_states": None if row.unique_states is None else f"{row.unique_states:08b}",
        },
        default=str,
        ensure_ascii=False,
    )


def _at_path(args: str, metadata: str, path: JsonPath) -> Any:
    """Return the value at a path in the args or metadata, a list for a path with wildcards; None
    if there is none.
    """
    found = [read_json(metadata if path.field is Field.METADATA else args)]
    for key in path.keys:
        if key is None:
            found = [inner for each in found if isinstance(each, list) for inner in each]
        else:
            found = [each[key] for each in found if isinstance(each, dict) and key in each]
    if None in path.keys:
        return found or None
    return found[0] if found else None


def _shown(value: Any) -> str | None:
    return value if isinstance(value, str | None) else written(value)


def _error_texts(row: JobRow) -> tuple[ErrorText, ...]:
    return tuple(
        ErrorText(
            at=None if error.at is None else rfc3339_nano(error.at),
            attempt=error.attempt,
            error=error.error,
            trace=error.trace,
        )
        for error in row.errors
    )


def _cut(text: str, cut: int, size: int | None = None) -> JsonText:
    return JsonText(text=text[:cut], size=len(text) if size is None else size)


def _whole(value: object) -> int:
    return value if type(value) is int else 0


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; nothing for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
