"""What the worker engine does to River's tables.

Each method is one statement unless told otherwise, and none of them commits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobRow
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.storage.interface.capabilities import Offering
from riverui.storage.interface.params import (
    JobDeleteBeforeParams,
    JobFetchParams,
    JobInserted,
    JobInsertParams,
    JobRescueParams,
    JobScheduled,
    JobSelectParams,
    JobSetStateParams,
)


class InsertExecutor(Protocol):
    """Inserts jobs."""

    async def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[JobInserted]:
        """Inserts jobs and tells the workers of the queues in `notify`; one answer per job, in
        order.

        A new row is made of its params: its JSON is the text given, not Postgres's print of it. A
        job whose unique key is taken gives the row that has it, as it stands in the database. Equal
        keys within `jobs` give the first one's row as well (River's statement would fail).

        BadRequest for what Postgres cannot store: NUL characters, halves of surrogates, JSON with
        them.
        """
        ...

    async def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """COPYs jobs; how many. UniqueConflict where a key is taken. Two statements: for a
        transaction.
        """
        ...


class WorkExecutor(Protocol):
    """Fetches jobs and writes what became of them."""

    async def job_get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Takes up to `limit` due jobs by priority, time and id and makes them running; in any
        order.
        """
        ...

    async def job_first_available(self, params: JobFetchParams) -> int | None:
        """Tell the job that job_get_available would take first; None where there is none."""
        ...

    async def job_begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Takes one unfinished job, due or not, and makes it running; None where there is none. For
        tests.
        """
        ...

    async def job_complete_many(
        self, ids: Sequence[int], finalized_at: Sequence[datetime]
    ) -> Sequence[int]:
        """The plain ending: still running jobs become completed; gives their ids. See
        job_set_state_many.

        Fastest where the times are one and the same object.
        """
        ...

    async def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """River's JobSetStateIfRunningMany: the rows as they are afterwards, by id, whether or not
        they were running; missing ones left out. One change a job.
        """
        ...

    async def job_cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Those of the running jobs that somebody asked to cancel."""
        ...

    async def job_update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merges an object (JSON text) into the job's metadata, in any state; None without such a
        job.
        """
        ...

    async def job_row_get(self, id: int) -> JobRow | None:
        """One whole job, or None."""
        ...

    async def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Whole jobs in the order asked for; see JobSelectParams."""
        ...


class UpkeepExecutor(Protocol):
    """Schedules, rescues and removes jobs, for the client that leads."""

    async def job_schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Scheduled and retryable jobs due by `now` become available; River's rules for unique
        conflicts.
        """
        ...

    async def job_first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Tell the job that job_schedule would move first; None where there is none."""
        ...

    async def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Running jobs that started before then, by id."""
        ...

    async def job_first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Tell the job that job_get_stuck would read first; None where there is none."""
        ...

    async def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """Ends stuck jobs that are still running since before then; the ids of those changed."""
        ...

    async def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Removes finished jobs past their retention, the longest finished first, up to `limit`;
        how many.
        """
        ...

    async def job_first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Tell the job that job_delete_before would remove first; None where there is none."""
        ...


class QueueReportExecutor(Protocol):
    """Tells which queues are worked, and asks how they are."""

    async def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Creates the queue's row or sets its updated_at; never touches metadata or paused_at."""
        ...

    async def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """As queue_upsert, for distinct queues in one statement; their rows in any order."""
        ...

    async def queue_row_get(self, name: str) -> QueueRow | None:
        """The `river_queue` row alone; None where there is none."""
        ...

    async def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """The rows of those of the queues that have one, in any order."""
        ...

    async def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Those of the queues that have a job to be fetched, of whatever kind."""
        ...

    async def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Removes rows of queues that nobody has reported since; their names."""
        ...


class LeaderExecutor(Protocol):
    """Elects one client to do the maintenance."""

    async def leader_get(self) -> LeaderRow | None:
        """Who leads; None when nobody does."""
        ...

    async def leader_attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Becomes leader where nobody is, or where a term has run out; None when somebody is."""
        ...

    async def leader_attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Prolongs that very term; None when it is lost."""
        ...

    async def leader_resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Goes on with that very term, also where it has run out; None where somebody else has led
        since.
        """
        ...

    async def leader_resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """Ends that very term and tells the other clients; whether there was one to end."""
        ...


class EngineExecutor(
    InsertExecutor,
    WorkExecutor,
    UpkeepExecutor,
    QueueReportExecutor,
    LeaderExecutor,
    Offering,
    Protocol,
):
    """All that the engine needs of a database."""
