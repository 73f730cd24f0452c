"""The workers' operations on jobs: insert, fetch, finish, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_json
from riverui.domain.values import MAX_SMALLINT
from riverui.storage.interface.engine_params import (
    MAX_ATTEMPTED_BY,
    InsertResult,
    JobFetchParams,
    JobInsertParams,
    JobsAlike,
    JobSetStateParams,
    RunningJob,
    unique_conflict,
)
from riverui.storage.memory.statements import Statements, held_key, statement
from riverui.storage.memory.values import (
    attempt_error,
    checked_json,
    checked_text,
    is_cancel_requested,
    merged,
    newest,
    same_json,
    written,
)

_WORKED_AGAIN = frozenset({JobState.AVAILABLE, JobState.RETRYABLE, JobState.SCHEDULED})
"""States of an ended attempt after which there is another attempt."""


class JobWork(Statements):
    """Operations on jobs that workers need all the time."""

    @statement
    def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and notify the workers of the queues in `notify`; return one result for each
        job, in order: the existing job if its unique key is held.
        """
        results = [self._insert(params) for params in jobs]
        self._notify_inserts(notify)
        return results

    @statement
    def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert jobs and return how many; UniqueConflict if a unique key is held."""
        for params in jobs:
            if self._insert(params).unique_skipped_as_duplicate:
                raise unique_conflict(params)
        self._notify_inserts(notify)
        return len(jobs)

    @statement
    def job_get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Take up to `limit` due jobs by priority, time and id, and make them running."""
        now = params.now or self._clock()
        taken = sorted(islice(self._available(params, now), params.limit), key=attrgetter("id"))
        return [self._begin(row, params.client_id, now, params.max_attempted_by) for row in taken]

    @statement
    def job_first_available(self, params: JobFetchParams) -> int | None:
        """Return the id of the job that job_get_available would take first; None without one."""
        first = next(self._available(params, params.now or self._clock()), None)
        return None if first is None else first.id

    @statement
    def job_begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Take one unfinished job, due or not, and make it running; None if there is none."""
        row = self._job(id)
        if row is None or row.finalized_at is not None:
            return None
        return self._begin(row, client_id, now, MAX_ATTEMPTED_BY)

    @statement
    def job_complete_many(
        self,
        ids: Sequence[int],
        finalized_at: Sequence[datetime],
        *,
        of_attempts: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Make those of the jobs that still run, at that attempt, completed; return their ids."""
        attempts: Sequence[int | None] = of_attempts or [None] * len(ids)
        completed = []
        for job_id, at, attempt in zip(ids, finalized_at, attempts, strict=True):
            row = self._running(job_id, attempt)
            if row is not None:
                self._put(row._replace(state=JobState.COMPLETED, finalized_at=at))
                completed.append(job_id)
        return completed

    @statement
    def job_delete_completed_many(
        self, ids: Sequence[int], *, of_attempts: Sequence[int]
    ) -> Sequence[int]:
        """Remove those of the jobs that still run at that attempt; return their ids."""
        deleted = [
            row
            for job_id, attempt in zip(ids, of_attempts, strict=True)
            if (row := self._running(job_id, attempt)) is not None
        ]
        for row in deleted:
            self._remove(row)
        return [row.id for row in deleted]

    @statement
    def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """End attempts of running jobs; return the rows as they are afterwards, by id; missing
        ones are left out.
        """
        ended = []
        for change in sorted(changes, key=lambda change: change.id):
            row = self._job(change.id)
            if row is not None:
                ended.append(self._end(row, change))
        return ended

    @statement
    def job_running_list(self, client_id: str) -> Sequence[RunningJob]:
        """Return all running jobs that this client was the last to fetch, by id."""
        now = self._clock()
        return [
            RunningJob(row.id, row.attempted_at, (now - row.attempted_at).total_seconds())
            for row in self._jobs()
            if row.state is JobState.RUNNING
            and row.attempted_at is not None
            and row.attempted_by[-1:] == (client_id,)
        ]

    @statement
    def job_cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of the running jobs for which a cancellation was requested."""
        return [
            row.id
            for row in self._some(ids)
            if row.state is JobState.RUNNING and is_cancel_requested(row.metadata)
        ]

    @statement
    def job_update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merge an object into the job's metadata, in any state; return the job, None without
        one.
        """
        row = self._job(id)
        if row is None:
            return None
        return self._put(row._replace(metadata=merged(row.metadata, checked_json(metadata))))

    @statement
    def job_row_get(self, id: int) -> JobRow | None:
        """Return one whole job, or None."""
        return self._job(id)

    def _insert(self, params: JobInsertParams) -> InsertResult:
        row = JobRow(
            id=0,
            state=params.state,
            attempt=0,
            max_attempts=min(params.max_attempts, MAX_SMALLINT),
            attempted_at=None,
            created_at=params.created_at,
            finalized_at=None,
            scheduled_at=params.scheduled_at,
            priority=min(params.priority, MAX_SMALLINT),
            args=checked_json(params.args),
            attempted_by=(),
            errors=(),
            kind=checked_text(params.kind),
            metadata=checked_json(params.metadata),
            queue=checked_text(params.queue),
            tags=tuple(map(checked_text, params.tags)),
            unique_key=params.unique_key,
            unique_states=params.unique_states or None,
        )
        key = held_key(row)
        holder = None if key is None else self._changes.get(self._tables.keys, key)
        if holder is not None:
            existing = self._job(holder)
            assert existing is not None
            return InsertResult(existing, True)
        return InsertResult(self._put(row._replace(id=next(self._tables.job_ids))))

    def _notify_inserts(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self._changes.notify("river_insert", written({"queue": queue}))

    def _available(self, params: JobFetchParams, now: datetime) -> Iterator[JobRow]:
        """Yield the due jobs that no transaction holds, in the order in which they are worked."""
        due = (row for row in self._changes.available(params.queue) if row.scheduled_at <= now)
        if (alike := params.alike) is not None:
            due = (row for row in islice(due, alike.window) if _is_alike(row, alike))
        for row in due:
            if (
                (params.kinds is None or row.kind in params.kinds)
                and row.id not in params.except_ids
                and self._free(row)
            ):
                yield row

    def _begin(self, row: JobRow, client_id: str, now: datetime, most: int) -> JobRow:
        return self._put(
            row._replace(
                state=JobState.RUNNING,
                attempt=min(row.attempt + 1, MAX_SMALLINT),
                attempted_at=now,
                attempted_by=newest(row.attempted_by, client_id, most),
            )
        )

    def _running(self, id: int, attempt: int | None) -> JobRow | None:
        """Return the job if it runs at that attempt (None for any); else None."""
        row = self._job(id)
        if row is None or row.state is not JobState.RUNNING:
            return None
        return row if attempt in (None, row.attempt) else None

    def _end(self, row: JobRow, change: JobSetStateParams) -> JobRow:
        """Write how an attempt ended, and return the row as it is then."""
        if change.of_attempt not in (None, row.attempt):
            return row
        if change.attempted_at not in (None, row.attempted_at):
            return row
        metadata = merged(row.metadata, change.metadata)
        if row.state is not JobState.RUNNING:
            # Another client or the rescuer has ended it: its metadata is merged all the same.
            if change.metadata is None or change.ephemeral:
                return row
            return self._put(row._replace(metadata=metadata))
        if change.ephemeral:
            self._remove(row)
            return row._replace(
                state=change.state, finalized_at=change.finalized_at, metadata=metadata
            )
        ended: dict[str, Any] = {"state": change.state, "metadata": metadata}
        if change.error is not None:
            ended["errors"] = (*row.errors, attempt_error(change.error))
        if change.state in _WORKED_AGAIN and is_cancel_requested(row.metadata):
            ended |= {"state": JobState.CANCELLED, "finalized_at": self._clock()}
        else:
            given = {
                "finalized_at": change.finalized_at,
                "attempt": change.attempt,
                "scheduled_at": change.scheduled_at,
            }
            ended |= {name: value for name, value in given.items() if value is not None}
        return self._put(row._replace(**ended))


def _is_alike(row: JobRow, alike: JobsAlike) -> bool:
    """Return whether a job fits into a batch."""
    if row.kind != alike.kind or alike.args is None:
        return row.kind == alike.kind
    found, wanted = read_json(row.args), read_json(alike.args)
    if alike.keys:
        found = {key: found[key] for key in alike.keys if key in found}
        wanted = {key: wanted[key] for key in alike.keys if key in wanted}
    return same_json(found, wanted)
