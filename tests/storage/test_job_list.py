"""Lists: order, paging both ways, filters against a plain reading of their meaning, bounded
searches.
"""

from __future__ import annotations

import fnmatch
import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle, product
from typing import Any

import pytest

from riverui.domain.jobs import FINALIZED, JobListRow, JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Driver
from riverui.storage.interface.params import (
    Field,
    JobCursor,
    JobCutoff,
    JobFilter,
    JobOrder,
    JsonPath,
    Op,
    Term,
)
from riverui.storage.postgres.limits import PostgresLimits
from tests.cases import cases
from tests.factory import Make, attempt_error
from tests.storage.conftest import all_pages, limited, one_page

NOW = datetime.now(UTC).replace(microsecond=0)
KINDS = ("mail_send", "mail_bounce", "report%_build", "x")
QUEUES = ("default", "mailers", "tenant-1", "tenant-2")
STATES = tuple(JobState)

Facts = dict[str, Any]


def _facts(dice: random.Random, number: int) -> Facts:
    """Return the columns of one made-up job, with many equal times on purpose."""
    state = dice.choice(STATES)
    minutes = dice.randrange(40)
    attempted = state in FINALIZED or state is JobState.RUNNING or dice.random() < 0.3
    facts: Facts = {
        "state": state.value,
        "kind": dice.choice(KINDS),
        "queue": dice.choice(QUEUES),
        "priority": dice.randrange(1, 5),
        "attempt": dice.randrange(4),
        "scheduled_at": NOW + timedelta(minutes=minutes - 20),
        "created_at": NOW - timedelta(minutes=dice.randrange(90)),
        # River always sets it on running jobs; another tool may not.
        "attempted_at": (
            NOW - timedelta(minutes=minutes) if attempted and dice.random() < 0.95 else None
        ),
        "finalized_at": NOW - timedelta(minutes=minutes // 4) if state in FINALIZED else None,
        "tags": dice.sample(["a", "b", "c d"], dice.randrange(3)),
        "attempted_by": dice.sample(["host_1", "host_2"], dice.randrange(3)) or None,
        "args": {"n": number % 5, "customer": {"id": number % 7, "name": "Ünï"}},
        "metadata": {"trace": number % 3} if number % 2 else {},
        "errors": None,
    }
    if dice.random() < 0.4:
        facts["errors"] = [
            attempt_error(error=dice.choice(["boom", "Connection reset", "50% of _"]))
        ]
    return facts


@pytest.fixture
async def jobs(make: Make) -> dict[int, Facts]:
    """Return the facts of a few hundred jobs by id."""
    dice = random.Random(7)
    made = {}
    async with make.connection.transaction():
        for number in range(160):
            facts = _facts(dice, number)
            made[await make.job(**facts)] = facts
    return made


def _matters(facts: Facts) -> datetime:
    found: datetime
    if facts["state"] in FINALIZED:
        found = facts["finalized_at"]
    elif facts["state"] == "running":
        found = facts["attempted_at"] or facts["scheduled_at"]
    else:
        found = facts["scheduled_at"]
    return found


def _expected(
    jobs: dict[int, Facts],
    order: JobOrder,
    states: Sequence[JobState],
    fits: Callable[[int, Facts], bool],
) -> list[int]:
    chosen = [
        job_id
        for job_id, facts in jobs.items()
        if (not states or facts["state"] in states) and fits(job_id, facts)
    ]
    by_time = order in (JobOrder.TIME, JobOrder.TIME_DESC)

    def place(job_id: int) -> tuple[datetime, int]:
        return (_matters(jobs[job_id]) if by_time else NOW, job_id)

    return sorted(chosen, key=place, reverse=order.descending)


def _ids(rows: Sequence[JobListRow]) -> list[int]:
    return [row.id for row in rows]


def _term(field: Field, op: Op, *values: Any, negated: bool = False) -> Term:
    return Term(field=field, op=op, values=values, negated=negated)


def _like(*patterns: str) -> Callable[[str], bool]:
    return lambda name: any(
        fnmatch.fnmatchcase(name.lower(), p.lower().replace("[", "[[]")) for p in patterns
    )


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            k in whole and _contains(whole[k], v) for k, v in part.items()
        )
    return bool(whole == part)


_AGO = NOW - timedelta(minutes=5)
_LATER = NOW + timedelta(minutes=5)

