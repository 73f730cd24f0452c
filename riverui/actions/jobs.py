"""What a person does to jobs: each verb is one transaction and does to a row what River's client does."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import chain

from riverui.errors import LockTimeout, UniqueConflict
from riverui.storage.interface import Driver, Transaction
from riverui.storage.params import JobChanges, SkipReason

MAX_IDS = 1_000
"""Ids that one call takes, as River's own API does."""


class Verb(StrEnum):
    """What can be done to jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"


async def cancel(driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None) -> JobChanges:
    """Cancels waiting jobs and asks running ones to stop (River's JobCancel)."""
    return await apply(driver, Verb.CANCEL, ids, time_limit=time_limit)


async def delete(driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None) -> JobChanges:
    """Deletes jobs that are not running (River's JobDelete)."""
    return await apply(driver, Verb.DELETE, ids, time_limit=time_limit)


async def retry(driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None) -> JobChanges:
    """Makes jobs available now (River's JobRetry); one whose unique twin is active is skipped."""
    return await apply(driver, Verb.RETRY, ids, time_limit=time_limit)


async def apply(
    driver: Driver, verb: Verb, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """One verb on up to MAX_IDS jobs in one transaction; each id is in exactly one part of the answer.

    Raises QueryTimeout when the statement itself is too slow; what another transaction holds is only skipped.
    """
    unique = list(dict.fromkeys(ids))
    if not unique:
        return JobChanges()
    assert len(unique) <= MAX_IDS
    async with driver.transaction(timeout=time_limit) as transaction:
        call = {
            Verb.CANCEL: transaction.job_cancel_many,
            Verb.DELETE: transaction.job_delete_many,
            Verb.RETRY: transaction.job_retry_many,
        }[verb]
        # Each lock that cannot be had costs a wait, so those waits together are bounded as well.
        limit = time.monotonic() + (time_limit or timedelta(seconds=10)).total_seconds()
        return merge(*await _split(transaction, call, unique, limit))


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
    """Runs the call; where some row makes it fail, runs it on halves until only that row is left out."""
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
