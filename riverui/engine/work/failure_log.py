"""Writes attempts that failed or were cancelled to the program's own log."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.work.outcome import Outcome, error_text, trace_of

_MAX_CHARACTERS = 500
"""Characters of an error's message in one line, so that lines stay readable; the traceback has all
of it.
"""


def log_failure(
    logger: logging.Logger,
    row: JobRow,
    error: BaseException,
    ended: Outcome,
    now: datetime,
    attempts: int,
) -> None:
    """Log a failed attempt with its traceback: as WARNING, and the last one as ERROR. `attempts` is
    their maximum.
    """
    state = ended.params.state
    level, then = logging.WARNING, "was cancelled by the error handler"
    if state is JobState.DISCARDED:
        level = logging.ERROR
        then = f"was discarded, as {ended.why}" if ended.why else "was discarded"
    elif state is not JobState.CANCELLED:
        again = (ended.params.scheduled_at or now).astimezone(UTC)
        seconds = max(0.0, (again - now).total_seconds())
        wait = f"{seconds:,.0f}" if seconds >= 1 else f"{seconds:.1g}"
        then = f"will be retried in {wait} s, at {again:%Y-%m-%d %H:%M:%S} UTC"
    logger.log(
        level,
        "job %s (%s) in queue %s failed at attempt %s of %s and %s: %s",
        row.id,
        row.kind,
        row.queue,
        row.attempt,
        attempts,
        then,
        _one_line(error),
        exc_info=(type(error), error, trace_of(error)),
        extra=job_fields(row),
    )


def log_cancellation(logger: logging.Logger, row: JobRow, error: BaseException) -> None:
    """Log as INFO that a job was cancelled, by itself or from outside."""
    logger.info(
        "job %s (%s) in queue %s was cancelled at attempt %s: %s",
        row.id,
        row.kind,
        row.queue,
        row.attempt,
        _one_line(error).removeprefix("JobCancelError: "),
        extra=job_fields(row),
    )


def job_fields(row: JobRow) -> dict[str, object]:
    """Return the fields of log records about a job; River's own names for the first two."""
    return {"job_id": row.id, "job_kind": row.kind, "queue": row.queue, "attempt": row.attempt}


def _one_line(error: BaseException) -> str:
    """Return the error's type and message, truncated and in one line, so that no job can forge
    lines.
    """
    text = " ".join(error_text(error).split())
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
