"""Chooses how a list is read: which of River's indexes, in which order, within which window.

Exact plans come first: given ids, or an index that finds few rows (`PostgresLimits.few_jobs`), all
of which are then examined. Otherwise scans follow the order shown and examine no more rows than
their window.

For args and metadata, the planner's estimate (one EXPLAIN) decides whether River's GIN index is
used, and that read has a short time limit: GIN reads whole posting lists before its first row, so
neither a LIMIT nor an estimate alone would bound it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct, field

from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.domain.time import FIRST, LAST
from riverui.errors import BadRequest
from riverui.storage.interface.params import (
    EVERY,
    Field,
    JobCursor,
    JobFilter,
    JobPageParams,
    Op,
    SearchedWindow,
)
from riverui.storage.interface.sql_blocks import EMPTY, Fragment, Rows, join, word
from riverui.storage.postgres.browse.filters import (
    Condition,
    Conditions,
    compile_filter,
    matcher,
    state_term,
    with_names,
)
from riverui.storage.postgres.statements import Part, instant

R = TypeVar("R")

WHOLE_FINALIZED = "job_scan_finalized_whole"
"""The block that follows the index of ended jobs without a window."""

_PLANS, _SHORT = 256, 500
"""Cached plans, as programs repeat the same lists, and most characters of the values of one, where
a number counts as ten: some 1 MB in all.
"""

_NEAR, _FAR, _FEW_OF_STATES = 5_000, 30_000, 1_000
"""For lists of some states by id: jobs of any state that are read first, in half a millisecond; and
how many after them, in four, if a page may be among them and the states have more than a few jobs,
which are read sooner.
"""
_FARTHER = 300_000
"""How many after them if each of the states' jobs would have to be read for its terms."""

_SCANNED = frozenset({Field.KIND, Field.PRIORITY, Field.QUEUE})
"""The fields whose columns `job_scan_columns` has."""

_TRY = 200
"""Milliseconds for each statement that reads a GIN index."""


class JobListPlan(Struct, frozen=True, kw_only=True):
    """How one list is read: its scans, joined by UNION ALL."""

    scans: Fragment
    limit: int
    by_id: bool
    descending: bool
    steady: bool = False
    """Whether the plan does not depend on the table's contents and is used often, so that its
    statement is worth preparing.
    """
    whole: Fragment | None = None
    """The only scan, if it needs no window; its values are in `given`, so that lists which differ
    in values only share one text.
    """
    given: Mapping[str, Any] = field(default_factory=dict)
    free: bool = False
    """Whether the planner may choose any scan, even one of the whole table."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The parameters of a statement around the scans."""
        return {**self.given, "limit": self.limit}

    @property
    def slots(self) -> Mapping[str, Fragment]:
        """The slots of a statement that reads the scans in order."""
        return {"scans": self.scans, **order_slots(by_id=self.by_id, descending=self.descending)}


class _Choice(Struct, frozen=True, kw_only=True):
    """The inputs of the scans of one list."""

    conditions: Conditions
    by_id: bool
    descending: bool
    limit: int
    window: int
    ordered: bool
    cursor: Mapping[str, Any] | None
    """The values of the blocks `job_cursor_…`; None at the beginning of the list."""

    def cursor_slot(self, block: str) -> Fragment:
        """Return the condition that a row follows the cursor."""
        if self.cursor is None:
            return EMPTY
        return Fragment(block, self.cursor, beyond=word("<" if self.descending else ">"))

    def cutoff(self, block: str = "job_cutoff_terms") -> list[Fragment]:
        """Return the condition of the cutoff, if there is one."""
        cutoff = self.conditions.cutoff
        return [] if cutoff is None else [Fragment(block, cutoff)]

    def terms(self) -> list[Fragment]:
        """Return every condition of the filter, but for its states."""
        return [condition.sql for condition in self.conditions.terms]

    def states(self) -> list[Fragment]:
        """Return the condition of the filter's states, if it has any."""
        states = self.conditions.states
        return [] if states is None else [state_term(states)]

    def desc(self) -> dict[str, Fragment]:
        """Return the fragment for the slot `desc`."""
        return {"desc": word("desc")} if self.descending else {}


