"""Lists of jobs: River's filters, orders and cursors."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.args import gojson
from riverui.storage.interface import Executor
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.storage.where import Where

MAX_FIRST = 10_000
"""Rows in one result: River's limit."""

MAX_COUNTED = 1_000_000
"""Default limit of counted jobs: these take about a second."""

_NO_TIME = datetime.min.replace(tzinfo=UTC)
"""Go's zero time, which means none in a cursor."""


class JobListOrder(StrEnum):
    """The order of a list; jobs with the same time are ordered by id."""

    ID = "id"
    FINALIZED_AT = "finalized_at"
    """Only for finalized states; all of them by default."""
    SCHEDULED_AT = "scheduled_at"
    TIME = "time"
    """The time that belongs to the first of `states`: finalized_at, attempted_at (running) or
    scheduled_at.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListCursor:
    """A position in a list, after one of its jobs. Its text has the format of River's clients."""

    id: int
    kind: str
    queue: str
    sort_field: JobListOrder
    time: datetime | None
    """The time that the list is ordered by; None if ordered by id, or if the job has no such
    time.
    """

    def __str__(self) -> str:
        named = {
            "id": self.id,
            "kind": self.kind,
            "queue": self.queue,
            "sort_field": self.sort_field.value,
            "time": (self.time or _NO_TIME).astimezone(UTC),
        }
        return base64.urlsafe_b64encode(gojson.dump(named).encode()).decode()

    @classmethod
    def parse(cls, text: str) -> JobListCursor:
        """Parse a cursor's text; ValueError if invalid."""
        try:
            found = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
            time = datetime.fromisoformat(found["time"])
            if not isinstance(found["id"], int) or time.tzinfo is None:
                raise ValueError
            return cls(
                id=found["id"],
                kind=str(found["kind"]),
                queue=str(found["queue"]),
                sort_field=JobListOrder(found["sort_field"]),
                time=None if time.replace(tzinfo=UTC) == _NO_TIME else time.astimezone(UTC),
            )
        except (binascii.Error, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            raise ValueError("this is not a job list cursor") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListParams:
    """River's JobListParams. A filter that is None matches everything, an empty one nothing."""

    after: JobListCursor | JobRow | str | None = None
    """Start after this position or job; a text is a cursor's."""
    descending: bool = False
    first: int = 100
    """Page size, up to 10,000."""
    ids: Collection[int] | None = None
    kinds: Collection[str] | None = None
    metadata: Mapping[str, Any] | str | None = None
    """JSON that the metadata contains (Postgres's `@>`); a text is JSON already."""
    order_by: JobListOrder | str = JobListOrder.ID
    priorities: Collection[int] | None = None
    queues: Collection[str] | None = None
    states: Sequence[JobState | str] | None = None
    tags_all: Collection[str] | None = None
    tags_any: Collection[str] | None = None
    where: Where | Sequence[Where] = ()
    """SQL conditions, for what no other filter supports: see Where, and its warning."""

    def __post_init__(self) -> None:
        _check_first(self.first)
        _conditions(self.where)
        unfinished = [state.value for state in self._states() if state not in FINALIZED]
        if self._order is JobListOrder.FINALIZED_AT and unfinished:
            raise ValueError(
                f"jobs that are {', '.join(unfinished)} have no finalized_at to order by"
            )

    def select(self) -> JobSelectParams | None:
        """Return these params for storage; None if nothing can match. ValueError for a cursor of
        another order.
        """
        filters = (self.ids, self.kinds, self.priorities, self.queues, self.states, self.tags_any)
        if any(given is not None and not given for given in filters):
            return None
        return JobSelectParams(
            ids=tuple(self.ids or ()),
            kinds=tuple(self.kinds or ()),
            priorities=tuple(self.priorities or ()),
            queues=tuple(self.queues or ()),
            states=self._states(),
            tags_all=tuple(self.tags_all or ()),
            tags_any=tuple(self.tags_any or ()),
            metadata=self.metadata
            if isinstance(self.metadata, str | None)
            else gojson.dump(self.metadata),
            limit=self.first,
            order=self._column(),
            descending=self.descending,
            after=self._after(),
            where=_conditions(self.where),
        )

    def cursor(self, row: JobRow) -> JobListCursor:
        """Return the position after that job in this list."""
        column = self._column()
        return JobListCursor(
            id=row.id,
            kind=row.kind,
            queue=row.queue,
            sort_field=self._order,
            time=None if column == "id" else getattr(row, column),
        )

    @property
    def _order(self) -> JobListOrder:
        return JobListOrder(self.order_by)

    def _states(self) -> tuple[JobState, ...]:
        if self.states is None and self._order is JobListOrder.FINALIZED_AT:
            return tuple(sorted(FINALIZED))
        return tuple(JobState(state) for state in self.states or ())

    def _column(self) -> str:
        if self._order is not JobListOrder.TIME:
            return self._order.value
        first = next(iter(self._states()), JobState.AVAILABLE)
        if first in FINALIZED:
            return "finalized_at"
        return "attempted_at" if first is JobState.RUNNING else "scheduled_at"

    def _after(self) -> tuple[datetime | None, int] | None:
        if self.after is None:
            return None
        after = self.after
        if isinstance(after, JobRow):
            after = self.cursor(after)
        elif isinstance(after, str):
            after = JobListCursor.parse(after)
        if after.sort_field is not self._order:
            raise ValueError(
                f"the cursor is from a list ordered by {after.sort_field}, not {self._order}"
            )
        return (None if self._order is JobListOrder.ID else after.time, after.id)


async def count_jobs(
    executor: Executor, params: JobListParams, limit: int = MAX_COUNTED
) -> Mapping[JobState, int]:
    """Count matching jobs by state, up to `limit` in total."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    select = params.select()
    counts = {} if select is None else await executor.jobs.row_count(replace(select, limit=limit))
    return {state: counts.get(state, 0) for state in JobState}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobListResult:
    """One page of jobs."""

    jobs: Sequence[JobRow]
    last_cursor: JobListCursor | None
    """Where the next page starts, for `after`; None without jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDeleteManyParams:
    """River's JobDeleteManyParams. A filter that is None matches everything, an empty one
    nothing.
    """

    first: int = 100
    """How many to delete at most, by id, up to 10,000."""
    ids: Collection[int] | None = None
    kinds: Collection[str] | None = None
    priorities: Collection[int] | None = None
    queues: Collection[str] | None = None
    states: Collection[JobState | str] | None = None
    unsafe_all: bool = False
    """Required without any filter: then every job is deleted."""
    where: Where | Sequence[Where] = ()
    """SQL conditions, for what no other filter supports: see Where, and its warning. They count as
    a filter.
    """

    def __post_init__(self) -> None:
        _check_first(self.first)
        unfiltered = all(given is None for given in self._filters()) and not _conditions(self.where)
        if self.unsafe_all is not unfiltered:
            raise ValueError("unsafe_all must be set to delete without any filter, and only then")

    def select(self) -> JobSelectParams | None:
        """Return these params for storage; None if nothing can match."""
        if any(given is not None and not given for given in self._filters()):
            return None
        return JobSelectParams(
            ids=tuple(self.ids or ()),
            kinds=tuple(self.kinds or ()),
            priorities=tuple(self.priorities or ()),
            queues=tuple(self.queues or ()),
            states=tuple(JobState(state) for state in self.states or ()),
            limit=self.first,
            where=_conditions(self.where),
        )

    def _filters(self) -> tuple[Collection[object] | None, ...]:
        return (self.ids, self.kinds, self.priorities, self.queues, self.states)


def _conditions(where: Where | Sequence[Where]) -> tuple[Where, ...]:
    conditions = (where,) if isinstance(where, Where) else tuple(where)
    for condition in conditions:
        if not isinstance(condition, Where):
            raise TypeError(f"where takes a Where(sql, named_args) or several, not {condition!r}")
    return conditions


def _check_first(first: int) -> None:
    if not 1 <= first <= MAX_FIRST:
        raise ValueError(f"first must be from 1 to {MAX_FIRST:,}, not {first}")