FILTERS: dict[str, tuple[list[Term], Callable[[int, Facts], bool]]] = {
    "kind": (
        [_term(Field.KIND, Op.EQ, "mail_send", "x")],
        lambda _, f: f["kind"] in ("mail_send", "x"),
    ),
    "kinds, both": (
        [_term(Field.KIND, Op.EQ, "mail_send", "x"), _term(Field.KIND, Op.EQ, "x", "y")],
        lambda _, f: f["kind"] == "x",
    ),
    "kind pattern": (
        [_term(Field.KIND, Op.LIKE, "*AIL_*")],
        lambda _, f: _like("*ail_*")(f["kind"]),
    ),
    "kind pattern with LIKE's own signs": (
        [_term(Field.KIND, Op.LIKE, "report%*", "_")],
        lambda _, f: f["kind"] == "report%_build",
    ),
    "not kind": ([_term(Field.KIND, Op.EQ, "x", negated=True)], lambda _, f: f["kind"] != "x"),
    "not kind pattern": (
        [_term(Field.KIND, Op.LIKE, "mail*", negated=True)],
        lambda _, f: not f["kind"].startswith("mail"),
    ),
    "queue": ([_term(Field.QUEUE, Op.EQ, "mailers")], lambda _, f: f["queue"] == "mailers"),
    "queue pattern": (
        [_term(Field.QUEUE, Op.LIKE, "tenant-*")],
        lambda _, f: f["queue"].startswith("tenant-"),
    ),
    "not queue": (
        [_term(Field.QUEUE, Op.EQ, "mailers", "default", negated=True)],
        lambda _, f: f["queue"] not in ("mailers", "default"),
    ),
    "priority": ([_term(Field.PRIORITY, Op.EQ, 1, 4)], lambda _, f: f["priority"] in (1, 4)),
    "priority above": ([_term(Field.PRIORITY, Op.GT, 2)], lambda _, f: f["priority"] > 2),
    "attempt": ([_term(Field.ATTEMPT, Op.GE, 2)], lambda _, f: f["attempt"] >= 2),
    "tag": ([_term(Field.TAG, Op.EQ, "c d", "nothing")], lambda _, f: "c d" in f["tags"]),
    "two tags": (
        [_term(Field.TAG, Op.EQ, "a"), _term(Field.TAG, Op.EQ, "b")],
        lambda _, f: {"a", "b"} <= set(f["tags"]),
    ),
    "not tag": ([_term(Field.TAG, Op.EQ, "a", negated=True)], lambda _, f: "a" not in f["tags"]),
    "worker": (
        [_term(Field.WORKER, Op.EQ, "host_1")],
        lambda _, f: "host_1" in (f["attempted_by"] or []),
    ),
    "not worker": (
        [_term(Field.WORKER, Op.EQ, "host_1", negated=True)],
        lambda _, f: "host_1" not in (f["attempted_by"] or []),
    ),
    "args": (
        [_term(Field.ARGS, Op.CONTAINS, '{"customer": {"id": 3}}', '{"n": 4}')],
        lambda _, f: f["args"]["customer"]["id"] == 3 or f["args"]["n"] == 4,
    ),
    "args and metadata": (
        [
            _term(Field.ARGS, Op.CONTAINS, '{"n": 4}'),
            _term(Field.METADATA, Op.CONTAINS, '{"trace": 1}'),
        ],
        lambda _, f: f["args"]["n"] == 4 and _contains(f["metadata"], {"trace": 1}),
    ),
    "not args": (
        [_term(Field.ARGS, Op.CONTAINS, '{"n": 4}', negated=True)],
        lambda _, f: f["args"]["n"] != 4,
    ),
    "error": (
        [_term(Field.ERROR, Op.LIKE, "CONNECTION", "50% of _")],
        lambda _, f: (
            bool(f["errors"]) and f["errors"][0]["error"] in ("Connection reset", "50% of _")
        ),
    ),
    "not error": (
        [_term(Field.ERROR, Op.LIKE, "boom", negated=True)],
        lambda _, f: not f["errors"] or f["errors"][0]["error"] != "boom",
    ),
    "created": ([_term(Field.CREATED, Op.GE, _AGO)], lambda _, f: f["created_at"] >= _AGO),
    "scheduled": ([_term(Field.SCHEDULED, Op.LT, _LATER)], lambda _, f: f["scheduled_at"] < _LATER),
    "scheduled between": (
        [_term(Field.SCHEDULED, Op.GT, _AGO), _term(Field.SCHEDULED, Op.LE, _LATER)],
        lambda _, f: _AGO < f["scheduled_at"] <= _LATER,
    ),
    "started": (
        [_term(Field.STARTED, Op.LT, _AGO)],
        lambda _, f: f["attempted_at"] is not None and f["attempted_at"] < _AGO,
    ),
    "not started before": (
        [_term(Field.STARTED, Op.LT, _AGO, negated=True)],
        lambda _, f: f["attempted_at"] is None or f["attempted_at"] >= _AGO,
    ),
    "finished": (
        [_term(Field.FINISHED, Op.GT, _AGO)],
        lambda _, f: f["finalized_at"] is not None and f["finalized_at"] > _AGO,
    ),
    "finished between, though running": (
        [
            _term(Field.STATE, Op.EQ, "running"),
            _term(Field.FINISHED, Op.GT, _AGO),
            _term(Field.FINISHED, Op.LE, _LATER),
        ],
        lambda _, __: False,
    ),
    "not finished after": (
        [_term(Field.FINISHED, Op.GT, _AGO, negated=True)],
        lambda _, f: f["finalized_at"] is None or f["finalized_at"] <= _AGO,
    ),
    "state": (
        [_term(Field.STATE, Op.EQ, "running", "retryable")],
        lambda _, f: f["state"] in ("running", "retryable"),
    ),
    "not state": (
        [_term(Field.STATE, Op.EQ, "completed", negated=True)],
        lambda _, f: f["state"] != "completed",
    ),
    "id range": (
        [_term(Field.ID, Op.GT, 40), _term(Field.ID, Op.LE, 90)],
        lambda job_id, _: 40 < job_id <= 90,
    ),
    "ids": ([_term(Field.ID, Op.EQ, 12, 13, 10**30, -1)], lambda job_id, _: job_id in (12, 13)),
    "not ids": ([_term(Field.ID, Op.EQ, 12, 10**30, negated=True)], lambda job_id, _: job_id != 12),
    "many": (
        [
            _term(Field.KIND, Op.LIKE, "mail*"),
            _term(Field.TAG, Op.EQ, "a", "b"),
            _term(Field.PRIORITY, Op.LE, 3),
            _term(Field.QUEUE, Op.EQ, "default", negated=True),
        ],
        lambda _, f: (
            f["kind"].startswith("mail")
            and bool({"a", "b"} & set(f["tags"]))
            and f["priority"] <= 3
            and f["queue"] != "default"
        ),
    ),
}

