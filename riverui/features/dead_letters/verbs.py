"""Actions on dead letters: retry them, undo a deletion, or remove them permanently."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from riverui.actions import jobs
from riverui.actions.job_part import merge
from riverui.actions.job_verbs import DELETE, RETRY
from riverui.actions.jobs import MAX_IDS
from riverui.actions.pilot import JobPilot
from riverui.actions.verbs import JobVerb
from riverui.errors import (
    BadRequest,
    LockTimeout,
    NotFound,
    NotSupported,
    SchemaMissing,
    UniqueConflict,
)
from riverui.features.dead_letters.domain import DeadJob
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage import tables
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import JobChanges, SkipReason

UNDELETE = JobVerb(
    name="undelete",
    label="Undo",
    icon="rotate-cw",
    key="",
    fits=frozenset(),
    call=lambda executor, ids, given: DeadLetterStore(executor).dead_job_undo_many(ids),
    done="put back",
    changed="{jobs} put back",
    effect=("It is put back as it was.", "They are put back as they were."),
    summary="Puts deleted jobs back as they were.",
    allows=DELETE.allows,
    extension=True,
)
"""Undoes a deletion of jobs that were kept. Notices offer it; it has no button."""

RETRY_DEAD_LETTERS = replace(
    RETRY,
    name="retry_dead_letters",
    label="Retry dead letters",
    on_dead_letters=RETRY,
    effect=(
        "It becomes a job again with its id, without attempts and errors, available at once.",
        "They become jobs again with their ids, without attempts and errors, available at once.",
    ),
    extension=True,
)
DELETE_DEAD_LETTERS = replace(
    DELETE,
    name="delete_dead_letters",
    label="Delete dead letters",
    on_dead_letters=DELETE,
    effect=(
        "It is removed permanently, with args, errors and logs. This cannot be undone.",
        "They are removed permanently, with their args, errors and logs. This cannot be undone.",
    ),
    extension=True,
)
DEAD_LETTER_VERBS: Mapping[str, JobVerb] = {
    verb.name: verb for verb in (RETRY_DEAD_LETTERS, DELETE_DEAD_LETTERS)
}
"""The verbs for all matching dead letters."""

_RETRY_LIMIT = timedelta(seconds=10)
"""How long parts of a retry are repeated if the caller sets no limit, in seconds."""


class _Refused(Exception):
    """Some jobs could not be retried."""

    def __init__(self, reason: SkipReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


_Restore = Callable[[Transaction, Sequence[int], JobPilot], Awaitable[list[JobChanges]]]
"""Restores dead letters, all or none of them."""


@contextmanager
def needing_table() -> Iterator[None]:
    """Raise NotSupported, which names the missing migration, if the table of dead letters does not
    exist.
    """
    try:
        yield
    except SchemaMissing:
        raise NotSupported(tables.message("Dead letters need")) from None


async def get(executor: Executor, id: int) -> DeadJob:
    """Return one dead letter; raise NotFound if it does not exist."""
    with needing_table():
        row = await DeadLetterStore(executor).dead_job_row_get(id)
    if row is None:
        raise _not_found(id)
    return row


async def retry(
    driver: Driver,
    ids: Sequence[int],
    *,
    pilot: JobPilot,
    time_limit: timedelta | None = None,
) -> JobChanges:
    """Retry up to MAX_IDS dead letters in one transaction; see retry_tx."""
    if not ids:
        return JobChanges()
    async with driver.transaction(timeout=time_limit) as transaction:
        return await retry_tx(transaction, ids, pilot=pilot, time_limit=time_limit)


async def retry_tx(
    transaction: Transaction,
    ids: Sequence[int],
    *,
    pilot: JobPilot,
    time_limit: timedelta | None = None,
) -> JobChanges:
    """Put dead letters back under their ids, as jobs without attempts and errors, and retry them
    like any other job, so that features take part. What cannot be retried stays a dead letter.
    """
    unique = list(dict.fromkeys(ids))
    assert len(unique) <= MAX_IDS
    until = time.monotonic() + (time_limit or _RETRY_LIMIT).total_seconds()
    with needing_table():
        return merge(*await _in_halves(_retry, transaction, unique, pilot, until))


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """Jobs that a user deleted and that were kept."""

    changes: JobChanges
    died_at: datetime | None
    """When they were kept, for an undo; None if no job was deleted."""


async def delete_jobs(
    driver: Driver,
    ids: Sequence[int],
    *,
    user: str,
    pilot: JobPilot,
    time_limit: timedelta | None = None,
) -> Deletion:
    """Delete up to MAX_IDS jobs that are not running, and keep them as dead letters, in one
    transaction.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        keeping = _Keeping(transaction, user)
        with needing_table():
            changes = await jobs.apply_tx(
                cast(Transaction, keeping), DELETE, ids, pilot=pilot, time_limit=time_limit
            )
        return Deletion(changes=changes, died_at=keeping.jobs.died_at)


class _Keeping:
    """A transaction that keeps the jobs that are deleted in it: features take part in deleting as
    usual, and locks are taken in the same order.
    """

    def __init__(self, transaction: Transaction, user: str) -> None:
        self._transaction = transaction
        self.jobs = _KeepingJobs(transaction, user)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)


