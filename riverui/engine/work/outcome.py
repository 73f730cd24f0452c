"""How a job changes when an attempt ends: River's rules, as functions."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from riverui.domain.jobs import UNKNOWN_KIND, JobRow, JobState
from riverui.domain.json import read_object
from riverui.domain.retries import NOT_TRIED_AGAIN, Retry, default_retry, failures_of
from riverui.engine.args import gojson
from riverui.engine.events import EventKind
from riverui.engine.spans import SCHEDULER_INTERVAL
from riverui.engine.work.worker import Job, JobCancel, RetryPolicy, Worker
from riverui.errors import UnknownJobKind
from riverui.storage.interface.engine_params import JobSetStateParams

MAX_ERROR = 100_000
"""Characters kept of an error's message, and of its traceback: `errors` has both for every attempt,
and is read as a whole.
"""

SNOOZES = "snoozes"

_ENGINE = str(Path(__file__).parents[1])
_ODD = re.compile("[\0\ud800-\udfff]")

_Error = TypeVar("_Error", bound=BaseException)


class ProcessTrace(Exception):
    """The traceback of an error from another process, as text; it is that error's cause."""


class Outcome(NamedTuple):
    """How an attempt ended: the change to write, and the event, which the written row may
    change.
    """

    params: JobSetStateParams
    event: EventKind
    why: str = ""
    """Why there is no further attempt, if a Retry says so."""


def completed(
    row: JobRow, now: datetime, metadata: str | None, *, ephemeral: bool = False
) -> Outcome:
    """Return the outcome of an attempt that succeeded."""
    params = JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.COMPLETED,
        finalized_at=now,
        metadata=metadata,
        ephemeral=ephemeral,
    )
    return Outcome(params, EventKind.JOB_COMPLETED)


def snoozed(row: JobRow, now: datetime, metadata: str | None, duration: timedelta) -> Outcome:
    """Return the outcome of a snooze: the job is worked later, and the attempt does not count."""
    soon = duration <= SCHEDULER_INTERVAL
    params = JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.AVAILABLE if soon else JobState.SCHEDULED,
        attempt=row.attempt - 1,
        attempted_at=row.attempted_at,
        scheduled_at=now + duration,
        metadata=metadata,
    )
    return Outcome(params, EventKind.JOB_SNOOZED)


def interrupted(row: JobRow, due_at: datetime | None, metadata: str | None) -> Outcome:
    """Return the outcome of an attempt that the client interrupted; it does not count. `due_at` is
    when the job is due again; None if it keeps its place.
    """
    params = not_begun(row)._replace(scheduled_at=due_at, metadata=metadata)
    return Outcome(params, EventKind.JOB_INTERRUPTED)


def not_begun(row: JobRow) -> JobSetStateParams:
    """Return the change that makes a fetched job available again, as if it had not been fetched."""
    return JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.AVAILABLE,
        attempt=max(row.attempt - 1, 0),
        attempted_at=row.attempted_at,
    )


def cancelled(row: JobRow, now: datetime, metadata: str | None, error: str) -> Outcome:
    """Return the outcome of a job that gets no further attempt."""
    params = JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.CANCELLED,
        finalized_at=now,
        error=error,
        metadata=metadata,
    )
    return Outcome(params, EventKind.JOB_CANCELLED)


def discarded(
    row: JobRow, now: datetime, metadata: str | None, error: str, why: str = ""
) -> Outcome:
    """Return the outcome of a last attempt that failed."""
    params = JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.DISCARDED,
        finalized_at=now,
        error=error,
        metadata=metadata,
    )
    return Outcome(params, EventKind.JOB_FAILED, why)


def failed(
    row: JobRow, now: datetime, metadata: str | None, error: str, retry_at: datetime
) -> Outcome:
    """Return the outcome of a failed attempt that is followed by another."""
    soon = retry_at - now <= SCHEDULER_INTERVAL
    params = JobSetStateParams(
        id=row.id,
        of_attempt=row.attempt,
        state=JobState.AVAILABLE if soon else JobState.RETRYABLE,
        scheduled_at=retry_at,
        error=error,
        metadata=metadata,
    )
    return Outcome(params, EventKind.JOB_FAILED)


