"""Jobs as programs and pages see them: insert, read, count, change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from riverui.domain.jobs import JobOutcome, JobRow, JobShowRow, JobState, JobTextRow
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobInsertParams,
    JobSelectParams,
)
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.params import (
    Count,
    JobCutoff,
    JobFilter,
    JobJsonPage,
    JobPage,
    JobPageParams,
    JobProgress,
    JobTextPage,
    TextPiece,
)


class Jobs(Protocol):
    """Operations on jobs. Each is one statement unless its docstring says otherwise."""

    async def insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and notify the workers of the queues in `notify`; return one result per job,
        in order.

        A new row is made of its params: its JSON is the text given, not as the database prints it.
        A job whose unique key is taken returns the row that has it, as stored. Equal keys within
        `jobs` return the first one's row as well (River's statement would fail).

        BadRequest for what cannot be stored: NUL characters, halves of surrogates, JSON with them.
        """
        ...

    async def insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert jobs the fastest way (COPY in Postgres); return how many.

        UniqueConflict if a key is taken. Two statements: for a transaction.
        """
        ...

    async def restore_many(self, rows: Sequence[JobRow]) -> None:
        """Insert whole jobs as they are, with their ids, without notifying; DatabaseError if an id
        or a unique key is taken. Later jobs get higher ids.
        """
        ...

    async def get(self, id: int, *, cut: int = 200_000, lean: bool = False) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters (logs keep their end), or None.

        `lean` leaves out its JSON, for a job too large to be read in time.
        """
        ...

    async def list(self, params: JobPageParams) -> JobPage:
        """Return one page of jobs by keyset; see JobPageParams."""
        ...

    async def count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
        """Count the jobs that match: AT_LEAST from `cap` on, and if a window ended the
        search.
        """
        ...

    async def count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count all eight states in one statement: exact up to `cap`, beyond it AT_LEAST, or
        ESTIMATED for `completed` if the driver can estimate.
        """
        ...

    async def count_exact(self, state: JobState) -> Count:
        """Count exactly, however long it takes (up to the transaction's time limit)."""
        ...

    async def cutoff(self) -> JobCutoff:
        """Return the newest id and the database's time, which limit what a bulk action changes."""
        ...

    async def kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match` (any case),
        except `exclude`.
        """
        ...

    async def progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state; examine no more than `window` rows if no index finds
        them.
        """
        ...

    async def log_piece(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt, its entries joined; None
        without one.

        Entries that name no whole number count as attempt 0.
        """
        ...

    async def text_piece(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of `args`, `metadata`, `output`, `errors` or
        `job`.

        None without such a job, or without output.
        """
        ...

    async def text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its JSON as text, or None. JSON too large for a response is left out;
        the row's `cut` names it.
        """
        ...

    async def text_list(
        self, params: JobPageParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobTextPage:
        """Return one page of jobs by keyset, without errors and metadata; `lean` is ignored.

        Args of more than `args` characters are left out, and JSON at `params.paths` that is too
        long. The page ends before it is full once its args may take `unpacked` bytes, but has at
        least one job.
        """
        ...

    async def json_get(self, id: int) -> str | None:
        """Return the job of `job_text_get` in JSON, if the database can write it in one go.

        None if there is no such job, where it cannot be written as it stands, and from drivers
        that have no such way: then `job_text_get` has to be asked.
        """
        ...

    async def json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        """Return the page of `job_text_list` in JSON, if the database can write it in one go.

        None if a job has args of more than `args` bytes or cannot be written as it stands, where
        a window has ended the search, and from drivers that have no such way: then `job_text_list`
        has to be asked.
        """
        ...

    async def row_get(self, id: int) -> JobRow | None:
        """Return one whole job, or None."""
        ...

    async def row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs in the order asked for; see JobSelectParams."""
        ...

    async def row_count(self, params: JobSelectParams) -> Mapping[JobState, int]:
        """Count the jobs that match by state, up to `limit` of them; states without any are left
        out.
        """
        ...

    async def delete_selected(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Delete the jobs that match, except running and locked ones, up to `limit` by id; return
        the deleted rows.
        """
        ...

    async def update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merge an object (JSON text) into the job's metadata, in any state; return the job, None
        if there is none.
        """
        ...

    async def cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """Do River's JobCancel to each id; notify the workers of every job it touched."""
        ...

    async def delete_many(self, ids: Sequence[int]) -> JobChanges:
        """Do River's JobDelete to each id: everything but running jobs."""
        ...

    async def move_many(
        self, ids: Sequence[int], *, queue: str | None = None, priority: int | None = None
    ) -> JobChanges:
        """Give waiting jobs another queue or priority; notify the workers of the queue that
        available ones came into. Unique keys stay as they are.
        """
        ...

    async def retry_many(self, ids: Sequence[int], *, pending: bool = False) -> JobChanges:
        """Do River's JobRetry to each id. Raises UniqueConflict for all when one conflicts.

        With `pending` they become pending, for something else to make them available.
        """
        ...

    async def outcome_list(self, ids: Sequence[int]) -> Mapping[int, JobOutcome]:
        """Return the outcomes of these jobs by id; deleted ones are left out."""
        ...
