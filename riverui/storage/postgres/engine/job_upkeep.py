"""What the leader does to jobs: schedule, rescue, clean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.storage.interface.params import JobDeleteBeforeParams, JobRescueParams, JobScheduled
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_rows import job_rows
from riverui.storage.postgres.statements import Statements


class JobUpkeep(Statements):
    """Operations on river_job for maintenance."""

    async def job_schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Scheduled and retryable jobs due by `now` become available; River's rules for unique
        conflicts.
        """
        rows = await self._ready(
            "job_schedule",
            {"now": now, "limit": limit, "except_ids": array_literals.numbers(except_ids)},
            parts={"metadata": "job_metadata"},
            **_except(except_ids),
        )
        return [JobScheduled(*row) for row in rows]

    async def job_first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Tell the job that job_schedule would move first; None where there is none."""
        rows = await self._ready(
            "job_schedule",
            {"now": now, "limit": 1, "except_ids": array_literals.numbers(except_ids)},
            parts={"moved": "job_first_due"},
            **_except(except_ids),
        )
        return rows[0][0] if rows else None

    async def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Running jobs that started before then, by id."""
        rows = await self._ready(
            "job_get_stuck",
            {"attempted_before": attempted_before, "after_id": after_id, "limit": limit},
            parts={"columns": "job_columns"},
        )
        return job_rows(rows)

    async def job_first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Tell the job that job_get_stuck would read first; None where there is none."""
        rows = await self._ready(
            "job_get_stuck",
            {"attempted_before": attempted_before, "after_id": after_id, "limit": 1},
            parts={"rows": "job_first_stuck"},
        )
        return rows[0][0] if rows else None

    async def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """Ends stuck jobs that are still running since before then; the ids of those changed."""
        rows = await self._ready(
            "job_rescue_many",
            {
                "ids": array_literals.numbers([rescue.id for rescue in rescues]),
                "states": array_literals.texts([rescue.state for rescue in rescues]),
                "errors": array_literals.texts([rescue.error for rescue in rescues]),
                "scheduled_at": array_literals.instants(
                    [rescue.scheduled_at for rescue in rescues]
                ),
                "finalized_at": array_literals.instants(
                    [rescue.finalized_at for rescue in rescues]
                ),
                "attempted_before": attempted_before,
            },
            parts={"errors": "job_errors", "metadata": "job_metadata"},
        )
        return [row[0] for row in rows]

    async def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Removes finished jobs past their retention, up to `limit`; how many."""
        return int((await self._old(params))[0][0])

    async def job_first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Tell the job that job_delete_before would remove first; None where there is none."""
        rows = await self._old(replace(params, limit=1), {"deleted": "job_first_old"})
        return rows[0][0] if rows else None

    async def job_truncate(self) -> None:
        """Empties river_job at once, whatever is in it: for benchmarks."""
        await self._rows("job_truncate")

    async def _old(
        self, params: JobDeleteBeforeParams, parts: Mapping[str, str] | None = None
    ) -> Sequence[tuple[Any, ...]]:
        return await self._ready(
            "job_delete_before",
            {
                "cancelled_before": params.cancelled_before,
                "completed_before": params.completed_before,
                "discarded_before": params.discarded_before,
                "limit": params.limit,
                "queues_excluded": array_literals.texts(params.queues_excluded),
                "queues_included": array_literals.texts(params.queues_included),
                "except_ids": array_literals.numbers(params.except_ids),
            },
            parts=parts,
            **_except(params.except_ids),
            **({} if params.queues_excluded else _NONE_EXCLUDED),
            **({} if params.queues_included else _ALL_INCLUDED),
        )


_NONE_EXCLUDED: dict[str, Any] = {"queues": ""}
_ALL_INCLUDED: dict[str, Any] = {"only_queues": ""}


def _except(ids: Sequence[int]) -> dict[str, Any]:
    return {} if ids else {"except": ""}
