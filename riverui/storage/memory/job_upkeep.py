"""The leader's operations on jobs: schedule, rescue, remove."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from riverui.domain.jobs import STATE_BITS, JobRow, JobState
from riverui.domain.json import read_object
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
    JobScheduled,
)
from riverui.storage.memory.statements import Statements, held_key, statement
from riverui.storage.memory.tables import fetch_order
from riverui.storage.memory.values import attempt_error, merged, written

_CONFLICT = '{"unique_key_conflict": "scheduler_discarded"}'
"""River's mark in the metadata of a job that was discarded for its unique key."""
_RESCUES = "river:rescue_count"
"""The metadata key for the number of rescues of a job."""


class JobUpkeep(Statements):
    """Operations of the client that leads."""

    @statement
    def job_schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Make scheduled and retryable jobs due by `now` available, and discard those whose unique
        key another job holds; return those moved.
        """
        moved = [row for row in self._due(now, except_ids)[:limit] if self._free(row)]
        refused = {row.id for row in moved if self._is_refused(row, moved)}
        # First the jobs that release a key, which another job may take then.
        for row in sorted(moved, key=lambda row: row.id not in refused):
            if row.id in refused:
                self._discard(row, now)
            else:
                self._put(row._replace(state=JobState.AVAILABLE))
        return [
            JobScheduled(row.id, row.queue, row.scheduled_at, row.id in refused)
            for row in sorted(moved, key=lambda row: row.id)
        ]

    @statement
    def job_first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Return the id of the job that job_schedule would move first; None without one."""
        return next((row.id for row in self._due(now, except_ids)), None)

    @statement
    def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return running jobs that started before then, by id."""
        return self._stuck(attempted_before, after_id)[:limit]

    @statement
    def job_first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Return the id of the job that job_get_stuck would read first; None without one."""
        return next((row.id for row in self._stuck(attempted_before, after_id)), None)

    @statement
    def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """End stuck jobs that still run since before then; return the ids of those changed."""
        given = {rescue.id: rescue for rescue in rescues}
        stuck = [row for row in self._stuck(attempted_before, 0) if row.id in given]
        rescued = [row for row in stuck if self._free(row)]
        for row in rescued:
            rescue = given[row.id]
            count = read_object(row.metadata).get(_RESCUES)
            count = count if type(count) is int else 0
            self._put(
                row._replace(
                    state=rescue.state,
                    errors=(*row.errors, attempt_error(rescue.error)),
                    finalized_at=rescue.finalized_at,
                    scheduled_at=rescue.scheduled_at or row.scheduled_at,
                    metadata=merged(row.metadata, written({_RESCUES: count + 1})),
                )
            )
        return [row.id for row in rescued]

    @statement
    def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs past their retention, the longest finished first; return how
        many.
        """
        old = self._old(params)
        for row in old:
            self._remove(row)
        return len(old)

    @statement
    def job_first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Return the id of the job that job_delete_before would remove first; None without one."""
        return next((row.id for row in self._old(params)), None)

    def _due(self, now: datetime, except_ids: Sequence[int]) -> list[JobRow]:
        return sorted(
            (
                row
                for row in self._changes.all(self._tables.jobs)
                if row.state in (JobState.SCHEDULED, JobState.RETRYABLE)
                and row.scheduled_at <= now
                and row.id not in except_ids
            ),
            key=fetch_order,
        )

    def _is_refused(self, row: JobRow, moved: Sequence[JobRow]) -> bool:
        """Return whether a due job is discarded because another one has its unique key: one that
        holds it, or that comes first among those moved.
        """
        if row.unique_key is None or row.unique_states is None:
            return False
        same = [other for other in moved if other.unique_key == row.unique_key]
        holder = self._changes.get(self._tables.keys, row.unique_key)
        # If a due job holds the key and another one wants it, River discards both.
        taken = holder is not None and any(other.id != holder for other in same)
        return taken or min(same, key=fetch_order) is not row

    def _discard(self, row: JobRow, now: datetime) -> None:
        # It releases the key if that counts in discarded jobs too: another one has it.
        states = (row.unique_states or 0) & ~STATE_BITS[JobState.DISCARDED]
        discarded = row._replace(
            state=JobState.DISCARDED,
            finalized_at=now,
            metadata=merged(row.metadata, _CONFLICT),
            unique_states=states,
        )
        assert held_key(discarded) is None
        self._put(discarded)

    def _stuck(self, attempted_before: datetime, after_id: int) -> list[JobRow]:
        return [
            row
            for row in self._jobs()
            if row.state is JobState.RUNNING
            and row.id > after_id
            and row.attempted_at is not None
            and row.attempted_at < attempted_before
        ]

    def _old(self, params: JobDeleteBeforeParams) -> list[JobRow]:
        rows = self._changes.all(self._tables.jobs)
        old: list[JobRow] = []
        for state, before, behind in (
            (JobState.CANCELLED, params.cancelled_before, params.cancelled_behind),
            (JobState.COMPLETED, params.completed_before, params.completed_behind),
            (JobState.DISCARDED, params.discarded_before, params.discarded_behind),
        ):
            found = [
                (row.finalized_at, row)
                for row in rows
                if row.state is state
                and row.finalized_at is not None
                and (before is not None and row.finalized_at < before)
                and (behind is None or row.finalized_at > behind)
                and row.queue not in params.queues_excluded
                and (not params.queues_included or row.queue in params.queues_included)
                and row.id not in params.except_ids
            ]
            old += [row for _, row in sorted(found, key=lambda each: each[0])]
        return old[: params.limit]
