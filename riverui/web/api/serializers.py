"""Rows as the JSON that River UI's API gives for them: its names, its types, Go's way with
times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from starlette.responses import Response

from riverui.domain.clock import rfc3339_nano
from riverui.domain.jobs import ErrorText, JobMinimalRow, JobTextRow
from riverui.domain.queues import QueueCountRow, QueueRow
from riverui.domain.stored_json import read_object

_INT32 = 2**31
_NO_TIME = "0001-01-01T00:00:00Z"
"""What Go writes for a time that was never set."""


def reply(found: object, *, status: int = 200) -> Response:
    """JSON as an answer; text is taken to be JSON already."""
    text = found if isinstance(found, str) else dump(found)
    return Response(text, status_code=status, media_type="application/json; charset=utf-8")


def dump(value: object) -> str:
    """Compact JSON text; a number that is no JSON, because no computer holds it, becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def instant(at: datetime) -> str:
    """A time in UTC as Go writes it."""
    return rfc3339_nano(at.astimezone(UTC))


def optional_instant(at: datetime | None) -> str | None:
    """The same, null where there is no time."""
    return None if at is None else instant(at)


def job_minimal(row: JobMinimalRow) -> dict[str, Any]:
    """RiverJobMinimal: the id is a number, the args are JSON text. What is cut is named in
    `cut`.
    """
    found = {
        "id": row.id,
        "args": _left_out(row.id, "args") if "args" in row.cut else row.args,
        "attempt": row.attempt,
        "attempted_at": optional_instant(row.attempted_at),
        "attempted_by": list(row.attempted_by),
        "created_at": instant(row.created_at),
        "finalized_at": optional_instant(row.finalized_at),
        "kind": row.kind,
        "max_attempts": row.max_attempts,
        "priority": row.priority,
        "queue": row.queue,
        "scheduled_at": instant(row.scheduled_at),
        "state": row.state.value,
        "tags": list(row.tags),
    }
    return found | {"cut": list(row.cut)} if row.cut else found


def job(row: JobTextRow) -> str:
    """RiverJob, as text: the metadata goes in as it is, so that its numbers stay exact."""
    minimal = dump(job_minimal(row.job)).removesuffix("}")
    errors = [attempt_error(error) for error in row.errors]
    metadata = _left_out(row.job.id, "metadata") if "metadata" in row.job.cut else row.metadata
    return f'{minimal},"errors":{dump(errors)},"metadata":{metadata}}}'


def attempt_error(row: ErrorText) -> dict[str, Any]:
    """One failed attempt. Something else that a job has in its errors is shown as its text."""
    at = _NO_TIME if row.at is None else row.at
    return {"at": at, "attempt": row.attempt, "error": row.error, "trace": row.trace}


def _left_out(job_id: int, field: str) -> str:
    """Return JSON text that stands for a field too long for an answer."""
    return dump({"left_out": f"too long for this response: see /jobs/{job_id}/raw/{field}"})


def queue(row: QueueCountRow) -> dict[str, Any]:
    """RiverQueue. A queue has its limits in its metadata."""
    found = row.queue
    assert found.created_at is not None
    assert found.updated_at is not None
    return {
        "count_available": row.available,
        "count_running": row.running,
        "created_at": instant(found.created_at),
        "concurrency": concurrency(metadata(found).get("concurrency")),
        "name": found.name,
        "paused_at": optional_instant(found.paused_at),
        "updated_at": instant(found.updated_at),
    }


def metadata(row: QueueRow) -> Mapping[str, Any]:
    """A queue's metadata; empty where it is no object, or too long to be read."""
    return read_object(row.metadata.text) if row.metadata.complete else {}


def concurrency(found: object) -> dict[str, Any] | None:
    """River Pro's limits with every field there, or None where they are not of that form."""
    if not isinstance(found, dict):
        return None
    partition = found.get("partition")
    partition = {} if partition is None else partition
    if not isinstance(partition, dict):
        return None
    limits = [_or(found.get(name), 0) for name in ("global_limit", "local_limit")]
    by_args, by_kind = partition.get("by_args"), _or(partition.get("by_kind"), default=False)
    if not all(type(limit) is int and -_INT32 <= limit < _INT32 for limit in limits):
        return None
    if type(by_kind) is not bool or not _are_texts(by_args):
        return None
    return {
        "global_limit": limits[0],
        "local_limit": limits[1],
        "partition": {"by_args": by_args, "by_kind": by_kind},
    }


def listing(rows: Sequence[object]) -> dict[str, Any]:
    """What every list is wrapped in."""
    return {"data": list(rows)}


def _or(value: object, default: object) -> Any:
    return default if value is None else value


def _are_texts(value: object) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(item, str) for item in value)
    )
