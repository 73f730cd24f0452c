"""Turns filter terms into SQL conditions made of closed fragments and numbered parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from riverui.domain.jobs import FINALIZED, JobState
from riverui.domain.numbers import BIGINT, is_bigint
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCutoff, JobFilter, Op, Term
from riverui.storage.postgres.statements import instant
from riverui.storage.sql import Queries, rename

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One term: `sql` begins with "and"; `bound` is the same as an index condition on `column`."""

    term: Term
    sql: str
    column: str | None = None
    bound: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """A filter ready for SQL. `states` None is every state; `impossible` when no job can match."""

    states: tuple[JobState, ...] | None
    terms: tuple[Condition, ...]
    parameters: dict[str, Any]
    ids: tuple[int, ...] | None = None
    kinds: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    contains: tuple[Condition, ...] = ()
    impossible: bool = False


def storable(text: str) -> bool:
    """Whether a Postgres text can hold this: no NUL, no lone surrogate."""
    return ("\0" not in text and text.isascii()) or (
        "\0" not in text and not re.search("[\ud800-\udfff]", text)
    )


def like(pattern: str, *, anywhere: bool = False) -> str:
    """A LIKE pattern for one with `*`; `anywhere` finds it in any place of the text."""
    escaped = re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%")
    return f"%{escaped}%" if anywhere else escaped


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Tells whether a name fits any of the patterns with `*`, in any case."""
    expression = "|".join(
        "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", p))
        for p in patterns
    )
    compiled = re.compile(expression, re.IGNORECASE | re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def contains_pattern(match: str) -> str:
    """A LIKE pattern for names that contain this text."""
    return like(match.replace("*", ""), anywhere=True) if storable(match) else ""


def compile_filter(
    filter: JobFilter, queries: Queries, cutoff: JobCutoff | None = None
) -> Conditions:
    """The filter in SQL. BadRequest where a field cannot be compared that way."""
    states: tuple[JobState, ...] | None = filter.states or None
    compiled: list[Condition] = []
    parameters: dict[str, Any] = {}
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
        condition = _condition(term, values, queries, parameters)
        compiled.append(condition)
        if term.negated:
            continue
        if term.op is Op.EQ and term.field is Field.ID:
            ids = (
                tuple(v for v in ids if v in values)
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
    if cutoff is not None:
        parameters |= {"cutoff_id": cutoff.id, "cutoff_at": instant(cutoff.at)}
    impossible |= states == () or ids == () or () in names.values()
    return Conditions(
        states=states,
        terms=tuple(compiled),
        parameters=parameters,
        ids=ids,
        kinds=names.get(Field.KIND),
        queues=names.get(Field.QUEUE),
        contains=tuple(contains),
        impossible=impossible,
    )


def with_names(filter: JobFilter, term: Term, names: Sequence[str]) -> JobFilter:
    """The filter with a pattern term replaced by the names that fit it."""
    exact = replace(term, op=Op.EQ, values=tuple(names))
    return replace(filter, terms=tuple(exact if t is term else t for t in filter.terms))


def _fold_states(states: tuple[JobState, ...] | None, term: Term) -> tuple[JobState, ...]:
    wanted = {str(value) for value in term.values}
    return tuple(
        s
        for s in (tuple(JobState) if states is None else states)
        if (s.value in wanted) != term.negated
    )


def _values(term: Term) -> list[Any]:
    """The term's values that a column could hold at all; a comparison with any other is false."""
    if term.field in _NUMBERS:
        numbers = [int(v) for v in term.values if isinstance(v, int)]
        if term.op is Op.EQ:
            return [v for v in numbers if is_bigint(v)]
        return [min(max(v, -BIGINT), BIGINT - 1) for v in numbers]
    if term.field in _TIMES:
        return [instant(v) for v in term.values if isinstance(v, datetime)]
    return [v for v in term.values if isinstance(v, str) and storable(v)]


def _condition(
    term: Term, values: list[Any], queries: Queries, parameters: dict[str, Any]
) -> Condition:
    column: str | None = None
    bound = ""

    def bind(value: Any) -> str:
        name = f"term_{len(parameters)}"
        parameters[name] = value
        return name

    def fragment(block: str, value: Any, **clauses: str) -> str:
        return rename(queries.text(block, **clauses), "value", bind(value))

    if (term.field in _NUMBERS or term.field in _TIMES) and term.op in _COMPARISONS:
        name = _NUMBERS.get(term.field) or _TIMES[term.field]
        op = _COMPARISONS[term.op]
        block = "job_term_number" if term.field in _NUMBERS else "job_term_time"
        sql = fragment(block, values, column=name, op=op)
        if len(values) == 1 and not term.negated and term.op is not Op.EQ:
            if term.field is Field.ID:
                column, bound = name, fragment("job_bound_id", values[0], op=op)
            elif term.field in _TIMES:
                column, bound = name, fragment("job_bound_time", values[0], column=name, op=op)
    elif term.field in _NAMES and term.op is Op.EQ:
        sql = fragment("job_term_name", values, column=_NAMES[term.field])
    elif term.field in _NAMES and term.op is Op.LIKE:
        sql = fragment("job_term_name_like", [like(v) for v in values], column=_NAMES[term.field])
    elif term.field in _LISTS and term.op is Op.EQ:
        sql = fragment("job_term_list", values, column=_LISTS[term.field])
    elif term.field in _LISTS and term.op is Op.LIKE:
        sql = fragment("job_term_list_like", [like(v) for v in values], column=_LISTS[term.field])
    elif term.field in _JSON and term.op is Op.CONTAINS:
        # GIN cannot serve "= any": each value has a condition of its own.
        sql = " or ".join(fragment("job_term_json", v, column=_JSON[term.field]) for v in values)
        bound = f"and ({sql})"
    elif term.field is Field.ERROR and term.op in (Op.LIKE, Op.EQ):
        sql = fragment("job_term_error", [like(v, anywhere=True) for v in values])
    else:
        raise BadRequest(f"“{term.field.value}:” cannot be compared with “{term.op.value}”.")
    whole = queries.text("job_term_not" if term.negated else "job_term", term=sql)
    return Condition(term=term, sql=whole, column=column, bound=bound)