STATE_SETS: tuple[tuple[JobState, ...], ...] = (
    (),
    (JobState.COMPLETED,),
    (JobState.AVAILABLE,),
    (JobState.RUNNING,),
    (JobState.RETRYABLE, JobState.RUNNING, JobState.DISCARDED, JobState.CANCELLED),
)


@pytest.mark.parametrize("order", list(JobOrder))
async def test_every_order_and_state(
    driver: Driver, jobs: dict[int, Facts], order: JobOrder
) -> None:
    for states in [*STATE_SETS, *((state,) for state in JobState)]:
        expected = _expected(jobs, order, states, lambda _, __: True)
        for limit in (17, 1000):
            assert (
                _ids(await all_pages(driver, order=order, states=states, limit=limit)) == expected
            )


async def test_filters_find_what_they_mean(driver: Driver, jobs: dict[int, Facts]) -> None:
    # A narrow window makes searches stop and go on; a wide one never.
    windows = cycle(((15, 45), (100, 50_000)))
    for (name, (terms, fits)), order, states in product(FILTERS.items(), JobOrder, STATE_SETS):
        limit, window = next(windows)
        rows = await all_pages(
            driver, order=order, states=states, terms=terms, limit=limit, window=window
        )
        expected = _expected(jobs, order, states, fits)
        assert _ids(rows) == expected, (name, order, states, window)


@pytest.mark.long
async def test_filters_in_a_large_table(database_url: str, jobs: dict[int, Facts]) -> None:
    none_few = PostgresLimits(few_jobs=2, few_jobs_of_states=2, few_names=1)
    async with limited(database_url, none_few) as driver:
        for (name, (terms, fits)), order, states in product(FILTERS.items(), JobOrder, STATE_SETS):
            rows = await all_pages(
                driver, order=order, states=states, terms=terms, limit=30, window=50
            )
            expected = _expected(jobs, order, states, fits)
            assert _ids(rows) == expected, (name, order, states)


