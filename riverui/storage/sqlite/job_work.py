"""The workers' operations on jobs: fetch, finish, read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_json
from riverui.storage.interface.engine_params import (
    MAX_ATTEMPTED_BY,
    JobFetchParams,
    JobsAlike,
    JobSetStateParams,
    RunningJob,
)
from riverui.storage.sqlite.file import json_text
from riverui.storage.sqlite.job_insert import JobInsert
from riverui.storage.sqlite.job_rows import COLUMNS, attempt_errors, job_row
from riverui.storage.sqlite.statements import id_list, reads, writes
from riverui.storage.sqlite.values import (
    checked_json,
    is_cancel_requested,
    merged,
    same_json,
    stamp,
    to_milliseconds,
)

_WORKED_AGAIN = frozenset({JobState.AVAILABLE, JobState.RETRYABLE, JobState.SCHEDULED})
"""States of an ended attempt after which there is another attempt."""
_ATTEMPTED_BY = json_text("attempted_by")
_VALUES = "select value from json_each(?)"
_IDS = f"({_VALUES})"
_BEGIN = (
    f"update river_job set state = 'running', attempt = attempt + 1,"
    " attempted_at = ?, attempted_by = case when attempted_by is null then jsonb(json_array(?))"
    f" when json_valid({_ATTEMPTED_BY}) then jsonb(riverui_newest({_ATTEMPTED_BY}, ?, ?))"
    " else attempted_by end"
)


class JobWork(JobInsert):
    """Operations on jobs that workers need all the time."""

    @writes
    def job_get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Take up to `limit` due jobs by priority, time and id, and make them running."""
        now = params.now or self._now()
        chosen, values = _available(params, now)
        if params.alike is not None:
            chosen, values = _VALUES, [id_list(self._alike(params, params.alike, now))]
        name = params.client_id
        taken = self._rows(
            f"{_BEGIN} where id in ({chosen}) returning {COLUMNS}",
            [stamp(now), name, name, params.max_attempted_by, *values],
        )
        return [job_row(row) for row in taken]

    @reads
    def job_first_available(self, params: JobFetchParams) -> int | None:
        """Return the id of the job that job_get_available would take first; None without one."""
        now = params.now or self._now()
        first = params._replace(limit=1)
        if params.alike is not None:
            return next(iter(self._alike(first, params.alike, now)), None)
        chosen, values = _available(first, now)
        found: int | None = self._value(chosen, values)
        return found

    @writes
    def job_begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Take one unfinished job, due or not, and make it running; None if there is none."""
        taken = self._rows(
            f"{_BEGIN} where id = ? and finalized_at is null returning {COLUMNS}",
            [stamp(now), client_id, client_id, MAX_ATTEMPTED_BY, id],
        )
        return job_row(taken[0]) if taken else None

    @writes
    def job_complete_many(
        self,
        ids: Sequence[int],
        finalized_at: Sequence[datetime],
        *,
        of_attempts: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Make those of the jobs that still run, at that attempt, completed; return their ids."""
        groups: dict[tuple[datetime, int | None], list[int]] = {}
        attempts: Sequence[int | None] = of_attempts or [None] * len(ids)
        for job_id, at, attempt in zip(ids, finalized_at, attempts, strict=True):
            groups.setdefault((at, attempt), []).append(job_id)
        completed = []
        for (at, attempt), group in groups.items():
            completed += self._rows(
                "update river_job set state = 'completed', finalized_at = ?"
                f" where id in {_IDS} and state = 'running' and attempt = coalesce(?, attempt)"
                " returning id",
                [stamp(at), id_list(group), attempt],
            )
        return [job_id for (job_id,) in completed]

    @writes
    def job_delete_completed_many(
        self, ids: Sequence[int], *, of_attempts: Sequence[int]
    ) -> Sequence[int]:
        """Remove those of the jobs that still run at that attempt; return their ids."""
        pairs = json.dumps(list(zip(ids, of_attempts, strict=True)))
        deleted = self._rows(
            "delete from river_job where state = 'running' and (id, attempt) in"
            " (select value ->> 0, value ->> 1 from json_each(?)) returning id",
            [pairs],
        )
        return [job_id for (job_id,) in deleted]

    @writes
    def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """End attempts of running jobs; return the rows as they are afterwards, by id; missing
        ones are left out.
        """
        given = {change.id: change for change in changes}
        return [self._end(row, given[row.id]) for row in self._some(given)]

    @reads
    def job_running_list(self, client_id: str) -> Sequence[RunningJob]:
        """Return all running jobs that this client was the last to fetch, by id."""
        now = self._now()
        rows = self._jobs(
            f"where state = 'running' and json_extract({_ATTEMPTED_BY}, '$[#-1]') = ? order by id",
            [client_id],
            lean=True,
        )
        return [
            RunningJob(row.id, row.attempted_at, (now - row.attempted_at).total_seconds())
            for row in rows
            if row.attempted_at is not None
        ]

    @reads
    def job_cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of the running jobs for which a cancellation was requested."""
        rows = self._jobs(f"where id in {_IDS} and state = 'running'", [id_list(ids)], lean=True)
        return [row.id for row in rows if is_cancel_requested(row.metadata)]

    @writes
    def job_update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merge an object into the job's metadata, in any state; return the job, None without
        one.
        """
        row = self._job(id)
        if row is None:
            return None
        return self._put(row, row._replace(metadata=merged(row.metadata, checked_json(metadata))))

    @reads
    def job_row_get(self, id: int) -> JobRow | None:
        """Return one whole job, or None."""
        return self._job(id)

    def _alike(self, params: JobFetchParams, alike: JobsAlike, now: datetime) -> Sequence[int]:
        """Return the due jobs that fit into one batch, in the order in which they are worked."""
        chosen, values = _available(params._replace(limit=alike.window), now)
        found = self._jobs(f"where id in ({chosen}) order by priority, scheduled_at, id", values)
        return [row.id for row in found if _is_alike(row, alike)][: params.limit]

    def _end(self, row: JobRow, change: JobSetStateParams) -> JobRow:
        """Write how an attempt ended, and return the row as it is then."""
        if change.of_attempt not in (None, row.attempt):
            return row
        began_at = change.attempted_at and to_milliseconds(change.attempted_at)
        if began_at not in (None, row.attempted_at):
            return row
        metadata = merged(row.metadata, change.metadata)
        if row.state is not JobState.RUNNING:
            # Another client or the rescuer has ended it: its metadata is merged all the same.
            if change.metadata is None or change.ephemeral:
                return row
            return self._put(row, row._replace(metadata=metadata))
        if change.ephemeral:
            self._remove([row.id])
            return row._replace(
                state=change.state, finalized_at=change.finalized_at, metadata=metadata
            )
        ended: dict[str, Any] = {"state": change.state, "metadata": metadata}
        if change.error is not None:
            checked_json(change.error)
            ended["errors"] = (*row.errors, *attempt_errors(f"[{change.error}]"))
        if change.state in _WORKED_AGAIN and is_cancel_requested(row.metadata):
            ended |= {"state": JobState.CANCELLED, "finalized_at": self._now()}
        else:
            given = {
                "finalized_at": change.finalized_at,
                "attempt": change.attempt,
                "scheduled_at": change.scheduled_at,
            }
            ended |= {name: value for name, value in given.items() if value is not None}
        return self._put(row, row._replace(**ended), error=change.error)


def _available(params: JobFetchParams, now: datetime) -> tuple[str, list[Any]]:
    """Return the SQL of the ids of due jobs in the order in which they are worked, and its
    parameters.
    """
    sql = "state = 'available' and queue = ? and scheduled_at <= ?"
    values: list[Any] = [params.queue, stamp(now)]
    if params.kinds is not None:
        sql += f" and kind in {_IDS}"
        values.append(json.dumps(params.kinds))
    if params.except_ids:
        sql += f" and id not in {_IDS}"
        values.append(id_list(params.except_ids))
    order = "order by priority, scheduled_at, id limit ?"
    return f"select id from river_job where {sql} {order}", [*values, params.limit]


def _is_alike(row: JobRow, alike: JobsAlike) -> bool:
    """Return whether a job fits into a batch."""
    if row.kind != alike.kind or alike.args is None:
        return row.kind == alike.kind
    found, wanted = read_json(row.args), read_json(alike.args)
    if alike.keys:
        found = {key: found[key] for key in alike.keys if key in found}
        wanted = {key: wanted[key] for key in alike.keys if key in wanted}
    return same_json(found, wanted)
