"""The leader's operations on jobs: schedule, rescue, remove."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from riverui.domain.jobs import STATE_BITS, JobRow, JobState
from riverui.domain.json import read_object
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
    JobScheduled,
)
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.sqlite.job_rows import HOLDS_KEY
from riverui.storage.sqlite.sql import ready
from riverui.storage.sqlite.statements import Statements, id_list, reads, writes
from riverui.storage.sqlite.values import merged, stamp, written

_CONFLICT = '{"unique_key_conflict": "scheduler_discarded"}'
"""River's mark in the metadata of a job that was discarded for its unique key."""
_RESCUES = "river:rescue_count"
"""The metadata key for the number of rescues of a job."""
_NOTIFICATIONS_KEPT = timedelta(minutes=10)
"""How long notifications are kept: listeners read them within a second."""
_DUE = """
    with recursive queues(state, queue) as (
        select value, (select min(queue) from river_job where state = value)
        from json_each('["retryable", "scheduled"]')
        union all
        select state, (select min(queue) from river_job as next
            where next.state = queues.state and next.queue > queues.queue)
        from queues where queue is not null
    )
    select river_job.id from queues cross join json_each('[1, 2, 3, 4]') as priorities
    cross join river_job on river_job.state = queues.state and river_job.queue = queues.queue
        and priority = priorities.value and scheduled_at <= ?
    where river_job.id not in (select value from json_each(?))
    order by priority, scheduled_at, river_job.id limit ?
"""
"""Due jobs: River's fetching index has their time behind the queue and the priority."""
_STUCK = "where state = 'running' and id > ? and attempted_at < ? order by id limit ?"


class JobUpkeep(Statements):
    """Operations of the client that leads."""

    @writes
    def job_schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Make scheduled and retryable jobs due by `now` available, and discard those whose unique
        key another job holds; return those moved.
        """
        moved = self._some(self._due(now, except_ids, limit), lean=True)
        refused = {row.id for row in moved if self._is_refused(row, moved)}
        # First the jobs that release a key, which another job may take then.
        for row in moved:
            if row.id in refused:
                self._discard(row, now)
        self._rows(
            "update river_job set state = 'available' where id in (select value from json_each(?))",
            [id_list(row.id for row in moved if row.id not in refused)],
        )
        return [
            JobScheduled(row.id, row.queue, row.scheduled_at, row.id in refused) for row in moved
        ]

    @reads
    def job_first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Return the id of the job that job_schedule would move first; None without one."""
        return next(iter(self._due(now, except_ids, 1)), None)

    @reads
    def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return running jobs that started before then, by id."""
        return self._jobs(_STUCK, [after_id, stamp(attempted_before), limit])

    @reads
    def job_first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Return the id of the job that job_get_stuck would read first; None without one."""
        found: int | None = self._value(
            f"select id from river_job {_STUCK}", [after_id, stamp(attempted_before), 1]
        )
        return found

    @writes
    def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """End stuck jobs that still run since before then; return the ids of those changed."""
        given = {rescue.id: rescue for rescue in rescues}
        stuck = self._jobs(
            "where state = 'running' and attempted_at < ?"
            " and id in (select value from json_each(?)) order by id",
            [stamp(attempted_before), id_list(given)],
            lean=True,
        )
        for row in stuck:
            rescue = given[row.id]
            count = read_object(row.metadata).get(_RESCUES)
            count = count if type(count) is int else 0
            rescued = row._replace(
                state=rescue.state,
                finalized_at=rescue.finalized_at,
                scheduled_at=rescue.scheduled_at or row.scheduled_at,
                metadata=merged(row.metadata, written({_RESCUES: count + 1})),
            )
            self._put(row, rescued, error=rescue.error)
        return [row.id for row in stuck]

    @writes
    def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs past their retention, the longest finished first, and notifications
        that every listener has read; return how many jobs.
        """
        self._rows(
            "delete from river_notification where created_at < ?",
            [stamp(self._now() - _NOTIFICATIONS_KEPT)],
        )
        old = self._old(params)
        self._remove(old)
        return len(old)

    @writes
    def job_delete_old(self, params: JobDeleteBeforeParams, kept: Fragment) -> int:
        """Remove the same jobs after a block has copied them, which has their ids as `ids`; return
        how many.
        """
        old = self._old(params)
        copy, _ = ready(Fragment(kept.source, {"ids": old, "now": self._now()}))
        copy(self._scope.connection)
        self._remove(old)
        return len(old)

    @reads
    def job_first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Return the id of the job that job_delete_before would remove first; None without one."""
        return next(iter(self._old(params)), None)

    def _due(self, now: datetime, except_ids: Sequence[int], limit: int) -> Sequence[int]:
        return self._value_list(_DUE, [stamp(now), id_list(except_ids), limit])

    def _is_refused(self, row: JobRow, moved: Sequence[JobRow]) -> bool:
        """Return whether a due job is discarded because another one has its unique key: one that
        holds it, or that comes first among those moved.
        """
        if row.unique_key is None or row.unique_states is None:
            return False
        same = [other for other in moved if other.unique_key == row.unique_key]
        holder = self._value(
            f"select id from river_job where unique_key = ? and {HOLDS_KEY}", [row.unique_key]
        )
        # If a due job holds the key and another one wants it, River discards both.
        taken = holder is not None and any(other.id != holder for other in same)
        return taken or min(same, key=_order) is not row

    def _discard(self, row: JobRow, now: datetime) -> None:
        # It releases the key if that counts in discarded jobs too: another one has it.
        states = (row.unique_states or 0) & ~STATE_BITS[JobState.DISCARDED]
        discarded = row._replace(
            state=JobState.DISCARDED,
            finalized_at=now,
            metadata=merged(row.metadata, _CONFLICT),
            unique_states=states,
        )
        self._put(row, discarded)

    def _old(self, params: JobDeleteBeforeParams) -> Sequence[int]:
        old: list[int] = []
        for state, before, behind in (
            (JobState.CANCELLED, params.cancelled_before, params.cancelled_behind),
            (JobState.COMPLETED, params.completed_before, params.completed_behind),
            (JobState.DISCARDED, params.discarded_before, params.discarded_behind),
        ):
            if before is None:
                continue
            sql = "state = ? and finalized_at is not null and finalized_at < ?"
            values: list[Any] = [state.value, stamp(before)]
            if behind is not None:
                sql, values = f"{sql} and finalized_at > ?", [*values, stamp(behind)]
            for condition, names in (
                ("queue not in", params.queues_excluded),
                ("queue in", params.queues_included),
                ("id not in", params.except_ids),
            ):
                if names:
                    sql += f" and {condition} (select value from json_each(?))"
                    values.append(json.dumps(names))
            old += self._value_list(
                f"select id from river_job where {sql} order by finalized_at limit ?",
                [*values, params.limit - len(old)],
            )
        return old


def _order(row: JobRow) -> tuple[int, datetime, int]:
    """Return the sort key of due jobs: the lowest comes first."""
    return row.priority, row.scheduled_at, row.id
