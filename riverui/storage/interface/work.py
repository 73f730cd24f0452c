"""Jobs as the engine works them: fetch, write outcomes, schedule, rescue, clean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from riverui.domain.jobs import JobRow
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobFetchParams,
    JobRescueParams,
    JobScheduled,
    JobSetStateParams,
    RunningJob,
)


class Work(Protocol):
    """Operations of clients and of the leader on the jobs that they work."""

    async def get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Take up to `limit` due jobs by priority, time and id and make them running; return them
        in any order. No two callers get the same job.
        """
        ...

    async def first_available(self, params: JobFetchParams) -> int | None:
        """Return the id of the job that job_get_available would take first; None if there is
        none.
        """
        ...

    async def begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Take one unfinished job, due or not, and make it running; None if there is none. For
        tests.
        """
        ...

    async def complete_many(
        self,
        ids: Sequence[int],
        finalized_at: Sequence[datetime],
        *,
        of_attempts: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Make those of the jobs that still run completed, if `of_attempts` is given only those
        that are still at that attempt; return their ids. See job_set_state_many.

        Fastest if the times are the same object, and the attempts equal.
        """
        ...

    async def delete_completed_many(
        self, ids: Sequence[int], *, of_attempts: Sequence[int]
    ) -> Sequence[int]:
        """Remove those of the jobs that still run at that attempt, which has succeeded; return
        their ids.
        """
        ...

    async def set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """End attempts as River's JobSetStateIfRunningMany does; return the rows as they are
        afterwards, by id, whether or not they were running. Missing ones are left out. At most one
        change per job. Ephemeral jobs that succeeded are removed, and returned as completed.
        """
        ...

    async def running_list(self, client_id: str) -> Sequence[RunningJob]:
        """Return all running jobs that this client was the last to fetch, by id."""
        ...

    async def cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of the running jobs for which a cancellation was requested."""
        ...

    async def schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Make scheduled and retryable jobs due by `now` available, by River's rules for unique
        conflicts; return those moved.
        """
        ...

    async def first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Return the id of the job that job_schedule would move first; None if there is none."""
        ...

    async def get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return running jobs that started before then, by id."""
        ...

    async def first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Return the id of the job that job_get_stuck would read first; None if there is
        none.
        """
        ...

    async def rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """End stuck jobs that still run since before then; return the ids of those changed."""
        ...

    async def delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs past their retention, the longest finished first, up to `limit`;
        return how many.
        """
        ...

    async def first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Return the id of the job that job_delete_before would remove first; None if there is
        none.
        """
        ...
