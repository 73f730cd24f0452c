"""Reads failed jobs and their errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from riverui.domain.attempt_errors import go_time
from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.fingerprints import MAX_ERROR, MAX_TRACE
from riverui.features.error_groups.domain.groups import FailedJobPlace, JobErrorRow
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.store import Store

_COMPLETED = Fragment("completed_jobs")


class FailedJobs(NamedTuple):
    """The failed jobs that were found."""

    places: Sequence[FailedJobPlace]
    """Newest first."""
    more: bool
    """Whether there are more."""


class FailedJobStore(Store):
    """Reads failed jobs."""

    async def failed_job_list(self, *, limit: int) -> FailedJobs:
        """Return the newest failed jobs, by the time of their last attempt: the last discarded ones
        and the retryable ones that are due next.
        """
        rows = (await self._sql.rows("failed_job_list", {"limit": limit})).records()
        return FailedJobs(
            places=[FailedJobPlace(row.id, row.attempt) for row in rows],
            more=bool(rows and rows[0].more),
        )

    async def recovered_job_list(
        self, before: datetime, *, looked_at: int, limit: int
    ) -> Sequence[int]:
        """Return the ids of jobs that had failed, among the last that completed before a time."""
        values = {"before": before, "looked_at": looked_at, "limit": limit}
        return [row.id for row in (await self._sql.rows("recovered_job_list", values)).records()]

    async def job_error_list(
        self, ids: Collection[int], *, completed: bool = False
    ) -> Sequence[JobErrorRow]:
        """Return the error of the last failed attempt of each of these jobs, without those that are
        no longer failed, or completed. Messages are cut to 2,000 characters, traces to some 8,000.
        """
        slots = {"states": _COMPLETED} if completed else {}
        values = {"ids": list(ids), "error_length": MAX_ERROR, "trace_length": MAX_TRACE}
        return [
            JobErrorRow(
                id=row.id,
                state=JobState(row.state),
                attempt=row.attempt,
                kind=row.kind,
                queue=row.queue,
                worker=row.worker,
                release=row.release,
                at=go_time(row.error_at) or row.at,
                error=row.error,
                trace=row.trace,
                given=row.given,
            )
            for row in (await self._sql.rows("job_error_list", values, **slots)).records()
        ]
