"""Every query that a page sends, beside River UI's form of it, if River UI has one.

River UI is v0.22.0 with River v0.51.1: whole rows, time order only for finalized jobs, whose
index its list of one state can use, and counts of each state up to a cap.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg.rows import TupleRow

from bench.generate import QUEUES, RETIRED
from riverui.domain.jobs import FINALIZED, JobState
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.storage.interface.params import (
    Field,
    JobCursor,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.stores.server import ServerStore
from riverui.storage.stores.suggestions import SuggestionStore

LIMIT = 100
"""Rows of a page: one of the sizes that people choose from."""
CAP = 10_000
"""Jobs up to which counts are exact: the dashboard's own setting."""
QUEUE_CAP = 1_000
"""The pages count the states of one queue up to this."""

VIEW = 10.0
"""Milliseconds for every default list, count, facet, and what else a page shows unasked."""
SEARCH = 300.0
"""Milliseconds for one step of a search, and for an order of rows that no index has."""

_ALL = (
    "id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind,"
    " max_attempts, metadata, priority, queue, state, scheduled_at, tags, unique_key, unique_states"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One measured query."""

    page: str
    name: str
    call: Callable[[PostgresExecutor], Awaitable[object]]
    target: float = VIEW
    backlog: bool = False
    """Whether its work grows with the jobs that wait or run, up to a cap, however long the history
    is.
    """
    river_ui: str | None = None

    @property
    def key(self) -> str:
        """Names the case."""
        return f"{self.page}: {self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts about a filled database that the cases need."""

    rows: int
    now: datetime
    deep: dict[JobState, JobCursor]
    """A place far down in each state's list."""
    middle: int
    failed: int
    """A discarded job, with its 25 attempts."""
    worker: str


def facts(connection: psycopg.Connection[TupleRow]) -> Facts:
    """Read the facts from the database."""

    def one(query: str, *parameters: object) -> tuple[object, ...]:
        row = connection.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return tuple(row)

    deep = {}
    for state in JobState:
        at = "finalized_at" if state in FINALIZED else "scheduled_at"
        at = "attempted_at" if state is JobState.RUNNING else at
        way = "desc" if state in FINALIZED else "asc"
        (rows,) = one("select count(*) from river_job where state = %s", state)
        assert isinstance(rows, int)
        found, job_id = one(
            f"select {at}, id from river_job where state = %s and {at} is not null"
            f" order by 1 {way}, 2 {way} offset %s limit 1",
            state,
            min(100_000, rows // 2),
        )
        assert isinstance(found, datetime)
        assert isinstance(job_id, int)
        deep[state] = JobCursor(at=found, id=job_id)
    rows, now = one("select max(id), now() from river_job")
    (failed,) = one("select max(id) from river_job where state = 'discarded'")
    (worker,) = one("select attempted_by[1] from river_job where state = 'running' limit 1")
    assert isinstance(rows, int)
    assert isinstance(now, datetime)
    assert isinstance(failed, int)
    assert isinstance(worker, str)
    return Facts(rows=rows, now=now, deep=deep, middle=rows // 2, failed=failed, worker=worker)


def default_order(state: JobState) -> JobOrder:
    """Return the order in which the page shows one state."""
    return JobOrder.TIME_DESC if state in FINALIZED else JobOrder.TIME


def _list(
    *states: JobState,
    terms: Sequence[Term] = (),
    order: JobOrder | None = None,
    cursor: JobCursor | None = None,
) -> Callable[[PostgresExecutor], Awaitable[object]]:
    if order is None:
        order = default_order(states[0]) if len(states) == 1 else JobOrder.TIME_DESC
    if not states:
        order = JobOrder.ID_DESC
    params = JobPageParams(
        filter=JobFilter(states=states, terms=tuple(terms)), order=order, cursor=cursor, limit=LIMIT
    )
    return lambda executor: executor.jobs.list(params)


def _river_ui(state: JobState, where: str = "") -> str:
    ended = state in FINALIZED
    and_ended = " and finalized_at is not null" if ended else ""
    order = "finalized_at desc, id desc" if ended else "id asc"
    return (
        f"select {_ALL} from river_job where {where}state = '{state}'{and_ended} order by {order}"
        f" limit {LIMIT}"
    )


def _river_ui_counts() -> str:
    counts = [
        f"(select count(*) from (select from river_job where state = '{state}'"
        f" order by queue, priority, scheduled_at, id limit {CAP + 1}) {state})"
        for state in JobState
    ]
    return f"select {', '.join(counts)}"


def _term(field: Field, op: Op, *values: int | str | datetime, negated: bool = False) -> Term:
    return Term(field=field, op=op, values=values, negated=negated)


def cases(about: Facts) -> list[Case]:
    """Return all cases for one database, in the order of the pages."""
    return [*_lists(about), *_searches(about), *_counts(), *_facets(), *_others(about)]


def _lists(about: Facts) -> list[Case]:
    found = [
        Case(page="list", name="all", call=_list()),
        Case(
            page="list",
            name="all, halfway down",
            call=_list(cursor=JobCursor(at=None, id=about.middle)),
        ),
        Case(
            page="list",
            name="all, back up",
            call=_list(cursor=JobCursor(at=None, id=about.middle, before=True)),
        ),
        Case(
            page="list",
            name="finalized states together",
            call=_list(JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED),
        ),
        Case(
            page="list",
            name="waiting states together",
            call=_list(
                JobState.AVAILABLE, JobState.SCHEDULED, JobState.RETRYABLE, order=JobOrder.TIME
            ),
            backlog=True,
        ),
    ]
    for state in JobState:
        cursor = about.deep[state]
        back = JobCursor(at=cursor.at, id=cursor.id, before=True)
        reverse = JobOrder.TIME if state in FINALIZED else JobOrder.TIME_DESC
        backlog = state not in FINALIZED
        found += [
            Case(
                page="list",
                name=state.value,
                call=_list(state),
                backlog=backlog,
                river_ui=_river_ui(state),
            ),
            Case(
                page="list",
                name=f"{state}, deep",
                call=_list(state, cursor=cursor),
                backlog=backlog,
            ),
            Case(
                page="list",
                name=f"{state}, deep, back up",
                call=_list(state, cursor=back),
                backlog=backlog,
            ),
            Case(
                page="list",
                name=f"{state}, other way round",
                call=_list(state, order=reverse),
                backlog=backlog,
            ),
            Case(
                page="list",
                name=f"{state}, by id",
                call=_list(state, order=JobOrder.ID_DESC),
                target=SEARCH,
            ),
        ]
    return found


def _searches(about: Facts) -> list[Case]:
    done = JobState.COMPLETED
    order_id = json.dumps({"order_id": about.middle})
    filters: list[tuple[str, list[Term], str]] = [
        ("id", [_term(Field.ID, Op.EQ, about.middle)], f"id = any('{{{about.middle}}}') and "),
        ("common kind", [_term(Field.KIND, Op.EQ, "kind_00")], "kind = any('{kind_00}') and "),
        ("rare kind", [_term(Field.KIND, Op.EQ, "kind_39")], "kind = any('{kind_39}') and "),
        (
            "kind of old jobs only",
            [_term(Field.KIND, Op.EQ, RETIRED)],
            f"kind = any('{{{RETIRED}}}') and ",
        ),
        ("unknown kind", [_term(Field.KIND, Op.EQ, "absent")], "kind = any('{absent}') and "),
        ("kind pattern", [_term(Field.KIND, Op.LIKE, "*_1*")], ""),
        ("not a kind", [_term(Field.KIND, Op.EQ, "kind_00", negated=True)], ""),
        ("queue", [_term(Field.QUEUE, Op.EQ, "search")], "queue = any('{search}') and "),
        ("priority", [_term(Field.PRIORITY, Op.EQ, 4)], "priority = any('{4}') and "),
        ("common tag", [_term(Field.TAG, Op.EQ, "daily")], "tags && '{daily}' and "),
        ("rare tag", [_term(Field.TAG, Op.EQ, "tenant-7")], "tags && '{tenant-7}' and "),
        ("absent tag", [_term(Field.TAG, Op.EQ, "absent")], "tags && '{absent}' and "),
        ("args, one job", [_term(Field.ARGS, Op.CONTAINS, order_id)], ""),
        ("args, a third of all", [_term(Field.ARGS, Op.CONTAINS, '{"source": "web"}')], ""),
        ("args, none", [_term(Field.ARGS, Op.CONTAINS, '{"order_id": -1}')], ""),
        ("metadata", [_term(Field.METADATA, Op.CONTAINS, '{"tenant": 7}')], ""),
        ("error text", [_term(Field.ERROR, Op.LIKE, "refused")], ""),
        ("absent error text", [_term(Field.ERROR, Op.LIKE, "no such text")], ""),
        ("worker", [_term(Field.WORKER, Op.EQ, about.worker)], ""),
        ("attempt", [_term(Field.ATTEMPT, Op.GT, 24)], ""),
        ("created recently", [_term(Field.CREATED, Op.GT, about.now - timedelta(hours=1))], ""),
        ("created long ago", [_term(Field.CREATED, Op.LT, about.now - timedelta(hours=23))], ""),
        ("finished long ago", [_term(Field.FINISHED, Op.LT, about.now - timedelta(hours=23))], ""),
    ]
    found = []
    for name, terms, where in filters:
        found += [
            Case(
                page="search",
                name=f"completed: {name}",
                call=_list(done, terms=terms),
                target=SEARCH,
                river_ui=_river_ui(done, where) if where else None,
            ),
            Case(page="search", name=f"all: {name}", call=_list(terms=terms), target=SEARCH),
        ]
    for state in (JobState.AVAILABLE, JobState.RETRYABLE):
        terms = [_term(Field.TAG, Op.EQ, "absent")]
        found.append(
            Case(
                page="search",
                name=f"{state}: absent tag",
                call=_list(state, terms=terms),
                target=SEARCH,
                river_ui=_river_ui(state, "tags && '{absent}' and "),
            )
        )
    return found


def _count(
    *terms: Term, states: Sequence[JobState] = (JobState.COMPLETED,)
) -> Callable[[PostgresExecutor], Awaitable[object]]:
    matching = JobFilter(states=tuple(states), terms=terms)
    return lambda executor: executor.jobs.count(matching, cap=CAP)


def _counts() -> list[Case]:
    return [
        Case(
            page="count",
            name="every state",
            call=lambda executor: executor.jobs.count_by_state(cap=CAP),
            backlog=True,
            river_ui=_river_ui_counts(),
        ),
        Case(page="count", name="completed", call=_count()),
        Case(
            page="count",
            name="completed: common kind",
            call=_count(_term(Field.KIND, Op.EQ, "kind_00")),
            target=SEARCH,
        ),
        Case(
            page="count",
            name="completed: rare kind",
            call=_count(_term(Field.KIND, Op.EQ, "kind_39")),
            target=SEARCH,
        ),
        Case(
            page="count",
            name="completed: absent tag",
            call=_count(_term(Field.TAG, Op.EQ, "absent")),
            target=SEARCH,
        ),
        Case(
            page="count",
            name="all: absent error text",
            call=_count(_term(Field.ERROR, Op.LIKE, "no such text"), states=()),
            target=SEARCH,
        ),
    ]


def _facets() -> list[Case]:
    kinds = "select distinct on (kind) kind from river_job{} order by kind limit 100"
    return [
        Case(
            page="facet",
            name="kinds",
            call=lambda executor: executor.jobs.kind_list(),
            river_ui=kinds.format(""),
        ),
        Case(
            page="facet",
            name="kinds like",
            call=lambda executor: executor.jobs.kind_list(match="_1"),
            river_ui=kinds.format(" where kind ilike '%_1%'"),
        ),
        Case(
            page="facet",
            name="queues",
            call=lambda executor: executor.queues.name_list(match="e"),
            river_ui="select name from river_queue where name ilike '%e%' order by name limit 100",
        ),
        Case(
            page="facet",
            name="tags",
            call=lambda executor: SuggestionStore(executor).job_tag_list(match="da"),
        ),
        Case(
            page="facet",
            name="workers",
            call=lambda executor: SuggestionStore(executor).job_worker_list(),
            backlog=True,
        ),
        Case(
            page="facet",
            name="args paths",
            call=lambda executor: SuggestionStore(executor).job_path_list("args"),
        ),
        Case(
            page="facet",
            name="metadata paths",
            call=lambda executor: SuggestionStore(executor).job_path_list("metadata"),
        ),
    ]


def _others(about: Facts) -> list[Case]:
    whole = f"select {_ALL} from river_job where id = {{}}"
    queue_counts = " union all ".join(
        "select queue, count(*) from river_job"
        f" where queue = any(array{list(QUEUES)}) and state = '{state}' group by queue"
        for state in (JobState.AVAILABLE, JobState.RUNNING)
    )
    return [
        Case(
            page="job",
            name="completed",
            call=lambda executor: executor.jobs.get(about.middle),
            river_ui=whole.format(about.middle),
        ),
        Case(
            page="job",
            name="discarded, 25 attempts",
            call=lambda executor: executor.jobs.get(about.failed),
            river_ui=whole.format(about.failed),
        ),
        Case(
            page="queues",
            name="list",
            call=lambda executor: executor.queues.list(cap=QUEUE_CAP),
            backlog=True,
            river_ui=queue_counts,
        ),
        Case(
            page="queues",
            name="one queue",
            call=lambda executor: executor.queues.get("default", cap=QUEUE_CAP),
            backlog=True,
        ),
        Case(
            page="queues",
            name="its kinds",
            call=lambda executor: executor.queues.kind_count("default", cap=QUEUE_CAP),
            backlog=True,
        ),
        Case(
            page="queues",
            name="its failures",
            call=lambda executor: executor.queues.failure_list("default"),
            backlog=True,
        ),
        Case(
            page="errors",
            name="newest failed jobs",
            call=lambda executor: FailedJobStore(executor).failed_job_list(limit=5_000),
            backlog=True,
        ),
        Case(
            page="errors",
            name="completed jobs that had failed",
            call=lambda executor: FailedJobStore(executor).recovered_job_list(
                datetime.now(UTC), looked_at=5_000, limit=250
            ),
        ),
        Case(
            page="errors",
            name="errors of 250 jobs",
            call=lambda executor: FailedJobStore(executor).job_error_list(
                range(about.failed - 249, about.failed)
            ),
        ),
        Case(page="about", name="server", call=lambda executor: ServerStore(executor).server_get()),
        Case(page="about", name="leader", call=lambda executor: executor.leader.get()),
        Case(
            page="about",
            name="migrations",
            call=lambda executor: ServerStore(executor).migration_list(),
        ),
        Case(page="bulk", name="cutoff", call=lambda executor: executor.jobs.cutoff()),
    ]
