"""Finds the jobs of a page, or counts them, along River's indexes.

A list by time is merged from scans in its order: one for each ended state, and one for each queue
and priority of a waiting state. A scan is read only as far as the page needs it. Terms that no
index serves are compared row by row, for no more rows than a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from riverui.domain.jobs import FINALIZED, WAITING, JobState
from riverui.storage.interface.params import (
    EVERY,
    Field,
    JobCursor,
    JobPageParams,
    Op,
    SearchedWindow,
    Term,
)
from riverui.storage.sqlite.file import Connection
from riverui.storage.sqlite.job_filter import (
    Condition,
    all_of,
    before,
    comparison,
    condition_of,
    in_states,
    quoted,
)
from riverui.storage.sqlite.values import instant, stamp

_FEW = 5_000
"""Jobs that an index finds for a kind, a queue or some states up to which all are compared."""
_NEAR = 1_000
"""Jobs among which a page of some states by id is looked for, before all of these are sorted."""
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_OF_PAIR = frozenset({Field.PRIORITY, Field.QUEUE})
_ANY = all_of([])
_TIME = (
    "case when state in ('cancelled', 'completed', 'discarded') then finalized_at"
    " when state = 'running' then coalesce(attempted_at, scheduled_at) else scheduled_at end"
)
"""A job's time in a list by time."""
_PAIRS = """
    with recursive named(state, queue) as (
        select value, (select min(queue) from river_job where state = value)
        from json_each(json_array({states}))
        union all
        select state, (
            select min(queue) from river_job as next
            where next.state = named.state and next.queue > named.queue
        )
        from named where queue is not null limit 10000
    ),
    pairs as (
        select state, queue, priorities.value as priority
        from named cross join json_each('[1, 2, 3, 4]') as priorities where queue is not null
    ),
    headed as (
        select *, (
            select id from river_job as first
            where first.state = pairs.state and first.queue = pairs.queue
                and first.priority = pairs.priority and {along}
            order by scheduled_at {way}, id {way} limit 1
        ) as head
        from pairs where {of_pair}
    )
    select state, queue, priority, (select +scheduled_at from river_job where id = head), head
    from headed where head is not null
"""
"""States, queues and priorities of waiting jobs, with the first job of each."""
_HEAD, _FOUND, _END = range(3)
"""What is at a place of a scan: its first row, before it is read; a job that was looked for; the
last row of its window.
"""

_Place = tuple[Any, int, int]
"""A time, or an id; the id; and what is there."""


class Found(Struct, frozen=True, kw_only=True):
    """The jobs of a page, in the order in which they were read."""

    ids: Sequence[int]
    more: bool
    searched: SearchedWindow | None = None


class _Scan(Struct, frozen=True, kw_only=True):
    """Rows in the order of a page, of which those that match are looked for."""

    along: Condition
    """Which rows of an index."""
    place: str
    matched: Condition = _ANY
    window: int = EVERY
    """Most rows that are compared."""
    head: tuple[Any, int] | None = None
    """The place of the first row, if known: it is read when its turn comes."""

    def rows(self, columns: str, way: str) -> Condition:
        """Return a statement for all rows, up to its limit."""
        order = f"{self.place} {way}"
        if self.place not in ("id", "+id"):
            order += f", id {way}"
        return Condition(
            f"select {columns} from river_job where {self.along.sql} order by {order}",
            self.along.values,
        )

    def matching(self, way: str, most: int) -> Condition:
        """Return a statement for the places of at most so many rows that match."""
        matched = self.matched
        # Only as a condition, AND stops at what is false.
        columns = f"{self.place} as place, id, case when {matched.sql} then 1 end as matched"
        rows = self.rows(columns, way)
        window = most if matched == _ANY else self.window
        return Condition(
            f"select place, id from ({rows.sql} limit ?) where matched limit ?",
            [*matched.values, *rows.values, window, most],
        )


