"""The address of a job list: what it shows, in which order, from where; what is wrong with it; and
its neighbours' addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict, Unpack
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCursor, JobFilter, JobOrder, JsonPath, Term
from riverui.web.http.context import access, dashboard
from riverui.web.http.request_context import url
from riverui.web.search import grammar, query
from riverui.web.search.columns import paths as json_paths, read as read_columns, text_of
from riverui.web.search.query import Search
from riverui.web.view.format import plain
from riverui.web.view.job_table import STANDARD
from riverui.web.view.page_parts import Problem
from riverui.web.view.preferences import PAGE_SIZES

_OURS = frozenset({"after", "before", "limit", "order", "q"})
"""Parameters of a list besides the fields of the filter form; each may be given once."""
_MAX_ROWS = 1_000
"""Most rows of a list: as many as River's API returns. Pages use the nearest of their sizes."""
_WHEN = {"waiting": "Due", "running": "Running", "finalized": "Finished", "mixed": "When"}
_ORDER_LABELS = {
    "waiting": ("Earliest due", "Latest due"),
    "running": ("Longest running", "Latest started"),
    "finalized": ("Earliest finished", "Latest finished"),
    "mixed": ("Earliest", "Latest"),
}


class Changes(TypedDict, total=False):
    """The parts of a list that an address may change."""

    q: str
    states: Sequence[JobState]
    order: JobOrder
    limit: int
    columns: tuple[str, ...]
    cursor: JobCursor | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """A job list as its address describes it."""

    search: Search
    states: tuple[JobState, ...]
    """The states selected on the rail; empty for all."""
    order: JobOrder
    limit: int
    default_limit: int
    columns: tuple[str, ...] = STANDARD
    """Names of the columns shown, as `search.columns` reads them."""
    default_columns: tuple[str, ...] = STANDARD
    cursor: JobCursor | None = None
    problem: str = ""
    """An error message for unknown parameters, which may have been meant to narrow the list; empty
    if there are none.
    """

    @property
    def filter(self) -> JobFilter:
        """Return the filter. Raise BadRequest if the address or the search text is invalid."""
        if self.problem:
            raise BadRequest(self.problem)
        return self.search.filter(self.states)

    @property
    def paths(self) -> tuple[JsonPath, ...]:
        """Return the paths among the columns, whose values have to be read."""
        return json_paths(self.columns)

    @property
    def key(self) -> str:
        """Return a key for the filter, the same in any order and with any columns."""
        return _encoded([("q", self.search.text), *_state_pairs(self.states)])

    def query(self, **changes: Unpack[Changes]) -> str:
        """Return the query string of this list with some parts changed; empty for the plain list of
        all jobs.
        """
        return _encoded(self.pairs(**changes))

    def pairs(self, **changes: Unpack[Changes]) -> list[tuple[str, str]]:
        """Return the parameters of this list with some parts changed, as names and values.

        New states get their own default order. The position in the list is kept only if given. A
        text that is too long for a search is left out: each of a page's many links would repeat it.
        """
        q = changes.get("q", "" if self.search.too_long else self.search.text)
        states = changes.get("states", self.states)
        order = changes.get("order", None if "states" in changes else self.order)
        limit = changes.get("limit", self.limit)
        columns = changes.get("columns", self.columns)
        cursor = changes.get("cursor")
        pairs = [("q", q)] if q else []
        pairs += _state_pairs(states)
        if order and order is not default_order(states):
            pairs.append(("order", order.value))
        if limit != self.default_limit:
            pairs.append(("limit", str(limit)))
        if columns != self.default_columns:
            pairs.append(("columns", text_of(columns)))
        if cursor:
            pairs.append(("before" if cursor.before else "after", query.encode_cursor(cursor)))
        return pairs

    def export_query(self, format: str) -> str:
        """Return the query string of this list as a file of that format; it has whole jobs if the
        columns are the standard ones.
        """
        pairs = [("format", format)]
        if self.search.text:
            pairs.append(("q", self.search.text))
        pairs += _state_pairs(self.states)
        if self.columns != STANDARD:
            pairs.append(("columns", text_of(self.columns)))
        return _encoded(pairs)

    @property
    def when(self) -> str:
        """Return the heading of the time column."""
        return _WHEN[_group(self.states)]

    def orders(self) -> list[tuple[JobOrder, str]]:
        """Return the available orders, with labels that fit the states shown."""
        first, last = _ORDER_LABELS[_group(self.states)]
        by_id = [(JobOrder.ID_DESC, "Newest"), (JobOrder.ID, "Oldest")]
        by_time = [(JobOrder.TIME, first), (JobOrder.TIME_DESC, last)]
        return by_id + by_time if default_order(self.states).by_id else by_time + by_id

    def place(self, row_id: int, at: datetime, *, before: bool = False) -> JobCursor:
        """Return the cursor just after (or before) a row."""
        timed = self.order in (JobOrder.TIME, JobOrder.TIME_DESC)
        return JobCursor(at=at if timed else None, id=row_id, before=before)


