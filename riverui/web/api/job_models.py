"""Jobs as River UI's API encodes them, and the two ways to select jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from riverui.actions.jobs import MAX_IDS
from riverui.domain.jobs import ErrorText, JobState, JobTextRow
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest
from riverui.web.api import requests
from riverui.web.api.models import Body, Count, Id, Model, Refusal, Time
from riverui.web.api.serializers import dump, instant, optional_instant
from riverui.web.search.query import MAX_LENGTH

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})]
Digits = Annotated[str, Meta(pattern="^[+-]?[0-9]{1,19}$")]

_NO_TIME = "0001-01-01T00:00:00Z"
"""Go's JSON for a time that was never set."""


class JobMinimal(Model, frozen=True, kw_only=True):
    """A job without its errors and metadata (RiverJobMinimal)."""

    id: Id
    args: Annotated[
        str,
        Meta(
            description='JSON text, with every digit; `{"left_out": …}` if it is too long.',
            extra_json_schema={"contentMediaType": "application/json"},
        ),
    ]
    attempt: Count
    attempted_at: Time | None
    attempted_by: tuple[str, ...]
    created_at: Time
    finalized_at: Time | None
    kind: str
    max_attempts: Count
    priority: int
    queue: str
    scheduled_at: Time
    state: JobState
    tags: tuple[str, ...]
    cut: (
        Annotated[
            tuple[str, ...],
            Meta(description="Fields too long to include in full; present only if there are any."),
        ]
        | UnsetType
    ) = UNSET

    @classmethod
    def from_row(cls, row: JobTextRow, *, cut: bool = True) -> Self:
        """Return the model of a database row; unless `cut` is off, it names the fields that were
        cut.
        """
        found = cls(**_minimal(row))
        return found if cut or not row.cut else msgspec.structs.replace(found, cut=UNSET)

    @classmethod
    def example(cls) -> Self:
        """Return a running job."""
        return cls.from_row(EXAMPLE_JOB)


class JobError(Model, frozen=True, kw_only=True):
    """A failed attempt."""

    at: str
    attempt: int
    error: str
    trace: str

    @classmethod
    def from_row(cls, row: ErrorText) -> Self:
        """Return an element of a row's errors."""
        at = _NO_TIME if row.at is None else row.at
        return cls(at=at, attempt=row.attempt, error=row.error, trace=row.trace)


class Job(JobMinimal, frozen=True, kw_only=True):
    """A job (RiverJob)."""

    errors: list[JobError]
    metadata: Raw
    """The stored JSON text, so that its numbers stay exact."""

    @classmethod
    def of_text(cls, row: JobTextRow, **more: Any) -> Self:
        """Return the model of a database row; `more` are the fields that a subclass adds."""
        metadata = left_out(row.id, "metadata") if "metadata" in row.cut else row.metadata
        errors = [JobError.from_row(error) for error in row.errors]
        return cls(**_minimal(row), errors=errors, metadata=Raw(metadata.encode()), **more)

    @classmethod
    def example(cls) -> Self:
        """Return a job that has failed once."""
        return cls.of_text(EXAMPLE_JOB)


class States(Model, frozen=True, kw_only=True):
    """Jobs by state."""

    available: Count
    cancelled: Count
    completed: Count
    discarded: Count
    pending: Count
    retryable: Count
    running: Count
    scheduled: Count

    @classmethod
    def from_counts(cls, counts: Mapping[JobState, int]) -> Self:
        """Return the counts of all states."""
        return cls(**{state.value: counts[state] for state in JobState})

    @classmethod
    def example(cls) -> Self:
        """Return the counts of a busy dashboard."""
        found = {JobState.AVAILABLE: 12, JobState.COMPLETED: 98_102, JobState.RUNNING: 3}
        return cls.from_counts(dict.fromkeys(JobState, 0) | found)


def _minimal(row: JobTextRow) -> dict[str, Any]:
    """Return the fields of JobMinimal."""
    return {
        "id": row.id,
        "args": left_out(row.id, "args") if "args" in row.cut else row.args,
        "attempt": row.attempt,
        "attempted_at": optional_instant(row.attempted_at),
        "attempted_by": row.attempted_by,
        "created_at": instant(row.created_at),
        "finalized_at": optional_instant(row.finalized_at),
        "kind": row.kind,
        "max_attempts": row.max_attempts,
        "priority": row.priority,
        "queue": row.queue,
        "scheduled_at": instant(row.scheduled_at),
        "state": row.state,
        "tags": row.tags,
        "cut": row.cut or UNSET,
    }