@pytest.mark.parametrize("order", list(JobOrder))
async def test_before_gives_the_page_that_one_came_from(
    driver: Driver, jobs: dict[int, Facts], order: JobOrder
) -> None:
    by_id = order in (JobOrder.ID, JobOrder.ID_DESC)
    for states in STATE_SETS:
        everything = await all_pages(driver, order=order, states=states, limit=1000)
        at = len(everything) // 2

        def place(row: JobListRow) -> JobCursor:
            return JobCursor(at=None if by_id else row.matters_at, id=row.id, before=True)

        page = await one_page(
            driver, order=order, states=states, limit=5, cursor=place(everything[at])
        )
        assert _ids(page.rows) == _ids(everything[at - 5 : at])
        assert page.more
        page = await one_page(
            driver, order=order, states=states, limit=5, cursor=place(everything[3])
        )
        assert _ids(page.rows) == _ids(everything[:3])
        assert not page.more


async def test_searching_backwards_resumes_backwards(driver: Driver, make: Make) -> None:
    ids = [await make.job("completed", tags=["wanted"] if n == 0 else []) for n in range(30)]
    wanted = _term(Field.TAG, Op.EQ, "wanted")
    cursor: JobCursor | None = JobCursor(at=None, id=ids[-1] + 1, before=True)
    found: list[list[int]] = []
    while cursor is not None:
        page = await one_page(
            driver, order=JobOrder.ID, terms=[wanted], limit=3, window=12, cursor=cursor
        )
        found.append(_ids(page.rows))
        cursor = page.searched.resume if page.searched else None
        assert cursor is None or cursor.before
    assert found == [[], [], [ids[0]]]


async def test_bounded_search_says_how_far_it_went(driver: Driver, make: Make) -> None:
    for minute in range(30):
        at = NOW - timedelta(minutes=minute)
        await make.job("completed", finalized_at=at, tags=["old"] if minute == 25 else [])
    term = _term(Field.TAG, Op.EQ, "old")
    page = await one_page(
        driver,
        states=[JobState.COMPLETED],
        terms=[term],
        order=JobOrder.TIME_DESC,
        limit=5,
        window=10,
    )
    assert page.rows == ()
    assert page.searched is not None
    assert page.searched.rows == 10
    assert page.searched.until == NOW - timedelta(minutes=9)
    assert not page.more


async def test_full_page_is_no_search_however_small_the_window(driver: Driver, make: Make) -> None:
    for _ in range(8):
        await make.job("completed", tags=["t"])
    term = _term(Field.TAG, Op.EQ, "t")
    page = await one_page(driver, terms=[term], limit=5, window=6)
    assert len(page.rows) == 5
    assert page.searched is None
    assert page.more


async def test_cutoff_keeps_out_what_came_later(driver: Driver, make: Make) -> None:
    kept = [await make.job(state.value) for state in JobState]
    async with driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    assert cutoff.id == kept[-1]
    later = cutoff.at + timedelta(seconds=1)
    await make.job("available")
    changed = kept.pop(JobState.__members__.__len__() - 3)
    await make.connection.execute(
        "update river_job set state = 'completed', finalized_at = %s where id = %s",
        [later, changed],
    )
    started = kept.pop(3)
    await make.connection.execute(
        "update river_job set attempted_at = %s where id = %s", [later, started]
    )
    retried = kept.pop(2)
    await make.connection.execute(
        "update river_job set state = 'available', finalized_at = null, scheduled_at = %s where id"
        " = %s",
        [later, retried],
    )
    for order in JobOrder:
        assert sorted(_ids(await all_pages(driver, order=order, cutoff=cutoff, limit=3))) == sorted(
            kept
        )
    async with driver.reading() as executor:
        assert (await executor.jobs.count(JobFilter(), cap=100, cutoff=cutoff)).value == len(kept)


async def test_row_holds_what_a_list_shows(driver: Driver, make: Make) -> None:
    job_id = await make.job(
        "retryable",
        kind="mail",
        queue="q",
        priority=3,
        attempt=2,
        max_attempts=7,
        args={"text": "x" * 1000, "n": 12345678901234567890123},
        tags=["a", "b"],
        errors=[attempt_error(error="first"), attempt_error(attempt=2, error="second\nline two")],
    )
    stored = await make.row(job_id)
    (row,) = (await one_page(driver)).rows
    assert row.id == job_id
    assert row.state is JobState.RETRYABLE
    assert (row.kind, row.queue, row.priority) == ("mail", "q", 3)
    assert (row.attempt, row.max_attempts) == (2, 7)
    assert row.tags == ("a", "b")
    assert row.last_error == "second"
    assert row.args_preview == f'{{"n": 12345678901234567890123, "text": "{"x" * 120}..."}}'
    assert row.created_at == stored["created_at"]
    assert row.created_at.utcoffset() == timedelta(0)
    assert row.matters_at == stored["scheduled_at"]


