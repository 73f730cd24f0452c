"""The dashboard's filters and orders as SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.json import read_json
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCutoff, Op, Term
from riverui.storage.sqlite.file import valid_json
from riverui.storage.sqlite.values import stamp

_COLUMNS: Mapping[Field, str] = {
    Field.ATTEMPT: "attempt",
    Field.CREATED: "created_at",
    Field.FINISHED: "finalized_at",
    Field.ID: "id",
    Field.KIND: "kind",
    Field.PRIORITY: "priority",
    Field.QUEUE: "queue",
    Field.SCHEDULED: "scheduled_at",
    Field.STARTED: "attempted_at",
    Field.STATE: "state",
}
_ORDERED = frozenset({Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE})
_TEXTS = frozenset({Field.KIND, Field.QUEUE, Field.STATE})
_ARRAYS: Mapping[Field, str] = {
    Field.ERROR: f"json_each({valid_json('errors')})"
    " where iif(type = 'object', value ->> '$.error', value)",
    Field.TAG: f"json_each({valid_json('tags')}) where value",
    Field.WORKER: f"json_each({valid_json('attempted_by')}) where value",
}
_JSON: Mapping[Field, str] = {
    Field.ARGS: valid_json("args"),
    Field.METADATA: valid_json("metadata"),
}
_KEY = re.compile(r"\w+")
"""Matches a key that a path of SQLite can name."""
_MAX_NUMBER = 2**63 - 1
"""Largest number of SQLite."""


class Condition(NamedTuple):
    """SQL that a row of `river_job` has to fulfil, and its parameters."""

    sql: str
    values: Sequence[Any] = ()


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Return one condition that holds if all of them hold."""
    return Condition(
        " and ".join(each.sql for each in conditions if each.sql != "true") or "true",
        [value for each in conditions for value in each.values],
    )


def in_states(states: Sequence[JobState]) -> Condition:
    """Return the condition of jobs in any of the states; of all jobs without any."""
    if not states:
        return Condition("true")
    sql = f"state in ({quoted(states)})"
    if FINALIZED.issuperset(states):
        # River's index by time of the end is a partial one.
        sql += " and finalized_at is not null"
    return Condition(sql)


def quoted(states: Iterable[JobState]) -> str:
    """Return the states as SQL."""
    return ", ".join(f"'{state.value}'" for state in states)


def before(cutoff: JobCutoff | None) -> Condition:
    """Return the condition of jobs that had their state at the cutoff, so that none of their times
    is newer.
    """
    if cutoff is None:
        return Condition("true")
    at = stamp(cutoff.at)
    return Condition(
        "id <= ? and (finalized_at is null or finalized_at <= ?)"
        " and (attempted_at is null or attempted_at <= ?)"
        " and (state <> 'available' or scheduled_at <= ?)",
        [cutoff.id, at, at, at],
    )


def containing(column: str, wanted: str) -> Condition:
    """Return the condition that a JSON text contains a value, as Postgres's `@>` has it."""
    leaves = _leaves(read_json(wanted), "$")
    # SQLite compares what it can: Python is called for the few rows that are left.
    equal = [f"{column} ->> '{path}' = ? and " for path, _ in leaves]
    return Condition(
        f"{''.join(equal)}riverui_contains({column}, ?)", [*(leaf for _, leaf in leaves), wanted]
    )


def _leaves(wanted: object, path: str) -> Sequence[tuple[str, int | str]]:
    """Return the numbers and texts inside the objects of a JSON value, with their paths."""
    if isinstance(wanted, dict):
        return [
            leaf
            for key, inner in wanted.items()
            if _KEY.fullmatch(key)
            for leaf in _leaves(inner, f'{path}."{key}"')
        ]
    if isinstance(wanted, str) or (type(wanted) is int and abs(wanted) <= _MAX_NUMBER):
        return [(path, wanted)] if path != "$" else []
    return []


def like(pattern: str) -> str:
    """Return a pattern with `*` for any run of characters as SQL's LIKE has it, escaped by `!`."""
    escaped = pattern.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return escaped.replace("*", "%")


def condition_of(term: Term) -> Condition:
    """Return the condition of one term of a filter."""
    found = [comparison(term, value) for value in term.values]
    sql = " or ".join(f"({each.sql})" for each in found) or "false"
    return Condition(
        f"({sql}) is {'not ' * term.negated}true",
        [value for each in found for value in each.values],
    )


def comparison(term: Term, value: int | str | datetime) -> Condition:
    """Return the condition of one value; BadRequest if the field cannot be compared so."""
    field, op = term.field, term.op
    if field in _JSON and op is Op.CONTAINS:
        return containing(_JSON[field], str(value))
    if field is Field.ERROR and op in (Op.LIKE, Op.EQ):
        op, value = Op.LIKE, f"*{value}*"
    elif field in _TEXTS or field in _ARRAYS:
        if op not in (Op.LIKE, Op.EQ):
            raise _incomparable(term)
    elif field in _JSON or op not in _ORDERED:
        raise _incomparable(term)
    compared = f"{op.value} ?"
    if op is Op.LIKE:
        compared, value = "like ? escape '!'", like(str(value))
    elif isinstance(value, datetime):
        value = stamp(value)
    elif isinstance(value, int):
        value = max(-_MAX_NUMBER, min(value, _MAX_NUMBER))
    if (array := _ARRAYS.get(field)) is not None:
        return Condition(f"exists (select 1 from {array} {compared})", [value])
    return Condition(f"{_COLUMNS[field]} {compared}", [value])


def _incomparable(term: Term) -> BadRequest:
    return BadRequest(f"“{term.field.value}:” cannot be compared with “{term.op.value}”.")
