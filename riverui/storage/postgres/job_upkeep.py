"""What the leader does to jobs: schedule, rescue, clean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.storage.params import JobDeleteBeforeParams, JobRescueParams, JobScheduled
from riverui.storage.postgres import literals
from riverui.storage.postgres.job_rows import job_rows
from riverui.storage.postgres.statements import Statements


class JobUpkeep(Statements):
    """Operations on river_job for maintenance."""

    async def job_schedule(self, *, now: datetime, limit: int) -> Sequence[JobScheduled]:
        """Scheduled and retryable jobs due by `now` become available; River's rules for unique conflicts."""
        rows = await self._ready("job_schedule", {"now": now, "limit": limit})
        return [JobScheduled(*row) for row in rows]

    async def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Running jobs that started before then, by id."""
        rows = await self._ready(
            "job_get_stuck",
            {"attempted_before": attempted_before, "after_id": after_id, "limit": limit},
            columns=self._queries.text("job_columns"),
        )
        return job_rows(rows)

    async def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """Ends stuck jobs that are still running since before then; the ids of those changed."""
        rows = await self._ready(
            "job_rescue_many",
            {
                "ids": literals.numbers([rescue.id for rescue in rescues]),
                "states": literals.texts([rescue.state for rescue in rescues]),
                "errors": literals.texts([rescue.error for rescue in rescues]),
                "scheduled_at": literals.instants([rescue.scheduled_at for rescue in rescues]),
                "finalized_at": literals.instants([rescue.finalized_at for rescue in rescues]),
                "attempted_before": attempted_before,
            },
        )
        return [row[0] for row in rows]

    async def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Removes finished jobs past their retention, up to `limit`; how many."""
        clauses: dict[str, Any] = {} if params.queues_excluded else {"queues": ""}
        rows = await self._ready(
            "job_delete_before",
            {
                "cancelled_before": params.cancelled_before,
                "completed_before": params.completed_before,
                "discarded_before": params.discarded_before,
                "limit": params.limit,
                "queues_excluded": literals.texts(params.queues_excluded),
            },
            **clauses,
        )
        return int(rows[0][0])

    async def job_truncate(self) -> None:
        """Empties river_job at once, whatever is in it: for benchmarks."""
        await self._rows("job_truncate")
