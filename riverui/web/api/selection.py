"""Parse which jobs a request selects, by River UI's parameters and by the search text of
the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from riverui.actions.jobs import MAX_IDS
from riverui.domain.jobs import FINALIZED, JobState, JobTextRow
from riverui.domain.values import is_smallint
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCursor, JobFilter, JobOrder, Op, Term
from riverui.web.api import requests
from riverui.web.api.endpoints import Parameter
from riverui.web.api.models import Id
from riverui.web.http.request_context import only
from riverui.web.search import query
from riverui.web.search.addresses import default_order, search_problem

_NAMES = {"kinds": Field.KIND, "queues": Field.QUEUE, "tags": Field.TAG}
"""Parameters that hold names, and the field that each filters."""
_MAX_NAMES = 100
"""Most values of each of them, as in River UI."""
_PRIORITIES = 10
"""Most priorities that may be named: more than exist."""
_STATES = len(JobState)
Q = Parameter(name="q", summary="A search, as typed on the pages.")
ORDER = Parameter(
    name="order",
    summary="By the relevant time or by id; a minus means latest first.",
    type=JobOrder,
)


def state_parameter(summary: str) -> Parameter:
    """Return the parameter for the states of jobs."""
    return Parameter(name="state", summary=summary, type=list[JobState], max_items=_STATES)


CHOICE = (
    Parameter(name="ids", summary="Any of these ids.", type=list[Id], max_items=MAX_IDS),
    Parameter(name="kinds", summary="Any of these kinds.", type=list[str], max_items=_MAX_NAMES),
    Parameter(name="queues", summary="Any of these queues.", type=list[str], max_items=_MAX_NAMES),
    Parameter(
        name="priorities", summary="Any of these priorities.", type=list[int], max_items=_PRIORITIES
    ),
    Parameter(
        name="tags", summary="At least one of these tags.", type=list[str], max_items=_MAX_NAMES
    ),
)
"""Parameters that choose jobs, besides their state."""


class Selection(Struct, frozen=True, kw_only=True):
    """Jobs in an order."""

    filter: JobFilter
    order: JobOrder
    extended: bool
    """Whether the request uses an order or search that River UI lacks."""

    def cursor(self, text: str) -> JobCursor | None:
        """Return the place that a cursor encodes; None for an empty one. Raise BadRequest if it
        belongs to another order.
        """
        return query.decode_cursor(text, self.order) if text else None

    def behind(self, row: JobTextRow) -> JobCursor:
        """Return the place just after a job."""
        timed = self.order in (JobOrder.TIME, JobOrder.TIME_DESC)
        return JobCursor(at=row.matters_at if timed else None, id=row.id)


def selected(request: Request, *besides: str, listing: bool = True) -> Selection:
    """Return the jobs that a request's parameters select.

    A listing without a state has the running jobs, as in River UI; with a search text or an order,
    or outside of listings, all states are selected. `besides` are parameters that do not select
    jobs. Raise BadRequest for any others: they may have been meant to select fewer.
    """
    only(request, "q", "order", *besides, many=("state", "ids", "priorities", *_NAMES))
    text, order = requests.first(request, "q"), requests.first(request, "order")
    named = states(request.query_params.getlist("state"))
    extended = not listing or bool(text or order or len(named) > 1)
    if not extended:
        found = JobFilter(states=named or (JobState.RUNNING,), terms=_terms(request))
        return Selection(filter=found, order=_rivers_order(named), extended=False)
    found = searched(text, named)
    found = JobFilter(states=found.states, terms=(*found.terms, *_terms(request)))
    return Selection(filter=found, order=_order(order, found.states), extended=True)


def searched(text: str, named: Sequence[JobState]) -> JobFilter:
    """Return the filter of a search text; its own states win over those given. Raise BadRequest
    with what is wrong with the text.
    """
    search = query.parse(text, now=datetime.now(UTC))
    if problem := search_problem(search):
        raise BadRequest(f"{problem.title} {problem.detail}")
    return search.filter(named)


def states(values: Sequence[Any]) -> tuple[JobState, ...]:
    """Return states by their names. Raise BadRequest for an unknown name."""
    try:
        named = {JobState(value) for value in values if value != ""}
    except ValueError:
        raise BadRequest(f"Unknown state; the states are {', '.join(sorted(JobState))}.") from None
    return tuple(state for state in JobState if state in named)


def _terms(request: Request) -> tuple[Term, ...]:
    terms = []
    if ids := requests.listed(request, "ids", MAX_IDS):
        terms.append(_equal(Field.ID, tuple(requests.integer(text) or 0 for text in ids)))
    for name, field in _NAMES.items():
        if values := requests.listed(request, name, _MAX_NAMES):
            terms.append(_equal(field, tuple(values)))
    if priorities := requests.listed(request, "priorities", _PRIORITIES):
        found = [requests.integer(text) or 0 for text in priorities]
        terms.append(_equal(Field.PRIORITY, tuple(n if is_smallint(n) else 0 for n in found)))
    return tuple(terms)


def _equal(field: Field, values: tuple[int | str, ...]) -> Term:
    return Term(field=field, op=Op.EQ, values=values)


def _rivers_order(named: Sequence[JobState]) -> JobOrder:
    """Return River UI's order: the longest running first if no state is named, ended jobs latest
    first, all others by id.
    """
    if not named:
        return JobOrder.TIME
    return JobOrder.TIME_DESC if FINALIZED.issuperset(named) else JobOrder.ID


def _order(text: str, named: Sequence[JobState]) -> JobOrder:
    if not text:
        return default_order(named)
    try:
        return JobOrder(text)
    except ValueError:
        raise BadRequest(f"Unknown order; the orders are {', '.join(JobOrder)}.") from None
