"""The one small interface between riverui and a database that holds River's tables.

`Driver` knows the database, `Executor` knows the operations (named as River names them), and a
`Transaction` is an `Executor`: code written for an Executor runs inside a transaction or out of it.
Methods never commit.

Every method may raise `DatabaseError` and its kinds (`QueryTimeout`, `SchemaMissing`, …).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol

from riverui.domain.jobs import JobListRow, JobRow, JobShowRow, JobState
from riverui.domain.queues import LeaderRow, QueueListRow, QueueRow
from riverui.storage.interface.params import (
    Count,
    JobChanges,
    JobCutoff,
    JobDeleteBeforeParams,
    JobFetchParams,
    JobFilter,
    JobInserted,
    JobInsertParams,
    JobListParams,
    JobPage,
    JobRescueParams,
    JobScheduled,
    JobSelectParams,
    JobSetStateParams,
    MigrationRow,
    ServerRow,
    TextPiece,
)
from riverui.storage.interface.river_ui import ApiExecutor


class EngineExecutor(Protocol):
    """What the worker engine does to River's tables; each method is one statement unless told
    otherwise.
    """

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

    async def job_row_delete_many(self, params: JobSelectParams) -> Sequence[JobRow]:
        """Deletes what matches but running and locked jobs, up to `limit` by id; gives the rows
        deleted.
        """
        ...

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

    async def job_truncate(self) -> None:
        """Empties river_job at once, whatever is in it: for benchmarks."""
        ...

    async def queue_upsert(self, name: str, *, now: datetime | None = None) -> QueueRow:
        """Creates the queue's row or sets its updated_at; never touches metadata or paused_at."""
        ...

    async def queue_upsert_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """As queue_upsert, for distinct queues in one statement; their rows in any order."""
        ...

    async def queue_row_get_many(self, names: Sequence[str]) -> Sequence[QueueRow]:
        """The rows of those of the queues that have one, in any order."""
        ...

    async def queue_with_available_list(self, names: Sequence[str]) -> Collection[str]:
        """Those of the queues that have a job to be fetched, of whatever kind."""
        ...

    async def queue_row_list(self, *, after: str = "", limit: int = 100) -> Sequence[QueueRow]:
        """Queue rows by name."""
        ...

    async def queue_update(self, name: str, *, metadata: str) -> QueueRow:
        """Replaces the metadata (JSON text) and tells the workers; NotFound without a row."""
        ...

    async def queue_delete_expired(self, *, updated_before: datetime, limit: int) -> Sequence[str]:
        """Removes rows of queues that nobody has reported since; their names."""
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

    async def notify_many(self, topic: str, payloads: Sequence[str]) -> None:
        """Sends each payload on the schema's channel of that topic."""
        ...

    async def transaction_id(self) -> int:
        """The number of the transaction that this is part of, by which it is known afterwards."""
        ...

    async def transaction_committed(self, id: int) -> bool | None:
        """Whether that transaction was kept; None while it is not decided.

        True also for one so old that the server has forgotten it, False for one it has never heard
        of.
        """
        ...

    async def index_list(self) -> Sequence[str]:
        """Names of the indexes on River's tables, artefacts of broken rebuilds included."""
        ...

    async def index_reindex(self, name: str) -> None:
        """REINDEX INDEX CONCURRENTLY; not inside a transaction."""
        ...

    async def index_drop(self, name: str) -> None:
        """DROP INDEX CONCURRENTLY IF EXISTS; not inside a transaction."""
        ...


