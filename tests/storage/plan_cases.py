"""The cases of test_plans: every query on river_job, the indexes that it may use, and how many rows
it may read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from riverui.domain.jobs import JobState
from riverui.domain.partitions import WHOLE, Partition
from riverui.domain.time import LAST
from riverui.features.concurrency.store import LimitedFetchParams, LimitStore
from riverui.features.costs.store import CostStore
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.features.heartbeats.store import ClientLife
from riverui.features.workflows.pro_store import ProStore
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobFetchParams,
    JobRescueParams,
    JobsAlike,
    JobSelectParams,
    JobSetStateParams,
    Place,
)
from riverui.storage.interface.params import (
    EVERY,
    Field,
    JobCursor,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.stores.candidates import CandidateStore, KeyRange
from riverui.storage.stores.explanations import ExplanationStore
from riverui.storage.stores.first_places import FirstPlaceStore
from riverui.storage.stores.health import HealthStore
from riverui.storage.stores.periodic_runs import PeriodicRunStore
from riverui.storage.stores.suggestions import SuggestionStore
from tests.storage.client_plans import client_cases
from tests.storage.figure_cases import figure_cases
from tests.storage.plan_case import (
    ARGS,
    FETCHING,
    FINALIZED,
    KIND,
    METADATA,
    PKEY,
    UNIQUE,
    Call,
    Case,
)

TESTS = Path(__file__).parent.parent
ROWS = 200_000
"""Jobs in the table: as many as make a scan of it stand out from what an index reads."""
_BY_A = Partition(by_args=("a",), by_kind=True)
WINDOW = 20_000
"""Rows that a list may look at where no index serves its filter."""


def _list(
    *terms: Term,
    states: Sequence[JobState] = (),
    order: JobOrder = JobOrder.ID_DESC,
    cursor: JobCursor | None = None,
) -> Call:
    params = JobPageParams(
        filter=JobFilter(states=tuple(states), terms=terms),
        order=order,
        cursor=cursor,
        window=WINDOW,
    )
    return lambda executor: executor.jobs.list(params)


def _whole(method: str, state: JobState, *terms: Term, after: JobCursor | None = None) -> Call:
    order = JobOrder.TIME_DESC if state is JobState.COMPLETED else JobOrder.ID
    chosen = JobFilter(states=(state,), terms=terms)
    params = JobPageParams(filter=chosen, order=order, cursor=after, window=EVERY)
    return lambda executor: getattr(executor.jobs, method)(params, args=10_000)


def _count(*terms: Term, states: Sequence[JobState] = ()) -> Call:
    return lambda executor: executor.jobs.count(
        JobFilter(states=tuple(states), terms=terms), cap=10_000
    )


def _term(field: Field, op: Op, *values: Any, negated: bool = False) -> Term:
    return Term(field=field, op=op, values=values, negated=negated)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    page = 101
    middle = datetime.now(UTC) - timedelta(hours=10)
    for order in (JobOrder.ID, JobOrder.ID_DESC):
        cases[f"all {order}"] = Case(_list(order=order), {PKEY}, 2 * page)
        further = JobCursor(at=None, id=ROWS // 2)
        cases[f"all {order}, further on"] = Case(
            _list(order=order, cursor=further), {PKEY}, 2 * page
        )
    for order in (JobOrder.TIME, JobOrder.TIME_DESC):
        for state in (JobState.COMPLETED, JobState.DISCARDED, JobState.CANCELLED):
            for at in (None, JobCursor(at=middle, id=5), JobCursor(at=middle, id=5, before=True)):
                cases[f"{state} {order} {at and at.before}"] = Case(
                    # An incremental sort reads a group of rows ahead.
                    _list(states=[state], order=order, cursor=at),
                    {FINALIZED, PKEY},
                    2 * page + 200,
                )
        for state in (JobState.AVAILABLE, JobState.SCHEDULED, JobState.RETRYABLE, JobState.PENDING):
            for at in (None, JobCursor(at=middle, id=5)):
                cases[f"{state} {order} {at is not None}"] = Case(
                    _list(states=[state], order=order, cursor=at),
                    {FETCHING, PKEY},
                    24 * page + page + 100,
                )
        cases[f"running {order}"] = Case(
            _list(states=[JobState.RUNNING], order=order), {FETCHING, PKEY}, 1200
        )
        cases[f"every state {order}"] = Case(
            _list(order=order), {FETCHING, FINALIZED, PKEY}, 3 * 24 * page + 2500
        )
    for state in JobState:
        cases[f"{state} by id"] = Case(_list(states=[state]), {FETCHING, PKEY}, 20_001 * 2 + WINDOW)
    failed = [JobState.RETRYABLE, JobState.DISCARDED]
    cases["failed jobs by id"] = Case(_list(states=failed), {FETCHING, PKEY}, 20_001 * 2 + WINDOW)
    cases |= _filters(page)
    cases |= _counts()
    cases |= _others()
    cases |= _engine()
    return cases


def _filters(page: int) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    done = [JobState.COMPLETED]
    waits = [JobState.AVAILABLE]
    newest = JobOrder.TIME_DESC
    few = 3 * 5001
    searched = 5001 + WINDOW + 2 * page
    retired = _term(Field.KIND, Op.EQ, "retired")
    cases["old kind"] = Case(_list(retired), {KIND, PKEY}, few)
    cases["old kind, completed"] = Case(
        _list(retired, states=done, order=newest), {KIND, PKEY}, few
    )
    common = _term(Field.KIND, Op.EQ, "kind_1", "kind_2")
    cases["common kinds"] = Case(_list(common), {KIND, PKEY}, searched)
    cases["common kinds, completed"] = Case(
        _list(common, states=done, order=newest), {KIND, FINALIZED, PKEY}, searched
    )
    cases["common kinds, available"] = Case(
        _list(common, states=waits, order=JobOrder.TIME), {KIND, FETCHING, PKEY}, searched
    )
    pattern = _term(Field.KIND, Op.LIKE, "*ommo*")
    cases["kind pattern"] = Case(_list(pattern), {KIND, PKEY}, few + 100)
    old_queue = _term(Field.QUEUE, Op.EQ, "retired")
    cases["old queue"] = Case(_list(old_queue), {FETCHING, PKEY}, few)
    cases["queue, completed"] = Case(
        _list(_term(Field.QUEUE, Op.LIKE, "queue_1"), states=done, order=newest),
        {FETCHING, FINALIZED, PKEY},
        searched,
    )
    cases["queue and priority, available"] = Case(
        _list(
            _term(Field.QUEUE, Op.EQ, "queue_1"),
            _term(Field.PRIORITY, Op.GE, 2),
            states=waits,
            order=JobOrder.TIME,
        ),
        {FETCHING, PKEY},
        5 * page,
    )
    cases["ids"] = Case(_list(_term(Field.ID, Op.EQ, 5, 6, 7)), {PKEY}, 10)
    cases["id range"] = Case(_list(_term(Field.ID, Op.LT, 500)), {PKEY}, 2 * page)
    cases["args, rare"] = Case(
        _list(_term(Field.ARGS, Op.CONTAINS, '{"n": 77777}')), {ARGS, PKEY}, 10
    )
    cases["args, two values"] = Case(
        _list(_term(Field.ARGS, Op.CONTAINS, '{"n": 1}', '{"n": 2}')), {ARGS, PKEY}, 10
    )
    cases["args, common"] = Case(
        _list(_term(Field.ARGS, Op.CONTAINS, '{"source": "web"}'), states=done, order=newest),
        {ARGS, FINALIZED, PKEY},
        searched,
    )
    cases["metadata"] = Case(
        _list(_term(Field.METADATA, Op.CONTAINS, '{"tenant": 5000}')), {METADATA, PKEY}, 10
    )
    unserved = {
        "tag": _term(Field.TAG, Op.EQ, "absent"),
        "worker": _term(Field.WORKER, Op.EQ, "absent"),
        "error": _term(Field.ERROR, Op.LIKE, "absent"),
        "attempt": _term(Field.ATTEMPT, Op.GT, 9),
        "created": _term(Field.CREATED, Op.LT, datetime(2000, 1, 1, tzinfo=UTC)),
        "not args": _term(Field.ARGS, Op.CONTAINS, "{}", negated=True),
    }
    for name, term in unserved.items():
        cases[f"{name}"] = Case(_list(term), {PKEY}, searched)
        cases[f"{name}, completed"] = Case(
            _list(term, states=done, order=newest), {FINALIZED, PKEY}, searched
        )
        cases[f"{name}, available"] = Case(
            _list(term, states=waits, order=JobOrder.TIME), {FETCHING, PKEY}, searched
        )
        cases[f"{name}, every state by time"] = Case(
            _list(term, order=newest), {FETCHING, FINALIZED, PKEY}, searched + 1200
        )
    ago = datetime.now(UTC) - timedelta(hours=12)
    cases["finished before"] = Case(
        _list(_term(Field.FINISHED, Op.LT, ago), states=done, order=newest),
        {FINALIZED, PKEY},
        2 * page + 200,
    )
    return cases


def _counts() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    window = 50_001
    cases["counts by state"] = Case(
        lambda executor: executor.jobs.count_by_state(cap=10_000), {FETCHING, FINALIZED}, 8 * 10_001
    )
    cases["count of all"] = Case(_count(), {PKEY}, 10_001)
    cases["count of a state"] = Case(
        _count(states=[JobState.COMPLETED]), {FETCHING, FINALIZED}, 10_001
    )
    cases["count of a tag"] = Case(_count(_term(Field.TAG, Op.EQ, "absent")), {PKEY}, window)
    cases["count of a kind"] = Case(
        _count(_term(Field.KIND, Op.EQ, "kind_1"), states=[JobState.COMPLETED]),
        {KIND, FINALIZED},
        window + 5001,
    )
    cases["exact count"] = Case(
        lambda executor: executor.jobs.count_exact(JobState.DISCARDED),
        {FETCHING, FINALIZED},
        ROWS // 40,
    )
    return cases


def _others() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    last: dict[str, Any] = {"priority": 4, "scheduled_at": LAST, "id": ROWS}
    simple: dict[str, tuple[Call, set[str], int]] = {
        "cutoff": (lambda executor: executor.jobs.cutoff(), {PKEY}, 1),
        "one job": (lambda executor: executor.jobs.get(500), {PKEY}, 1),
        "its log": (lambda executor: executor.jobs.log_piece(500, 1, size=10), {PKEY}, 1),
        "its text": (lambda executor: executor.jobs.text_piece(500, "job", size=10), {PKEY}, 1),
        "kinds": (lambda executor: executor.jobs.kind_list(match="1"), {KIND}, 50),
        "tags": (lambda executor: SuggestionStore(executor).job_tag_list(), {PKEY}, 10_000),
        "paths": (lambda executor: SuggestionStore(executor).job_path_list("args"), {PKEY}, 500),
        "workers": (
            lambda executor: SuggestionStore(executor).job_worker_list(),
            {FETCHING, FINALIZED},
            7600,
        ),
        "queues": (lambda executor: executor.queues.list(cap=1000), {FETCHING}, 6 * 4 * 1000 + 200),
        "queues' counts": (
            lambda executor: executor.queues.state_count(
                [(f"queue_{n}", JobState.AVAILABLE) for n in range(3)], cap=5_000
            ),
            {FETCHING},
            15_000,
        ),
        "queue": (
            lambda executor: executor.queues.get("queue_1", cap=1000),
            {FETCHING},
            4 * 1000 + 20,
        ),
        "queue's kinds": (
            lambda executor: executor.queues.kind_count("queue_1", cap=1000),
            {FETCHING},
            5 * 1000,
        ),
        "queue's failures": (
            lambda executor: executor.queues.failure_list("queue_1"),
            {FETCHING, PKEY},
            2900,
        ),
        "queue names": (lambda executor: executor.queues.name_list(), {FETCHING}, 100),
        "place in line": (
            lambda db: ExplanationStore(db).job_line_get("queue_1", **last),
            {FETCHING},
            1000,
        ),
        "queue's work": (
            lambda db: ExplanationStore(db).queue_work_get("queue_1", kind="k"),
            {FETCHING},
            1800,
        ),
        "who overtook it": (
            lambda db: ExplanationStore(db).job_overtaken_get(
                "queue_1", kind="k", **last, after=LAST
            ),
            {FETCHING},
            3 * 4 * 500,
        ),
        "lock of a row": (lambda db: ExplanationStore(db).job_lock_get(500), {PKEY}, 1),
        "who holds slots": (
            lambda db: ExplanationStore(db).job_holder_list("queue_1", _BY_A, "k"),
            {FETCHING},
            1000,
        ),
        "whose turn": (
            lambda db: ExplanationStore(db).job_share_get("queue_1", _BY_A, **last, window=1000),
            {FETCHING, PKEY},
            1001,
        ),
        "who runs": (lambda db: HealthStore(db).health_running(), {FETCHING}, 1000),
        "overdue": (
            lambda db: HealthStore(db).health_overdue(["queue_1", "queue_2"], due_before=LAST),
            {FETCHING},
            1000 + 200,
        ),
        "what waits": (
            lambda db: HealthStore(db).health_waiting(["queue_1"], now=LAST, cap=1000),
            {FETCHING},
            1000 + 4 * 4 * 20 + 3 * 4 * 50,
        ),
        "lost jobs": (lambda db: HealthStore(db).health_lost(), {FETCHING, PKEY}, 3 * 500 + 100),
        "rhythms": (lambda db: HealthStore(db).health_rhythms(), {KIND}, 60 * (150 + 1)),
        "failed jobs": (
            lambda db: FailedJobStore(db).failed_job_list(limit=5_000),
            {FETCHING, FINALIZED},
            10_200,
        ),
        "completed jobs that had failed": (
            lambda db: FailedJobStore(db).recovered_job_list(
                datetime.now(UTC), looked_at=5_000, limit=250
            ),
            {FINALIZED},
            5_100,
        ),
        "sizes of jobs": (
            lambda db: CostStore(db).job_size_list(["kind_1", "kind_2", "none"], jobs=10),
            {KIND},
            21,
        ),
        "their errors": (lambda db: FailedJobStore(db).job_error_list(range(1, 251)), {PKEY}, 500),
    }
    for name, (call, indexes, reads) in simple.items():
        cases[name] = Case(call, indexes, reads)
    for field in ("args", "errors", "metadata", "output"):

        async def read(executor: PostgresExecutor, field: str = field) -> None:
            await executor.jobs.text_piece(500, field, size=10)

        cases[f"its {field}"] = Case(read, {PKEY}, 1)
    cases["behind a job whose time Python cannot hold"] = Case(
        _list(
            states=[JobState.COMPLETED], order=JobOrder.TIME_DESC, cursor=JobCursor(at=LAST, id=500)
        ),
        {FINALIZED, PKEY},
        2 * 101 + 201,
    )
    for verb in ("cancel", "retry", "move", "delete"):
        ids = list(range(1, 2000, 2))

        async def act(executor: PostgresExecutor, verb: str = verb, ids: list[int] = ids) -> None:
            given = {"queue": "elsewhere"} if verb == "move" else {}
            await getattr(executor.jobs, f"{verb}_many")(ids, **given)

        # The rows are found, locked and changed.
        cases[verb] = Case(act, {PKEY}, 4 * len(ids))
    watched = list(range(1, 400, 2))
    cases["outcomes"] = Case(
        lambda executor: executor.jobs.outcome_list(watched), {PKEY}, len(watched)
    )
    return cases


def _engine() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    now = datetime.now(UTC)
    some = list(range(1, 2000, 2))
    everything = JobSelectParams(kinds=("retired",))
    # Jobs wait in 6 queues, in 4 priorities each.
    pairs = 2 * 6 * 4
    limited = LimitedFetchParams(
        life=ClientLife(id="me", registered_at=now),
        partition=_BY_A,
        most=5,
        most_here=5,
        used={},
        full=(),
        window=1_000,
        looked_at=250,
    )
    after = (Place(now - timedelta(hours=1), 0),) * 4
    calls: dict[str, tuple[Call, set[str], int]] = {
        "fetch": (
            lambda x: x.work.get_available(JobFetchParams("me", "queue_1", 100)),
            {FETCHING, PKEY},
            4 * 100,
        ),
        "fetch of a rare kind": (
            lambda x: x.work.get_available(
                JobFetchParams("me", "queue_1", 100, kinds=("retired",))
            ),
            {FETCHING, PKEY},
            # Looking further ahead is what a mixed queue costs.
            20_000 // 6 + 10,
        ),
        "fetch after others": (
            lambda x: x.work.get_available(JobFetchParams("me", "queue_1", 100, after=after)),
            {FETCHING, PKEY},
            4 * 100,
        ),
        "fetch for a batch": (
            lambda x: x.work.get_available(
                JobFetchParams("me", "queue_1", 100, alike=JobsAlike("mail", 1_000))
            ),
            {FETCHING, PKEY},
            2 * 1_000 + 4 * 400,
        ),
        "fetch for a batch after others": (
            lambda x: x.work.get_available(
                JobFetchParams("me", "queue_1", 100, alike=JobsAlike("mail", 1_000), after=after)
            ),
            {FETCHING, PKEY},
            2 * 1_000 + 4 * 400,
        ),
        "first places": (
            lambda x: FirstPlaceStore(x).job_first_place_list(JobFetchParams("me", "queue_1", 0)),
            {FETCHING},
            4 * 2,
        ),
        "first places after others": (
            lambda x: FirstPlaceStore(x).job_first_place_list(
                JobFetchParams("me", "queue_1", 0, after=after)
            ),
            {FETCHING},
            4 * 2,
        ),
        "fetch around some": (
            lambda x: x.work.get_available(
                JobFetchParams("me", "queue_1", 100, except_ids=(1, 2, 3))
            ),
            {FETCHING, PKEY},
            4 * 100 + 3,
        ),
        "candidates": (
            lambda x: CandidateStore(x).job_candidate_list(
                JobFetchParams("me", "queue_1", 100), [WHOLE, _BY_A], window=1_000
            ),
            {FETCHING},
            2 * 100,
        ),
        "candidates after others": (
            lambda x: CandidateStore(x).job_candidate_list(
                JobFetchParams("me", "queue_1", 100, after=after), [WHOLE, _BY_A], window=1_000
            ),
            {FETCHING},
            2 * 100,
        ),
        "candidates behind full keys": (
            lambda x: CandidateStore(x).job_candidate_list(
                JobFetchParams("me", "queue_1", 100), [WHOLE], window=1_000, full={WHOLE: [""]}
            ),
            {FETCHING},
            2 * 1_000,
        ),
        "few candidates of each key": (
            lambda x: CandidateStore(x).job_candidate_list(
                JobFetchParams("me", "queue_1", 1_000),
                [WHOLE, _BY_A],
                window=1_000,
                few=KeyRange(partition=_BY_A, per_key=3, keys=100),
            ),
            {FETCHING},
            2 * 1_000,
        ),
        "candidates by key": (
            # With the index of a partition: tests/storage/test_candidates.py.
            lambda x: CandidateStore(x).job_candidate_list_by_key(
                JobFetchParams("me", "queue_1", 100),
                [WHOLE],
                keys=KeyRange(partition=WHOLE, per_key=1, keys=1),
            ),
            {FETCHING},
            20_000 // 6 + 10,
        ),
        "keys of jobs": (
            lambda x: CandidateStore(x).job_key_list(list(range(1, 101)), _BY_A),
            {PKEY},
            2 * 100,
        ),
        "fetch from a limited queue": (
            # Without a client that is alive it takes nothing, but chooses all the same.
            lambda x: LimitStore(x).job_fetch_limited(
                JobFetchParams("me", "queue_1", 100),
                limited,
            ),
            {FETCHING, PKEY},
            2 * 250 + 4 * 100,
        ),
        "fetch from a limited queue after others": (
            lambda x: LimitStore(x).job_fetch_limited(
                JobFetchParams("me", "queue_1", 100, after=after), limited
            ),
            {FETCHING, PKEY},
            2 * 250 + 4 * 100,
        ),
        "claim": (
            lambda x: CandidateStore(x).job_claim(
                JobFetchParams("me", "queue_1", 100), list(range(1, 101))
            ),
            {PKEY},
            4 * 100,
        ),
        "first to fetch": (
            lambda x: x.work.first_available(JobFetchParams("me", "queue_1", 1)),
            {FETCHING},
            2,
        ),
        "first due": (
            lambda x: x.work.first_due(now=now + timedelta(hours=9)),
            {FETCHING},
            2 * pairs + 10,
        ),
        "first stuck": (
            lambda x: x.work.first_stuck(attempted_before=now, after_id=0),
            {FETCHING},
            ROWS // 1000 + 60,
        ),
        "poll": (
            lambda x: x.queues.with_available_list([f"queue_{n}" for n in range(500)]),
            {FETCHING},
            # One row of each queue that has any, seen by the index, the limit and the join.
            3 * 6,
        ),
        "complete": (lambda x: x.work.complete_many(some, [now] * 1000), {PKEY}, 2 * 1000),
        "complete at times": (
            lambda x: x.work.complete_many(some, [now + timedelta(seconds=n) for n in some]),
            {PKEY},
            2 * 1000,
        ),
        "set state": (
            lambda x: x.work.set_state_many(
                [
                    JobSetStateParams(n, JobState.RETRYABLE, error="{}", scheduled_at=now)
                    for n in some
                ]
            ),
            {PKEY},
            4 * 1000,
        ),
        "running jobs of a client": (
            lambda x: x.work.running_list("worker_1"),
            {FETCHING},
            ROWS // 1000 + 60,
        ),
        "cancel requested": (lambda x: x.work.cancel_requested(some), {PKEY}, 2 * 1000),
        "begin": (lambda x: x.work.begin(ROWS - 10, client_id="me", now=now), {PKEY}, 2),
        "update": (lambda x: x.jobs.update(500, metadata="{}"), {PKEY}, 2),
        "whole job": (lambda x: x.jobs.row_get(500), {PKEY}, 1),
        "schedule nothing": (
            lambda x: x.work.schedule(now=now - timedelta(hours=1), limit=1000),
            {FETCHING, PKEY, UNIQUE},
            2 * pairs + 10,
        ),
        "schedule": (
            lambda x: x.work.schedule(now=now + timedelta(hours=9), limit=1000),
            {FETCHING, PKEY, UNIQUE},
            # Each pair offers as many as are wanted, where it has so many.
            2 * pairs + 12_000 + 4 * 1000,
        ),
        "stuck": (
            lambda x: x.work.get_stuck(attempted_before=now, after_id=0, limit=50),
            {FETCHING, PKEY},
            ROWS // 1000 + 60,
        ),
        "rescue": (
            lambda x: x.work.rescue_many(
                [JobRescueParams(n, JobState.DISCARDED, "{}", now, now) for n in some],
                attempted_before=now,
            ),
            {PKEY},
            2 * 1000,
        ),
        "clean nothing": (
            lambda x: x.work.delete_before(_old(now - timedelta(days=9))),
            {FINALIZED, PKEY},
            0,
        ),
        "clean": (lambda x: x.work.delete_before(_old(now)), {FINALIZED, PKEY}, 4 * 1000),
        "clean by states": (
            lambda x: x.work.delete_before(replace(_old(now), completed_before=None)),
            {FINALIZED, PKEY},
            4 * 1000,
        ),
        "remove the completed": (
            lambda x: x.work.delete_completed_many(some, of_attempts=[1] * 1000),
            {PKEY},
            2 * 1000,
        ),
        "remove the completed at attempts": (
            lambda x: x.work.delete_completed_many(some, of_attempts=some),
            {PKEY},
            2 * 1000,
        ),
        "remove and return": (
            lambda x: x.work.set_state_many(
                [JobSetStateParams(n, JobState.COMPLETED, now, ephemeral=True) for n in some]
            ),
            {PKEY},
            4 * 1000,
        ),
        "rows": (lambda x: x.jobs.row_list(JobSelectParams()), {PKEY}, 101),
        "rows of a kind": (lambda x: x.jobs.row_list(everything), {KIND, PKEY}, 700),
        "count rows of a kind": (lambda x: x.jobs.row_count(everything), {KIND, PKEY}, 700),
        "rows by finish": (
            lambda x: x.jobs.row_list(
                JobSelectParams(states=(JobState.COMPLETED,), order="finalized_at", descending=True)
            ),
            {FINALIZED},
            400,
        ),
        "delete rows": (lambda x: x.jobs.delete_selected(everything), {KIND, PKEY}, 1200),
    }
    for name, (call, indexes, reads) in calls.items():
        cases[name] = Case(call, indexes, reads)
    return cases


def _api_cases() -> dict[str, Case]:
    """Return what the JSON API asks besides what pages do."""
    cases: dict[str, Case] = {}
    some = list(range(1, 101))
    completed = (JobState.COMPLETED,)
    customer = Term(field=Field.ARGS, op=Op.CONTAINS, values=('{"customer_id": 7}',))
    tagged, retired = _term(Field.TAG, Op.EQ, "vip"), _term(Field.KIND, Op.EQ, "retired")
    json, done, waits = "json_list", JobState.COMPLETED, JobState.AVAILABLE
    behind = JobCursor(at=None, id=5)
    calls: dict[str, tuple[Call, set[str], int]] = {
        "api list": (
            lambda x: x.jobs.text_list(
                JobPageParams(
                    filter=JobFilter(states=completed),
                    order=JobOrder.TIME_DESC,
                    limit=100,
                    window=5000,
                )
            ),
            {FINALIZED, PKEY},
            400,
        ),
        "api list by id": (
            lambda x: x.jobs.text_list(
                JobPageParams(
                    filter=JobFilter(states=(JobState.RUNNING,)), order=JobOrder.ID, limit=100
                )
            ),
            {FETCHING, PKEY},
            6_000,
        ),
        "api list in JSON": (_whole(json, done), {FINALIZED}, 300),
        "api list in JSON, by kind": (_whole(json, done, retired), {FINALIZED, KIND}, 20_000),
        "api list in JSON, by tag": (_whole(json, done, tagged), {FINALIZED}, ROWS),
        "api list in JSON, by id": (_whole(json, waits, after=behind), {FETCHING, PKEY}, 6_000),
        "api list in JSON, by id to the end": (
            _whole(json, waits, retired, after=behind),
            {FETCHING, KIND, PKEY},
            2 * ROWS,
        ),
        "api list, by tag": (_whole("text_list", done, tagged), {FINALIZED, PKEY}, ROWS),
        "api job": (lambda x: x.jobs.text_get(5), {PKEY}, 1),
        "restore jobs": (lambda x: x.jobs.restore_many([]), {PKEY}, 1),
        "api job in JSON": (lambda x: x.jobs.json_get(5), {PKEY}, 1),
        "api kinds": (lambda x: x.jobs.kind_list(), {KIND}, 100),
        "api queues": (lambda x: x.queues.count_list(cap=1000, limit=100), {FETCHING}, 20_000),
        "api progress": (
            lambda x: x.jobs.progress(JobFilter(terms=(tagged,)), window=5000),
            {FINALIZED, FETCHING, PKEY},
            20_000,
        ),
        "api progress by args": (
            lambda x: x.jobs.progress(JobFilter(terms=(customer,)), window=5000),
            {ARGS, METADATA},
            20_000,
        ),
        "periodic jobs": (lambda x: PeriodicRunStore(x).periodic_history_list(), {METADATA}, 10),
        "the newest periodic jobs": (
            lambda x: PeriodicRunStore(x).periodic_history_list(most=0),
            {METADATA, PKEY},
            20_010,
        ),
        "workflows": (lambda x: ProStore(x).workflow_list(limit=10), {METADATA}, 10),
        "workflows at work": (
            lambda x: ProStore(x).workflow_list(active=True, limit=10),
            {METADATA},
            10,
        ),
        "workflows that ended": (
            lambda x: ProStore(x).workflow_list(active=False, limit=10),
            {METADATA},
            10,
        ),
        "tasks of a workflow": (
            lambda x: ProStore(x).workflow_task_list("w"),
            {METADATA, PKEY},
            10,
        ),
        "retry of a workflow": (
            lambda x: ProStore(x).workflow_retry(some, waiting=some[:5], reset=False),
            {PKEY},
            200,
        ),
    }
    for name, (call, indexes, reads) in calls.items():
        cases[name] = Case(call, indexes, reads)
    return cases


def _old(before: datetime) -> JobDeleteBeforeParams:
    return JobDeleteBeforeParams(
        cancelled_before=before, completed_before=before, discarded_before=before, limit=1000
    )


def _feature_cases() -> dict[str, Case]:
    """Return the cases in the `plans.py` of features."""
    found: dict[str, Case] = {}
    for path in sorted(TESTS.glob("features/**/plans.py")):
        place = path.relative_to(TESTS.parent).with_suffix("")
        found |= import_module(".".join(place.parts)).cases()
    return found


CASES = {
    **_cases(),
    **_api_cases(),
    **client_cases(ROWS),
    **figure_cases(),
    **_feature_cases(),
}
