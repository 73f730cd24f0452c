"""The benchmark itself still runs: every case on a small table, and a report of it."""

from __future__ import annotations

import psycopg

from bench import report
from bench.bulk import measure_bulk
from bench.cases import cases, facts
from bench.figures import back_fill, loads, measure_back_fill, measure_figures
from bench.generate import DEEP, YOUNG, fill, mix
from bench.measure import Subject, measure
from bench.page_times import measure_page_times
from bench.viewers import report as viewers
from bench.viewers.measure import measure_viewers
from riverui.storage.postgres.driver import PostgresDriver
from tests.needs import need

ROWS = 5_000
"""Jobs in the table: the least that has all states."""


async def test_every_case_runs(driver: PostgresDriver, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as filling:
        for shape in (DEEP, YOUNG):
            fill(filling, ROWS, shape)
            counted = filling.execute(
                "select state::text, count(*) from river_job group by state"
            ).fetchall()
            assert dict(counted) == mix(ROWS, shape)
        listed = cases(facts(filling))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as plain:
        results = await measure(
            {ROWS: Subject(driver=driver, plain=plain, cases=listed)}, repeats=1
        )
        assert len(results) == len(listed)
        assert all(result[ROWS].ours.median > 0 for result in results.values())
        assert len(report.queries(results, listed)) == len(listed) + 1
        figures = await measure_bulk(driver, plain, sizes=(50,), repeats=1)
        assert [one.jobs for one in figures] == [50, 50, 50]


async def test_every_page_is_timed(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as filling:
        fill(filling, ROWS)
    times = await measure_page_times(database_url)
    assert {page.name for page in times} >= {"jobs: all", "a failed job", "a queue", "about"}
    assert all(page.python > 0 and page.bytes > 0 for page in times)
    assert len(report.page_times(times)) == len(times) + 1


async def test_figures_are_measured(database_url: str) -> None:
    (load,) = await measure_figures(database_url, rates=(100,), seconds=20)
    assert load.sampled == 1
    assert 0 <= load.process < 1
    with psycopg.connect(database_url, autocommit=True) as filling:
        filling.execute("truncate river_job")
        fill(filling, ROWS)
    filled = await measure_back_fill(database_url)
    assert filled.jobs > 0
    assert len([*loads([load]), back_fill(filled)]) == 2


def test_viewers_are_counted(database_url: str) -> None:
    need("Go")
    with psycopg.connect(database_url, autocommit=True) as filling:
        fill(filling, ROWS)
    found = list(measure_viewers(database_url, crowds=(10, 60), seconds=4, warm=3))
    assert [crowd.viewers for crowd in found] == [10, 60]
    for crowd in found:
        assert set(crowd.statuses) <= {"200", "304"}
        assert crowd.failed == crowd.refused == 0
        assert 0 < crowd.p50 <= crowd.p95 <= crowd.longest
        assert sum(crowd.statuses.values()) >= crowd.viewers
        assert viewers.line(crowd).split()[0] == str(crowd.viewers)
    few, many = found
    # Six times as many, who look at the same ten pages.
    assert 0 < few.transactions < many.transactions * 2 < few.transactions * 4
