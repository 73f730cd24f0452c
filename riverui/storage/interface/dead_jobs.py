"""Dead letters: discarded jobs past their retention, in a table of riverui's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from riverui.domain.dead_jobs import DeadJob, DeadJobDeath, DeadJobListRow, DeadJobShowRow
from riverui.domain.jobs import JobTextRow
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobSelectParams
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.own_tables import OwnTable
from riverui.storage.interface.params import Count, TextPiece

DEAD_JOB_TABLE = OwnTable("riverui_dead_job", 13)
"""Where they are kept."""

DeadJobPlace = tuple[datetime, int]
"""When a dead letter was moved, and its id: where a page begins or ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadJobListParams:
    """Which dead letters a page shows: those moved last come first. Empty texts filter nothing."""

    kind: str = ""
    queue: str = ""
    error: str = ""
    """A text that the beginning of the last error contains, in whatever case."""
    after: DeadJobPlace | None = None
    """Only those behind that place."""
    limit: int = 100
    window: int = 20_000
    """Rows that are looked at for a text, so that a rare one costs no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptJobs:
    """What became of jobs that were to be kept before they are deleted."""

    changes: JobChanges
    died_at: datetime
    """When they were kept, to the microsecond: all of one transaction at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadJobPage:
    """One page of dead letters."""

    rows: Sequence[DeadJobListRow]
    more: bool
    """Whether others come after these."""
    searched: DeadJobPlace | None = None
    """How far a search for a text went before it gave up; None where it looked at all of them, or
    found enough.
    """


class DeadJobExecutor(Protocol):
    """Moves jobs to the table of dead letters and back. Without it every call raises
    SchemaMissing.
    """

    async def dead_job_move_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs as `job_delete_before` does, and keep the discarded ones as dead
        letters, in one statement; return how many were removed.

        UniqueConflict where there is a dead letter of the same id, which only a sequence of ids
        that was set back can make.
        """
        ...

    async def dead_job_keep_many(self, ids: Sequence[int], *, user: str) -> KeptJobs:
        """Keep copies of jobs that are about to be deleted in the same transaction, as deleted by
        that person; their rows are locked until its end. Running jobs are skipped, and those of
        whose id there is a dead letter already (KEPT).
        """
        ...

    async def dead_job_deleted_list(
        self, died_at: datetime, *, user: str, limit: int
    ) -> Sequence[int]:
        """Return the ids of what one person deleted in the transaction of that time, at most
        `limit`.
        """
        ...

    async def dead_job_undo_many(self, ids: Sequence[int]) -> JobChanges:
        """Put deleted jobs back as they were, and tell the workers of those that are available;
        skip those whose id or unique key a job has, and waiting tasks of workflows (WORKFLOW).

        Waiting jobs of sequences are `requested`: they are put back as discarded, to be retried in
        the same transaction, so that they get into line.
        """
        ...

    async def dead_job_list(self, params: DeadJobListParams) -> DeadJobPage:
        """Return one page of dead letters."""
        ...

    async def dead_job_count(self, params: DeadJobListParams) -> Count:
        """Return how many dead letters fit, of `window` that are looked at; `limit` means nothing
        here.
        """
        ...

    async def dead_job_whole_list(self, params: DeadJobListParams) -> Sequence[DeadJob]:
        """Return one page of dead letters, whole; `error` and `window` mean nothing here."""
        ...

    async def dead_job_get(
        self, id: int, *, cut: int = 200_000, lean: bool = False
    ) -> DeadJobShowRow | None:
        """Return one dead letter, its long texts cut as `job_get` cuts them, or None."""
        ...

    async def dead_job_text_get(self, id: int) -> tuple[JobTextRow, DeadJobDeath] | None:
        """Return one dead letter with its JSON as text, as far as an answer may hold it, as
        `job_text_get` does; or None.
        """
        ...

    async def dead_job_name_list(
        self, *, limit: int, prefix: str = "", exclude: Sequence[str] = ()
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return kinds and queues of dead letters by name, at most `limit` of each: those that
        begin with `prefix`, in whatever case of ASCII letters, and are not in `exclude`.
        """
        ...

    async def dead_job_select_list(self, params: JobSelectParams) -> Sequence[DeadJobListRow]:
        """Return dead letters by River's own list parameters, the highest id first. Its ids, kinds,
        priorities, queues, `tags_any` and limit count here, and nothing else.
        """
        ...

    async def dead_job_row_get(self, id: int) -> DeadJob | None:
        """Return one dead letter, whole, or None."""
        ...

    async def dead_job_text_piece(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of a dead letter, as `job_text_piece`
        does.
        """
        ...

    async def dead_job_restore_many(self, ids: Sequence[int]) -> JobChanges:
        """Put dead letters back as discarded jobs, without attempts and errors; skip those whose
        id or unique key a job has.
        """
        ...

    async def dead_job_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Remove dead letters for good."""
        ...

    async def dead_job_delete_before(self, before: datetime, *, limit: int) -> int:
        """Remove those that were moved before then for good, at most `limit`; return how many."""
        ...


DEAD_JOBS: Capability[DeadJobExecutor] = Capability(
    "dead_jobs", "Discarded jobs cannot be kept as dead letters on this database."
)
