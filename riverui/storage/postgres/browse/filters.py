"""Translate filter terms to SQL conditions, made of blocks and the values of their parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.values import MAX_BIGINT, is_bigint
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCutoff, JobFilter, Op, Term
from riverui.storage.interface.sql_blocks import Fragment, join, word
from riverui.storage.postgres.statements import instant

_NUMBERS = {Field.ID: "id", Field.PRIORITY: "priority", Field.ATTEMPT: "attempt"}
_TIMES = {
    Field.CREATED: "created_at",
    Field.SCHEDULED: "scheduled_at",
    Field.STARTED: "attempted_at",
    Field.FINISHED: "finalized_at",
}
_NAMES = {Field.KIND: "kind", Field.QUEUE: "queue"}
_LISTS = {Field.TAG: "tags", Field.WORKER: "attempted_by"}
_JSON = {Field.ARGS: "args", Field.METADATA: "metadata"}

_COMPARISONS = {Op.EQ: "=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


class Condition(Struct, frozen=True, kw_only=True):
    """One term in SQL: `sql` to test a row, `bound` for an index on `column`."""

    term: Term
    sql: Fragment
    plain: Fragment
    """The same in a form whose number of rows the planner can estimate."""
    column: str | None = None
    """The column on which `bound` narrows a scan; None if it narrows none."""
    bound: Fragment | None = None
    """The same condition in a form that an index serves; None without one."""


class Conditions(Struct, frozen=True, kw_only=True):
    """A filter ready for SQL. `states` None is every state; `impossible` when no job can match."""

    states: tuple[JobState, ...] | None
    terms: tuple[Condition, ...]
    cutoff: Mapping[str, Any] | None = None
    """The values of the blocks `job_cutoff_…`; None without a cutoff."""
    ids: tuple[int, ...] | None = None
    kinds: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    contains: tuple[Condition, ...] = ()
    impossible: bool = False


def is_storable(text: str) -> bool:
    """Return whether a Postgres text can contain this: no NUL, no lone surrogate."""
    return ("\0" not in text and text.isascii()) or (
        "\0" not in text and not re.search("[\ud800-\udfff]", text)
    )


def like(pattern: str, *, anywhere: bool = False) -> str:
    """Return a LIKE pattern for one with `*`; with `anywhere` it matches anywhere in the text."""
    escaped = re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%")
    return f"%{escaped}%" if anywhere else escaped


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that matches names against the patterns with `*`, in any case."""
    expression = "|".join(
        "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", p))
        for p in patterns
    )
    compiled = re.compile(expression, re.IGNORECASE | re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def contains_pattern(match: str) -> str:
    """Return a LIKE pattern for names that contain this text."""
    return like(match.replace("*", ""), anywhere=True) if is_storable(match) else ""


def compile_filter(filter: JobFilter, cutoff: JobCutoff | None = None) -> Conditions:
    """Return the filter in SQL; raise BadRequest if a field cannot be compared that way."""
    states: tuple[JobState, ...] | None = filter.states or None
    compiled: list[Condition] = []
    impossible = False
    ids: tuple[int, ...] | None = None
    names: dict[Field, tuple[str, ...]] = {}
    contains: list[Condition] = []
    for term in filter.terms:
        if term.field is Field.STATE:
            states = _fold_states(states, term)
            continue
        if term.field is Field.FINISHED and not term.negated:
            states = tuple(
                s for s in (tuple(JobState) if states is None else states) if s in FINALIZED
            )
        values = _values(term)
        if not values:
            impossible |= not term.negated
            continue
        condition = _condition(term, values)
        compiled.append(condition)
        if term.negated:
            continue
        if term.op is Op.EQ and term.field is Field.ID:
            wanted = frozenset(values)
            ids = (
                tuple(v for v in ids if v in wanted)
                if ids is not None
                else tuple(dict.fromkeys(values))
            )
        elif term.op is Op.EQ and term.field in _NAMES:
            before = names.get(term.field)
            names[term.field] = (
                tuple(v for v in before if v in values)
                if before is not None
                else tuple(dict.fromkeys(values))
            )
        elif term.field in _JSON:
            contains.append(condition)
    impossible |= states == () or ids == () or () in names.values()
    return Conditions(
        states=states,
        terms=tuple(compiled),
        cutoff=None
        if cutoff is None
        else {"cutoff_id": cutoff.id, "cutoff_at": instant(cutoff.at)},
        ids=ids,
        kinds=names.get(Field.KIND),
        queues=names.get(Field.QUEUE),
        contains=tuple(contains),
        impossible=impossible,
    )


def with_names(filter: JobFilter, term: Term, names: Sequence[str]) -> JobFilter:
    """Return the filter with a pattern term replaced by the names that match it."""
    exact = replace(term, op=Op.EQ, values=tuple(names))
    return replace(filter, terms=tuple(exact if t is term else t for t in filter.terms))


def state_term(states: Sequence[JobState]) -> Fragment:
    """Return the condition that a job is in one of the states."""
    return Fragment("job_term_state", {"states": [state.value for state in states]})


def _fold_states(states: tuple[JobState, ...] | None, term: Term) -> tuple[JobState, ...]:
    wanted = {str(value) for value in term.values}
    return tuple(
        s
        for s in (tuple(JobState) if states is None else states)
        if (s.value in wanted) != term.negated
    )


def _values(term: Term) -> list[Any]:
    """Return the values that a column can hold; a comparison with any other is false."""
    if term.field in _NUMBERS:
        numbers = [int(v) for v in term.values if isinstance(v, int)]
        if term.op is Op.EQ:
            return [v for v in numbers if is_bigint(v)]
        return [min(max(v, -MAX_BIGINT - 1), MAX_BIGINT) for v in numbers]
    if term.field in _TIMES:
        return [instant(v) for v in term.values if isinstance(v, datetime)]
    return [v for v in term.values if isinstance(v, str) and is_storable(v)]


def _condition(term: Term, values: list[Any]) -> Condition:
    column: str | None = None
    bound: Fragment | None = None
    field, op = term.field, term.op
    if (field in _NUMBERS or field in _TIMES) and op in _COMPARISONS:
        name = _NUMBERS.get(field) or _TIMES[field]
        slots = {"column": word(name), "op": word(_COMPARISONS[op])}
        block = "job_term_number" if field in _NUMBERS else "job_term_time"
        sql = Fragment(block, {"value": values}, **slots)
        if len(values) == 1 and not term.negated and op is not Op.EQ:
            if field is Field.ID:
                column, bound = name, Fragment("job_bound_id", {"value": values[0]}, op=slots["op"])
            elif field in _TIMES:
                column, bound = name, Fragment("job_bound_time", {"value": values[0]}, **slots)
    elif field in _NAMES and op is Op.EQ:
        sql = Fragment("job_term_name", {"value": values}, column=word(_NAMES[field]))
    elif field in _NAMES and op is Op.LIKE:
        patterns = [like(v) for v in values]
        sql = Fragment("job_term_name_like", {"value": patterns}, column=word(_NAMES[field]))
    elif field in _LISTS and op is Op.EQ:
        sql = Fragment("job_term_list", {"value": values}, column=word(_LISTS[field]))
    elif field in _LISTS and op is Op.LIKE:
        patterns = [like(v) for v in values]
        sql = Fragment("job_term_list_like", {"value": patterns}, column=word(_LISTS[field]))
    elif field in _JSON and op is Op.CONTAINS:
        # GIN cannot serve "= any": each value has its own condition.
        json_column = word(_JSON[field])
        each = [Fragment("job_term_json", {"value": v}, column=json_column) for v in values]
        sql = join(each, " or ")
        bound = Fragment("job_bound_json", term=sql)
    elif field is Field.ERROR and op in (Op.LIKE, Op.EQ):
        patterns = [like(v, anywhere=True) for v in values]
        sql = Fragment("job_term_error", {"value": patterns})
    else:
        raise BadRequest(f"“{field.value}:” cannot be compared with “{op.value}”.")
    whole = Fragment("job_term_not" if term.negated else "job_term", term=sql)
    if field is Field.TAG and op is Op.EQ:
        # The bare column, which has statistics.
        sql = Fragment("job_term_tags", {"value": values})
    plain = whole if term.negated else Fragment("job_term_plain", term=sql)
    return Condition(term=term, sql=whole, plain=plain, column=column, bound=bound)