class JobListPlans(Part):
    """Plans lists; asks the database if a choice depends on its contents."""

    async def _plan(
        self, params: JobPageParams, *, ordered: bool = True, by_state: bool = False
    ) -> JobListPlan | None:
        """Return the plan of this list; None when no job can match.

        Counts take the rows in any order. With `by_state` an order by id may read all jobs in the
        filter's states.
        """
        if params.window == EVERY and by_state and (plan := _known_plan(params)) is not None:
            return plan
        conditions = compile_filter(await self._named(params.filter), params.cutoff)
        if conditions.impossible:
            return None
        cursor = params.cursor
        if cursor is not None and cursor.at is None and not params.order.by_id:
            raise BadRequest("This cursor belongs to another order.")
        at = None if cursor is None else await self._exactly(cursor)
        choice = _choice(params, conditions, at, ordered=ordered)
        unbounded = params.window == EVERY
        whole: Fragment | None = None
        given: Mapping[str, Any] = {}
        if by_state or unbounded:
            whole, given = _whole_scan(choice, unbounded=unbounded)
        if whole is not None:
            return _list_plan(params, choice, [whole], whole, given)
        if candidates := await self._candidates(choice, ask=not unbounded):
            return _list_plan(params, choice, [_candidates_scan(choice, candidates)])
        return _list_plan(
            params, choice, [_id_scan(choice)] if choice.by_id else _time_scans(choice)
        )

    async def _listed(
        self, block: str, plan: JobListPlan, values: Mapping[str, Any], /, **slots: Fragment
    ) -> Rows:
        """Return the rows of a statement that reads the plan's scans."""
        if plan.free:
            async with self._sql.bitmaps(scans=True):
                return await self._sql.planned(block, values, **slots)
        ask = self._sql.prepared if plan.steady else self._sql.planned
        return await ask(block, values, **slots)

    async def _named(self, filter: JobFilter) -> JobFilter:
        """Return the filter with patterns of kinds and queues replaced by the names they find."""
        named, most = filter, self._sql.limits.few_names
        for term in filter.terms:
            if (
                term.op is not Op.LIKE
                or term.negated
                or term.field not in (Field.KIND, Field.QUEUE)
            ):
                continue
            everything = {"pattern": "%", "most": most + 1, "limit": most + 1}
            if term.field is Field.KIND:
                values = {**everything, "after": "", "exclude": "{}"}
                names = (await self._sql.rows("job_kind_list", values)).values()
            else:
                states = [state.value for state in filter.states or tuple(JobState)]
                found = await self._sql.rows(
                    "job_queue_name_list", {**everything, "states": states}
                )
                names = found.values()
            if len(names) <= most:
                fits = matcher([str(value) for value in term.values])
                named = with_names(named, term, [name for name in names if fits(name)])
        return named

    async def _exactly(self, cursor: JobCursor) -> datetime | str | None:
        """Return the cursor's time for the database, exact even for times beyond Python's calendar.

        With the calendar's end instead, a page of such times would begin at the same row forever.
        """
        if cursor.at not in (FIRST, LAST):
            return cursor.at
        rows = await self._sql.rows("job_at_get", {"id": cursor.id}, at=Fragment("job_at"))
        return str(rows.value()) if rows else instant(cursor.at)

    async def _candidates(self, choice: _Choice, *, ask: bool) -> Fragment | None:
        """Return a condition that an index serves with few rows; None if there is none, or if
        finding it needs the database and `ask` is False.
        """
        conditions = choice.conditions
        states = [state.value for state in conditions.states or tuple(JobState)]
        # A list of many rows may examine as many.
        few = max(self._sql.limits.few_jobs, choice.limit)
        if conditions.ids is not None and len(conditions.ids) <= self._sql.limits.few_jobs:
            return Fragment("job_candidates_ids", {"candidates": list(conditions.ids)})
        if not ask:
            return None
        if conditions.contains and (ids := await self._containing(conditions)) is not None:
            return Fragment("job_candidates_ids", {"candidates": ids})
        if conditions.kinds is not None:
            kinds = list(conditions.kinds)
            if await self._few("job_probe_kind", {"kinds": kinds}, few):
                return Fragment("job_candidates_kind", {"candidates": kinds})
        # Waiting jobs by time are scanned queue by queue anyway.
        if conditions.queues is not None and (
            choice.by_id or FINALIZED.intersection(conditions.states or JobState)
        ):
            queues = list(conditions.queues)
            if await self._few("job_probe_queue", {"states": states, "queues": queues}, few):
                return Fragment("job_candidates_queue", {"candidates": queues, "states": states})
        if (
            choice.by_id
            and conditions.states is not None
            and await self._few(
                "job_probe_state", {"states": states}, self._sql.limits.few_jobs_of_states
            )
        ):
            return Fragment("job_candidates_state", {"states": states})
        return None

    async def _few(self, probe: str, values: Mapping[str, Any], most: int) -> bool:
        rows = await self._sql.rows(probe, {**values, "most": most + 1})
        return bool(rows.value() <= most)

    async def _containing(self, conditions: Conditions) -> list[int] | None:
        """Return the ids that the GIN indexes find for the JSON terms; None if there are many or
        they are slow to find.
        """
        terms = join(condition.bound for condition in conditions.contains if condition.bound)
        ids: list[int] | None = None
        most = self._sql.limits.few_jobs
        async with self._sql.trying_bitmaps(milliseconds=_TRY):
            explained = await self._sql.rows("job_contains_explain", terms=terms)
            if _promising(explained.value(), self._sql.limits.promising_rows):
                rows = await self._sql.rows("job_contains_ids", {"most": most + 1}, terms=terms)
                ids = rows.values() if len(rows) <= most else None
        return ids


