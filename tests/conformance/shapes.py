"""Jobs and queues in the contract's form."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui import InsertManyParams, InsertOpts, InsertResult, JobRow, QueueRow, UniqueOpts
from riverui.domain.jobs import STATE_BITS
from riverui.domain.time import rfc3339_nano
from tests.conformance.echo import Echo
from tests.conformance.params import NewJob


def job_of(row: JobRow) -> dict[str, Any]:
    """Return a job in the contract's form."""
    metadata = _plain_json(row.metadata)
    if isinstance(metadata, dict):
        metadata.pop("river:unique_nonce", None)
    return {
        "args": _plain_json(row.args),
        "attempt": row.attempt,
        "attempted_at": time_of(row.attempted_at),
        "attempted_by": row.attempted_by,
        "created_at": time_of(row.created_at),
        "errors": [
            {
                "at": time_of(error.at or _NO_TIME),
                "attempt": error.attempt,
                "error": error.error,
                "trace": error.trace,
            }
            for error in row.errors
        ],
        "finalized_at": time_of(row.finalized_at),
        "id": row.id,
        "kind": row.kind,
        "max_attempts": row.max_attempts,
        "metadata": metadata,
        "priority": row.priority,
        "queue": row.queue,
        "scheduled_at": time_of(row.scheduled_at),
        "state": row.state,
        "tags": row.tags,
        "unique_key": None if row.unique_key is None else row.unique_key.hex(),
        "unique_states": None
        if row.unique_states is None
        else sorted(state for state, bit in STATE_BITS.items() if row.unique_states & bit),
    }


def queue_of(row: QueueRow) -> dict[str, Any]:
    """Return a queue in the contract's form."""
    return {
        "created_at": time_of(row.created_at),
        "metadata": json.loads(row.metadata.text),
        "name": row.name,
        "paused_at": time_of(row.paused_at),
        "updated_at": time_of(row.updated_at),
    }


_NO_TIME = datetime.min.replace(tzinfo=UTC)
"""Go's zero time."""


def time_of(at: datetime | None) -> str | None:
    return None if at is None else rfc3339_nano(at.astimezone(UTC))


def _plain_json(text: str) -> Any:
    """Return the value of JSON, or None if a number in it is beyond a float."""

    def number(digits: str) -> float | int:
        value = float(digits)
        if math.isinf(value):
            raise OverflowError
        return int(digits) if digits.lstrip("-").isdigit() else value

    try:
        return json.loads(text, parse_int=number, parse_float=number)
    except OverflowError:
        return None


def insert_result(result: InsertResult) -> dict[str, Any]:
    return {
        "job": job_of(result.job),
        "unique_skipped_as_duplicate": result.unique_skipped_as_duplicate,
    }


def new_job(job: NewJob) -> InsertManyParams:
    """Return a job to insert."""
    args = Echo(behavior=job.behavior, duration_ms=job.duration_ms, message=job.message)
    if (opts := job.opts) is None:
        return InsertManyParams(args)
    at, unique = opts.scheduled_at, opts.unique
    return InsertManyParams(
        args,
        InsertOpts(
            max_attempts=opts.max_attempts,
            metadata=opts.metadata,
            pending=opts.pending,
            priority=opts.priority,
            queue=opts.queue,
            # Python's datetime drops what is below a microsecond, as a client would.
            scheduled_at=None if at is None else datetime.fromisoformat(at),
            tags=opts.tags,
            unique_opts=None
            if unique is None
            else UniqueOpts(
                by_args=unique.by_args,
                by_period=span(unique.by_period_ms) or None,
                by_queue=unique.by_queue,
                by_state=unique.by_state,
                exclude_kind=unique.exclude_kind,
            ),
        ),
    )


def span(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)
