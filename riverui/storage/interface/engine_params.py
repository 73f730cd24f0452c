"""Parameters and results of engine calls besides rows: insert, fetch, finish, clean."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from riverui.domain.jobs import JobRow, JobState
from riverui.errors import UniqueConflict
from riverui.storage.where import Where

_ARGS = 200
"""Characters of args that an error quotes: enough to identify the job."""


class JobInsertParams(NamedTuple):
    """A job to insert, ready for the database: everything checked, defaults filled in."""

    kind: str
    args: str
    """JSON text of an object."""
    created_at: datetime
    scheduled_at: datetime
    state: JobState = JobState.AVAILABLE
    max_attempts: int = 25
    metadata: str = "{}"
    priority: int = 1
    queue: str = "default"
    tags: tuple[str, ...] = ()
    unique_key: bytes | None = None
    unique_states: int = 0
    """Bits as from `domain.jobs.state_bits`; 0 without a key."""


def unique_conflict(job: JobInsertParams) -> UniqueConflict:
    """Return the error of a batch whose first job with a taken unique key is this one."""
    args = job.args if len(job.args) <= _ARGS else f"{job.args[:_ARGS]}…"
    words = f"The first conflicting job is of kind {job.kind}, with the args {args}."
    return UniqueConflict(f"{UniqueConflict.__doc__} {words}")


class InsertResult(NamedTuple):
    """The inserted job, or the existing one with its unique key."""

    job: JobRow
    unique_skipped_as_duplicate: bool = False

    @property
    def unique_skipped_as_duplicated(self) -> bool:
        """Return the same under the name that River's Python client uses."""
        return self.unique_skipped_as_duplicate


INSERT_ROWS = 5_000
"""Jobs that one statement inserts: River's number."""


MAX_ATTEMPTED_BY = 100
"""Entries that River keeps in `attempted_by`, the newest ones."""


class JobsAlike(NamedTuple):
    """Jobs that fit into one batch: of one kind, with equal args where these count."""

    kind: str
    window: int
    """How many of the queue's due jobs are examined, the first in order."""
    args: str | None = None
    """JSON text that the args equal; None for any."""
    keys: tuple[str, ...] = ()
    """Only these keys of the args count; all of the args if empty."""


class Place(NamedTuple):
    """A place in the order in which the jobs of one queue and priority are fetched."""

    scheduled_at: datetime
    id: int


class JobFetchParams(NamedTuple):
    """Which available jobs a client takes (River's JobGetAvailable)."""

    client_id: str
    queue: str
    limit: int
    now: datetime | None = None
    """None for the database's clock."""
    kinds: tuple[str, ...] | None = None
    """Only these; None for all."""
    max_attempted_by: int = MAX_ATTEMPTED_BY
    except_ids: tuple[int, ...] = ()
    """Never these."""
    alike: JobsAlike | None = None
    """Only these; None for all."""
    after: tuple[Place, ...] | None = None
    """Where to begin in each priority, from 1 to 4: jobs up to these places may be left out. None
    for the beginning.
    """


class JobSetStateParams(NamedTuple):
    """How one attempt ended (River's JobSetStateIfRunning); None leaves a column as it is."""

    id: int
    state: JobState
    finalized_at: datetime | None = None
    attempt: int | None = None
    error: str | None = None
    """JSON text of the element to append to `errors`."""
    scheduled_at: datetime | None = None
    metadata: str | None = None
    """JSON text of an object to merge, whatever state the job is in by then."""
    of_attempt: int | None = None
    """Applies, with its metadata, only if the job is still at this attempt; None for any. So the
    first worker of a job that was rescued and is worked again does not end it.
    """
    ephemeral: bool = False
    """Removes the job instead of making it completed."""
    attempted_at: datetime | None = None
    """Applies only if that attempt began then; None for any time. An end that takes the attempt's
    number back must not be written twice: the next attempt has the same number.
    """


class RunningJob(NamedTuple):
    """A running job of one client."""

    id: int
    attempted_at: datetime
    seconds: float
    """How long it has been running, by the database's clock."""


class JobRescueParams(NamedTuple):
    """The outcome of one stuck job."""

    id: int
    state: JobState
    error: str
    scheduled_at: datetime | None = None
    """None leaves it as it is."""
    finalized_at: datetime | None = None


class JobScheduled(NamedTuple):
    """A job that the scheduler made available, or discarded because another has its key.

    Not a whole row: ten thousand of them with large args may not fit into memory.
    """

    id: int
    queue: str
    scheduled_at: datetime
    conflict_discarded: bool


class JobDeleteBeforeParams(Struct, frozen=True, kw_only=True):
    """Which finished jobs the cleaner removes; None keeps that state forever."""

    cancelled_before: datetime | None
    completed_before: datetime | None
    discarded_before: datetime | None
    limit: int
    queues_excluded: tuple[str, ...] = ()
    queues_included: tuple[str, ...] = ()
    """Only jobs of these queues; empty for all."""
    except_ids: tuple[int, ...] = ()
    """Never these."""
    keep_open_workflows: bool = False
    """Whether tasks of riverui's unfinished workflows are kept."""
    cancelled_behind: datetime | None = None
    """Only jobs that were cancelled after then."""
    completed_behind: datetime | None = None
    """Only jobs that were completed after then."""
    discarded_behind: datetime | None = None
    """Only jobs that were discarded after then."""


class JobSelectParams(Struct, frozen=True, kw_only=True):
    """River's JobListParams and JobDeleteManyParams: an empty tuple does not filter."""

    ids: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    priorities: tuple[int, ...] = ()
    queues: tuple[str, ...] = ()
    states: tuple[JobState, ...] = ()
    tags_all: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    metadata: str | None = None
    """JSON text of an object to contain."""
    limit: int = 100
    order: str = "id"
    """A column: id, scheduled_at, attempted_at or finalized_at."""
    descending: bool = False
    after: tuple[datetime | None, int] | None = None
    """The order column's value (None when ordered by id) and the id of the last row of the page
    before.
    """
    where: tuple[Where, ...] = ()
