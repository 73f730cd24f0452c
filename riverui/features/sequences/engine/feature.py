"""Runs the jobs of a sequence one at a time, in the order of their insertion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from riverui.actions.job_part import Inner as JobInner
from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext
from riverui.engine.pilot import Feature, Inner, InsertBatch, JobEnd
from riverui.errors import ConfigError, InsertError, SchemaMissing
from riverui.features.sequences import verbs
from riverui.features.sequences.domain import MARK_TEXT, sequence_key_of
from riverui.features.sequences.engine.scheduler import SequenceScheduler
from riverui.features.sequences.store import Claim, Claims, SequenceStore
from riverui.features.workflows.domain.tasks import task_of
from riverui.storage import tables
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import (
    InsertResult,
    unique_conflict,
)
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.tables import table_names

_Placed = tuple[str, int]
"""A key and the id of a job."""


class Sequences(Feature):
    """Keeps the jobs of a sequence pending until their turn.

    The first job of an idle key can run at once; the next is made available in the transaction that
    ends the one before it. On a database with River Pro's sequences it refuses to insert, unless
    `beside_pro` says that no Pro client works there.
    """

    built_in = True
    ends_at_once = True
    marked = MARK_TEXT

    def __init__(self, *, interval: timedelta, beside_pro: bool = False) -> None:
        self._beside_pro = beside_pro
        self._interval = interval

    async def insert_many(
        self,
        executor: Executor,
        batch: InsertBatch,
        do_inner: Inner[InsertBatch, Sequence[InsertResult]],
    ) -> Sequence[InsertResult]:
        """Insert jobs; the first job of an idle sequence may run, the others wait.

        Raise ConfigError if a client of River Pro may work there, SchemaMissing without the tables.
        """
        keys = [sequence_key_of(job.metadata) for job in batch.jobs]
        if not any(keys):
            return await do_inner(batch)
        if not await SequenceStore.installed(executor):
            raise SchemaMissing(tables.message("Sequences need"))
        sequences = SequenceStore(executor)
        claims = await self._claim(sequences, {key for key in keys if key is not None})
        jobs = list(batch.jobs)
        headed: set[str] = set()
        for place, key in enumerate(keys):
            if key is None:
                continue
            job = jobs[place]
            if task_of(job.metadata) is not None:
                raise InsertError("a task of a workflow cannot be in a sequence")
            if job.state not in (JobState.AVAILABLE, JobState.SCHEDULED):
                raise InsertError("a job of a sequence is inserted as available or as scheduled")
            if claims.of_key[key] is Claim.OURS and key not in headed:
                headed.add(key)
            else:
                jobs[place] = job._replace(state=JobState.PENDING)
        results = await do_inner(batch._replace(jobs=jobs, fast=False))
        heads, waiting = _placed(keys, results)
        await sequences.sequence_put(heads, waiting)
        if left := {key for key, _ in waiting} & headed - {key for key, _ in heads}:
            # The first one existed already (unique), so another one may run.
            await sequences.sequence_advance(left)
        if not batch.fast:
            return results
        for job, result in zip(jobs, results, strict=True):
            if result.unique_skipped_as_duplicate:
                raise unique_conflict(job)
        return []

    async def set_state_if_running_many(
        self,
        executor: Executor,
        ends: Sequence[JobEnd],
        do_inner: Inner[Sequence[JobEnd], Sequence[JobRow]],
    ) -> Sequence[JobRow]:
        """Store how attempts ended; if a head's did, let the next job of its sequence run."""
        rows = await do_inner(ends)
        states = {row.id: row.state for row in rows}
        keys: set[str] = set()
        over: list[int] = []
        for end in ends:
            state = states.get(end.job.id)
            if state is not None and state not in FINALIZED:
                continue
            if key := sequence_key_of(end.job.metadata):
                keys.add(key)
                if state is JobState.COMPLETED:
                    over.append(end.job.id)
        if keys and await SequenceStore.installed(executor):
            await SequenceStore(executor).sequence_advance(keys, over_ids=over)
        return rows

    async def takes_part(self, executor: Executor) -> bool:
        """Return whether the table of sequences exists."""
        return await SequenceStore.installed(executor)

    async def retry(self, executor: Executor, ids: Sequence[int], do_inner: JobInner) -> JobChanges:
        """Retry jobs; those of a sequence wait for their turn."""
        return await verbs.retry(executor, ids, do_inner)

    async def cancel(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Cancel jobs, and move their sequences on."""
        return await verbs.change(executor, ids, do_inner)

    async def delete(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Delete jobs, and move their sequences on."""
        return await verbs.change(executor, ids, do_inner)

    def services(self, context: ServiceContext) -> Sequence[MaintenanceService]:
        """Return the service that moves on stuck sequences."""
        return [SequenceScheduler(context, self._interval)]

    async def _claim(self, sequences: SequenceStore, keys: set[str]) -> Claims:
        claims = await sequences.sequence_claim(keys)
        if claims.pro and not self._beside_pro:
            raise ConfigError(
                "This database has the table of River Pro's sequences, whose clients would move the"
                " same jobs. If none works on it, set sequences_beside_pro=True."
            )
        return claims


def _placed(
    keys: Sequence[str | None], results: Sequence[InsertResult]
) -> tuple[list[_Placed], list[_Placed]]:
    """Return which of the inserted jobs are heads of their sequences, and which wait."""
    heads: list[_Placed] = []
    waiting: list[_Placed] = []
    for key, result in zip(keys, results, strict=True):
        if key is None or result.unique_skipped_as_duplicate:
            continue
        placed = waiting if result.job.state is JobState.PENDING else heads
        placed.append((key, result.job.id))
    return heads, waiting


class ProSequences(Feature):
    """Respects River Pro's sequences when users change their jobs."""

    built_in = True

    async def takes_part(self, executor: Executor) -> bool:
        """Return whether River Pro's table of sequences exists."""
        return "river_job_sequence" in await table_names(executor)

    async def retry(self, executor: Executor, ids: Sequence[int], do_inner: JobInner) -> JobChanges:
        """Retry jobs; those of a sequence wait for their turn."""
        return await verbs.retry_pros(executor, ids, do_inner)

    async def cancel(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Cancel jobs; River Pro's clients move their sequences on."""
        return await verbs.change_pros(executor, ids, do_inner)

    async def delete(
        self, executor: Executor, ids: Sequence[int], do_inner: JobInner
    ) -> JobChanges:
        """Delete jobs; River Pro's clients move their sequences on."""
        return await verbs.change_pros(executor, ids, do_inner)