def _choice(
    params: JobPageParams,
    conditions: Conditions,
    cursor_at: datetime | str | None,
    *,
    ordered: bool = True,
) -> _Choice:
    cursor = params.cursor
    return _Choice(
        conditions=conditions,
        by_id=params.order.by_id,
        descending=params.order.descending != (cursor is not None and cursor.before),
        limit=params.limit,
        window=max(params.window, params.limit + 1),
        ordered=ordered,
        cursor=None if cursor is None else {"cursor_id": cursor.id, "cursor_at": cursor_at},
    )


def _list_plan(
    params: JobPageParams,
    choice: _Choice,
    scans: Sequence[Fragment],
    whole: Fragment | None = None,
    given: Mapping[str, Any] | None = None,
) -> JobListPlan:
    conditions = choice.conditions
    return JobListPlan(
        scans=join(scans, " union all "),
        limit=params.limit,
        by_id=choice.by_id,
        descending=choice.descending,
        steady=not (conditions.terms or conditions.cutoff or params.paths),
        whole=whole,
        given=given or {},
        free=params.window == EVERY and bool(conditions.terms),
    )


def _known_plan(params: JobPageParams) -> JobListPlan | None:
    """Return the plan of a list without a window that depends on its parameters only; None for
    any other, and for one that is too large to cache.
    """
    if params.cursor or params.cutoff or params.paths:
        return None
    room = _SHORT
    for term in params.filter.terms:
        if term.op is Op.LIKE:
            # Its names have to be read.
            return None
        room -= sum(len(value) if isinstance(value, str) else 10 for value in term.values)
    return _whole_plan(params) if room >= 0 else None


@lru_cache(maxsize=_PLANS)
def _whole_plan(params: JobPageParams) -> JobListPlan | None:
    choice = _choice(params, compile_filter(params.filter), None)
    if choice.conditions.impossible:
        return None
    whole, given = _whole_scan(choice, unbounded=True)
    return None if whole is None else _list_plan(params, choice, [whole], whole, given)


def _whole_scan(choice: _Choice, *, unbounded: bool) -> tuple[Fragment | None, dict[str, Any]]:
    """Return a scan that goes to the end without a window, and its values; None if there is none
    for this list.

    Terms that no index serves are searched to the end only if no window bounds the search.
    """
    conditions, states = choice.conditions, choice.conditions.states
    if not states or conditions.cutoff or conditions.ids is not None:
        return None, {}
    if conditions.terms and not unbounded:
        return None, {}
    slots = {
        "terms": join(condition.plain for condition in conditions.terms),
        **choice.desc(),
    }
    if choice.by_id and not FINALIZED.intersection(states):
        slots["cursor"] = choice.cursor_slot("job_cursor_id")
        slots["onward"] = word("<=" if choice.descending else ">=")
        given = {
            "scanned_states": [state.value for state in states],
            "near_jobs": _NEAR,
            "few_jobs": _FEW_OF_STATES,
            "far_jobs": _FAR if _in_fetching_index(conditions.terms) else _FARTHER,
        }
        if _SCANNED.issuperset(condition.term.field for condition in conditions.terms):
            slots["columns"] = Fragment("job_scan_columns")
        return Fragment("job_scan_state_id", **slots), given
    if not choice.by_id and len(states) == 1 and FINALIZED.issuperset(states) and unbounded:
        slots["cursor"] = choice.cursor_slot("job_cursor_finalized")
        return Fragment(WHOLE_FINALIZED, **slots), {"finalized_state": states[0].value}
    return None, {}


def _in_fetching_index(terms: Sequence[Condition]) -> bool:
    """Return whether River's fetching index has the columns of these terms."""
    return all(each.term.field in (Field.QUEUE, Field.PRIORITY) for each in terms)


def _candidates_scan(choice: _Choice, candidates: Fragment) -> Fragment:
    slots = {
        "candidates": candidates,
        "terms": join([*choice.terms(), *choice.states(), *choice.cutoff()]),
        "cursor": choice.cursor_slot("job_cursor_found_id" if choice.by_id else "job_cursor_found"),
        **order_slots(by_id=choice.by_id, descending=choice.descending),
    }
    if not choice.by_id:
        # In the order by id, an index-only scan may find the rows.
        slots["at"] = Fragment("job_at")
    return Fragment("job_scan_candidates", **slots)


