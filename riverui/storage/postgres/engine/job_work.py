"""The workers' operations on jobs: insert, fetch, finish, read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.json import read_object
from riverui.storage.interface.engine_params import (
    MAX_ATTEMPTED_BY,
    JobFetchParams,
    JobsAlike,
    JobSetStateParams,
    RunningJob,
)
from riverui.storage.interface.sql_blocks import Fragment
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.engine.job_fetch import in_order, of_kinds, which
from riverui.storage.postgres.engine.job_rows import (
    JOB_COLUMNS,
    JOB_ERRORS,
    JOB_METADATA,
    fetched_rows,
    job_rows,
)
from riverui.storage.postgres.statements import Part

_ATTEMPTED_BY = Fragment("job_attempted_by")
_ALIKE_ARGS = Fragment("job_fetch_alike_args")
_ALIKE_KEYS = Fragment("job_fetch_alike_keys")
_AT_ONCE = Fragment("job_finalized_at_once")
_LOCKED = Fragment("job_locked")
_OF_ATTEMPT = Fragment("job_complete_of_attempt")
_OF_ATTEMPTS = Fragment("job_complete_of_attempts")


class JobWork(Part):
    """Operations on river_job that workers need all the time."""

    async def get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Take up to `limit` due jobs by priority, time and id; return them as running."""
        ask = self._sql.rows if params.except_ids or params.alike else self._sql.prepared
        rows = await ask(
            "job_get_available",
            {
                "limit": params.limit,
                "window": params.limit,
                "max_attempted_by": params.max_attempted_by,
                "client_id": params.client_id,
                **which(params),
                **_alike_values(params.alike),
            },
            attempted_by=_ATTEMPTED_BY,
            **_slots(params),
        )
        return fetched_rows(rows, params.client_id, params.queue)

    async def first_available(self, params: JobFetchParams) -> int | None:
        """Return the id of the job that job_get_available would take first, or None."""
        rows = await self._sql.rows("job_first_available", which(params), **of_kinds(params))
        first: int | None = rows.value()
        return first

    async def begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Take one unfinished job, due or not, and make it running; None if there is none.

        For tests.
        """
        rows = await self._sql.rows(
            "job_begin",
            {"id": id, "client_id": client_id, "now": now, "max_attempted_by": MAX_ATTEMPTED_BY},
            columns=JOB_COLUMNS,
            attempted_by=_ATTEMPTED_BY,
        )
        return next(iter(job_rows(rows)), None)

    async def complete_many(
        self,
        ids: Sequence[int],
        finalized_at: Sequence[datetime],
        *,
        of_attempts: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Make still running jobs completed, with nothing else written; return their ids."""
        if not ids:
            return []
        at, attempts = finalized_at[0], of_attempts or (0,) * len(ids)
        at_once = finalized_at[-1] is at and finalized_at.count(at) == len(ids)
        equal = attempts.count(attempts[0]) == len(ids)
        if not (at_once and equal):
            given = dict(zip(ids, zip(finalized_at, attempts, strict=True), strict=True))
            ids = sorted(given)
            finalized_at = [given[job_id][0] for job_id in ids]
            attempts = [given[job_id][1] for job_id in ids]
        values: dict[str, Any] = {"ids": array_literals.numbers(ids)}
        slots = {}
        if at_once:
            values["finalized_at"], slots["finalized_at"] = at, _AT_ONCE
        else:
            values["finalized_at"] = array_literals.instants(finalized_at)
        if of_attempts is not None:
            slots["attempts"] = _OF_ATTEMPT if equal else _OF_ATTEMPTS
            values["attempts"] = attempts[0] if equal else array_literals.numbers(attempts)
        return (await self._sql.prepared("job_complete_many", values, **slots)).values()

    async def delete_completed_many(
        self, ids: Sequence[int], *, of_attempts: Sequence[int]
    ) -> Sequence[int]:
        """Remove still running jobs that have succeeded; return their ids."""
        if not ids:
            return []
        equal = of_attempts.count(of_attempts[0]) == len(ids)
        if not equal:
            given = dict(zip(ids, of_attempts, strict=True))
            ids = sorted(given)
            of_attempts = [given[job_id] for job_id in ids]
        values: dict[str, Any] = {
            "ids": array_literals.numbers(ids),
            "attempts": of_attempts[0] if equal else array_literals.numbers(of_attempts),
        }
        slot = _OF_ATTEMPT if equal else _OF_ATTEMPTS
        return (
            await self._sql.prepared("job_delete_completed_many", values, attempts=slot)
        ).values()

    async def set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """Change jobs as River's JobSetStateIfRunningMany does; return the rows as they are
        afterwards, by id, without the missing ones. Ephemeral ones are removed.
        """
        kept = [change for change in changes if not change.ephemeral]
        if len(kept) == len(changes):
            return await self._set_state(kept)
        rows = await self._delete_ended([change for change in changes if change.ephemeral])
        if kept:
            rows += await self._set_state(kept)
        return sorted(rows, key=attrgetter("id"))

    async def running_list(self, client_id: str) -> Sequence[RunningJob]:
        """Return all running jobs that this client was the last to fetch, by id."""
        rows = await self._sql.rows("job_running_list", {"client_id": client_id})
        return [RunningJob(**row._asdict()) for row in rows.records()]

    async def cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of the running jobs for which a cancellation was requested."""
        rows = await self._sql.rows("job_cancel_requested", {"ids": array_literals.numbers(ids)})
        return rows.values()

    async def _set_state(self, changes: Sequence[JobSetStateParams]) -> list[JobRow]:
        values = {
            "ids": array_literals.numbers([change.id for change in changes]),
            "states": array_literals.texts([change.state for change in changes]),
            "finalized_at": array_literals.instants([change.finalized_at for change in changes]),
            "attempts": array_literals.numbers([change.attempt for change in changes]),
            "errors": array_literals.optional_texts([change.error for change in changes]),
            "scheduled_at": array_literals.instants([change.scheduled_at for change in changes]),
            "metadata": array_literals.optional_texts([change.metadata for change in changes]),
            "of_attempts": array_literals.numbers([change.of_attempt for change in changes]),
            "attempted_at": array_literals.instants([change.attempted_at for change in changes]),
        }
        rows = await self._sql.rows(
            "job_set_state_many",
            values,
            columns=JOB_COLUMNS,
            errors=JOB_ERRORS,
            metadata=JOB_METADATA,
        )
        return job_rows(rows)

    async def _delete_ended(self, changes: Sequence[JobSetStateParams]) -> list[JobRow]:
        """Remove ephemeral jobs, and return them as if they were completed; others as they are."""
        of_id = {change.id: change for change in changes}
        values = {
            "ids": array_literals.numbers(of_id),
            "of_attempts": array_literals.numbers([change.of_attempt for change in of_id.values()]),
        }
        rows = job_rows(await self._sql.rows("job_delete_ended_many", values, columns=JOB_COLUMNS))
        for place, row in enumerate(rows):
            change = of_id[row.id]
            if row.state is JobState.RUNNING and change.of_attempt in (None, row.attempt):
                # It was running when the statement ran, so it was removed.
                metadata = row.metadata
                if change.metadata is not None:
                    merged = read_object(metadata) | read_object(change.metadata)
                    metadata = json.dumps(merged, ensure_ascii=False)
                rows[place] = row._replace(
                    state=change.state, finalized_at=change.finalized_at, metadata=metadata
                )
        return rows


def _slots(params: JobFetchParams) -> dict[str, Fragment]:
    if (alike := params.alike) is None:
        return in_order(params, locked=_LOCKED)
    slots = in_order(params)
    if alike.args is not None:
        slots["alike_args"] = _ALIKE_KEYS if alike.keys else _ALIKE_ARGS
    of_all = in_order(params._replace(after=None))
    return {**of_all, "alike": Fragment("job_fetch_alike", **slots)}


def _alike_values(alike: JobsAlike | None) -> dict[str, Any]:
    if alike is None:
        return {}
    return {
        "window": alike.window,
        "alike_kind": alike.kind,
        "alike_args": alike.args,
        "alike_keys": array_literals.texts(alike.keys),
    }
