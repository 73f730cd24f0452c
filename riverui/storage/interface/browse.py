"""What the dashboard and the JSON API read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from riverui.domain.jobs import JobListRow, JobShowRow, JobState, JobTextRow
from riverui.domain.queues import QueueCountRow, QueueListRow
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


class JobBrowseExecutor(Protocol):
    """Reads jobs: lists, counts, single ones, long texts in pieces."""

    async def job_count(
        self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None
    ) -> Count:
        """Count the jobs that match: AT_LEAST from `cap` on, and where a window ended the
        search.
        """
        ...

    async def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """Count all eight states in one statement: exact up to `cap`, beyond it AT_LEAST, or
        ESTIMATED for `completed` where the driver can estimate.
        """
        ...

    async def job_count_exact(self, state: JobState) -> Count:
        """Count exactly, however long it takes (up to the transaction's time limit)."""
        ...

    async def job_cutoff(self) -> JobCutoff:
        """Return the newest id and the database's clock: freezes what a bulk action may touch."""
        ...

    async def job_get(
        self, id: int, *, cut: int = 200_000, lean: bool = False
    ) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters (logs keep their end), or None.

        `lean` leaves out what is in its JSON, for a job too large to be read in time.
        """
        ...

    async def job_log_piece(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt, its entries joined; None
        without one.

        Entries that name no whole number count as attempt 0.
        """
        ...

    async def job_text_piece(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of `args`, `metadata`, `output`, `errors` or
        `job`.

        None without such a job, or without output.
        """
        ...

    async def job_text_get(self, id: int) -> JobTextRow | None:
        """Return one job with its JSON as text, as far as an answer may hold it (`cut`), or
        None.
        """
        ...

    async def job_list(self, params: JobPageParams) -> JobPage:
        """Return one page of jobs by keyset; see JobPageParams."""
        ...

    async def job_text_list(
        self, params: JobPageParams, *, args: int = 100_000, unpacked: int = 2**40
    ) -> JobTextPage:
        """Return one page of jobs by keyset, without errors and metadata; `lean` means nothing
        here.

        Args of more than `args` characters are left out, and what is too long of the JSON at
        `params.paths`. The page ends before it is full once its args may take `unpacked` bytes;
        there is always one.
        """
        ...

    async def job_json_list(self, params: JobPageParams, *, args: int) -> JobJsonPage | None:
        """Return the page of `job_text_list` in JSON, if the database can write it in one go.

        None where a job has args of more than `args` bytes or cannot be written as it stands, where
        a window has ended the search, and from drivers that have no such way: then `job_text_list`
        has to be asked.
        """
        ...

    async def job_json_get(self, id: int) -> str | None:
        """Return the job of `job_text_get` in JSON, if the database can write it in one go.

        None where there is no such job, where it cannot be written as it stands, and from drivers
        that have no such way: then `job_text_get` has to be asked.
        """
        ...

    async def job_kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match` (any case), but
        `exclude`.
        """
        ...

    async def job_progress(self, filter: JobFilter, *, window: int) -> JobProgress:
        """Count the filter's jobs by state; look at no more than `window` rows where no index finds
        them.
        """
        ...


class QueueBrowseExecutor(Protocol):
    """Reads queues and what is in them."""

    async def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        ...

    async def queue_list(
        self, *, match: str = "", cap: int, limit: int = 200
    ) -> Sequence[QueueListRow]:
        """Return queues by name: those with a row and those that only have waiting or running
        jobs.
        """
        ...

    async def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Count the queue's unfinished jobs by kind, among at most `cap` rows of each state."""
        ...

    async def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """Return the queue's newest failed jobs: discarded and retryable, newest attempt first."""
        ...

    async def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match` (any case), by name."""
        ...

    async def queue_row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `job_kind_list`."""
        ...

    async def queue_count_list(self, *, cap: int, limit: int) -> Sequence[QueueCountRow]:
        """Return River's queue rows by name with their counts, exact up to `cap`."""
        ...

    async def queue_count_get(self, name: str, *, cap: int) -> QueueCountRow | None:
        """Return one queue's row with its counts; None without a row."""
        ...


class BrowseExecutor(JobBrowseExecutor, QueueBrowseExecutor, Protocol):
    """All that the pages and the JSON API read."""