class Executor(EngineExecutor, ApiExecutor, Protocol):
    """Operations on River's tables."""

    async def job_cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """River's JobCancel for each id in one statement; notifies the workers of every job it
        touched.
        """
        ...

    async def job_count(
        self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None
    ) -> Count:
        """How many jobs match: AT_LEAST from `cap` on, and where a window ended the search."""
        ...

    async def job_count_by_state(self, *, cap: int) -> Mapping[JobState, Count]:
        """All eight states in one statement: exact up to `cap`, `completed` beyond it ESTIMATED."""
        ...

    async def job_count_exact(self, state: JobState) -> Count:
        """An exact count, however long it takes (up to the transaction's time limit)."""
        ...

    async def job_cutoff(self) -> JobCutoff:
        """The newest id and the database's clock: freezes what a bulk action may touch."""
        ...

    async def job_delete_many(self, ids: Sequence[int]) -> JobChanges:
        """River's JobDelete for each id in one statement: everything but running jobs."""
        ...

    async def job_get(
        self, id: int, *, cut: int = 200_000, lean: bool = False
    ) -> JobShowRow | None:
        """Return one job, its long texts cut to `cut` characters (logs keep their end), or None.

        `lean` leaves out what is in its JSON, for a job too large to be read in time.
        """
        ...

    async def job_get_log(
        self, id: int, attempt: int, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the log of one attempt, its entries joined; None
        without one.

        Entries that name no whole number count as attempt 0.
        """
        ...

    async def job_get_text(
        self, id: int, field: str, *, start: int = 0, size: int
    ) -> TextPiece | None:
        """Return `size` bytes from `start` of the JSON of `args`, `metadata`, `output`, `errors` or
        `job`.

        None without such a job, or without output.
        """
        ...

    async def job_kind_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Distinct kinds whose name contains `match` (any case), by name."""
        ...

    async def job_list(self, params: JobListParams) -> JobPage:
        """One page of jobs by keyset; see JobListParams."""
        ...

    async def job_path_list(
        self, field: str, *, match: str = "", limit: int = 100
    ) -> Sequence[str]:
        """Dotted paths seen in `args` or `metadata` of the newest jobs, that contain `match`."""
        ...

    async def job_retry_many(self, ids: Sequence[int]) -> JobChanges:
        """River's JobRetry for each id in one statement. Raises UniqueConflict for all when one
        conflicts.
        """
        ...

    async def job_tag_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Tags of the newest jobs that contain `match`, by name."""
        ...

    async def job_worker_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Client ids that work or lately worked jobs and contain `match`, by name."""
        ...

    async def leader_get(self) -> LeaderRow | None:
        """Who leads; None when nobody does."""
        ...

    async def migration_list(self) -> Sequence[MigrationRow]:
        """Applied migrations of every line, by line and version; empty without a migration
        table.
        """
        ...

    async def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """Return one queue with its counts; None when it has neither a row nor any job."""
        ...

    async def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Kinds of the queue's unfinished jobs, counted among at most `cap` rows of each state."""
        ...

    async def queue_list(
        self, *, match: str = "", cap: int, limit: int = 200
    ) -> Sequence[QueueListRow]:
        """Queues by name: those with a row and those that only have waiting or running jobs."""
        ...

    async def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """The queue's newest failed jobs: discarded and retryable, newest attempt first."""
        ...

    async def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Names of queues that contain `match` (any case), by name."""
        ...

    async def queue_pause(self, name: str) -> Sequence[str]:
        """River's QueuePause, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        ...

    async def queue_row_get(self, name: str) -> QueueRow | None:
        """The `river_queue` row alone; None where there is none."""
        ...

    async def queue_resume(self, name: str) -> Sequence[str]:
        """River's QueueResume, `*` for every queue; gives the queues it changed. NotFound without a
        row.
        """
        ...

    async def server_get(self) -> ServerRow:
        """Facts about the server for the About page."""
        ...


class Transaction(Executor, Protocol):
    """An Executor whose work is kept or lost as one."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A part that can fail alone: an exception leaving it undoes it and is raised on."""
        ...


class Listener(Protocol):
    """One connection that hears River's topics: `river_insert`, `river_control`,
    `river_leadership`.
    """

    async def listen(self, *topics: str) -> None:
        """Returns once the server has confirmed LISTEN: what is notified from then on will be
        heard.

        Whoever must not miss anything awaits this, then reads what stands in the tables, then reads
        `notifications`. May be called again for further topics, also while somebody reads.
        DatabaseUnavailable when the connection is lost.
        """
        ...

    def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Pairs of topic and payload, until closed; listens to `topics` first.

        After 5 seconds of silence the server is asked whether it lives, and given 10 to answer:
        DatabaseUnavailable when it does not, or when the connection is lost. A new Listener is
        needed then. For one reader.
        """
        ...

    async def close(self) -> None:
        """Ends the connection; safe to call twice."""
        ...


class Driver(Protocol):
    """A database. Opens itself at first use, so that a mounted app needs no lifespan."""

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        ...

    @property
    def database(self) -> str:
        """The database's name, empty before the first connection."""
        ...

    @property
    def read_only(self) -> str:
        """Why the database takes no changes, as a sentence; empty where it does, or is not known
        yet.
        """
        ...

    @property
    def schema_in_use(self) -> str:
        """The schema, or else the first of the search path; that is empty before the first
        connection.
        """
        ...

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """A short read-only transaction under a statement timeout, the page timeout unless
        given.
        """
        ...

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write, under time limits; commits unless an exception leaves
        it.
        """
        ...

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        """A pooled connection on which each call is a transaction of its own: one round trip, no
        time limit of the server's, so `timeout` (the action timeout unless given) is kept from this
        side: the server is asked to stop what takes longer (QueryTimeout), and hung up on where it
        does not answer.
        """
        ...

    def apart(self) -> Driver:
        """Another driver of the same database that shares nothing with this one, for another event
        loop.

        It has no pool: every connection is made for its use. Nothing of it has to be closed.
        """
        ...

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        """A connection outside the pool, for a service that speaks all the time; each call commits
        itself.

        `timeout` limits each statement, on the server. DatabaseUnavailable ends its use: ask for
        another one. Behind a pooler in transaction mode it works as well, but then with no limit of
        the server's.
        """
        ...

    def migrating(self) -> AbstractAsyncContextManager[MigrationSteps]:
        """A connection for migrations, without a statement timeout."""
        ...

    async def adopt(self, transaction: object) -> Executor:
        """Operations inside somebody's own transaction, which stays theirs to commit.

        A psycopg AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection on psycopg or
        asyncpg (`job_insert_many_fast` is an INSERT there). TypeError for anything else.
        SQLAlchemy's transaction is begun if it was not. No time limits but those that are in force
        there.
        """
        ...

    async def listener(self) -> Listener:
        """A new Listener on a connection of its own."""
        ...

    async def ping(self) -> None:
        """One trivial query; raises as any call does."""
        ...

    async def close(self) -> None:
        """Gives back every connection that the driver opened itself; safe to call twice."""
        ...


class MigrationSteps(Protocol):
    """River's record of migrations on one connection, and the running of their SQL."""

    async def versions(self, line: str) -> Sequence[int]:
        """Versions recorded for a line; MigrationError where the database does not know lines
        yet.
        """
        ...

    def step(
        self, *, statement_timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[None]:
        """One transaction in which no other riverui migrates; kept unless an exception leaves it.

        A statement may take as long as `statement_timeout`, or as it needs.
        """
        ...

    async def apply(self, sql: str) -> None:
        """Runs a migration's SQL; MigrationError with the database's words."""
        ...

    async def record(self, line: str, version: int, *, applied: bool, has_line: bool) -> None:
        """Adds or removes one version; `has_line` False for tables from before lines."""
        ...


class MigrationDriver(Protocol):
    """A driver on whose database migrations can be run."""

    @property
    def schema(self) -> str | None:
        """The schema that holds River's tables; None leaves it to the search path."""
        ...

    def migrating(self) -> AbstractAsyncContextManager[MigrationSteps]:
        """A connection for migrations, without a statement timeout."""
        ...


class SyncDriver(Protocol):
    """A database as the synchronous client sees it: it inserts, and ends jobs in transactions."""

    def insert_many(
        self, jobs: Sequence[JobInsertParams], *, notify: Sequence[str] = (), fast: bool = False
    ) -> Sequence[JobInserted]:
        """In a transaction of its own; `fast` COPYs, and gives no rows."""
        ...

    def insert_many_tx(
        self,
        transaction: object,
        jobs: Sequence[JobInsertParams],
        *,
        notify: Sequence[str] = (),
        fast: bool = False,
    ) -> Sequence[JobInserted]:
        """In somebody's own transaction: a psycopg or psycopg2 connection, a SQLAlchemy Session or
        Connection on one of these, or a Django database connection. TypeError for anything else.
        """
        ...

    def job_set_state_tx(self, transaction: object, change: JobSetStateParams) -> bool:
        """Ends a running job in somebody's own transaction; whether there is such a job."""
        ...

    def close(self) -> None:
        """Gives back what it opened itself; safe to call twice."""
        ...
