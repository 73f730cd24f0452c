"""Dead letters in `riverui_dead_job`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from riverui.storage.store import Store

if TYPE_CHECKING:
    from riverui.storage.interface import Executor
    from riverui.storage.postgres.executor import PostgresExecutor

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from riverui.domain.jobs import CUT, JobListRow, JobState, JobTextRow
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, LockTimeout
from riverui.features.dead_letters.domain import (
    MAX_DELETED_BY,
    DeadJob,
    DeadJobDeath,
    DeadJobListRow,
    DeadJobShowRow,
    DeadReason,
)
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobSelectParams
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.params import Count, CountKind, TextPiece
from riverui.storage.interface.sql_blocks import Fragment, Rows, join
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.admin.job_actions import job_changes
from riverui.storage.postgres.browse.filters import is_storable
from riverui.storage.postgres.browse.job_select import choice_terms
from riverui.storage.postgres.browse.jobs import PREVIEW
from riverui.storage.postgres.browse.rows import known_state
from riverui.storage.postgres.engine.job_rows import JOB_COLUMNS, job_rows
from riverui.storage.postgres.statements import instant

DeadJobPlace = tuple[datetime, int]
"""When a dead letter was moved, and its id: where a page starts or ends."""


class DeadJobListParams(Struct, frozen=True, kw_only=True):
    """Which dead letters to list; those moved last come first. Empty texts filter nothing."""

    kind: str = ""
    queue: str = ""
    error: str = ""
    """A text that the beginning of the last error contains, ignoring case."""
    after: DeadJobPlace | None = None
    """Only those after this position."""
    limit: int = 100
    window: int = 20_000
    """Maximum number of rows searched for a text, so that a rare text does not cost more."""


class KeptJobs(Struct, frozen=True, kw_only=True):
    """What happened to jobs that were to be kept before their deletion."""

    changes: JobChanges
    died_at: datetime
    """When they were kept, to the microsecond; the same for all jobs of one transaction."""


class DeadJobPage(Struct, frozen=True, kw_only=True):
    """One page of dead letters."""

    rows: Sequence[DeadJobListRow]
    more: bool
    """Whether more dead letters follow."""
    searched: DeadJobPlace | None = None
    """How far a search for a text got before it stopped at its limit; None if it searched all rows
    or found enough.
    """


_FIELDS = frozenset({"args", "errors", "job", "metadata", "output"})
"""Fields of a dead letter that can be read in full."""
_LIST_COLUMNS = Fragment("dead_job_list_columns")
_OTHERS = Fragment("dead_job_keep_others")
_MOVED = Fragment("dead_job_moved")
_TABLE = Fragment("dead_job_table")
_TEXT_TABLE = Fragment("dead_job_text_table")
_UNKNOWN = JobState.DISCARDED
"""The state to restore a dead letter in if its row names none."""


class DeadLetterStore(Store):
    """Operations on dead letters."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self._jobs = cast("PostgresExecutor", executor)

    async def dead_job_move_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs as `job_delete_before` does, and keep the discarded ones as dead
        letters; return how many were removed.

        Raise DatabaseError if a dead letter has the same id, which is only possible after a
        sequence of ids was reset.
        """
        return await self._jobs.work.delete_old(params, _MOVED)

    async def dead_job_keep_many(self, ids: Sequence[int], *, user: str) -> KeptJobs:
        """Keep copies of jobs that the same transaction is about to delete, as deleted by that
        user; lock their rows until its end. Skip running jobs, and those whose id a dead letter
        already has (KEPT).
        """
        possible = [asked for asked in dict.fromkeys(ids) if is_bigint(asked)]
        values = {"ids": possible, "user": user.replace("\0", "")[:MAX_DELETED_BY]}
        try:
            rows = await self._sql.guarded("dead_job_keep_many", values)
        except LockTimeout:
            # Another transaction holds one of the rows: skip the locked ones.
            rows = await self._sql.guarded("dead_job_keep_many", values, wait=_OTHERS)
        died_at = next((row.died_at for row in rows.records()), datetime.now(UTC))
        return KeptJobs(changes=job_changes(ids, rows), died_at=died_at)

    async def dead_job_deleted_list(
        self, died_at: datetime, *, user: str, limit: int
    ) -> Sequence[int]:
        """Return the ids of what one user deleted in the transaction of that time, at most
        `limit`.
        """
        values = {
            "died_at": instant(died_at),
            "user": user.replace("\0", "")[:MAX_DELETED_BY],
            "limit": limit,
        }
        return [row.id for row in (await self._sql.rows("dead_job_deleted_list", values)).records()]

    async def dead_job_undo_many(self, ids: Sequence[int]) -> JobChanges:
        """Put deleted jobs back as they were, and notify the workers of the available ones. Skip
        those whose id or unique key a job has, and waiting tasks of workflows (WORKFLOW).

        Waiting jobs of sequences are `requested`: they are put back as discarded, to be retried in
        the same transaction, so that they get into line.
        """
        possible = [asked for asked in dict.fromkeys(ids) if is_bigint(asked)]
        values = {"ids": possible, "schema": self._sql.schema}
        return job_changes(ids, await self._sql.rows("dead_job_undo_many", values))

    async def dead_job_list(self, params: DeadJobListParams) -> DeadJobPage:
        """Return one page of dead letters, those moved last first."""
        found = await self._listed_dead(params, params.error, _LIST_COLUMNS)
        records = found.records() if found else []
        rows = [_list_row(row) for row in records if row.matched][: params.limit]
        matched = sum(row.matched for row in records)
        last = records[-1] if records else None
        ended = last is not None and not last.matched and matched <= params.limit
        return DeadJobPage(
            rows=rows,
            more=matched > params.limit,
            searched=(last.died_at, last.id) if ended and last is not None else None,
        )

    async def dead_job_count(self, params: DeadJobListParams) -> Count:
        """Return how many dead letters match, among the first `window`; `limit` is ignored."""
        slots = _slots(params, params.error)
        if slots is None:
            return Count(value=0)
        row = (
            await self._sql.rows("dead_job_count", {"window": params.window}, **slots)
        ).records()[0]
        all_seen = row.looked_at < params.window
        return Count(value=row.matched, kind=CountKind.EXACT if all_seen else CountKind.AT_LEAST)

    async def dead_job_whole_list(self, params: DeadJobListParams) -> Sequence[DeadJob]:
        """Return one page of complete dead letters; `error` and `window` are ignored."""
        found = await self._listed_dead(params, "", JOB_COLUMNS)
        return _dead_jobs(found)[: params.limit] if found else []

    async def dead_job_get(
        self, id: int, *, cut: int = 200_000, lean: bool = False
    ) -> DeadJobShowRow | None:
        """Return one dead letter, its long texts cut as by `job_get`, or None."""
        job = await self._jobs.jobs.show(id, cut=cut, lean=lean, unknown=_UNKNOWN, table=_TABLE)
        if job is None:
            return None
        row = await self._sql.row("dead_job_death", {"id": id})
        return row and DeadJobShowRow(job, *_death(row))

    async def dead_job_text_get(self, id: int) -> tuple[JobTextRow, DeadJobDeath] | None:
        """Return one dead letter with its JSON as text, cut as by `job_text_get`, or None."""
        row = await self._jobs.jobs.text(id, unknown=_UNKNOWN, table=_TEXT_TABLE)
        if row is None:
            return None
        death = await self._sql.row("dead_job_death", {"id": id})
        return death and (row, _death(death))

    async def dead_job_name_list(
        self, *, limit: int, prefix: str = "", exclude: Sequence[str] = ()
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return kinds and queues of dead letters by name, at most `limit` of each: those that
        start with `prefix`, ignoring ASCII case, and are not in `exclude`.
        """
        values = {
            "limit": limit,
            "prefix": array_literals.check_text(prefix),
            "exclude": array_literals.texts(exclude),
        }
        rows = (await self._sql.rows("dead_job_name_list", values)).records()
        return (
            [row.name for row in rows if row.what == "kind"],
            [row.name for row in rows if row.what == "queue"],
        )

    async def dead_job_select_list(self, params: JobSelectParams) -> Sequence[DeadJobListRow]:
        """Return dead letters by River's own list parameters, highest id first. Only ids, kinds,
        priorities, queues, `tags_any` and limit are used.
        """
        values = {"limit": params.limit, "preview": PREVIEW}
        terms = join(choice_terms(params))
        rows = await self._sql.rows("dead_job_select", values, columns=_LIST_COLUMNS, terms=terms)
        return [_list_row(row) for row in rows.records()]

    async def dead_job_row_get(self, id: int) -> DeadJob | None:
        """Return one complete dead letter, or None."""
        if not is_bigint(id):
            return None
        rows = await self._sql.rows("dead_job_row_get", {"id": id}, columns=JOB_COLUMNS)
        return next(iter(_dead_jobs(rows)), None)

    async def dead_job_text_piece(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of a dead letter, as
        `job_text_piece` does.
        """
        if field not in _FIELDS:
            raise BadRequest(f"A dead letter has no text “{field}”.")
        if not is_bigint(id):
            return None
        return await self._jobs.jobs.piece(
            Fragment("dead_job_text", {"id": id, "field": field}), start, size
        )

    async def dead_job_restore_many(self, ids: Sequence[int]) -> JobChanges:
        """Put dead letters back as discarded jobs, without attempts and errors; skip those whose
        id or unique key a job has.
        """
        return await self._dead_changes("dead_job_restore_many", ids)

    async def dead_job_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Remove dead letters permanently."""
        return await self._dead_changes("dead_job_delete_many", ids)

    async def dead_job_delete_before(self, before: datetime, *, limit: int) -> int:
        """Permanently remove those that were moved before `before`, at most `limit`; return how
        many.
        """
        values = {"before": instant(before), "limit": limit}
        return len(await self._sql.rows("dead_job_delete_before", values))

    async def _dead_changes(self, block: str, ids: Sequence[int]) -> JobChanges:
        possible = [asked for asked in dict.fromkeys(ids) if is_bigint(asked)]
        return job_changes(ids, await self._sql.rows(block, {"ids": possible}))

    async def _listed_dead(
        self, params: DeadJobListParams, error: str, columns: Fragment
    ) -> Rows | None:
        """Return the rows of a page and one more; None if nothing can match."""
        slots = _slots(params, error)
        if slots is None:
            return None
        values: Mapping[str, Any] = {
            "limit": params.limit,
            "window": params.window if error else params.limit + 1,
            "preview": PREVIEW,
        }
        return await self._sql.rows("dead_job_list", values, columns=columns, **slots)


def _slots(params: DeadJobListParams, error: str) -> dict[str, Fragment] | None:
    """Return the conditions that narrow the list; None if nothing can match."""
    if not all(map(is_storable, (params.kind, params.queue, error))):
        return None
    slots: dict[str, Fragment] = {}
    if params.kind:
        slots["of_kind"] = Fragment("dead_job_of_kind", {"kind": params.kind})
    if params.queue:
        slots["of_queue"] = Fragment("dead_job_of_queue", {"queue": params.queue})
    if error:
        slots["matches"] = Fragment("dead_job_matches", {"error": error})
    if params.after is not None:
        at, job_id = params.after
        given = {"after_at": instant(at), "after_id": job_id}
        slots["cursor"] = Fragment("dead_job_cursor", given)
    return slots


def _list_row(row: Any) -> DeadJobListRow:
    args = row.args_preview
    if args is None:
        args = CUT
    elif len(args) > PREVIEW:
        args = f"{args[:PREVIEW]}{CUT}"
    job = JobListRow(
        id=row.id,
        state=known_state(row.state) or _UNKNOWN,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        attempted_at=row.attempted_at,
        created_at=row.created_at,
        finalized_at=row.finalized_at,
        scheduled_at=row.scheduled_at,
        priority=row.priority,
        args_preview=args,
        kind=row.kind,
        queue=row.queue,
        tags=(),
        last_error=row.last_error or None,
    )
    return DeadJobListRow(job, *_death(row))


def _death(row: Any) -> DeadJobDeath:
    return DeadJobDeath(row.died_at, DeadReason(row.reason), row.deleted_by or "")


def _dead_jobs(rows: Rows) -> list[DeadJob]:
    deaths = {row.id: (row.died_at, DeadReason(row.reason)) for row in rows.records()}
    return [DeadJob(job, *deaths[job.id]) for job in job_rows(rows)]
