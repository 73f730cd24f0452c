"""Functions that code of a job can call, from coroutines and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from riverui.domain.jobs import OUTPUT, JobRow, JobState
from riverui.engine.pilot import JobEnd
from riverui.engine.work import attempt as at_work
from riverui.engine.work.attempt import Attempt, OwnClient
from riverui.engine.work.metadata_json import json_text
from riverui.engine.work.worker import A, Job, retry_for
from riverui.errors import AttemptLost, NotFound, OutsideJob
from riverui.storage.interface.engine_params import JobSetStateParams

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
"""River's limit for a job's output, as JSON."""
RESERVED = "river:"
"""Prefix of River's own metadata keys."""


def running_attempt() -> Attempt:
    """Return the attempt whose code is running; OutsideJob if there is none, or several."""
    if at_work.batch.get() is not None:
        raise OutsideJob("Several jobs run in this context: choose one, `with as_job(job): …`.")
    try:
        return at_work.running.get()
    except LookupError:
        raise OutsideJob from None


@contextmanager
def as_job(job: Job[Any]) -> Iterator[None]:
    """Run a block as code of one job of a batch: its logs, outputs and calls belong to that job.
    OutsideJob for a job that is not running in this context.
    """
    found = _attempt_of(job)
    if found is None:
        raise OutsideJob(f"Job {job.id} does not run in this context.")
    attempt_set, batch_set = at_work.running.set(found), at_work.batch.set(None)
    try:
        yield
    finally:
        at_work.batch.reset(batch_set)
        at_work.running.reset(attempt_set)


def current_job() -> Job[Any]:
    """Return the current job; OutsideJob if there is none, or if its args are not decoded yet."""
    job = running_attempt().job
    if job is None:
        raise OutsideJob
    return job


def own_client() -> OwnClient:
    """Return the client that works the current job; OutsideJob elsewhere."""
    try:
        return at_work.client.get()
    except LookupError:
        if at_work.running.get(None) is None:
            raise OutsideJob from None
        raise OutsideJob(
            "A job in a process of its own has no client there: use a SyncClient, made once for"
            " the module."
        ) from None


def in_job_without_loop() -> bool:
    """Return whether code of a job runs in a thread, without an event loop."""
    if at_work.running.get(None) is None and at_work.batch.get() is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def is_last_attempt(error: BaseException) -> bool:
    """Return whether this error would discard the job; OutsideJob outside of jobs."""
    attempt = running_attempt()
    row, unit = attempt.row, attempt.unit
    if row.attempt >= row.max_attempts:
        return True
    retry = retry_for(unit, own_client().config.retry)
    return retry is not None and retry.rejects(row, error) is not None


def cancel_requested() -> bool:
    """Return whether this job should end: it was cancelled, timed out, or its client is stopping.

    Coroutines are interrupted anyway; synchronous jobs have to check. In a batch: whether all of
    its jobs should end.
    """
    if (together := at_work.batch.get()) is not None:
        return together.asked_to_end
    return running_attempt().asked_to_end


def raise_if_cancelled() -> None:
    """End a synchronous job that was asked to end, as cancellation ends a coroutine: raise
    asyncio.CancelledError, which `except Exception` does not catch.
    """
    if cancel_requested():
        raise asyncio.CancelledError


def record_output(value: Any) -> None:
    """Store the job's output, up to 32 MiB as JSON, when this attempt ends, with success or not.

    A later call replaces it. ValueError if it is too large or cannot be stored as JSON.
    """
    attempt = _unended_attempt()
    text = json_text(value)
    if len(text) > MAX_OUTPUT_BYTES // 4 and (size := len(text.encode())) > MAX_OUTPUT_BYTES:
        raise ValueError(
            f"The output has {size:,} bytes: at most {MAX_OUTPUT_BYTES:,} can be recorded."
        )
    attempt.update(OUTPUT, text)


def metadata_set(key: str, value: Any) -> None:
    """Set a key of the job's metadata when this attempt ends, with success or not.

    ValueError for keys that begin with `river:`, which are River's, and for values that cannot be
    stored as JSON.
    """
    if key.startswith(RESERVED):
        raise ValueError(f"Metadata keys that begin with {RESERVED} are reserved for River.")
    attempt = _unended_attempt()
    json_text(key)
    attempt.update(key, json_text(value))


async def job_complete_tx(tx: object, job: Job[A]) -> Job[A]:
    """Complete the job inside the caller's transaction, with the metadata set so far, and return
    its new row.

    After the commit the job stays completed, even if the attempt fails later. `tx` is what
    `insert_tx` takes. ValueError if the job is not running, NotFound if it was deleted, AttemptLost
    if it was rescued from this attempt and is being worked again.
    """
    client = own_client()
    completion = completion_of(job, client.clock())
    executor = await client.driver.adopt(tx)
    end = JobEnd(job.row, completion)
    rows = await client.pilot.set_state_if_running_many(executor, [end])
    return Job(completed_row(job, rows), job.args)


def completed_row(job: Job[Any], rows: Sequence[JobRow]) -> JobRow:
    """Return the row of a job that was just completed. NotFound if it was deleted, AttemptLost if
    another attempt at it is running.
    """
    if not rows:
        raise NotFound(f"Job not found: {job.id}.")
    if rows[0].state is JobState.RUNNING and rows[0].attempt != job.attempt:
        raise AttemptLost
    return rows[0]


def _unended_attempt() -> Attempt:
    attempt = running_attempt()
    if attempt.done:
        raise OutsideJob("This attempt has already ended, and its results have been written.")
    return attempt


def _attempt_of(job: Job[Any]) -> Attempt | None:
    """Return the attempt at a job that runs in this context, alone or in a batch."""
    if (together := at_work.batch.get()) is not None:
        return together.attempt_of(job.id)
    attempt = at_work.running.get(None)
    return attempt if attempt is not None and attempt.row.id == job.id else None


def completion_of(job: Job[Any], now: datetime) -> JobSetStateParams:
    """Return the change that completes a job before its attempt ends. ValueError if it is not
    running.
    """
    if job.state is not JobState.RUNNING:
        raise ValueError("Only a running job can be completed.")
    own = _attempt_of(job)
    if own is not None:
        own.complete_at(now)
    attempt = own or running_attempt()
    return JobSetStateParams(
        id=job.id,
        of_attempt=job.attempt,
        state=JobState.COMPLETED,
        finalized_at=now,
        metadata=attempt.metadata(),
        ephemeral=own is not None and own.ephemeral,
    )
