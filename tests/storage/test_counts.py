"""Counts: exact up to a cap, honest beyond it."""

from __future__ import annotations

from riverui.domain.jobs import JobState
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, CountKind, Field, JobFilter, Op, Term
from riverui.storage.postgres.limits import PostgresLimits
from tests.cases import cases
from tests.factory import Make
from tests.storage.conftest import limited


async def _fill(make: Make, state: str, count: int) -> None:
    finalized = "now()" if state in ("cancelled", "completed", "discarded") else "null"
    await make.connection.execute(
        "insert into river_job (kind, args, state, finalized_at, tags) select 'k' || n % 3,"
        f" jsonb_build_object('n', n % 10), '{state}', {finalized}, array['t' || n % 2] from"
        f" generate_series(1, {count}) n".encode()
    )


async def test_by_state(driver: Driver, make: Make) -> None:
    for n, state in enumerate(JobState):
        await _fill(make, state.value, n)
    async with driver.reading() as executor:
        counts = await executor.jobs.count_by_state(cap=5)
    assert counts == {
        state: Count(value=n) if n <= 5 else Count(value=5, kind=CountKind.AT_LEAST)
        for n, state in enumerate(JobState)
    }


async def test_completed_beyond_the_cap_comes_from_statistics(driver: Driver, make: Make) -> None:
    await _fill(make, "completed", 4000)
    await _fill(make, "discarded", 1000)
    async with driver.reading() as executor:
        before = await executor.jobs.count_by_state(cap=100)
    assert before[JobState.COMPLETED] == Count(value=100, kind=CountKind.AT_LEAST)
    await make.connection.execute("analyze river_job")
    async with driver.reading() as executor:
        counts = await executor.jobs.count_by_state(cap=100)
    completed = counts[JobState.COMPLETED]
    assert completed.kind is CountKind.ESTIMATED
    assert 3900 <= completed.value <= 4100
    assert counts[JobState.DISCARDED] == Count(value=100, kind=CountKind.AT_LEAST)
    # The table grows: the estimate grows with its size, before the next ANALYZE.
    await make.connection.execute("alter table river_job set (autovacuum_enabled = off)")
    await _fill(make, "completed", 8000)
    async with driver.reading() as executor:
        grown = (await executor.jobs.count_by_state(cap=100))[JobState.COMPLETED]
    assert 6000 <= grown.value <= 13_000


async def test_exact(driver: Driver, make: Make) -> None:
    await _fill(make, "completed", 321)
    async with driver.reading() as executor:
        assert await executor.jobs.count_exact(JobState.COMPLETED) == Count(value=321)
        assert await executor.jobs.count_exact(JobState.RUNNING) == Count(value=0)


KIND = Term(field=Field.KIND, op=Op.EQ, values=("k1",))
TAG = Term(field=Field.TAG, op=Op.EQ, values=("t1",))
ARGS = Term(field=Field.ARGS, op=Op.CONTAINS, values=('{"n": 3}',))


async def test_of_a_filter(driver: Driver, make: Make) -> None:
    await _fill(make, "completed", 60)
    await _fill(make, "available", 30)
    with cases() as case:
        for chosen, expected in (
            (JobFilter(), 90),
            (JobFilter(states=(JobState.COMPLETED,)), 60),
            (JobFilter(states=(JobState.COMPLETED, JobState.AVAILABLE, JobState.COMPLETED)), 90),
            (JobFilter(terms=(KIND,)), 30),
            (JobFilter(states=(JobState.AVAILABLE,), terms=(TAG,)), 15),
            (JobFilter(terms=(ARGS,)), 9),
            (JobFilter(terms=(TAG, KIND)), 15),
            (JobFilter(states=(JobState.RUNNING,)), 0),
        ):
            with case(chosen):
                async with driver.reading() as executor:
                    assert await executor.jobs.count(chosen, cap=expected) == Count(value=expected)
                    assert await executor.jobs.count(chosen, cap=1000) == Count(value=expected)
                    if expected:
                        capped = await executor.jobs.count(chosen, cap=expected - 1)
                        assert capped == Count(value=expected - 1, kind=CountKind.AT_LEAST)


async def test_that_ended_in_a_window(database_url: str, make: Make) -> None:
    await _fill(make, "completed", 200)
    async with (
        limited(database_url, PostgresLimits(count_rows=50)) as driver,
        driver.reading() as executor,
    ):
        count = await executor.jobs.count(
            JobFilter(states=(JobState.COMPLETED,), terms=(TAG,)), cap=45
        )
    assert count.kind is CountKind.AT_LEAST
    assert 1 <= count.value <= 45