async def test_last_error_of_any_shape(driver: Driver, make: Make) -> None:
    with cases() as case:
        for errors, shown in (
            (None, None),
            ([], None),
            ([{"attempt": 1}], '{"attempt": 1}'),
            (["plain"], '"plain"'),
            ([None], "null"),
            ([{"error": {"deep": 1}}], '{"deep": 1}'),
            ([{"error": ""}], ""),
            ([{"error": "x" * 1000}], "x" * 300),
        ):
            with case(str(errors)[:40]):
                await make.connection.execute("delete from river_job")
                await make.job("discarded", errors=errors)
                (row,) = (await one_page(driver)).rows
                assert row.last_error == shown


async def test_huge_values_do_not_weigh_on_a_list(driver: Driver, make: Make) -> None:
    noise = random.Random(1).randbytes(400_000).hex()
    await make.job(
        "discarded", args={"blob": noise}, errors=[attempt_error(error=noise)], tags=["t"] * 500
    )
    (row,) = (await one_page(driver)).rows
    assert row.args_preview == "…"
    assert row.last_error == "…"
    assert len(row.tags) == 20


async def test_values_that_no_column_can_hold_match_nothing(driver: Driver, make: Make) -> None:
    job_id = await make.job(errors=[attempt_error()], tags=["t"], attempted_by=["w"])
    with cases() as case:
        for term in (
            _term(Field.KIND, Op.EQ, "a\0b"),
            _term(Field.KIND, Op.LIKE, "*\0*"),
            _term(Field.QUEUE, Op.EQ, "\ud800"),
            _term(Field.TAG, Op.EQ, "\0"),
            _term(Field.WORKER, Op.EQ, "\udfff"),
            _term(Field.ERROR, Op.LIKE, "\0"),
            _term(Field.ARGS, Op.CONTAINS, '{"a": "\0"}'),
            _term(Field.ID, Op.EQ, 2**80),
            _term(Field.PRIORITY, Op.GT, 2**80),
            _term(Field.ATTEMPT, Op.LT, -(2**80)),
        ):
            with case(term):
                for order in JobOrder:
                    assert (await one_page(driver, terms=[term], order=order)).rows == ()
                opposite = Term(field=term.field, op=term.op, values=term.values, negated=True)
                assert _ids((await one_page(driver, terms=[opposite])).rows) == [job_id]
                async with driver.reading() as executor:
                    assert (await executor.jobs.count(JobFilter(terms=(term,)), cap=10)).value == 0


async def test_json_that_the_database_cannot_read_is_a_bad_request(driver: Driver) -> None:
    with cases() as case:
        for text in (
            '{"a": "\\u0000"}',
            '{"a": 1e999999}',
            '{"a":' * 20_000 + "1" + "}" * 20_000,
            "{",
            "NaN",
        ):
            with case(text[:30]), pytest.raises(BadRequest):
                await one_page(driver, terms=[_term(Field.ARGS, Op.CONTAINS, text)])


@pytest.mark.parametrize(
    "term",
    [_term(Field.KIND, Op.GT, "a"), _term(Field.ID, Op.LIKE, 1), _term(Field.ARGS, Op.EQ, "{}")],
)
async def test_comparison_without_meaning_is_a_bad_request(driver: Driver, term: Term) -> None:
    with pytest.raises(BadRequest):
        await one_page(driver, terms=[term])


async def test_cursor_of_another_order_is_a_bad_request(driver: Driver) -> None:
    with pytest.raises(BadRequest):
        await one_page(driver, order=JobOrder.TIME, cursor=JobCursor(at=None, id=1))


