"""Retries, cancels and deletes jobs of sequences: never two jobs of a key run at once, and the next
one gets its turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from riverui.actions.job_part import Inner, merge
from riverui.domain.jobs import JobShowRow
from riverui.domain.json import read_object
from riverui.errors import BadRequest, NotFound, SchemaMissing
from riverui.features.sequences.domain import SEQ_KEY, SEQUENCE, SequencePlace
from riverui.features.sequences.store import SequenceStore
from riverui.storage import tables
from riverui.storage.interface import Driver, Executor
from riverui.storage.interface.job_actions import JobChanges, SkipReason


async def retry(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Retry jobs: those in a sequence get back into line, and run at once if it is their turn."""
    keys = await _keys(executor, ids, ours=True)
    if not keys:
        return await do_inner(ids)
    sequences = SequenceStore(executor)
    # Lock keys before jobs, to avoid deadlocks.
    await sequences.sequence_lock(set(keys.values()))
    changes = await _others(ids, keys, do_inner)
    retried = await executor.jobs.retry_many(list(keys), pending=True)
    await sequences.sequence_requeue([(keys[job_id], job_id) for job_id in retried.changed])
    await sequences.sequence_advance(set(keys.values()))
    return merge(changes, retried)


async def change(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Cancel or delete jobs; if one was the head of its sequence, the next gets its turn unless the
    sequence halts.
    """
    keys = set((await _keys(executor, ids, ours=True)).values())
    if not keys:
        return await do_inner(ids)
    sequences = SequenceStore(executor)
    await sequences.sequence_lock(keys)
    changes = await do_inner(ids)
    await sequences.sequence_advance(keys)
    return changes


async def retry_pros(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Retry jobs: those in a sequence of River Pro become pending, and Pro is asked to look at
    their keys. If that is not possible they are not changed.
    """
    keys = await _keys(executor, ids, ours=False)
    if not keys:
        return await do_inner(ids)
    changes = await _others(ids, keys, do_inner)
    sequences = SequenceStore(executor)
    if not await sequences.sequence_hand_over(set(keys.values())):
        left = JobChanges(skipped=tuple((job_id, SkipReason.SEQUENCE) for job_id in keys))
        return merge(changes, left)
    return merge(changes, await executor.jobs.retry_many(list(keys), pending=True))


async def change_pros(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Cancel or delete jobs, and ask River Pro to look at the keys of its sequences. If that is not
    possible, Pro notices at its next look at all of them.
    """
    keys = set((await _keys(executor, ids, ours=False)).values())
    changes = await do_inner(ids)
    if keys:
        await SequenceStore(executor).sequence_hand_over(keys)
    return changes


async def place(driver: Driver, job: JobShowRow) -> SequencePlace | None:
    """Return a job's place in its sequence, None if it is in none. Raise SchemaMissing if the
    tables are missing.
    """
    if not _may_be_in_one(job):
        return None
    async with driver.reading() as executor:
        return await place_tx(executor, job)


async def place_tx(executor: Executor, job: JobShowRow) -> SequencePlace | None:
    """Return a job's place as `place` does, in the caller's transaction."""
    if not _may_be_in_one(job):
        return None
    if await SequenceStore.installed(executor):
        found = await SequenceStore(executor).sequence_place(job.id)
        if found is not None:
            return found
    metadata = read_object(job.metadata.text) if job.metadata.complete else {}
    key = metadata.get(SEQ_KEY)
    if SEQUENCE in metadata:
        raise SchemaMissing(tables.message("Sequences need"))
    if not isinstance(key, str):
        return None
    return SequencePlace(
        key=key,
        head_id=None,
        head_state=None,
        halted_at=None,
        waiting=False,
        ahead=0,
        ours=False,
    )


def _may_be_in_one(job: JobShowRow) -> bool:
    # Metadata that are cut may have had the key.
    return f'"{SEQ_KEY}"' in job.metadata.text or not job.metadata.complete


async def skip(
    driver: Driver, job_id: int, *, time_limit: timedelta | None = None
) -> SequencePlace | None:
    """Move a sequence on past a cancelled or discarded job that halts it, or would when its turn
    came; return the job's place afterwards. The job is not changed.

    Raise NotFound if the job does not exist, BadRequest if it does not halt a sequence.
    """
    async with driver.transaction(timeout=time_limit) as executor:
        sequences = SequenceStore(executor)
        found = (await sequences.sequence_key_get_many([job_id])).get(job_id)
        if found is None:
            if await executor.jobs.row_get(job_id) is None:
                raise NotFound(f"Job not found: {job_id}.")
            raise BadRequest(f"Job {job_id} is in no sequence.")
        if not found.ours:
            raise BadRequest(
                f"Job {job_id} is in a sequence of River Pro, which only its clients move on."
            )
        if not await SequenceStore.installed(executor):
            raise BadRequest(tables.message("Sequences need"))
        await sequences.sequence_lock({found.key})
        if not await sequences.sequence_skip(found.key, job_id):
            raise BadRequest(
                f"Job {job_id} does not halt its sequence: only a cancelled or discarded job at its"
                " head does, or one that waits for its turn."
            )
        await sequences.sequence_advance({found.key})
        return await sequences.sequence_place(job_id)


async def _keys(executor: Executor, ids: Sequence[int], *, ours: bool) -> Mapping[int, str]:
    """Return the keys of those jobs that are in a sequence of riverui, or of River Pro."""
    found = await SequenceStore(executor).sequence_key_get_many(ids)
    return {job_id: one.key for job_id, one in found.items() if one.ours is ours}


async def _others(ids: Sequence[int], keys: Mapping[int, str], do_inner: Inner) -> JobChanges:
    others = [job_id for job_id in ids if job_id not in keys]
    return await do_inner(others) if others else JobChanges()
