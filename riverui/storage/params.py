"""What storage calls take and give besides rows: filters, orders, cursors, counts and outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from riverui.domain.jobs import JobListRow, JobState


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

    Values by field: id, priority, attempt → int; created, scheduled, started, finished → aware datetime;
    args, metadata → JSON text of an object to contain (op CONTAINS); error → text to find (op LIKE, no `*`
    needed); kind, queue → name (op EQ) or pattern (op LIKE); tag, state, worker → name (op EQ).
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
    """By the time that matters for each state (`matters_at`), or by id; a leading minus is newest first."""

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
    """A place between two jobs: just after (or, for `before`, just before) the one with this time and id."""

    at: datetime | None
    """`matters_at` of that job; None in the id orders."""
    id: int
    before: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCutoff:
    """Freezes a set of jobs: none inserted, started, scheduled into the set or finished after this."""

    id: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListParams:
    """Which page of which jobs; `window` bounds the rows examined for a filter that no index serves."""

    filter: JobFilter = field(default_factory=JobFilter)
    order: JobOrder = JobOrder.ID_DESC
    cursor: JobCursor | None = None
    limit: int = 100
    window: int = 50_000
    cutoff: JobCutoff | None = None
    lean: bool = False
    """Leaves args_preview, tags and last_error empty: for who only acts on the jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedWindow:
    """The filter had no index and the search stopped after `rows` rows: go on from `resume`."""

    rows: int
    until: datetime | None
    """`matters_at` (or `created_at` in the id orders) of the last row examined."""
    resume: JobCursor


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Rows in display order, whichever way they were walked."""

    rows: tuple[JobListRow, ...]
    more: bool
    """Whether rows follow in the direction of travel."""
    searched: SearchedWindow | None = None
    """Set when the window ran out before the page was full; `more` is then unknown and False."""


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


class SkipReason(StrEnum):
    """Why an action left a job as it was."""

    NOT_FOUND = "not_found"
    RUNNING = "running"
    FINALIZED = "finalized"
    ALREADY_AVAILABLE = "already_available"
    UNIQUE_CONFLICT = "unique_conflict"
    LOCKED = "locked"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChanges:
    """What an action on several jobs did. Every id asked for is in exactly one of the three."""

    changed: tuple[int, ...] = ()
    requested: tuple[int, ...] = ()
    """Running jobs asked to stop by cancel: they end when their worker answers."""
    skipped: tuple[tuple[int, SkipReason], ...] = ()


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
