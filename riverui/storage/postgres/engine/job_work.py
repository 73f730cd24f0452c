"""What workers do to jobs: insert them, take them, end them, look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.domain.numbers import is_bigint
from riverui.storage.interface.params import (
    MAX_ATTEMPTED_BY,
    JobFetchParams,
    JobInserted,
    JobInsertParams,
    JobSetStateParams,
)
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine import job_insert
from riverui.storage.postgres.engine.job_rows import fetched_rows, job_rows
from riverui.storage.postgres.statements import Row, Statement, Statements, Steps

_ALL_KINDS: dict[str, Any] = {"kinds": ""}
_ATTEMPTED_BY = {"attempted_by": "job_attempted_by"}
_NO_EXCEPTION: dict[str, Any] = {"except": ""}


class JobWork(Statements):
    """Operations on river_job that workers need all the time."""

    async def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[JobInserted]:
        """Inserts jobs and tells the workers of the queues in `notify`; one answer per job, in
        order.
        """
        return await self._drive(job_insert.insert_many(jobs, schema=self._schema, notify=notify))

    async def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """COPYs jobs; how many. UniqueConflict where a key is taken. Two statements: for a
        transaction.
        """
        return await self._drive(
            job_insert.insert_many_fast(
                jobs, schema=self._schema, notify=notify, copies=self._copies
            )
        )

    async def job_get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Takes up to `limit` due jobs by priority, time and id and makes them running."""
        rows = await self._ready(
            "job_get_available",
            {
                "limit": params.limit,
                "max_attempted_by": params.max_attempted_by,
                "client_id": params.client_id,
                **_which(params),
            },
            prepare=not params.except_ids,
            parts=_ATTEMPTED_BY,
            **({} if params.kinds is not None else _ALL_KINDS),
            **({} if params.except_ids else _NO_EXCEPTION),
        )
        return fetched_rows(rows, params.client_id, params.queue)

    async def job_first_available(self, params: JobFetchParams) -> int | None:
        """Tell the job that job_get_available would take first; None where there is none."""
        rows = await self._ready(
            "job_first_available",
            _which(params),
            **({} if params.kinds is not None else _ALL_KINDS),
        )
        return rows[0][0] if rows else None

    async def job_begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Takes one unfinished job, due or not, and makes it running; None where there is none. For
        tests.
        """
        rows = await self._ready(
            "job_begin",
            {"id": id, "client_id": client_id, "now": now, "max_attempted_by": MAX_ATTEMPTED_BY},
            parts={"columns": "job_columns", **_ATTEMPTED_BY},
        )
        return next(iter(job_rows(rows)), None)

    async def job_complete_many(
        self, ids: Sequence[int], finalized_at: Sequence[datetime]
    ) -> Sequence[int]:
        """The plain ending: still running jobs become completed; gives their ids."""
        if not ids:
            return []
        at = finalized_at[0]
        if finalized_at[-1] is at and finalized_at.count(at) == len(ids):
            rows = await self._ready(
                "job_complete_many",
                {"ids": array_literals.numbers(ids), "finalized_at": at},
                prepare=True,
                finalized_at=self._queries.text("job_finalized_at_once"),
            )
        else:
            pairs = sorted(dict(zip(ids, finalized_at, strict=True)).items())
            parameters = {
                "ids": array_literals.numbers([job_id for job_id, _ in pairs]),
                "finalized_at": array_literals.instants([at for _, at in pairs]),
            }
            rows = await self._ready("job_complete_many", parameters, prepare=True)
        return [row[0] for row in rows]

    async def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """River's JobSetStateIfRunningMany: the rows as they are afterwards, by id; missing ones
        left out.
        """
        return job_rows(await self._drive(set_state_many(changes)))

    async def job_cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Those of the running jobs that somebody asked to cancel."""
        rows = await self._ready("job_cancel_requested", {"ids": array_literals.numbers(ids)})
        return [row[0] for row in rows]

    async def job_update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merges an object (JSON text) into the job's metadata, in any state; None without such a
        job.
        """
        return await self._whole("job_update", id, metadata=metadata)

    async def job_row_get(self, id: int) -> JobRow | None:
        """One whole job, or None."""
        return await self._whole("job_row_get", id)

    async def _whole(self, name: str, id: int, **parameters: str) -> JobRow | None:
        if not is_bigint(id):
            return None
        merged = {"metadata": "job_metadata"} if parameters else {}
        rows = await self._ready(
            name, {"id": id, **parameters}, parts={"columns": "job_columns", **merged}
        )
        return next(iter(job_rows(rows)), None)


def _which(params: JobFetchParams) -> dict[str, Any]:
    return {
        "queue": params.queue,
        "now": params.now,
        "kinds": array_literals.texts(params.kinds or ()),
        "except_ids": array_literals.numbers(params.except_ids),
    }


def set_state_many(changes: Sequence[JobSetStateParams]) -> Steps[list[Row]]:
    """River's JobSetStateIfRunningMany; see EngineExecutor.job_set_state_many."""
    return (
        yield Statement(
            "job_set_state_many",
            {
                "ids": array_literals.numbers([change.id for change in changes]),
                "states": array_literals.texts([change.state for change in changes]),
                "finalized_at": array_literals.instants(
                    [change.finalized_at for change in changes]
                ),
                "attempts": array_literals.numbers([change.attempt for change in changes]),
                "errors": array_literals.optional_texts([change.error for change in changes]),
                "scheduled_at": array_literals.instants(
                    [change.scheduled_at for change in changes]
                ),
                "metadata": array_literals.optional_texts([change.metadata for change in changes]),
            },
            parts={
                "columns": "job_columns",
                "names": "job_column_names",
                "errors": "job_errors",
                "metadata": "job_metadata",
            },
        )
    )