class _List(Struct, frozen=True, kw_only=True):
    """What is listed: the jobs in some states (all without any) that fulfil terms, and where."""

    states: Sequence[JobState]
    terms: Sequence[Term]
    params: JobPageParams

    @property
    def by_id(self) -> bool:
        """Whether it is ordered by id."""
        return self.params.order.by_id

    @property
    def way(self) -> str:
        """The direction in which it is read."""
        cursor = self.params.cursor
        backwards = cursor is not None and cursor.before
        return "desc" if self.params.order.descending is not backwards else "asc"

    def after_cursor(self, place: str) -> Condition:
        """Return the condition of rows that come after the cursor."""
        cursor, sign = self.params.cursor, "<" if self.way == "desc" else ">"
        if cursor is None:
            return _ANY
        if self.by_id or cursor.at is None:
            return Condition(f"{place if self.by_id else 'id'} {sign} ?", [cursor.id])
        return Condition(f"({place}, id) {sign} (?, ?)", [stamp(cursor.at), cursor.id])

    def scan(
        self, rows: Condition, field: Field, place: str, share: int, compared: Condition = _ANY
    ) -> _Scan:
        """Return a scan of some rows in the order of a field's column. Terms that bound the field
        narrow it; other terms, and what else is to be compared, are so within a window.
        """
        bounds = [term for term in self.terms if term.field is field and _is_range(term)]
        rest = [condition_of(term) for term in self.terms if term not in bounds]
        matched = all_of([compared, *rest, before(self.params.cutoff)])
        bounded = self.params.window < EVERY and matched != _ANY
        return _Scan(
            along=all_of([rows, *(_any_of(term) for term in bounds), self.after_cursor(place)]),
            place=place,
            matched=matched,
            window=max(share, self.params.limit + 1) if bounded else EVERY,
        )


def find_page(connection: Connection, params: JobPageParams) -> Found:
    """Return the jobs of a page."""
    wanted = _wanted(params)
    if wanted is None:
        return Found(ids=[], more=False)
    found: list[int] = []
    end = None
    for place, job_id, what in _merged(connection, wanted):
        if what == _END:
            end = place, job_id
            break
        if what == _FOUND:
            found.append(job_id)
        if len(found) > params.limit:
            break
    page = Found(ids=found[: params.limit], more=len(found) > params.limit)
    if end is None or page.more:
        return page
    if len(found) == params.limit:
        return replace(page, more=True)
    at, job_id = end
    until = at
    if wanted.by_id:
        sql = "select +created_at from river_job where id = ?"
        ((until,),) = connection.execute(sql, [job_id])
    resume = JobCursor(
        at=None if wanted.by_id else instant(at),
        id=job_id,
        before=params.cursor is not None and params.cursor.before,
    )
    rows = max(params.window, params.limit + 1)
    return replace(page, searched=SearchedWindow(rows=rows, until=instant(until), resume=resume))


def count(connection: Connection, params: JobPageParams) -> tuple[int, bool]:
    """Count the jobs of a list, up to one more than its limit; return whether a window ended
    before all were compared.
    """
    wanted = _wanted(params)
    found, ended = 0, False
    for scan in [] if wanted is None else _scans(connection, wanted):
        sql, values = scan.matching("desc", params.limit + 1 - found)
        ((more,),) = connection.execute(f"select count(*) from ({sql})", values)
        found += more
        if found > params.limit:
            break
        ended = ended or _end(connection, scan, "desc") is not None
    return found, ended


def _wanted(params: JobPageParams) -> _List | None:
    """Return what is listed, with what terms say about states among the states; None if no state
    is left.
    """
    chosen, terms = list(params.filter.states or JobState), list(params.filter.terms)
    for term in params.filter.terms:
        if term.field is Field.STATE and term.op is Op.EQ:
            chosen = [state for state in chosen if (state.value in term.values) != term.negated]
            terms.remove(term)
        elif term.field is Field.FINISHED and not term.negated:
            chosen = [state for state in chosen if state in FINALIZED]
    states = chosen if len(chosen) < len(JobState) else []
    return _List(states=states, terms=terms, params=params) if chosen else None


def _merged(connection: Connection, wanted: _List) -> Iterator[_Place]:
    scans, way = _scans(connection, wanted), wanted.way
    reads = [_read(connection, scan, way, wanted.params.limit + 1) for scan in scans]
    return merge(*reads, reverse=way == "desc")


def _read(connection: Connection, scan: _Scan, way: str, most: int) -> Iterator[_Place]:
    if scan.head is not None:
        yield *scan.head, _HEAD
    sql, values = scan.matching(way, most)
    for place, job_id in connection.stream(sql, values):
        yield place, job_id, _FOUND
    end = _end(connection, scan, way)
    if end is not None:
        yield *end, _END


def _end(connection: Connection, scan: _Scan, way: str) -> tuple[Any, int] | None:
    """Return the place of the last row of a scan's window; None if it has fewer rows."""
    if scan.window >= EVERY:
        return None
    sql, values = scan.rows(f"{scan.place}, id", way)
    last = connection.execute(f"{sql} limit 1 offset ?", [*values, scan.window - 1])
    return last[0] if last else None


