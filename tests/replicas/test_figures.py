"""Two dashboards of one database keep its figures: told once, and the same after one is killed."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.replicas.processes import replica, wait_for

MINUTES = range(8, 48)
"""How long ago the jobs ended: in the last hour, and longer than rows take to settle."""

_TOLD = """
select sum(completed) filter (where queue = '' and kind = '') as whole,
  sum(completed) filter (where queue <> '' and kind = '') as queues,
  sum(completed) filter (where kind <> '') as kinds,
  sum(run_sum_us) filter (where queue = '' and kind = '') as run,
  count(*) filter (where queue = '' and kind = '') as minutes
from riverui_rollup
where step = 60
"""


@pytest.fixture
async def jobs(connection: AsyncConnection[Any], database_url: str) -> int:
    """Make jobs that ended in these minutes, each after a second; return how many."""
    driver = connect(database_url)
    await migrate(driver, "up", line="riverui")
    await driver.close()
    made = await connection.execute(
        "insert into river_job (kind, args, queue, state, max_attempts, attempt, scheduled_at,"
        " attempted_at, finalized_at)"
        " select 'kind_' || n %% 7, '{}', 'queue_' || n %% 3, 'completed', 25, 1, ended, ended,"
        " ended + interval '1 s'"
        " from unnest(%s::int[]) m (minutes)"
        " cross join generate_series(1, 50) n"
        " cross join lateral (select date_trunc('minute', now()) - m.minutes * interval '1 min'"
        "   + n * interval '1 s' as ended) e",
        [list(MINUTES)],
    )
    return made.rowcount


async def test_figures_are_told_once_by_two_and_survive_a_kill(
    database_url: str, connection: AsyncConnection[Any], jobs: int
) -> None:
    async def told() -> dict[str, Any]:
        found = await connection.execute(_TOLD)
        row: dict[str, Any] | None = await found.fetchone()
        assert row is not None
        return row

    async def all_told() -> dict[str, Any] | None:
        row = await told()
        return row if row["whole"] is not None and row["whole"] >= jobs else None

    async with replica(database_url) as first, replica(database_url) as second:
        row = await wait_for(all_told, seconds=60)
        assert (row["whole"], row["queues"], row["kinds"]) == (jobs, jobs, jobs)
        assert row["run"] == jobs * 1_000_000
        await first.stop(signal.SIGKILL)
        await second.stop(signal.SIGKILL)
    async with replica(database_url):
        row = await told()
        assert (row["whole"], row["kinds"]) == (jobs, jobs)
    found = await connection.execute(
        "select sum(completed) as n from riverui_rollup"
        " where step = 600 and queue = '' and kind = ''"
    )
    tens = await found.fetchone()
    assert tens is not None
    assert 0 < tens["n"] <= jobs