def read(
    params: QueryParams,
    *,
    now: datetime,
    default_limit: int,
    default_columns: tuple[str, ...] = STANDARD,
    besides: Collection[str] = (),
) -> tuple[Listing, bool]:
    """Return the list that an address describes, and whether the address is its canonical one.

    Plain form fields (including the names of River UI and the API) and states within the text are
    normalised. `besides` names parameters that do not belong to the list. Raise BadRequest for
    invalid values outside the text, which has its own errors; unknown parameters are reported in
    `problem`.
    """
    text = params.get("q", "")
    search = query.parse(text, now=now)
    states = _states([*params.getlist("state"), *params.getlist("states")])
    problem = _problem(params, besides)
    fields = {} if problem else _fields(params)
    canonical = not fields and "states" not in params
    if fields:
        search = query.parse(query.merge_fields(search, fields), now=now)
        # A canonical address would leave out a text that is too long, and with it the error.
        canonical = search.too_long
    if search.states is not None and not search.errors:
        # The rail shows the states, so the text need not repeat them.
        states, canonical = query.normal_states(search.states), False
        search = search.stateless()
    order = _order(params.get("order", ""), states)
    asked, limit = _limit(params.get("limit", ""), default_limit)
    columns = default_columns
    if named := params.getlist("columns"):
        try:
            columns = read_columns(named)
        except BadRequest as error:
            problem = problem or str(error)
        canonical = canonical and named == [text_of(columns)]
    canonical = canonical and asked == limit
    listing = Listing(
        search=search,
        states=states,
        order=order,
        limit=limit,
        default_limit=default_limit,
        columns=columns,
        default_columns=default_columns,
        cursor=_cursor(params, order) if canonical else None,
        problem=problem,
    )
    # A canonical address would lose the unknown parameters, and with them the error.
    return listing, canonical or bool(problem)


def first_page(listing: Listing) -> Listing:
    """Return the same list at its first page."""
    return replace(listing, cursor=None)


def list_url(request: Request, listing: Listing, text: str | None = None) -> str:
    """Return the address of a list; `text` replaces the list's own query string."""
    text = listing.query(cursor=listing.cursor) if text is None else text
    return url(request, "jobs.index") + (f"?{text}" if text else "")


def jobs_url(request: Request, terms: Sequence[Term] = (), states: Sequence[JobState] = ()) -> str:
    """Return the address of the list of jobs that match these terms, in these states."""
    text = query.format(JobFilter(terms=tuple(terms)))
    pairs = [("q", text)] if text and len(text) <= query.MAX_LENGTH else []
    asked = _encoded([*pairs, *_state_pairs(states)])
    return url(request, "jobs.index") + (f"?{asked}" if asked else "")


def _state_pairs(states: Sequence[JobState]) -> list[tuple[str, str]]:
    return [("state", state.value) for state in states]


def _encoded(pairs: Sequence[tuple[str, str]]) -> str:
    """Return parameters as a query string."""
    return "&".join(
        f"{name}={quote(value, safe=',:*~' if name == 'columns' else ':*~')}"
        for name, value in pairs
    )