def _scans(connection: Connection, wanted: _List) -> Sequence[_Scan]:
    """Choose the scans of a list."""
    states, window = wanted.states, wanted.params.window
    if (few := _candidates(connection, wanted)) is not None:
        rest = [in_states(states), *(condition_of(term) for term in wanted.terms)]
        place = "id" if wanted.by_id else _TIME
        matched = [*rest, before(wanted.params.cutoff), wanted.after_cursor(place)]
        return [_Scan(along=few, place=place, matched=all_of(matched))]
    if wanted.by_id:
        return [_by_id(connection, wanted)]
    ended = [state for state in states or JobState if state in FINALIZED]
    waiting = [state for state in states or JobState if state in WAITING]
    share = window // (len(ended) + bool(waiting) or 1)
    scans = [
        wanted.scan(in_states([state]), Field.FINISHED, "finalized_at", share) for state in ended
    ]
    if waiting:
        scans += _waiting(connection, wanted, waiting, share)
    if not states or JobState.RUNNING in states:
        # No index has their start, but they are few.
        place = "coalesce(attempted_at, scheduled_at)"
        scans.append(wanted.scan(in_states([JobState.RUNNING]), Field.STARTED, place, EVERY))
    return scans


def _by_id(connection: Connection, wanted: _List) -> _Scan:
    states = in_states(wanted.states)
    if wanted.states and not wanted.terms and wanted.params.cutoff is None:
        scan = _Scan(along=wanted.after_cursor("id"), place="id", matched=states, window=_NEAR)
        sql, values = scan.matching(wanted.way, wanted.params.limit + 1)
        ((near,),) = connection.execute(f"select count(*) from ({sql})", values)
        if near > wanted.params.limit:
            return scan
        # By an index of states, and sorted: `+` keeps SQLite from walking all jobs by id.
        return _Scan(along=all_of([states, wanted.after_cursor("+id")]), place="+id")
    return wanted.scan(_ANY, Field.ID, "id", wanted.params.window, states)


def _waiting(
    connection: Connection, wanted: _List, states: Sequence[JobState], share: int
) -> Iterator[_Scan]:
    """Yield a scan of each queue and priority that has jobs in the states."""
    of_pair = [term for term in wanted.terms if term.field in _OF_PAIR]
    chosen = all_of([condition_of(term) for term in of_pair])
    wanted = replace(wanted, terms=[term for term in wanted.terms if term not in of_pair])
    along = wanted.scan(_ANY, Field.SCHEDULED, "scheduled_at", share).along
    sql = _PAIRS.format(states=quoted(states), along=along.sql, way=wanted.way, of_pair=chosen.sql)
    pairs = connection.execute(sql, [*along.values, *chosen.values])
    for state, queue, priority, at, job_id in pairs:
        pair = Condition("state = ? and queue = ? and priority = ?", [state, queue, priority])
        scan = wanted.scan(pair, Field.SCHEDULED, "scheduled_at", share // len(pairs))
        yield replace(scan, head=(at, job_id))


def _candidates(connection: Connection, wanted: _List) -> Condition | None:
    """Return a condition by which an index finds a few rows, all that can match; None without
    one.
    """
    states, found = wanted.states, []
    for term in wanted.terms:
        if term.op is not Op.EQ or term.negated:
            continue
        if term.field in (Field.ID, Field.KIND):
            found.append(_any_of(term))
        elif term.field is Field.QUEUE and (
            # By time, waiting jobs are scanned queue by queue anyway.
            wanted.by_id or FINALIZED.intersection(states or JobState)
        ):
            of_states = Condition(f"state in ({quoted(states or JobState)})")
            found.append(all_of([of_states, _any_of(term)]))
    if wanted.by_id and states and wanted.terms:
        found.append(in_states(states))
    return next((each for each in found if _is_few(connection, each)), None)


def _is_few(connection: Connection, condition: Condition) -> bool:
    sql = f"select count(*) from (select 1 from river_job where {condition.sql} limit ?)"
    ((jobs,),) = connection.execute(sql, [*condition.values, _FEW + 1])
    return bool(jobs <= _FEW)


def _is_range(term: Term) -> bool:
    return term.op in _RANGES and not term.negated and len(term.values) == 1


def _any_of(term: Term) -> Condition:
    """Return the condition of a term in a form that an index serves."""
    each = [comparison(term, value) for value in term.values]
    sql = " or ".join(found.sql for found in each) or "false"
    return Condition(f"({sql})", [value for found in each for value in found.values])
