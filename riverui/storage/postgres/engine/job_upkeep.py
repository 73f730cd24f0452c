"""The leader's operations on jobs: schedule, rescue, clean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from riverui.domain.jobs import JobRow
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobRescueParams,
    JobScheduled,
)
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_rows import (
    JOB_COLUMNS,
    JOB_ERRORS,
    JOB_METADATA,
    excepted,
    job_rows,
)
from riverui.storage.postgres.statements import Part

_FIRST_DUE = Fragment("job_first_due")
_HELD = Fragment("workflow_holds_job")
_FIRST_OLD = Fragment("job_first_old")
_FIRST_STUCK = Fragment("job_first_stuck")


class JobUpkeep(Part):
    """Operations on river_job for maintenance."""

    async def schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Make scheduled and retryable jobs due by `now` available; return the jobs moved.

        Unique conflicts are decided by River's rules.
        """
        rows = await self._sql.rows(
            "job_schedule",
            {"now": now, "limit": limit, "except_ids": array_literals.numbers(except_ids)},
            metadata=JOB_METADATA,
            **excepted(except_ids),
        )
        return [JobScheduled(**row._asdict()) for row in rows.records()]

    async def first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Return the id of the job that job_schedule would move first; None if there is none."""
        rows = await self._sql.rows(
            "job_schedule",
            {"now": now, "limit": 1, "except_ids": array_literals.numbers(except_ids)},
            moved=_FIRST_DUE,
            **excepted(except_ids),
        )
        first: int | None = rows.value()
        return first

    async def get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return running jobs that started before then, by id."""
        rows = await self._sql.rows(
            "job_get_stuck",
            {"attempted_before": attempted_before, "after_id": after_id, "limit": limit},
            columns=JOB_COLUMNS,
        )
        return job_rows(rows)

    async def first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Return the id of the job that job_get_stuck would read first; None if there is
        none.
        """
        rows = await self._sql.rows(
            "job_get_stuck",
            {"attempted_before": attempted_before, "after_id": after_id, "limit": 1},
            rows=_FIRST_STUCK,
        )
        first: int | None = rows.value()
        return first

    async def rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """End stuck jobs that are still running since before then; return the ids changed."""
        rows = await self._sql.rows(
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
            errors=JOB_ERRORS,
            metadata=JOB_METADATA,
        )
        return rows.values()

    async def delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs past their retention, up to `limit`; return how many."""
        return int((await self._old(params)).value())

    async def delete_old(self, params: JobDeleteBeforeParams, kept: Fragment) -> int:
        """Remove the same jobs with a block that keeps some elsewhere; return how many."""
        return int((await self._old(params, kept=kept)).value())

    async def first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Return the id of the job that job_delete_before would remove first; None if there is
        none.
        """
        first: int | None = (await self._old(replace(params, limit=1), deleted=_FIRST_OLD)).value()
        return first

    async def _old(self, params: JobDeleteBeforeParams, **slots: Fragment) -> Rows:
        block = old_jobs(params, **slots)
        return await self._sql.rows("job_delete_before", block.values, **block.slots)


def old_jobs(params: JobDeleteBeforeParams, **slots: Fragment) -> Fragment:
    """Return the block that removes finished jobs, with these slots filled as well."""
    behind = {
        "cancelled_behind": params.cancelled_behind,
        "completed_behind": params.completed_behind,
        "discarded_behind": params.discarded_behind,
    }
    return Fragment(
        "job_delete_before",
        {
            "cancelled_before": params.cancelled_before,
            "completed_before": params.completed_before,
            "discarded_before": params.discarded_before,
            "limit": params.limit,
            "queues_excluded": array_literals.texts(params.queues_excluded),
            "queues_included": array_literals.texts(params.queues_included),
            "except_ids": array_literals.numbers(params.except_ids),
            **behind,
        },
        **slots,
        **({"held": _HELD} if params.keep_open_workflows else {}),
        **({} if any(behind.values()) else {"behind": EMPTY}),
        **excepted(params.except_ids),
        **({} if params.queues_excluded else {"queues": EMPTY}),
        **({} if params.queues_included else {"only_queues": EMPTY}),
    )
