"""Filters of dead letters as search terms with the same meaning."""

from __future__ import annotations

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest
from riverui.features.dead_letters.store import DeadJobListParams
from riverui.storage.interface.params import Field, JobFilter, Op, Term

_FIELDS = {Field.KIND: "kind", Field.QUEUE: "queue", Field.ERROR: "error"}
"""The fields that dead letters are filtered by, and the list parameter for each."""


def terms(*, kind: str, queue: str, error: str) -> JobFilter:
    """Return the filter with these texts; empty ones filter nothing."""
    found = []
    for field, text in ((Field.KIND, kind), (Field.QUEUE, queue), (Field.ERROR, error)):
        if text:
            op = Op.LIKE if field is Field.ERROR else Op.EQ
            found.append(Term(field=field, op=op, values=(text,)))
    return JobFilter(terms=tuple(found))


def params(filter: JobFilter) -> DeadJobListParams:
    """Return the list parameters for a filter; raise BadRequest for one that `terms` does
    not make.
    """
    found: dict[str, str] = {}
    states: tuple[JobState, ...] = tuple(filter.states)
    for term in filter.terms:
        name = _FIELDS.get(term.field)
        if name is None or name in found or term.negated or len(term.values) != 1:
            raise BadRequest("Dead letters cannot be filtered by this.")
        found[name] = str(term.values[0])
    if states:
        raise BadRequest("Dead letters cannot be filtered by state.")
    return DeadJobListParams(
        kind=found.get("kind", ""), queue=found.get("queue", ""), error=found.get("error", "")
    )
