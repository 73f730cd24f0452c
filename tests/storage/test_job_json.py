"""Jobs in the JSON that Postgres writes are those that Python would have written, to the byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from riverui.domain.jobs import JobState
from riverui.storage.interface.params import (
    EVERY,
    Field,
    JobCursor,
    JobFilter,
    JobJsonPage,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.storage.postgres.driver import PostgresDriver
from riverui.web.api.job_models import Job, JobMinimal
from tests.cases import cases
from tests.factory import Make
from tests.odd_rows import insert_odd_rows
from tests.scale import scaled

ARGS = 100_000
"""Bytes up to which args are written: as many as the API takes of each job."""
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
NAMES = TEXTS.filter(lambda text: 0 < len(text) < 128)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ODD_TIMES = ("-infinity", "infinity", "0044-03-15 00:00+00 BC", "10000-01-01 00:00+00")
AT = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
COLUMNS = st.fixed_dictionaries(
    {
        "args": st.dictionaries(TEXTS, JSON, max_size=3) | JSON,
        "kind": NAMES,
        "queue": NAMES,
        "created_at": st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ODD_TIMES),
        "scheduled_at": st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ODD_TIMES),
        "finalized_at": st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ODD_TIMES),
        "attempted_at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "attempted_by": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "tags": st.lists(TEXTS, max_size=3),
        "priority": st.integers(1, 4),
        "attempt": st.integers(0, 9),
    }
)

ERRORS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.just("2026-11-21T09:00:00.5Z") | TEXTS,
            "attempt": st.integers(0, 99),
            "error": TEXTS,
            "trace": TEXTS,
        }
    )
    | st.fixed_dictionaries(
        {}, optional={"at": JSON, "attempt": JSON, "error": JSON, "trace": JSON, "more": JSON}
    )
    | JSON,
    max_size=3,
)


async def _job(driver: PostgresDriver, job_id: int) -> str | None:
    """Return the job in JSON, once it was compared with that of Python."""
    async with driver.reading() as executor:
        job = await executor.jobs.json_get(job_id)
        row = await executor.jobs.text_get(job_id)
    if job is not None:
        assert row is not None
        assert job == msgspec.json.encode(Job.of_text(row)).decode()
    return job


async def _page(driver: PostgresDriver, params: JobPageParams) -> JobJsonPage | None:
    """Return the page in JSON, once it was compared with that of Python."""
    async with driver.reading() as executor:
        page = await executor.jobs.json_list(params, args=ARGS)
        texts = await executor.jobs.text_list(params, args=ARGS)
    if page is not None:
        written = msgspec.json.encode([JobMinimal.from_row(row) for row in texts.rows]).decode()
        assert f"[{page.jobs}]" == written
        last = texts.rows[-1] if texts.more else None
        assert (page.last.id if page.last else None) == (last.id if last else None)
        if last is not None and page.last is not None and page.last.at is not None:
            assert page.last.at == last.matters_at
    return page


def _params(state: JobState = JobState.COMPLETED, *terms: Term, **more: Any) -> JobPageParams:
    return JobPageParams(
        **{
            "filter": JobFilter(states=(state,), terms=terms),
            "order": JobOrder.TIME_DESC,
            "window": EVERY,
            **more,
        }
    )


@settings(
    max_examples=scaled(60, 150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(COLUMNS, min_size=1, max_size=3))
async def test_whatever_a_row_holds(
    driver: PostgresDriver, make: Make, rows: list[dict[str, Any]]
) -> None:
    await make.connection.execute("delete from river_job")
    for row in rows:
        await make.job("completed", **{**row, "args": json.dumps(row["args"])})
    page = await _page(driver, _params())
    plain = not any(value in ODD_TIMES for row in rows for value in map(str, row.values())) and all(
        None not in (row["attempted_by"] or ()) for row in rows
    )
    assert (page is not None) == plain


@settings(
    max_examples=scaled(60, 150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(COLUMNS, ERRORS, JSON)
async def test_whatever_one_job_holds(
    driver: PostgresDriver, make: Make, row: dict[str, Any], errors: list[Any], metadata: Any
) -> None:
    await make.connection.execute("delete from river_job")
    job_id = await make.job("completed", **{**row, "args": json.dumps(row["args"])})
    await make.connection.execute(
        "update river_job set errors = %s::text[]::jsonb[], metadata = %s::jsonb",
        [[json.dumps(error) for error in errors], json.dumps(metadata)],
    )
    page, job = await _page(driver, _params()), await _job(driver, job_id)
    fields = {"at": str, "attempt": int, "error": str, "trace": str}
    as_river_writes_them = all(
        isinstance(error, dict)
        and all(type(error.get(name)) is kind for name, kind in fields.items())
        and 0 <= error["attempt"] < 10**9
        for error in errors
    )
    assert (job is not None) == (page is not None and as_river_writes_them)


async def test_large_jobs_are_left_to_the_other_way(driver: PostgresDriver, make: Make) -> None:
    error = {"at": "2026-11-21T09:00:00Z", "attempt": 1, "error": "x" * 600_000, "trace": ""}
    job_id = await make.job("discarded", errors=[error])
    assert await _job(driver, job_id) is not None
    assert await _job(driver, await make.job("discarded", errors=[error] * 2)) is None
    assert (
        await _job(driver, await make.job("discarded", errors=[{**error, "error": ""}] * 101))
        is None
    )
    random = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(20_000))
    assert await _job(driver, await make.job(metadata={"m": random})) is None
    assert await _job(driver, await make.job(args={"a": random})) is None
    assert await _job(driver, -1) is None
    assert await _job(driver, 2**63) is None


async def test_what_go_and_javascript_escape(driver: PostgresDriver, make: Make) -> None:
    odd = "<a href='&'>\u2028\u2029\x7f\x1f\b\f\n\r\t\"\\/é𝄞"
    job_id = await make.job(
        "completed",
        kind=odd,
        queue=odd,
        tags=[odd, "a,b"],
        args={odd: [1.10, 1e300]},
        errors=[{"at": odd, "attempt": 1, "error": odd, "trace": odd}],
    )
    assert await _page(driver, _params()) is not None
    assert await _job(driver, job_id) is not None


@pytest.mark.parametrize(
    ("fraction", "written"), [(0, "09:00:00Z"), (500_000, "09:00:00.5Z"), (1, "09:00:00.000001Z")]
)
async def test_times_are_in_gos_form(
    driver: PostgresDriver, make: Make, fraction: int, written: str
) -> None:
    name = make.connection.info.dbname
    await make.connection.execute(f"alter database {name} set timezone = 'Asia/Tokyo'".encode())
    await make.job("completed", finalized_at=AT.replace(microsecond=fraction))
    page = await _page(driver, _params())
    assert page is not None
    assert f'"finalized_at":"2026-11-21T{written}"' in page.jobs


async def test_odd_rows_are_left_to_the_other_way(driver: PostgresDriver, make: Make) -> None:
    order = {JobState.COMPLETED: JobOrder.TIME_DESC, JobState.RUNNING: JobOrder.TIME}
    # One of each way to read a page.
    states = (*order, JobState.AVAILABLE)
    await insert_odd_rows(make.connection, states)
    found = []
    for state in states:
        for row in await make.rows(f"select id from river_job where state = '{state.value}'"):
            one = Term(field=Field.ID, op=Op.EQ, values=(row["id"],))
            params = _params(state, one, order=order.get(state, JobOrder.ID), limit=1)
            found.append(await _page(driver, params))
            await _job(driver, row["id"])
    assert None in found
    assert any(found)


async def test_pages(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for limit in (1, 2, 3, 4, 1000):
            for state, order in (
                (JobState.COMPLETED, JobOrder.TIME_DESC),
                (JobState.AVAILABLE, JobOrder.ID),
                (JobState.AVAILABLE, JobOrder.TIME),
                (JobState.RUNNING, JobOrder.TIME),
                (JobState.SCHEDULED, JobOrder.ID),
            ):
                with case((limit, state, order)):
                    await make.connection.execute("delete from river_job")
                    made = [
                        await make.job(state.value, tags=["even"] if n % 2 else [])
                        for n in range(6)
                    ]
                    even = Term(field=Field.TAG, op=Op.EQ, values=("even",))
                    for terms, expected in ((), made), ((even,), made[1::2]):
                        cursor: JobCursor | None = None
                        ids: list[int] = []
                        while True:
                            params = _params(state, *terms, order=order, limit=limit, cursor=cursor)
                            page = await _page(driver, params)
                            assert page is not None
                            ids += [row["id"] for row in msgspec.json.decode(f"[{page.jobs}]")]
                            cursor = page.last
                            if cursor is None:
                                break
                        assert sorted(ids) == expected


@pytest.mark.long
async def test_many_jobs_by_id(driver: PostgresDriver, make: Make) -> None:
    # Spread thinly over more jobs than are read first, then many at once.
    thin, many = 35_000, 6_000
    await make.connection.execute(
        "insert into river_job (state, kind, args, priority, max_attempts, finalized_at)"
        " select case when thin then 'completed' else 'available' end::river_job_state, 'bulk',"
        " '{}', 1 + n %% 4, 25, case when thin then now() end"
        " from generate_series(1, %s) n, lateral (select n %% 50 <> 0 and n <= %s as thin) t",
        [thin + many, thin],
    )
    rows = await make.rows("select id, priority from river_job where state = 'available'")
    made = sorted((row["id"], row["priority"]) for row in rows)
    ids, odd = (
        [job_id for job_id, _ in made],
        [job_id for job_id, priority in made if priority == 3],
    )
    third = Term(field=Field.PRIORITY, op=Op.EQ, values=(3,))
    fourth = Term(field=Field.PRIORITY, op=Op.EQ, values=(4,))
    with cases() as case:
        for order, terms, limit, expected in (
            # Among the first jobs, or further away.
            (JobOrder.ID, (), 30, ids),
            (JobOrder.ID, (), 500, ids),
            (JobOrder.ID_DESC, (), 600, ids[::-1]),
            (JobOrder.ID_DESC, (third,), 1300, odd[::-1]),
            # Not among those either.
            (JobOrder.ID, (), 700, ids),
            (JobOrder.ID, (third,), 400, odd),
            (JobOrder.ID, (fourth,), 100, [job_id for job_id, priority in made if priority == 4]),
        ):
            with case((order, terms, limit)):
                params = _params(JobState.AVAILABLE, *terms, order=order, limit=limit)
                page = await _page(driver, params)
                assert page is not None
                written = [row["id"] for row in msgspec.json.decode(f"[{page.jobs}]")]
                assert written == expected[:limit]


async def test_filters_reach_to_the_end(driver: PostgresDriver, make: Make) -> None:
    with cases() as case:
        for term in (
            Term(field=Field.KIND, op=Op.EQ, values=("rare", "none")),
            Term(field=Field.QUEUE, op=Op.EQ, values=("rare",)),
            Term(field=Field.TAG, op=Op.EQ, values=("rare", "none")),
            Term(field=Field.PRIORITY, op=Op.EQ, values=(4,)),
            Term(field=Field.TAG, op=Op.EQ, values=("common",), negated=True),
        ):
            for state in ("completed", "available", "running"):
                with case((term, state)):
                    await make.connection.execute("delete from river_job")
                    at = AT - timedelta(days=1)
                    ended = {"finalized_at": at} if state == "completed" else {}
                    rare = await make.job(
                        state, kind="rare", queue="rare", tags=["rare"], priority=4, **ended
                    )
                    for _ in range(5):
                        await make.job(state, tags=["common"])
                    order = {"completed": JobOrder.TIME_DESC, "running": JobOrder.TIME}.get(
                        state, JobOrder.ID
                    )
                    page = await _page(driver, _params(JobState(state), term, order=order, limit=2))
                    assert page is not None
                    assert [row["id"] for row in msgspec.json.decode(f"[{page.jobs}]")] == [rare]


async def test_searches_by_steps_are_not_written(driver: PostgresDriver, make: Make) -> None:
    await make.job("completed")
    term = Term(field=Field.PRIORITY, op=Op.EQ, values=(1,))
    assert await _page(driver, _params(JobState.COMPLETED, term, window=5)) is None
    assert await _page(driver, _params(JobState.COMPLETED, window=5)) is not None


async def test_a_state_from_the_future(driver: PostgresDriver, make: Make) -> None:
    await make.connection.execute("alter type river_job_state add value 'paused'")
    assert await _job(driver, await make.job("paused")) is None
    params = JobPageParams(order=JobOrder.ID)
    assert await _page(driver, params) is None
