"""What storage calls take and give besides rows: filters, orders, cursors, counts and outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.jobs import JobListRow, JobRow, JobState, JobTextRow
from riverui.storage.where import Where


class Field(StrEnum):
    """What a filter term can look at. Names are those of the search box."""

    ID = "id"
    KIND = "kind"
    QUEUE = "queue"
    PRIORITY = "priority"
    TAG = "tag"
    STATE = "state"
    WORKER = "worker"
    ARGS = "args"
    METADATA = "metadata"
    ERROR = "error"
    ATTEMPT = "attempt"
    CREATED = "created"
    SCHEDULED = "scheduled"
    STARTED = "started"
    FINISHED = "finished"


class Op(StrEnum):
    """How a term compares. LIKE takes `*` for any run of characters and ignores case."""

    EQ = "="
    LIKE = "~"
    CONTAINS = "@>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """One condition: any of `values`, or none of them when negated.

    Values by field: id, priority, attempt → int; created, scheduled, started, finished → aware
    datetime; args, metadata → JSON text of an object to contain (op CONTAINS); error → text to find
    (op LIKE, no `*` needed); kind, queue → name (op EQ) or pattern (op LIKE); tag, state, worker →
    name (op EQ).
    """

    field: Field
    op: Op
    values: tuple[int | str | datetime, ...]
    negated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """Jobs in any of `states` (empty: every state) for which every term holds."""

    states: tuple[JobState, ...] = ()
    terms: tuple[Term, ...] = ()


class JobOrder(StrEnum):
    """By the time that matters for each state (`matters_at`), or by id; a leading minus is newest
    first.
    """

    TIME = "time"
    TIME_DESC = "-time"
    ID = "id"
    ID_DESC = "-id"

    @property
    def descending(self) -> bool:
        """Whether the newest comes first."""
        return self.value.startswith("-")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCursor:
    """A place between two jobs: just after (or, for `before`, just before) the one with this time
    and id.
    """

    at: datetime | None
    """`matters_at` of that job; None in the id orders."""
    id: int
    before: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCutoff:
    """Freezes a set of jobs: none inserted, started, scheduled into the set or finished after
    this.
    """

    id: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonPath:
    """A place in the args or in the metadata of a job."""

    field: Field
    """ARGS or METADATA."""
    keys: tuple[str | None, ...]
    """From the outside in; None stands for every element of an array."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListParams:
    """Which page of which jobs; `window` bounds the rows examined for a filter that no index
    serves.
    """

    filter: JobFilter = field(default_factory=JobFilter)
    order: JobOrder = JobOrder.ID_DESC
    cursor: JobCursor | None = None
    limit: int = 100
    window: int = 50_000
    cutoff: JobCutoff | None = None
    lean: bool = False
    """Leaves args_preview, tags and last_error empty: for who only acts on the jobs."""
    paths: tuple[JsonPath, ...] = ()
    """What each row's `values` are read from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedWindow:
    """The filter had no index and the search stopped after `rows` rows: go on from `resume`."""

    rows: int
    until: datetime | None
    """`matters_at` (or `created_at` in the id orders) of the last row examined."""
    resume: JobCursor


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Rows in display order, whichever way they were read."""

    rows: tuple[JobListRow, ...]
    more: bool
    """Whether rows follow in the direction of travel."""
    searched: SearchedWindow | None = None
    """Set when the window ran out before the page was full; `more` is then unknown and False."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTextPage:
    """Like JobPage, of jobs with their args as text."""

    rows: tuple[JobTextRow, ...]
    more: bool
    searched: SearchedWindow | None = None


class TextPiece(NamedTuple):
    """A part of a text that may be too long to be held at once."""

    data: bytes
    """UTF-8, perhaps cut within a character."""
    size: int
    """Bytes of the whole text."""
    version: str
    """Another one once the row has changed."""


class CountKind(StrEnum):
    """How far a count may be trusted."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    ESTIMATED = "estimated"


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """A number of jobs and how it came about."""

    value: int
    kind: CountKind = CountKind.EXACT
    at: datetime | None = None
    """When it was counted, where that is not now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress:
    """A group of jobs by state."""

    counts: Mapping[JobState, int]
    exact: bool
    """Whether these are all; if not, there are at least so many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationRow:
    """An applied migration as `river_migration` records it."""

    line: str
    version: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRow:
    """The database server as the About page tells it."""

    version: str
    database: str
    user: str
    schema: str
    """The schema in use: the configured one, or the first of the search path."""
    settings: tuple[tuple[str, str], ...]
    """Names and values (with units) of the server settings that matter to a queue."""
    job_rows_estimated: int
    """`pg_class.reltuples` of river_job; -1 before the first ANALYZE."""
    job_bytes: int
    """Size of river_job with its indexes and TOAST."""


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
    """Bits as of `domain.jobs.state_bits`; 0 with no key."""


class InsertResult(NamedTuple):
    """The job inserted, or the one that was there already with its unique key."""

    job: JobRow
    unique_skipped_as_duplicate: bool = False

    @property
    def unique_skipped_as_duplicated(self) -> bool:
        """Return the same under the name that River's Python client uses."""
        return self.unique_skipped_as_duplicate


INSERT_ROWS = 5_000
"""Jobs that one statement inserts: River's figure."""


MAX_ATTEMPTED_BY = 100
"""Entries that River keeps in `attempted_by`, the newest ones."""


class JobFetchParams(NamedTuple):
    """Which available jobs a client takes (River's JobGetAvailable)."""

    client_id: str
    queue: str
    limit: int
    now: datetime | None = None
    """None leaves it to the database's clock."""
    kinds: tuple[str, ...] | None = None
    """Only these; None for all."""
    max_attempted_by: int = MAX_ATTEMPTED_BY
    except_ids: tuple[int, ...] = ()
    """Never these."""


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


class JobRescueParams(NamedTuple):
    """What becomes of one stuck job."""

    id: int
    state: JobState
    error: str
    scheduled_at: datetime | None = None
    """None leaves it as it is."""
    finalized_at: datetime | None = None


class JobScheduled(NamedTuple):
    """A job that the scheduler moved: made available, or discarded as another has its key.

    No whole row: ten thousand of them with large args would not fit anywhere.
    """

    id: int
    queue: str
    scheduled_at: datetime
    conflict_discarded: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDeleteBeforeParams:
    """Which finished jobs the cleaner removes; None keeps that state for ever."""

    cancelled_before: datetime | None
    completed_before: datetime | None
    discarded_before: datetime | None
    limit: int
    queues_excluded: tuple[str, ...] = ()
    queues_included: tuple[str, ...] = ()
    """Only jobs of these queues; empty for all."""
    except_ids: tuple[int, ...] = ()
    """Never these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSelectParams:
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