def default_order(states: Sequence[JobState]) -> JobOrder:
    """Return the default order for these states: next due, longest running, latest ended, or newest
    first, as due times and past ones would not mix.
    """
    return {
        "waiting": JobOrder.TIME,
        "running": JobOrder.TIME,
        "finalized": JobOrder.TIME_DESC,
        "mixed": JobOrder.ID_DESC,
    }[_group(states)]


def _group(states: Sequence[JobState]) -> str:
    if states and set(states) <= WAITING:
        return "waiting"
    if set(states) == {JobState.RUNNING}:
        return "running"
    return "finalized" if states and set(states) <= FINALIZED else "mixed"


def _states(values: Sequence[str]) -> tuple[JobState, ...]:
    try:
        return query.normal_states([JobState(value.lower()) for value in values if value])
    except ValueError:
        raise BadRequest(f"Unknown state; the states are {', '.join(JobState)}.") from None


def _order(value: str, states: Sequence[JobState]) -> JobOrder:
    if not value:
        return default_order(states)
    try:
        return JobOrder(value)
    except ValueError:
        raise BadRequest(f"Unknown order; the orders are {', '.join(JobOrder)}.") from None


def _limit(value: str, default: int) -> tuple[int, int]:
    """Return the requested number of rows, and the nearest page size."""
    if not value:
        return default, default
    if not (value.isascii() and value.isdigit() and len(value) <= 4 and int(value) <= _MAX_ROWS):
        raise BadRequest(f"`limit` must be a whole number, at most {_MAX_ROWS:,}.")
    asked = int(value)
    return asked, min(PAGE_SIZES, key=lambda size: abs(size - asked))


def _field(name: str) -> Field | None:
    """Return the field that a parameter filters by; it may be an alias, such as River UI's name."""
    field = grammar.KEYS.get(name)
    return None if field is Field.STATE else field


def _fields(params: QueryParams) -> dict[str, str]:
    """Return the plain form fields of an address by their own names."""
    found: dict[str, str] = {}
    for name, value in params.multi_items():
        if field := _field(name):
            found[field.value] = value or found.get(field.value, "")
    return found


def _problem(params: QueryParams, besides: Collection[str]) -> str:
    """Return an error message for unknown or repeated parameters; empty if there are none."""
    given: dict[str, set[str]] = {}
    for name, value in params.multi_items():
        if name in ("columns", "state", "states") or name in besides:
            continue
        field = _field(name)
        if field is None and name not in _OURS:
            message = f"Unknown filter “{plain(name[:40])}”."
            return f"{message} It may have been meant to narrow the list, so no jobs are shown."
        values = given.setdefault(field.value if field else name, set())
        if value:
            values.add(value)
        if len(values) > 1:
            message = f"“{plain(name[:40])}” is given more than once."
            return (
                f"{message} Join the values with a comma to mean any of them." if field else message
            )
    return ""


def _cursor(params: QueryParams, order: JobOrder) -> JobCursor | None:
    if after := params.get("after"):
        return query.decode_cursor(after, order)
    if before := params.get("before"):
        return query.decode_cursor(before, order, before=True)
    return None


def listing_problem(listing: Listing) -> Problem | None:
    """Return the error message of a list's address; None if it is valid."""
    if listing.problem:
        return Problem(title="This address is not valid.", detail=listing.problem)
    return search_problem(listing.search)


def search_problem(search: query.Search) -> Problem | None:
    """Return the error message of a search text; None if it is valid."""
    if not search.errors:
        return None
    messages = []
    for error in search.errors[:3]:
        piece = search.text[error.start : error.end].strip()[:40]
        clear = search.too_long or piece in error.message
        messages.append(error.message if clear else f"“{piece}”: {error.message}")
    return Problem(title="This search is not valid.", detail=plain(" ".join(messages)))


def new_job_url(request: Request, **params: str) -> str:
    """Return the address of the form; empty if the viewer cannot insert jobs."""
    if dashboard(request).inserter is None or not access(request).may("jobs.insert"):
        return ""
    return url(request, "jobs.new") + (f"?{urlencode(params)}" if params else "")
