"""Apply the verbs on jobs (`job_verbs`): to selected jobs in one transaction, to one job in the
caller's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

from riverui.actions.job_part import merge
from riverui.actions.job_verbs import CANCEL, DELETE, RETRY
from riverui.actions.pilot import JobCall, JobPilot
from riverui.actions.verbs import NO_PARAMETERS, Given, JobVerb
from riverui.domain.jobs import JobRow, JobState
from riverui.errors import BadRequest, JobRunning, LockTimeout, NotFound, UniqueConflict
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.interface.job_actions import JobChanges, SkipReason

MAX_IDS = 1_000
"""Maximum ids of one call, as in River's API."""

_UNIQUE_CONFLICT = (
    "Job can't be retried because another active job has the same unique properties. "
    "Wait for it to finish or delete it before retrying."
)
"""River UI's message, which its pages show."""


async def apply(
    driver: Driver,
    verb: JobVerb,
    ids: Sequence[int],
    given: Given = NO_PARAMETERS,
    *,
    time_limit: timedelta | None = None,
    pilot: JobPilot,
) -> JobChanges:
    """Apply a verb to up to MAX_IDS jobs in one transaction; each id is in exactly one part of the
    result.

    Raise QueryTimeout if the statement is too slow; jobs locked by another transaction are skipped.
    """
    if not ids:
        return JobChanges()
    async with driver.transaction(timeout=time_limit) as transaction:
        return await apply_tx(transaction, verb, ids, given, time_limit=time_limit, pilot=pilot)


async def apply_tx(
    transaction: Transaction,
    verb: JobVerb,
    ids: Sequence[int],
    given: Given = NO_PARAMETERS,
    *,
    time_limit: timedelta | None = None,
    pilot: JobPilot,
) -> JobChanges:
    """Apply a verb as `apply` does, inside the caller's transaction."""
    unique = list(dict.fromkeys(ids))
    assert len(unique) <= MAX_IDS
    call = partial(_call(pilot, verb, given), transaction)
    # Each locked job costs a wait, so the sum of the waits is limited as well.
    limit = time.monotonic() + (time_limit or timedelta(seconds=10)).total_seconds()
    return merge(*await _split(transaction, call, unique, limit))


async def apply_whole(
    driver: Driver,
    verb: JobVerb,
    ids: Sequence[int],
    given: Given = NO_PARAMETERS,
    *,
    time_limit: timedelta | None = None,
    pilot: JobPilot,
) -> JobChanges:
    """Apply a verb to up to MAX_IDS jobs, to all of them or to none.

    Raise NotFound, LockTimeout, UniqueConflict, or BadRequest for what the verb rejects, with the
    first such job. A job that needs no change is not an error, as in River.
    """
    unique = list(dict.fromkeys(ids))
    assert len(unique) <= MAX_IDS
    async with driver.transaction(timeout=time_limit) as transaction:
        try:
            changes = await _call(pilot, verb, given)(transaction, unique)
        except UniqueConflict:
            raise UniqueConflict(_UNIQUE_CONFLICT) from None
        _check(verb, changes)
        return changes


async def apply_one(
    executor: Executor, verb: JobVerb, id: int, given: Given = NO_PARAMETERS, *, pilot: JobPilot
) -> JobRow:
    """Apply a verb to one job; return the job afterwards.

    Raises the same errors as apply_whole. Cancelling a running job only notifies its worker.
    """
    _check(verb, await _call(pilot, verb, given)(executor, [id]))
    return await get(executor, id)


async def delete_one(executor: Executor, id: int, *, pilot: JobPilot) -> JobRow:
    """Delete a job as River's JobDelete does; return it.

    Raise NotFound, or JobRunning while it runs.
    """
    if await pilot.deletes_plainly(executor):
        for deleted in await executor.jobs.delete_selected(JobSelectParams(ids=(id,), limit=1)):
            return deleted
    row = await get(executor, id)
    if row.state is JobState.RUNNING:
        raise JobRunning
    # If another transaction has locked the job, this waits for its end.
    _check(DELETE, await pilot.delete(executor, [id]))
    return row


async def get(executor: Executor, id: int) -> JobRow:
    """Return the complete job; raise NotFound if it does not exist."""
    row = await executor.jobs.row_get(id)
    if row is None:
        raise _not_found(id)
    return row


async def update(executor: Executor, id: int, *, metadata: str) -> JobRow:
    """Merge a JSON object into the metadata as River's JobUpdate does; return the job afterwards.

    Raise NotFound if it does not exist.
    """
    row = await executor.jobs.update(id, metadata=metadata)
    if row is None:
        raise _not_found(id)
    return row


def _call(pilot: JobPilot, verb: JobVerb, given: Given) -> JobCall:
    """Return the verb's call: the pilot's if features may change it, else the storage call."""
    piloted = {CANCEL.name: pilot.cancel, DELETE.name: pilot.delete, RETRY.name: pilot.retry}
    return piloted.get(verb.name) or (lambda executor, ids: verb.call(executor, ids, given))


def _check(verb: JobVerb, changes: JobChanges) -> None:
    """Raise an error for the first job that is missing, locked or rejected by the verb."""
    for job_id, reason in changes.skipped:
        if reason is SkipReason.NOT_FOUND:
            raise _not_found(job_id)
        if reason is SkipReason.LOCKED:
            raise LockTimeout(f"Job {job_id} is locked by another transaction.")
        if reason in verb.refuses:
            message = verb.refuses[reason].format(id=job_id)
            raise JobRunning(message) if reason is SkipReason.RUNNING else BadRequest(message)


def _not_found(id: int) -> NotFound:
    return NotFound(f"Job not found: {id}.")


async def _split(
    transaction: Transaction,
    call: Callable[[Sequence[int]], Awaitable[JobChanges]],
    ids: Sequence[int],
    limit: float,
) -> list[JobChanges]:
    """Run the call; if a row makes it fail, run it on halves until only that row is skipped."""
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