def _id_scan(choice: _Choice) -> Fragment:
    bounds, terms = _split(choice.conditions.terms, "id")
    terms += [*choice.states(), *choice.cutoff()]
    bounds += choice.cutoff("job_cutoff_bound_id")
    return Fragment(
        "job_scan_id",
        {"id_window": choice.window if terms else choice.limit + 1},
        bounds=join(bounds),
        terms=join(terms),
        cursor=choice.cursor_slot("job_cursor_id"),
        **choice.desc(),
    )


def _time_scans(choice: _Choice) -> list[Fragment]:
    states = choice.conditions.states or tuple(JobState)
    finalized = [state.value for state in states if state in FINALIZED]
    waiting = [state.value for state in states if state in WAITING]
    share = choice.window // (len(finalized) + bool(waiting) or 1)
    scans = []
    if finalized:
        scans.append(_finalized_scan(choice, finalized, share))
    if waiting:
        scans.append(_waiting_scan(choice, waiting, share))
    if JobState.RUNNING in states:
        scans.append(_running_scan(choice))
    return scans


def _finalized_scan(choice: _Choice, states: Sequence[str], window: int) -> Fragment:
    bounds, terms = _split(choice.conditions.terms, "finalized_at")
    terms += choice.cutoff()
    bounds += choice.cutoff("job_cutoff_bound_finalized")
    least = choice.limit + 1
    return Fragment(
        "job_scan_finalized",
        {
            "finalized_states": list(states),
            "finalized_window": max(window, least) if terms else least,
        },
        bounds=join(bounds),
        terms=join(terms),
        cursor=choice.cursor_slot("job_cursor_finalized"),
        **choice.desc(),
        **({} if choice.ordered else {"sort": EMPTY}),
    )


def _waiting_scan(choice: _Choice, states: Sequence[str], window: int) -> Fragment:
    conditions = choice.conditions
    of_pair = [c for c in conditions.terms if _in_fetching_index([c])]
    bounds, terms = _split([c for c in conditions.terms if c not in of_pair], "scheduled_at")
    terms += choice.cutoff()
    along = {
        "bounds": join(bounds),
        "cursor": choice.cursor_slot("job_cursor_waiting"),
        **choice.desc(),
    }
    slots = {
        **along,
        "terms": join(terms),
        "pair_terms": join(condition.sql for condition in of_pair),
    }
    if not terms:
        slots["nearest"] = Fragment("job_scan_nearest", **along)
    if conditions.queues is not None:
        slots["pairs"] = Fragment("job_pairs_named", {"queues": list(conditions.queues)})
    values = {"waiting_states": list(states), "waiting_window": window if terms else 0}
    return Fragment("job_scan_waiting", values, **slots)


def _running_scan(choice: _Choice) -> Fragment:
    return Fragment(
        "job_scan_running",
        terms=join([*choice.terms(), *choice.cutoff()]),
        cursor=choice.cursor_slot("job_cursor_found"),
        **choice.desc(),
    )


def _promising(explained: Any, most: int) -> bool:
    """Return whether the planner would use a GIN index and expects at most so many rows of it."""
    plans = json.loads(explained) if isinstance(explained, str) else explained
    return "Bitmap Index Scan" in json.dumps(plans) and bool(plans[0]["Plan"]["Plan Rows"] <= most)


def _split(conditions: Sequence[Condition], column: str) -> tuple[list[Fragment], list[Fragment]]:
    """Return the bounds of a scan on the column, and the remaining terms."""
    bounds = [c.bound for c in conditions if c.column == column and c.bound is not None]
    return bounds, [c.sql for c in conditions if c.column != column]


def order_slots(*, by_id: bool, descending: bool) -> dict[str, Fragment]:
    """Return the slots of an order by time and id, or by id alone."""
    slots = {"desc": word("desc")} if descending else {}
    return {**slots, "by_time": EMPTY} if by_id else slots


def read_page(
    found: Rows, params: JobPageParams, plan: JobListPlan, row_of: Callable[[Any], R | None]
) -> tuple[tuple[R, ...], bool, SearchedWindow | None]:
    """Return a page's rows, whether more follow, and where its window ended, as in JobPage.

    The rows found have the columns id, at, matched and ended; `row_of` returns None for rows that
    are not shown.
    """
    before = params.cursor is not None and params.cursor.before
    rows: list[R] = []
    matched = 0
    end = None
    for row in found.records():
        matched += row.matched
        if row.matched and matched <= params.limit and (shown := row_of(row)) is not None:
            rows.append(shown)
        if row.ended:
            # After the end of one scan's window the page is incomplete, whatever other scans found.
            end = row
            break
    more = matched > params.limit or (end is not None and matched == params.limit)
    searched = None
    if end is not None and matched < params.limit:
        place = JobCursor(at=None if plan.by_id else end.at, id=end.id, before=before)
        searched = SearchedWindow(
            rows=max(params.window, params.limit + 1), until=end.at, resume=place
        )
    return tuple(reversed(rows) if before else rows), more, searched