def left_out(job_id: int, field: str) -> str:
    """Return JSON text in place of a field that is too long for an answer."""
    return dump({"left_out": f"too long for this response: see /jobs/{job_id}/raw/{field}"})


EXAMPLE_JOB = JobTextRow(
    id=9381022,
    args='{"customer": {"id": 42}}',
    attempt=1,
    attempted_at=datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=UTC),
    attempted_by=("host_2026_11_21T08_59_12_345678",),
    created_at=datetime(2026, 11, 21, 8, 59, 59, tzinfo=UTC),
    finalized_at=None,
    kind="mail_send",
    max_attempts=25,
    priority=1,
    queue="default",
    scheduled_at=datetime(2026, 11, 21, 8, 59, 59, tzinfo=UTC),
    state=JobState.RUNNING,
    tags=("newsletter",),
    errors=(ErrorText(at="2026-11-21T08:58:00Z", attempt=1, error="connection reset", trace=""),),
    metadata='{"trace_id": "abc"}',
)
"""The row used for the examples of jobs."""


def _number(value: int | str) -> int | None:
    """Return a job id; None if the value is not one."""
    if isinstance(value, str):
        return requests.integer(value)
    return value if type(value) is int and is_bigint(value) else None


def _refused_ids(values: Any) -> str:
    """Return what is wrong with the ids, as text."""
    if values is None:
        return "`ids` is missing: give the ids of the jobs."
    if not isinstance(values, list):
        return "`ids` must be a list of job ids."
    if not values:
        return "`ids` is empty: give at least one job id."
    if len(values) > MAX_IDS:
        return f"`ids` must not hold more than {MAX_IDS:,} ids."
    bad = next((value for value in values if _number(value) is None), None)
    return f"`ids`: {str(bad)[:40]!r} is not a job id."


class Ids(Body, frozen=True, kw_only=True):
    """The jobs with these ids."""

    ids: Annotated[
        list[Int64 | Digits],
        Meta(min_length=1, max_length=MAX_IDS, description="Numbers, or numbers as strings."),
    ]

    refusals: ClassVar[Mapping[str, Refusal]] = {"ids": _refused_ids}

    def numbers(self) -> tuple[int, ...]:
        """Return the ids in the given order, each once. Raise BadRequest if one is not a bigint."""
        numbers = [_number(value) for value in self.ids]
        found = tuple(dict.fromkeys(number for number in numbers if number is not None))
        if None in numbers:
            raise BadRequest(_refused_ids(self.ids))
        return found

    @classmethod
    def example(cls) -> Self:
        """Return two ids."""
        return cls(ids=["9381022", "9381023"])


class Query(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every job that currently matches a search."""

    query: Annotated[
        str,
        Meta(
            description="A search text; empty means every job.",
            extra_json_schema={"maxLength": MAX_LENGTH},
        ),
    ]
    state: tuple[JobState, ...] = ()

    refusals: ClassVar[Mapping[str, Refusal]] = dict.fromkeys(
        ("query", "state"), "`query` must be a search text, and `state` a list of states."
    ) | {"state[]": f"Unknown state; the states are {', '.join(sorted(JobState))}."}

    @classmethod
    def tidied(cls, posted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the posted values without empty states. Raise BadRequest for an unknown field: it
        may have been meant to narrow the query.
        """
        if unknown := sorted(posted.keys() - set(cls.__struct_fields__)):
            known = ", ".join(f"`{name}`" for name in cls.__struct_fields__ if name != "query")
            raise BadRequest(f"With a `query`, only {known} may be given, not `{unknown[0][:40]}`.")
        state = posted.get("state") or []
        if isinstance(state, list):
            state = [name for name in state if name != ""]
        return {**posted, "state": state}

    @classmethod
    def example(cls) -> Self:
        """Return a search among discarded jobs."""
        return cls(query="kind:mail_send error:timeout", state=(JobState.DISCARDED,))
