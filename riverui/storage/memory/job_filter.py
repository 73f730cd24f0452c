"""Match jobs against the dashboard's filters, and order them in a list."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JobRow, JobState, matters_at
from riverui.domain.json import read_json
from riverui.errors import BadRequest
from riverui.storage.interface.params import (
    Field,
    JobCutoff,
    JobFilter,
    JobOrder,
    Op,
    Term,
)
from riverui.storage.memory.values import contains

_Values = Callable[[JobRow], Iterable[Any]]

_COLUMNS: Mapping[Field, _Values] = {
    Field.ATTEMPT: lambda row: [row.attempt],
    Field.CREATED: lambda row: [row.created_at],
    Field.FINISHED: lambda row: [row.finalized_at],
    Field.ID: lambda row: [row.id],
    Field.KIND: lambda row: [row.kind],
    Field.PRIORITY: lambda row: [row.priority],
    Field.QUEUE: lambda row: [row.queue],
    Field.SCHEDULED: lambda row: [row.scheduled_at],
    Field.STARTED: lambda row: [row.attempted_at],
    Field.STATE: lambda row: [row.state.value],
    Field.TAG: lambda row: row.tags,
    Field.WORKER: lambda row: row.attempted_by,
    Field.ARGS: lambda row: [read_json(row.args)],
    Field.METADATA: lambda row: [read_json(row.metadata)],
    Field.ERROR: lambda row: [error.error for error in row.errors],
}
"""The values that each field of a filter compares."""

_ORDERED: Mapping[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_NUMBERS_AND_TIMES = frozenset(
    {
        Field.ATTEMPT,
        Field.CREATED,
        Field.FINISHED,
        Field.ID,
        Field.PRIORITY,
        Field.SCHEDULED,
        Field.STARTED,
    }
)
_JSON = frozenset({Field.ARGS, Field.METADATA})


def fits(row: JobRow, filter: JobFilter, cutoff: JobCutoff | None = None) -> bool:
    """Return whether the job fits the filter and was in its current state at the cutoff."""
    if filter.states and row.state not in filter.states:
        return False
    if cutoff is not None and not _is_before(row, cutoff):
        return False
    return all(_holds(row, term) is not term.negated for term in filter.terms)


def place(row: JobRow, order: JobOrder) -> tuple[Any, ...]:
    """Return the job's place in a list of that order, ascending."""
    return (row.id,) if order.by_id else (_matters_at(row), row.id)


def like(text: str, pattern: str) -> bool:
    """Return whether a text fits a pattern with `*` for any run of characters, in any case."""
    expression = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(expression, text, re.IGNORECASE | re.DOTALL) is not None


def _matters_at(row: JobRow) -> datetime:
    return matters_at(row.state, row.scheduled_at, row.attempted_at, row.finalized_at)


def _is_before(row: JobRow, cutoff: JobCutoff) -> bool:
    """Return whether the job had its state at the cutoff, so that none of its times is newer."""
    times = [row.finalized_at, row.attempted_at]
    if row.state is JobState.AVAILABLE:
        times.append(row.scheduled_at)
    return row.id <= cutoff.id and all(time is None or time <= cutoff.at for time in times)


def _holds(row: JobRow, term: Term) -> bool:
    compare = _comparison(term)
    values = [value for value in _COLUMNS[term.field](row) if value is not None]
    return any(compare(value, wanted) for value in values for wanted in term.values)


def _comparison(term: Term) -> Callable[[Any, Any], bool]:
    """Return how the term compares; BadRequest if its field cannot be compared so."""
    field, op = term.field, term.op
    if field in _NUMBERS_AND_TIMES and op in _ORDERED:
        return _ORDERED[op]
    if field in _JSON and op is Op.CONTAINS:
        return lambda value, wanted: contains(value, read_json(wanted))
    if field is Field.ERROR and op in (Op.LIKE, Op.EQ):
        return lambda value, wanted: like(value, f"*{wanted}*")
    if field not in _NUMBERS_AND_TIMES and field not in _JSON and op is Op.EQ:
        return operator.eq
    if field not in _NUMBERS_AND_TIMES and field not in _JSON and op is Op.LIKE:
        return like
    raise BadRequest(f"“{field.value}:” cannot be compared with “{op.value}”.")