class _KeepingJobs:
    """The operations on jobs of that transaction."""

    died_at: datetime | None = None
    """When jobs were kept; None if none was."""

    def __init__(self, transaction: Transaction, user: str) -> None:
        self._transaction = transaction
        self._user = user

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction.jobs, name)

    async def delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Delete jobs that are not running, and keep them."""
        letters = DeadLetterStore(self._transaction)
        kept = await letters.dead_job_keep_many(ids, user=self._user)
        skipped = JobChanges(skipped=kept.changes.skipped)
        if not kept.changes.changed:
            return skipped
        self.died_at = kept.died_at
        gone = await self._transaction.jobs.delete_many(kept.changes.changed)
        # A job that was not deleted needs no dead letter.
        if left := [job_id for job_id, _ in gone.skipped]:
            await letters.dead_job_delete_many(left)
        return merge(gone, skipped)


async def undo(
    driver: Driver,
    died_at: datetime,
    *,
    user: str,
    pilot: JobPilot,
    time_limit: timedelta | None = None,
) -> JobChanges:
    """Put the jobs back that this user deleted at that time, as they were; see
    `dead_job_undo_many`. Waiting jobs of sequences get into line again by a retry.
    """
    until = time.monotonic() + (time_limit or _RETRY_LIMIT).total_seconds()
    async with driver.transaction(timeout=time_limit) as transaction:
        with needing_table():
            letters = DeadLetterStore(transaction)
            ids = await letters.dead_job_deleted_list(died_at, user=user, limit=MAX_IDS)
            return merge(*await _in_halves(_undo, transaction, ids, pilot, until))


async def delete(
    driver: Driver, ids: Sequence[int], *, time_limit: timedelta | None = None
) -> JobChanges:
    """Remove up to MAX_IDS dead letters permanently, in one transaction."""
    async with driver.transaction(timeout=time_limit) as transaction:
        return await delete_tx(transaction, ids)


async def delete_tx(executor: Executor, ids: Sequence[int]) -> JobChanges:
    """Remove up to MAX_IDS dead letters permanently."""
    assert len(ids) <= MAX_IDS
    with needing_table():
        return await DeadLetterStore(executor).dead_job_delete_many(ids)


async def apply_tx(
    transaction: Transaction,
    verb: JobVerb,
    ids: Sequence[int],
    *,
    pilot: JobPilot,
    time_limit: timedelta | None = None,
) -> JobChanges:
    """Retry or delete up to MAX_IDS dead letters in the caller's transaction."""
    if verb is RETRY:
        return await retry_tx(transaction, ids, pilot=pilot, time_limit=time_limit)
    assert verb is DELETE
    return await delete_tx(transaction, ids)


def check(id: int, changes: JobChanges) -> None:
    """Raise for a dead letter that does not exist, is locked, or whose unique key is taken."""
    for _, reason in changes.skipped:
        if reason is SkipReason.NOT_FOUND:
            raise _not_found(id)
        if reason is SkipReason.UNIQUE_CONFLICT:
            raise UniqueConflict(
                f"Dead letter {id} can't be retried because another job has its id, or is active"
                " and has the same unique properties."
            )
        if reason is SkipReason.LOCKED:
            raise LockTimeout(f"Dead letter {id} is locked by another transaction.")
        raise BadRequest(f"Dead letter {id} can't be retried: {reason.value.replace('_', ' ')}.")


async def _undo(transaction: Transaction, ids: Sequence[int], pilot: JobPilot) -> list[JobChanges]:
    """Put deleted jobs back; retry those of sequences."""
    back = await DeadLetterStore(transaction).dead_job_undo_many(ids)
    in_line = JobChanges()
    if back.requested:
        in_line = await pilot.retry(transaction, back.requested)
    if in_line.skipped:
        raise _Refused(in_line.skipped[0][1])
    return [replace(back, requested=()), in_line]


async def _retry(transaction: Transaction, ids: Sequence[int], pilot: JobPilot) -> list[JobChanges]:
    """Turn dead letters back into jobs, and retry these."""
    back = await DeadLetterStore(transaction).dead_job_restore_many(ids)
    retried = await pilot.retry(transaction, back.changed)
    if retried.skipped:
        raise _Refused(retried.skipped[0][1])
    return [retried, JobChanges(skipped=back.skipped)]


async def _in_halves(
    restore: _Restore, transaction: Transaction, ids: Sequence[int], pilot: JobPilot, until: float
) -> list[JobChanges]:
    """Restore dead letters; if one cannot be restored, restore each half separately."""
    if not ids:
        return []
    if time.monotonic() > until:
        return [JobChanges(skipped=tuple((job_id, SkipReason.LOCKED) for job_id in ids))]
    try:
        async with transaction.savepoint():
            return await restore(transaction, ids, pilot)
    except UniqueConflict:
        reason = SkipReason.UNIQUE_CONFLICT
    except LockTimeout:
        reason = SkipReason.LOCKED
    except _Refused as refused:
        reason = refused.reason
    if len(ids) == 1:
        return [JobChanges(skipped=((ids[0], reason),))]
    middle = len(ids) // 2
    first = await _in_halves(restore, transaction, ids[:middle], pilot, until)
    return first + await _in_halves(restore, transaction, ids[middle:], pilot, until)


def _not_found(id: int) -> NotFound:
    return NotFound(f"Dead letter not found: {id}.")
