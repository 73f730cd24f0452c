"""Chooses how a list is walked: which of River's indexes, in which order, within which window.

Exact ways come first: given ids, or an index that finds few rows (`FEW`), which are then all looked
at. Otherwise the walk follows the order shown and looks at no more rows than its window.

For args and metadata, the planner's estimate decides whether River's GIN index is asked at all (one
EXPLAIN), and the asking itself has a short time limit of its own inside a savepoint: GIN reads
whole posting lists before its first row, so neither a LIMIT nor an estimate alone would bound it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from riverui.domain.clock import FIRST, LAST
from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import (
    Field,
    JobCursor,
    JobCutoff,
    JobFilter,
    JobListParams,
    JobOrder,
    Op,
    SearchedWindow,
)
from riverui.storage.postgres.job_list.filters import (
    Condition,
    Conditions,
    compile_filter,
    matcher,
    with_names,
)
from riverui.storage.postgres.statements import Row, Statements, instant

R = TypeVar("R")

FEW = 5000
"""Rows that are looked at one by one when an index has found no more than these."""

_FEW_OF_STATES = 20_000
"""Jobs of some states that are sorted by id rather than picked from a walk over every job."""

_NAMES = 1000
"""Distinct kinds or queues among which a pattern is looked up; with more, it is compared row by
row.
"""

_PROMISING = 20_000
"""Estimated rows up to which the GIN index is tried."""

_TRY = "savepoint riverui_try; set local statement_timeout = 200; set local enable_bitmapscan = on"
"""GIN indexes are only read by way of a bitmap, which is off otherwise."""

_TRIED = "rollback to savepoint riverui_try; release savepoint riverui_try"


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """SQL of the walks of one list, as one UNION ALL, with parameters."""

    sql: str
    parameters: dict[str, Any]
    by_id: bool
    descending: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    conditions: Conditions
    by_id: bool
    descending: bool
    cursor: JobCursor | None
    cutoff: JobCutoff | None
    limit: int
    window: int
    ordered: bool
    parameters: dict[str, Any] = field(default_factory=dict)


class Walks(Statements):
    """Builds walks; asks the database where a choice depends on what it holds."""

    async def _list_walk(self, params: JobListParams) -> Walk | None:
        """The walk for one page of a list; None when no job can match."""
        return await self._walk(
            params.filter,
            order=params.order,
            limit=params.limit,
            window=params.window,
            cursor=params.cursor,
            cutoff=params.cutoff,
        )

    async def _walk(
        self,
        filter: JobFilter,
        *,
        order: JobOrder,
        limit: int,
        window: int,
        cursor: JobCursor | None = None,
        cutoff: JobCutoff | None = None,
        ordered: bool = True,
    ) -> Walk | None:
        """The walk for this list, or only for its rows in any order; None when no job can match."""
        conditions = compile_filter(await self._named(filter), self._queries, cutoff)
        if conditions.impossible:
            return None
        by_id = order in (JobOrder.ID, JobOrder.ID_DESC)
        if cursor is not None and cursor.at is None and not by_id:
            raise BadRequest("This cursor belongs to another order.")
        plan = _Plan(
            conditions=conditions,
            by_id=by_id,
            descending=order.descending != (cursor is not None and cursor.before),
            cursor=cursor,
            cutoff=cutoff,
            limit=limit,
            window=max(window, limit + 1),
            ordered=ordered,
            parameters={**conditions.parameters, "limit": limit},
        )
        if cursor is not None:
            plan.parameters["cursor_id"] = cursor.id
            plan.parameters["cursor_at"] = await self._exactly(cursor)
        if candidates := await self._candidates(plan):
            walks = [self._candidates_walk(plan, candidates)]
        elif by_id:
            walks = [self._id_walk(plan)]
        else:
            walks = self._time_walks(plan)
        return Walk(
            sql=" union all ".join(f"({walk})" for walk in walks),
            parameters=plan.parameters,
            by_id=by_id,
            descending=plan.descending,
        )

    async def _named(self, filter: JobFilter) -> JobFilter:
        """The filter with patterns of kinds and queues replaced by the names that they find."""
        named = filter
        for term in filter.terms:
            if (
                term.op is not Op.LIKE
                or term.negated
                or term.field not in (Field.KIND, Field.QUEUE)
            ):
                continue
            everything = {"patterns": ["%"], "most": _NAMES + 1, "limit": _NAMES + 1}
            if term.field is Field.KIND:
                rows = await self._rows("job_kind_list", everything)
            else:
                states = [state.value for state in filter.states or tuple(JobState)]
                rows = await self._rows("job_queue_names", {**everything, "states": states})
            if len(rows) <= _NAMES:
                fits = matcher([str(value) for value in term.values])
                named = with_names(named, term, [row[0] for row in rows if fits(row[0])])
        return named

    async def _exactly(self, cursor: JobCursor) -> datetime | str | None:
        """Return the cursor's time for the database, which knows times beyond Python's calendar
        apart.

        Told by the calendar's end, a page of them would begin again and again at the same row.
        """
        if cursor.at not in (FIRST, LAST):
            return cursor.at
        row = await self._row("job_at_get", {"id": cursor.id}, at=self._queries.text("job_at"))
        return instant(cursor.at) if row is None else str(row[0])

    async def _candidates(self, plan: _Plan) -> str | None:
        """A condition that an index serves with few rows; None when there is none."""
        conditions, parameters = plan.conditions, plan.parameters
        states = [state.value for state in conditions.states or tuple(JobState)]
        parameters["candidate_states"] = states
        # Who wants many rows may as well look at that many.
        few = max(FEW, plan.limit)
        if conditions.ids is not None and len(conditions.ids) <= FEW:
            parameters["candidates"] = list(conditions.ids)
            return "job_candidates_ids"
        if conditions.contains and (ids := await self._containing(conditions)) is not None:
            parameters["candidates"] = ids
            return "job_candidates_ids"
        if conditions.kinds is not None:
            kinds = list(conditions.kinds)
            if await self._few("job_probe_kind", {"kinds": kinds}, few):
                parameters["candidates"] = kinds
                return "job_candidates_kind"
        # Waiting jobs by time are walked queue by queue anyway.
        if conditions.queues is not None and (
            plan.by_id or FINALIZED.intersection(conditions.states or JobState)
        ):
            queues = list(conditions.queues)
            if await self._few("job_probe_queue", {"states": states, "queues": queues}, few):
                parameters["candidates"] = queues
                return "job_candidates_queue"
        if (
            plan.by_id
            and conditions.states is not None
            and await self._few("job_probe_state", {"states": states}, _FEW_OF_STATES)
        ):
            return "job_candidates_state"
        return None

    async def _few(self, probe: str, parameters: dict[str, Any], most: int) -> bool:
        rows = await self._rows(probe, {**parameters, "most": most + 1})
        return bool(rows[0][0] <= most)

    async def _containing(self, conditions: Conditions) -> list[int] | None:
        """Ids that the GIN indexes find for the JSON terms; None when many, or slow to find."""
        terms = " ".join(condition.bound for condition in conditions.contains)
        parameters = {**conditions.parameters, "most": FEW + 1}
        ids: list[int] | None = None
        await self._run(_TRY)
        with suppress(QueryTimeout):
            explained = await self._rows("job_contains_explain", parameters, terms=terms)
            if _promising(explained[0][0]):
                rows = await self._rows("job_contains_ids", parameters, terms=terms)
                ids = [row[0] for row in rows] if len(rows) <= FEW else None
        await self._run(_TRIED)
        return ids

    def _candidates_walk(self, plan: _Plan, candidates: str) -> str:
        terms = "".join(condition.sql for condition in plan.conditions.terms)
        return self._queries.text(
            "job_walk_candidates",
            candidates=self._queries.text(candidates),
            terms=terms + self._state_term(plan) + self._cutoff(plan),
            # By id, the index that found the rows may have all that it takes.
            at="null::timestamptz" if plan.by_id else self._queries.text("job_at"),
            cursor=self._cursor_clause(
                plan, "job_cursor_found_id" if plan.by_id else "job_cursor_found"
            ),
            order=order_by("r", by_id=plan.by_id, descending=plan.descending),
        )

    def _id_walk(self, plan: _Plan) -> str:
        bounds, terms = _split(plan.conditions.terms, "id")
        terms += self._state_term(plan) + self._cutoff(plan)
        if plan.cutoff is not None:
            bounds += " and j.id <= :cutoff_id::bigint"
        plan.parameters["id_window"] = plan.window if terms else plan.limit + 1
        return self._queries.text(
            "job_walk_id",
            bounds=bounds,
            terms=terms,
            cursor=self._cursor_clause(plan, "job_cursor_id"),
            desc=_desc(plan),
        )

    def _time_walks(self, plan: _Plan) -> list[str]:
        states = plan.conditions.states or tuple(JobState)
        finalized = [state.value for state in states if state in FINALIZED]
        waiting = [state.value for state in states if state in WAITING]
        share = plan.window // (len(finalized) + bool(waiting) or 1)
        walks = []
        if finalized:
            walks.append(self._finalized_walk(plan, finalized, share))
        if waiting:
            walks.append(self._waiting_walk(plan, waiting, share))
        if JobState.RUNNING in states:
            walks.append(self._running_walk(plan))
        return walks

    def _finalized_walk(self, plan: _Plan, states: Sequence[str], window: int) -> str:
        bounds, terms = _split(plan.conditions.terms, "finalized_at")
        terms += self._cutoff(plan)
        if plan.cutoff is not None:
            bounds += " and j.finalized_at <= :cutoff_at::timestamptz"
        plan.parameters["finalized_states"] = list(states)
        plan.parameters["finalized_window"] = (
            max(window, plan.limit + 1) if terms else plan.limit + 1
        )
        return self._queries.text(
            "job_walk_finalized",
            bounds=bounds,
            terms=terms,
            cursor=self._cursor_clause(plan, "job_cursor_finalized"),
            desc=_desc(plan),
            **({} if plan.ordered else {"sort": ""}),
        )

    def _waiting_walk(self, plan: _Plan, states: Sequence[str], window: int) -> str:
        conditions = plan.conditions
        of_branch = [c for c in conditions.terms if c.term.field in (Field.QUEUE, Field.PRIORITY)]
        bounds, terms = _split([c for c in conditions.terms if c not in of_branch], "scheduled_at")
        terms += self._cutoff(plan)
        plan.parameters["waiting_states"] = list(states)
        plan.parameters["waiting_window"] = window if terms else 0
        along = {
            "bounds": bounds,
            "cursor": self._cursor_clause(plan, "job_cursor_waiting"),
            "desc": _desc(plan),
        }
        clauses = {
            "terms": terms,
            "branch_terms": "".join(condition.sql for condition in of_branch),
        }
        if not terms:
            clauses["nearest"] = self._queries.text("job_walk_nearest", **along)
        if conditions.queues is not None:
            plan.parameters["queues"] = list(conditions.queues)
            clauses["branches"] = self._queries.text("job_branches_named")
        # The slots of `along` stand in the walk itself too, so they are filled before a clause
        # brings its own.
        return self._queries.text("job_walk_waiting", **along, **clauses)

    def _running_walk(self, plan: _Plan) -> str:
        terms = "".join(condition.sql for condition in plan.conditions.terms)
        return self._queries.text(
            "job_walk_running",
            terms=terms + self._cutoff(plan),
            cursor=self._cursor_clause(plan, "job_cursor_found"),
            desc=_desc(plan),
        )

    def _cursor_clause(self, plan: _Plan, block: str) -> str:
        if plan.cursor is None:
            return ""
        return self._queries.text(block, beyond="<" if plan.descending else ">")

    def _cutoff(self, plan: _Plan) -> str:
        return "" if plan.cutoff is None else self._queries.text("job_cutoff_terms")

    def _state_term(self, plan: _Plan) -> str:
        if plan.conditions.states is None:
            return ""
        plan.parameters["states"] = [state.value for state in plan.conditions.states]
        return " and " + self._queries.text("job_term_state").replace(":value", ":states")


def _promising(explained: Any) -> bool:
    """Whether the planner would ask a GIN index and expects few rows of it."""
    plans = json.loads(explained) if isinstance(explained, str) else explained
    return "Bitmap Index Scan" in json.dumps(plans) and bool(
        plans[0]["Plan"]["Plan Rows"] <= _PROMISING
    )


def _split(conditions: Sequence[Condition], column: str) -> tuple[str, str]:
    """Bounds of a walk along the column, and the remaining terms."""
    bounds = "".join(
        f" {condition.bound}" for condition in conditions if condition.column == column
    )
    return bounds, "".join(condition.sql for condition in conditions if condition.column != column)


def _desc(plan: _Plan) -> str:
    return "desc" if plan.descending else ""


def read_page(
    found: Sequence[Row], params: JobListParams, walk: Walk, row_of: Callable[[Row], R | None]
) -> tuple[tuple[R, ...], bool, SearchedWindow | None]:
    """A page's rows, whether more follow, and where its window ended, as JobPage has them.

    What was found begins with id, at, matched and ended; `row_of` gives None for rows that are not
    shown.
    """
    before = params.cursor is not None and params.cursor.before
    rows: list[R] = []
    matched = 0
    end = None
    for row in found:
        matched += row[2]
        if row[2] and matched <= params.limit and (shown := row_of(row)) is not None:
            rows.append(shown)
        if row[3]:
            # Behind the end of one walk's window nothing is certain, whatever the others have
            # found.
            end = row
            break
    more = matched > params.limit or (end is not None and matched == params.limit)
    searched = None
    if end is not None and matched < params.limit:
        place = JobCursor(at=None if walk.by_id else end[1], id=end[0], before=before)
        searched = SearchedWindow(
            rows=max(params.window, params.limit + 1), until=end[1], resume=place
        )
    return tuple(reversed(rows) if before else rows), more, searched


def order_by(alias: str, *, by_id: bool, descending: bool) -> str:
    """The columns of an ORDER BY over walks."""
    columns = [f"{alias}.id"] if by_id else [f"{alias}.at", f"{alias}.id"]
    return ", ".join(f"{column} desc" if descending else column for column in columns)
