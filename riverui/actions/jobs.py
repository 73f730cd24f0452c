"""What a person or a program does to jobs: each verb does to a row what River's client does.

The verbs for many jobs are one transaction each. Those for one run inside their caller's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import chain

from riverui.domain.jobs import JobRow, JobState
from riverui.errors import JobRunning, LockTimeout, NotFound, UniqueConflict
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.params import JobChanges, JobSelectParams, SkipReason

MAX_IDS = 1_000
"""Ids that one call takes, as River's own API does."""

_IN_THE_WAY = (
    "Job can't be retried because another active job has the same unique properties. "
    "Wait for it to finish or delete it before retrying."
)
"""River UI's own words: its pages show them."""


class Verb(StrEnum):
    """What can be done to jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"


async def cancel(
    driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """Cancels waiting jobs and asks running ones to stop (River's JobCancel)."""
    return await apply(driver, Verb.CANCEL, ids, time_limit=time_limit)


async def delete(
    driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """Deletes jobs that are not running (River's JobDelete)."""
    return await apply(driver, Verb.DELETE, ids, time_limit=time_limit)


async def retry(
    driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """Makes jobs available now (River's JobRetry); one whose unique twin is active is skipped."""
    return await apply(driver, Verb.RETRY, ids, time_limit=time_limit)


async def apply(
    driver: Driver, verb: Verb, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """One verb on up to MAX_IDS jobs in one transaction; each id is in exactly one part of the
    answer.

    Raises QueryTimeout when the statement itself is too slow; what another transaction holds is
    only skipped.
    """
    unique = list(dict.fromkeys(ids))
    if not unique:
        return JobChanges()
    assert len(unique) <= MAX_IDS
    async with driver.transaction(timeout=time_limit) as transaction:
        call = _call(transaction, verb)
        # Each lock that cannot be had costs a wait, so those waits together are bounded as well.
        limit = time.monotonic() + (time_limit or timedelta(seconds=10)).total_seconds()
        return merge(*await _split(transaction, call, unique, limit))


async def apply_whole(
    driver: Driver, verb: Verb, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """One verb on up to MAX_IDS jobs, on all of them or on none. NotFound, JobRunning, LockTimeout
    and UniqueConflict name the first job that is in the way; what was no more to be done is no
    error to River.
    """
    unique = list(dict.fromkeys(ids))
    assert len(unique) <= MAX_IDS
    async with driver.transaction(timeout=time_limit) as transaction:
        try:
            changes = await _call(transaction, verb)(unique)
        except UniqueConflict:
            raise UniqueConflict(_IN_THE_WAY) from None
        for job_id, reason in changes.skipped:
            if reason is SkipReason.NOT_FOUND:
                raise _not_found(job_id)
            if reason is SkipReason.RUNNING and verb is Verb.DELETE:
                raise JobRunning(f"Job {job_id} is running and can't be deleted until it finishes.")
            if reason is SkipReason.LOCKED:
                raise LockTimeout(f"Job {job_id} is locked by another transaction.")
        return changes


async def cancel_one(executor: Executor, id: int) -> JobRow:
    """River's JobCancel; the job afterwards: a running one runs on, its worker is only asked.
    NotFound.
    """
    _check(await executor.job_cancel_many([id]), id)
    return await get(executor, id)


async def retry_one(executor: Executor, id: int) -> JobRow:
    """River's JobRetry; the job afterwards, unchanged where it runs or waits. NotFound,
    UniqueConflict.
    """
    _check(await executor.job_retry_many([id]), id)
    return await get(executor, id)


async def delete_one(executor: Executor, id: int) -> JobRow:
    """River's JobDelete; the job that was. NotFound, JobRunning."""
    for deleted in await executor.job_row_delete_many(JobSelectParams(ids=(id,), limit=1)):
        return deleted
    row = await get(executor, id)
    if row.state is JobState.RUNNING:
        raise JobRunning
    # Another transaction held it: this waits for its end.
    changes = await executor.job_delete_many([id])
    if (id, SkipReason.RUNNING) in changes.skipped:
        raise JobRunning
    _check(changes, id)
    return row


async def get(executor: Executor, id: int) -> JobRow:
    """The whole job. NotFound."""
    row = await executor.job_row_get(id)
    if row is None:
        raise _not_found(id)
    return row


async def update(executor: Executor, id: int, *, metadata: str) -> JobRow:
    """River's JobUpdate: merges an object (JSON text) into the metadata; the job afterwards.
    NotFound.
    """
    row = await executor.job_update(id, metadata=metadata)
    if row is None:
        raise _not_found(id)
    return row


def _call(transaction: Transaction, verb: Verb) -> Callable[[Sequence[int]], Awaitable[JobChanges]]:
    return {
        Verb.CANCEL: transaction.job_cancel_many,
        Verb.DELETE: transaction.job_delete_many,
        Verb.RETRY: transaction.job_retry_many,
    }[verb]


def _check(changes: JobChanges, id: int) -> None:
    """Raises where the job could not be looked at; what was no more to be done is no error to
    River.
    """
    if (id, SkipReason.NOT_FOUND) in changes.skipped:
        raise _not_found(id)
    if (id, SkipReason.LOCKED) in changes.skipped:
        raise LockTimeout


def _not_found(id: int) -> NotFound:
    return NotFound(f"Job not found: {id}.")


def merge(*changes: JobChanges) -> JobChanges:
    """Several answers as one."""
    return JobChanges(
        changed=tuple(chain.from_iterable(change.changed for change in changes)),
        requested=tuple(chain.from_iterable(change.requested for change in changes)),
        skipped=tuple(chain.from_iterable(change.skipped for change in changes)),
    )


async def _split(
    transaction: Transaction,
    call: Callable[[Sequence[int]], Awaitable[JobChanges]],
    ids: Sequence[int],
    limit: float,
) -> list[JobChanges]:
    """Runs the call; where some row makes it fail, runs it on halves until only that row is left
    out.
    """
    if time.monotonic() > limit:
        return [JobChanges(skipped=tuple((job_id, SkipReason.LOCKED) for job_id in ids))]
    try:
        async with transaction.savepoint():
            return [await call(ids)]
    except UniqueConflict:
        reason = SkipReason.UNIQUE_CONFLICT
    except LockTimeout:
        reason = SkipReason.LOCKED
    if len(ids) == 1:
        return [JobChanges(skipped=((ids[0], reason),))]
    middle = len(ids) // 2
    first = await _split(transaction, call, ids[:middle], limit)
    return first + await _split(transaction, call, ids[middle:], limit)
