"""The one small interface between riverui and a database that holds River's tables.

`Driver` knows the database, `Executor` knows the operations (named as River names them), and a `Transaction`
is an `Executor`: code written for an Executor runs inside a transaction or out of it. Methods never commit.

Every method may raise `DatabaseError` and its kinds (`QueryTimeout`, `SchemaMissing`, …).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

from riverui.domain.jobs import JobListRow, JobRow, JobState
from riverui.domain.queues import LeaderRow, QueueListRow, QueueRow
from riverui.storage.params import (
    Count,
    JobChanges,
    JobCutoff,
    JobFilter,
    JobListParams,
    JobPage,
    MigrationRow,
    ServerRow,
)


class Executor(Protocol):
    """Operations on River's tables."""

    async def job_cancel_many(self, ids: Sequence[int]) -> JobChanges:
        """River's JobCancel for each id in one statement; notifies the workers of every job it touched."""
        ...

    async def job_count(self, filter: JobFilter, *, cap: int, cutoff: JobCutoff | None = None) -> Count:
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

    async def job_get(self, id: int, *, cut: int = 200_000) -> JobRow | None:
        """One whole job, its long texts cut to `cut` characters (logs keep their end), or None."""
        ...

    async def job_get_log(self, id: int, attempt: int) -> str | None:
        """The whole log of one attempt, its entries joined; None where there is none."""
        ...

    async def job_get_text(self, id: int, field: str) -> str | None:
        """The whole `args`, `metadata`, `output`, `errors` or `job` as JSON text, or None."""
        ...

    async def job_kind_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Distinct kinds whose name contains `match` (any case), by name."""
        ...

    async def job_list(self, params: JobListParams) -> JobPage:
        """One page of jobs by keyset; see JobListParams."""
        ...

    async def job_path_list(self, field: str, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Dotted paths seen in `args` or `metadata` of the newest jobs, that contain `match`."""
        ...

    async def job_retry_many(self, ids: Sequence[int]) -> JobChanges:
        """River's JobRetry for each id in one statement. Raises UniqueConflict for all when one conflicts."""
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
        """Applied migrations of every line, by line and version; empty without a migration table."""
        ...

    async def queue_get(self, name: str, *, cap: int) -> QueueListRow | None:
        """One queue with its counts; None when it has neither a row nor a waiting or running job."""
        ...

    async def queue_kind_count(
        self, name: str, *, cap: int
    ) -> Sequence[tuple[str, Mapping[JobState, Count]]]:
        """Kinds of the queue's unfinished jobs, counted among at most `cap` rows of each state."""
        ...

    async def queue_list(self, *, match: str = "", cap: int, limit: int = 200) -> Sequence[QueueListRow]:
        """Queues by name: those with a row and those that only have waiting or running jobs."""
        ...

    async def queue_failure_list(self, name: str, *, limit: int = 10) -> Sequence[JobListRow]:
        """The queue's newest failed jobs: discarded and retryable, newest attempt first."""
        ...

    async def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Names of queues that contain `match` (any case), by name."""
        ...

    async def queue_pause(self, name: str) -> Sequence[str]:
        """River's QueuePause, `*` for every queue; gives the queues it changed. NotFound without a row."""
        ...

    async def queue_row_get(self, name: str) -> QueueRow | None:
        """The `river_queue` row alone; None where there is none."""
        ...

    async def queue_resume(self, name: str) -> Sequence[str]:
        """River's QueueResume, `*` for every queue; gives the queues it changed. NotFound without a row."""
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
    """One connection that hears River's notifications."""

    def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Pairs of topic (`river_insert`, `river_control`, `river_leadership`) and payload, until closed."""
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
    def schema_in_use(self) -> str:
        """The schema, or else the first of the search path; that is empty before the first connection."""
        ...

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        """A short read-only transaction under a statement timeout, the page timeout unless given."""
        ...

    def transaction(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write, under time limits; commits unless an exception leaves it."""
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
        """Versions recorded for a line; MigrationError where the database does not know lines yet."""
        ...

    def step(self) -> AbstractAsyncContextManager[None]:
        """One transaction in which no other riverui migrates; kept unless an exception leaves it."""
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
