"""What the worker engine does to River's tables.

Each method is one statement unless told otherwise, and none of them commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobRow, JobState
from riverui.domain.queues import LeaderRow, QueueRow
from riverui.storage.interface.capabilities import Offering
from riverui.storage.interface.engine_params import (
    InsertResult,
    JobDeleteBeforeParams,
    JobFetchParams,
    JobInsertParams,
    JobRescueParams,
    JobScheduled,
    JobSelectParams,
    JobSetStateParams,
    RunningJob,
)


class InsertExecutor(Protocol):
    """Inserts jobs."""

    async def job_insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> Sequence[InsertResult]:
        """Insert jobs and tell the workers of the queues in `notify`; return one answer per job,
        in order.

        A new row is made of its params: its JSON is the text given, not the database's print. A
        job whose unique key is taken gives the row that has it, as it stands in the database. Equal
        keys within `jobs` give the first one's row as well (River's statement would fail).

        BadRequest for what cannot be stored: NUL characters, halves of surrogates, JSON with them.
        """
        ...

    async def job_insert_many_fast(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = ()
    ) -> int:
        """Insert jobs the fastest way there is, in Postgres COPY; return how many.

        UniqueConflict where a key is taken. Two statements: for a transaction.
        """
        ...


class WorkExecutor(Protocol):
    """Fetches jobs and writes what became of them."""

    async def job_get_available(self, params: JobFetchParams) -> Sequence[JobRow]:
        """Take up to `limit` due jobs by priority, time and id and make them running; return them
        in any order. No job is given to two callers.
        """
        ...

    async def job_first_available(self, params: JobFetchParams) -> int | None:
        """Return the id of the job that job_get_available would take first; None where there is
        none.
        """
        ...

    async def job_begin(self, id: int, *, client_id: str, now: datetime) -> JobRow | None:
        """Take one unfinished job, due or not, and make it running; None where there is none. For
        tests.
        """
        ...

    async def job_complete_many(
        self,
        ids: Sequence[int],
        finalized_at: Sequence[datetime],
        *,
        of_attempts: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Make those of the jobs that still run completed, where `of_attempts` is given only those
        that are still at that attempt; return their ids. See job_set_state_many.

        Fastest where the times are one and the same object, and the attempts equal.
        """
        ...

    async def job_delete_completed_many(
        self, ids: Sequence[int], *, of_attempts: Sequence[int]
    ) -> Sequence[int]:
        """Remove those of the jobs that still run at that attempt, which has gone well; return
        their ids.
        """
        ...

    async def job_set_state_many(self, changes: Sequence[JobSetStateParams]) -> Sequence[JobRow]:
        """End attempts as River's JobSetStateIfRunningMany does; return the rows as they are
        afterwards, by id, whether or not they were running. Missing ones are left out. One
        change a job. Ephemeral ones that went well are removed, and returned as completed.
        """
        ...

    async def job_running_list(self, client_id: str) -> Sequence[RunningJob]:
        """Return all running jobs that this client was the last to fetch, by id."""
        ...

    async def job_cancel_requested(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of the running jobs that somebody asked to cancel."""
        ...

    async def job_update(self, id: int, *, metadata: str) -> JobRow | None:
        """Merge an object (JSON text) into the job's metadata, in any state; return the job, None
        without such a one.
        """
        ...

    async def job_row_get(self, id: int) -> JobRow | None:
        """Return one whole job, or None."""
        ...

    async def job_row_list(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Return whole jobs in the order asked for; see JobSelectParams."""
        ...

    async def job_row_count(self, params: JobSelectParams) -> Mapping[JobState, int]:
        """Count the jobs that match by state, up to `limit` of them; states without any are left
        out.
        """
        ...


class UpkeepExecutor(Protocol):
    """Schedules, rescues and removes jobs, for the client that leads."""

    async def job_schedule(
        self, *, now: datetime, limit: int, except_ids: Sequence[int] = ()
    ) -> Sequence[JobScheduled]:
        """Make scheduled and retryable jobs due by `now` available, by River's rules for unique
        conflicts; return those moved.
        """
        ...

    async def job_first_due(self, *, now: datetime, except_ids: Sequence[int] = ()) -> int | None:
        """Return the id of the job that job_schedule would move first; None where there is none."""
        ...

    async def job_get_stuck(
        self, *, attempted_before: datetime, after_id: int, limit: int
    ) -> Sequence[JobRow]:
        """Return running jobs that started before then, by id."""
        ...

    async def job_first_stuck(self, *, attempted_before: datetime, after_id: int) -> int | None:
        """Return the id of the job that job_get_stuck would read first; None where there is
        none.
        """
        ...

    async def job_rescue_many(
        self, rescues: Sequence[JobRescueParams], *, attempted_before: datetime
    ) -> Sequence[int]:
        """End stuck jobs that still run since before then; return the ids of those changed."""
        ...

    async def job_delete_before(self, params: JobDeleteBeforeParams) -> int:
        """Remove finished jobs past their retention, the longest finished first, up to `limit`;
        return how many.
        """
        ...

    async def job_first_old(self, params: JobDeleteBeforeParams) -> int | None:
        """Return the id of the job that job_delete_before would remove first; None where there is
        none.
        """
        ...


class QueueReportExecutor(Protocol):
    """Tells which queues are worked, and asks how they are."""

    async def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Create the queue's row or set its updated_at; return it. Never touches metadata or
        paused_at.
        """
        ...

    async def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Do as queue_upsert for distinct queues in one statement; return their rows in any
        order.
        """
        ...

    async def queue_row_get(self, name: str) -> QueueRow | None:
        """Return the `river_queue` row alone; None where there is none."""
        ...

    async def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """Return the rows of those of the queues that have one, in any order."""
        ...

    async def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Return those of the queues that have a job to be fetched, of whatever kind."""
        ...

    async def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Remove rows of queues that nobody has reported since; return their names."""
        ...


class LeaderExecutor(Protocol):
    """Elects one client to do the maintenance."""

    async def leader_get(self) -> LeaderRow | None:
        """Return who leads; None when nobody does."""
        ...

    async def leader_attempt_elect(
        self, leader_id: str, *, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Become leader where nobody is, or where a term has run out; None when somebody is."""
        ...

    async def leader_attempt_reelect(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Prolong that very term; None when it is lost."""
        ...

    async def leader_resume(
        self, leader_id: str, *, elected_at: datetime, ttl: timedelta, now: datetime | None = None
    ) -> LeaderRow | None:
        """Go on with that very term, also where it has run out; None where somebody else has led
        since.
        """
        ...

    async def leader_resign(self, leader_id: str, *, elected_at: datetime) -> bool:
        """End that very term and tell the other clients; return whether there was one to end."""
        ...


class NotifyExecutor(Protocol):
    """Sends notifications."""

    async def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Send each payload on the schema's channel of that topic."""
        ...


class EngineExecutor(
    InsertExecutor,
    WorkExecutor,
    UpkeepExecutor,
    QueueReportExecutor,
    LeaderExecutor,
    NotifyExecutor,
    Offering,
    Protocol,
):
    """All that the engine needs of a database."""