async def test_times_beyond_the_calendar(driver: Driver, make: Make) -> None:
    ends = ["-infinity", "4000-01-01 BC", "294000-01-01", "infinity", "infinity"]
    ids = [await make.job("scheduled", scheduled_at=at) for at in ends]
    normal = await make.job("scheduled")
    rows = await all_pages(driver, order=JobOrder.TIME, states=[JobState.SCHEDULED], limit=100)
    assert _ids(rows) == [*ids[:2], normal, *ids[2:]]
    assert rows[-1].scheduled_at == datetime.max.replace(tzinfo=UTC)
    assert rows[0].scheduled_at == datetime.min.replace(tzinfo=UTC)
    # A cursor at infinity moves on.
    tail = await one_page(
        driver,
        order=JobOrder.TIME,
        states=[JobState.SCHEDULED],
        cursor=JobCursor(at=rows[-2].matters_at, id=rows[-2].id),
    )
    assert _ids(tail.rows) == ids[4:]


async def test_many_queues_are_merged_in_order(driver: Driver, make: Make) -> None:
    await make.connection.execute(
        "insert into river_job (kind, args, queue, priority, scheduled_at)"
        " select 'k', '{}', 'q' || n %% 300, 1 + n %% 4, %s::timestamptz"
        " + (n * 7919 %% 5000) * interval '1 second'"
        " from generate_series(1, 3000) n",
        [NOW],
    )
    for order in (JobOrder.TIME, JobOrder.TIME_DESC):
        rows = await all_pages(driver, order=order, states=[JobState.AVAILABLE], limit=500)
        assert len(rows) == 3000
        assert [(r.scheduled_at, r.id) for r in rows] == sorted(
            ((r.scheduled_at, r.id) for r in rows), reverse=order.descending
        )


async def test_empty_filter_values(driver: Driver, make: Make) -> None:
    job_id = await make.job()
    assert (await one_page(driver, terms=[_term(Field.KIND, Op.EQ)])).rows == ()
    assert _ids((await one_page(driver, terms=[_term(Field.KIND, Op.EQ, negated=True)])).rows) == [
        job_id
    ]
    assert (await one_page(driver, terms=[_term(Field.STATE, Op.EQ, "nonsense")])).rows == ()
    cutoff = JobCutoff(id=0, at=NOW)
    assert (await one_page(driver, cutoff=cutoff)).rows == ()


async def test_previews_keep_every_key_of_large_args(driver: Driver, make: Make) -> None:
    # Postgres sorts keys by their length: the long text comes first.
    args = {"body": "é" * 5000, "customer_id": 42, "lines": [{"sku": "a"}] * 50, "order": {"id": 7}}
    await make.job(args=args)
    await make.job(args={f"key_{n:05}": n for n in range(1000)})
    await make.job(args=["x" * 5000])
    whole, many, array = [
        row.args_preview for row in (await one_page(driver, order=JobOrder.ID)).rows
    ]
    found = json.loads(whole)
    assert found.keys() == args.keys()
    assert (found["customer_id"], found["order"]) == (42, {"id": 7})
    assert found["body"] == "é" * 120 + "..."
    assert found["lines"].startswith('[{"sku": "a"')
    assert len(json.loads(many)) == 24
    assert array == f'["{"x" * 298}'


async def test_args_of_any_json(driver: Driver, make: Make) -> None:
    for args in (
        "[]",
        '"text"',
        "null",
        "1.10000000000000000000000000000000001",
        json.dumps("é\u2028<b>"),
    ):
        await make.job(args=args)
    previews = [row.args_preview for row in (await one_page(driver, order=JobOrder.ID)).rows]
    assert previews == [
        "[]",
        '"text"',
        "null",
        "1.10000000000000000000000000000000001",
        '"é\u2028<b>"',
    ]


async def test_values_at_paths_are_read_with_the_rows(driver: Driver, make: Make) -> None:
    first = await make.job(args={"a": {"b": "x" * 300}}, metadata={"list": [{"n": 1}, {"n": 2}]})
    second = await make.job(args={"a": 1, "large": random.Random(1).randbytes(40_000).hex()})
    paths = (
        JsonPath(field=Field.ARGS, keys=("a", "b")),
        JsonPath(field=Field.METADATA, keys=("list", None, "n")),
        JsonPath(field=Field.ARGS, keys=("a",)),
    )
    page = await one_page(driver, paths=paths, order=JobOrder.ID)
    cut = "x" * 200 + "…"
    assert [(row.id, row.values) for row in page.rows] == [
        (first, (cut, "[1, 2]", '{"b": "' + "x" * 193 + "…")),
        (second, ("...", "[]", "...")),
    ]
    assert (await one_page(driver)).rows[0].values == ()