def next_retry(
    row: JobRow,
    now: datetime,
    *,
    worker: Worker[object] | None,
    job: Job[object] | None,
    retry: Retry | None,
    policy: RetryPolicy | None,
    logger: logging.Logger,
) -> datetime:
    """Return when to retry: by the worker, the Retry, the client's policy, or by River's if those
    fail or return a time in the past.

    The worker is called only with a `job`, which has decoded args.
    """
    try:
        retry_at = worker.next_retry(job) if worker is not None and job is not None else None
        if retry_at is None and retry is not None:
            wait = retry.wait_after(failures_of(row))
            retry_at = None if wait is None else now + wait
        if retry_at is None and policy is not None:
            retry_at = policy(row)
        if retry_at is None:
            return default_retry(row, now=now)
        if retry_at >= now:
            return retry_at
        logger.warning(
            "the next retry of job %s is in the past (%s), so River's retry policy is used",
            row.id,
            retry_at,
        )
    except BaseException:
        # The program's own code, which may raise anything.
        logger.exception(
            "the next retry of job %s could not be determined, so River's retry policy is used",
            row.id,
        )
    return default_retry(row, now=now)


def next_snoozes(row: JobRow) -> int:
    """Return how often the job has been snoozed, including this time; an invalid count is 0."""
    if SNOOZES not in row.metadata:
        return 1
    count = read_object(row.metadata).get(SNOOZES)
    return int(count) + 1 if isinstance(count, int | float) and isfinite(count) else 1


def attempt_error(row: JobRow, started_at: datetime, error: BaseException, why: str = "") -> str:
    """Return one element of `errors`, as JSON text that Postgres can store whatever the error's
    text; `why` is the reason for which a Retry ends the job.
    """
    text = make_storable(error_text(error))
    if why:
        text += NOT_TRIED_AGAIN + make_storable(why)
    return gojson.dump(
        {
            "at": started_at,
            "attempt": row.attempt,
            "error": text,
            "trace": "" if isinstance(error, JobCancel) else make_storable(trace_text(error)),
        }
    )


def error_text(error: BaseException) -> str:
    """Return an error's type and text, as at the end of a traceback; cancellations and unknown
    kinds in River's format.
    """
    if isinstance(error, UnknownJobKind):
        return f"{UNKNOWN_KIND} in the client's Workers bundle: {error.kind}"
    text = words_of(error)
    if isinstance(error, JobCancel):
        return f"JobCancelError: {text or words_of(error.__cause__) or 'job cancelled'}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def words_of(error: BaseException | None) -> str:
    """Return the text of an error; empty if its `__str__` raises."""
    try:
        return "" if error is None else str(error)
    except BaseException:
        return ""


def trace_of(error: BaseException) -> TracebackType | None:
    """Return the error's traceback, without the engine's own frames at its start."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_ENGINE):
        trace = trace.tb_next
    return trace or error.__traceback__


def trace_text(error: BaseException) -> str:
    """Return the traceback as text."""
    try:
        if isinstance(error.__cause__, ProcessTrace):
            return str(error.__cause__)
        return "".join(traceback.format_exception(type(error), error, trace_of(error)))
    except BaseException:
        return ""


def make_storable(text: str, most: int = MAX_ERROR) -> str:
    """Return a text that Postgres can store: without NUL and lone surrogates, and without its
    middle if it is longer than `most`.
    """
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return text if text.isascii() and "\0" not in text else _ODD.sub("\ufffd", text)


def find(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    """Return the error itself, or the first of that kind in an exception group."""
    return next((one for one in _flat(error) if isinstance(one, kind)), None)


def _flat(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    elif error is not None:
        yield error
