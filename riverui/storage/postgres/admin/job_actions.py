"""Actions on jobs as in River's client, for many jobs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from riverui.domain.jobs import JobOutcome
from riverui.domain.time import rfc3339_nano
from riverui.domain.values import is_bigint
from riverui.errors import LockTimeout
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.sql_blocks import Fragment, Rows
from riverui.storage.postgres.browse.rows import known_state
from riverui.storage.postgres.statements import Part

_PENDING = Fragment("job_retry_pending")
_SKIP_LOCKED = Fragment("job_skip_locked")


class JobActions(Part):
    """Writing operations on river_job."""

    async def cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """Cancel jobs as River's JobCancel does, in one statement; notify the workers of each."""
        return await self._change(
            "job_cancel_many", ids, cancel_attempted_at=rfc3339_nano(datetime.now(UTC))
        )

    async def delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Delete jobs as River's JobDelete does, in one statement: all but running ones."""
        return await self._change("job_delete_many", ids)

    async def move_many(
        self, ids: Sequence[int], *, queue: str | None = None, priority: int | None = None
    ) -> JobChanges:
        """Give waiting jobs another queue or priority in one statement, which also notifies the
        workers of the queue that available ones came into.
        """
        return await self._change("job_move_many", ids, queue=queue, priority=priority)

    async def retry_many(self, ids: Sequence[int], *, pending: bool = False) -> JobChanges:
        """Retry jobs as River's JobRetry does, in one statement; UniqueConflict for all when one
        conflicts. With `pending` they become pending.
        """
        slots = {"state": _PENDING} if pending else {}
        return await self._change("job_retry_many", ids, slots)

    async def outcome_list(self, ids: Sequence[int]) -> Mapping[int, JobOutcome]:
        """Return the outcomes of these jobs by id; deleted ones are left out."""
        rows = await self._sql.rows(
            "job_outcome_list", {"ids": [each for each in ids if is_bigint(each)]}
        )
        return {
            row.id: JobOutcome(state=known_state(row.state), errors=row.errors)
            for row in rows.records()
        }

    async def _change(
        self,
        name: str,
        ids: Sequence[int],
        slots: Mapping[str, Fragment] = MappingProxyType({}),
        **values: str | int | None,
    ) -> JobChanges:
        possible = [asked for asked in dict.fromkeys(ids) if is_bigint(asked)]
        parameters = {"ids": possible, "schema": self._sql.schema, **values}
        try:
            rows = await self._sql.guarded(name, parameters, **slots)
        except LockTimeout:
            # Another transaction holds one of the rows: do the rest.
            rows = await self._sql.guarded(name, parameters, wait=_SKIP_LOCKED, **slots)
        return job_changes(ids, rows)


def job_changes(ids: Sequence[int], rows: Rows) -> JobChanges:
    """Return the result for the requested jobs, from rows of ids and outcomes."""
    outcomes: dict[int, str] = {row.id: row.outcome for row in rows.records()}
    return JobChanges(
        changed=tuple(job for job, outcome in outcomes.items() if outcome == "changed"),
        requested=tuple(job for job, outcome in outcomes.items() if outcome == "requested"),
        skipped=tuple(
            (job, SkipReason(outcomes.get(job, "not_found")))
            for job in dict.fromkeys(ids)
            if outcomes.get(job) not in ("changed", "requested")
        ),
    )
