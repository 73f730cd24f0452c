"""Actions on jobs as in River's client, for many jobs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from riverui.domain.jobs import FINALIZED, WAITING, JobOutcome, JobRow, JobState
from riverui.domain.time import rfc3339_nano
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.sqlite.file import valid_json
from riverui.storage.sqlite.job_rows import STATES
from riverui.storage.sqlite.statements import Statements, id_list, reads, writes
from riverui.storage.sqlite.values import CANCEL_ATTEMPTED_AT, merged, without, written

_Verb = Callable[[JobRow], SkipReason | None]
"""Changes a job; returns the reason if it did not."""

_OUTCOMES = (
    f"select id, state, coalesce(json_array_length({valid_json('errors')}), 0) from river_job"
    " where id in (select value from json_each(?))"
)


class JobActions(Statements):
    """Writing operations on jobs."""

    async def job_cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """Cancel jobs as River's JobCancel does; notify the workers of each."""
        return await self._each(ids, self._cancel)

    async def job_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Delete jobs as River's JobDelete does: all but running ones."""
        return await self._each(ids, self._delete)

    async def job_move_many(
        self, ids: Sequence[int], *, queue: str | None = None, priority: int | None = None
    ) -> JobChanges:
        """Give waiting jobs another queue or priority; notify the workers of the queue that
        available ones came into.
        """
        return await self._each(ids, lambda row: self._move(row, queue, priority))

    async def job_retry_many(self, ids: Sequence[int], *, pending: bool = False) -> JobChanges:
        """Retry jobs as River's JobRetry does; UniqueConflict for all when one conflicts. With
        `pending` they become pending.
        """
        state = JobState.PENDING if pending else JobState.AVAILABLE
        return await self._each(ids, lambda row: self._retry(row, state))

    @reads
    def job_outcome_list(self, ids: Sequence[int]) -> Mapping[int, JobOutcome]:
        """Return the outcomes of these jobs by id; deleted ones are left out."""
        return {
            job_id: JobOutcome(state=STATES[state], errors=errors)
            for job_id, state, errors in self._rows(_OUTCOMES, [id_list(ids)])
        }

    @writes
    def _each(self, ids: Sequence[int], verb: _Verb) -> JobChanges:
        changed: list[int] = []
        requested: list[int] = []
        skipped: dict[int, SkipReason] = dict.fromkeys(ids, SkipReason.NOT_FOUND)
        for row in self._some(ids, lean=True):
            reason = verb(row)
            if reason is not None:
                skipped[row.id] = reason
                continue
            del skipped[row.id]
            is_asked = verb == self._cancel and row.state is JobState.RUNNING
            (requested if is_asked else changed).append(row.id)
        return JobChanges(
            changed=tuple(changed), requested=tuple(requested), skipped=tuple(skipped.items())
        )

    def _cancel(self, row: JobRow) -> SkipReason | None:
        """Cancel a job that is not finalized; a running one is only asked to stop."""
        if row.state in FINALIZED or row.finalized_at is not None:
            return SkipReason.FINALIZED
        now = self._now()
        payload = {"action": "cancel", "job_id": row.id, "queue": row.queue}
        self._notify("river_control", payload)
        asked = merged(row.metadata, written({CANCEL_ATTEMPTED_AT: rfc3339_nano(now)}))
        if row.state is JobState.RUNNING:
            self._put(row, row._replace(metadata=asked))
        else:
            ended = row._replace(state=JobState.CANCELLED, finalized_at=now, metadata=asked)
            self._put(row, ended)
        return None

    def _delete(self, row: JobRow) -> SkipReason | None:
        if row.state is JobState.RUNNING:
            return SkipReason.RUNNING
        self._remove([row.id])
        return None

    def _move(self, row: JobRow, queue: str | None, priority: int | None) -> SkipReason | None:
        if row.state is JobState.RUNNING:
            return SkipReason.RUNNING
        if row.state not in WAITING:
            return SkipReason.FINALIZED
        moved = row._replace(queue=queue or row.queue, priority=priority or row.priority)
        if moved == row:
            return SkipReason.UNCHANGED
        self._put(row, moved)
        if moved.queue != row.queue and row.state is JobState.AVAILABLE:
            self._notify("river_insert", {"queue": moved.queue})
        return None

    def _retry(self, row: JobRow, state: JobState) -> SkipReason | None:
        """Make a job available at once, with one more attempt if it has used its last."""
        if row.state is JobState.RUNNING:
            return SkipReason.RUNNING
        now = self._now()
        if row.state is JobState.AVAILABLE and row.scheduled_at < now:
            return SkipReason.ALREADY_AVAILABLE
        more = row.max_attempts + (row.attempt == row.max_attempts)
        again = row._replace(state=state, max_attempts=more, finalized_at=None, scheduled_at=now)
        if CANCEL_ATTEMPTED_AT in row.metadata:
            again = again._replace(metadata=without(row.metadata, CANCEL_ATTEMPTED_AT))
        self._put(row, again)
        return None
