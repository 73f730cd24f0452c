"""Parameters and results of lists and bulk actions: filters, orders, cursors, pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from riverui.domain.jobs import JobListRow, JobState, JobTextRow


class Field(StrEnum):
    """A field that a filter term compares, by its name in the search box."""

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


class Term(Struct, frozen=True, kw_only=True):
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


class JobFilter(Struct, frozen=True, kw_only=True):
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
    def by_id(self) -> bool:
        """Whether jobs are ordered by id alone."""
        return self in (JobOrder.ID, JobOrder.ID_DESC)

    @property
    def descending(self) -> bool:
        """Whether the newest comes first."""
        return self.value.startswith("-")


class JobCursor(Struct, frozen=True, kw_only=True):
    """A place between two jobs: just after (or, for `before`, just before) the one with this time
    and id.
    """

    at: datetime | None
    """`matters_at` of that job; None in the id orders."""
    id: int
    before: bool = False


class JobCutoff(Struct, frozen=True, kw_only=True):
    """Limits a set of jobs: none inserted, started, scheduled into the set or finished after
    this.
    """

    id: int
    at: datetime


class JsonPath(Struct, frozen=True, kw_only=True):
    """A place in the args or in the metadata of a job."""

    field: Field
    """ARGS or METADATA."""
    keys: tuple[str | None, ...]
    """From the outside in; None stands for every element of an array."""


EVERY = 2**40
"""A window without an end: more rows than a table can hold."""


class JobPageParams(Struct, frozen=True, kw_only=True):
    """Which page of which jobs."""

    filter: JobFilter = field(default_factory=JobFilter)
    order: JobOrder = JobOrder.ID_DESC
    cursor: JobCursor | None = None
    limit: int = 100
    window: int = 50_000
    """Most rows to examine for a filter that no index serves; EVERY for all of them."""
    cutoff: JobCutoff | None = None
    lean: bool = False
    """Leaves args_preview, tags and last_error empty: for bulk actions."""
    paths: tuple[JsonPath, ...] = ()
    """The places from which each row's `values` are read."""


class SearchedWindow(Struct, frozen=True, kw_only=True):
    """The filter had no index and the search stopped after `rows` rows: continue from `resume`."""

    rows: int
    until: datetime | None
    """`matters_at` (or `created_at` in the id orders) of the last row examined."""
    resume: JobCursor


class JobPage(Struct, frozen=True, kw_only=True):
    """Rows in display order, whichever way they were read."""

    rows: tuple[JobListRow, ...]
    more: bool
    """Whether rows follow in the direction of travel."""
    searched: SearchedWindow | None = None
    """Set if the window ended before the page was full; `more` is then unknown and False."""


class JobTextPage(Struct, frozen=True, kw_only=True):
    """Like JobPage, of jobs with their args as text."""

    rows: tuple[JobTextRow, ...]
    more: bool
    searched: SearchedWindow | None = None


class JobJsonPage(Struct, frozen=True, kw_only=True):
    """Like JobTextPage, of jobs in JSON."""

    jobs: str
    """Objects as in the JSON API, separated by commas; may be empty."""
    last: JobCursor | None
    """The place after the last one, if the page is full and more follow."""


class TextPiece(NamedTuple):
    """A part of a text that may be too long to be held at once."""

    data: bytes
    """UTF-8, possibly cut within a character."""
    size: int
    """Bytes of the whole text."""
    version: str
    """Changes with the row."""


class CountKind(StrEnum):
    """How exact a count is."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    ESTIMATED = "estimated"


class Count(Struct, frozen=True, kw_only=True):
    """A number of jobs and how exact it is."""

    value: int
    kind: CountKind = CountKind.EXACT
    at: datetime | None = None
    """When it was counted; None for now."""


def total_count(counts: Iterable[Count]) -> Count:
    """Return the sum of counts, as exact as the least exact of them."""
    found = list(counts)
    kinds = {count.kind for count in found}
    kind = next(
        (kind for kind in (CountKind.ESTIMATED, CountKind.AT_LEAST) if kind in kinds),
        CountKind.EXACT,
    )
    oldest = min((count.at for count in found if count.at), default=None)
    return Count(value=sum(count.value for count in found), kind=kind, at=oldest)


class JobProgress(Struct, frozen=True, kw_only=True):
    """A group of jobs by state."""

    counts: Mapping[JobState, int]
    exact: bool
    """Whether all jobs are counted; otherwise the counts are lower bounds."""
