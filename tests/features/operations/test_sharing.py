"""Operations that several dashboards of one database share: each sees them, one at a time works on
them, and none acts twice on a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from psycopg import AsyncConnection

from riverui.actions.job_verbs import CANCEL, DELETE, MOVE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.engine.pilot import Feature, Pilot
from riverui.errors import DatabaseUnavailable
from riverui.features.operations.runner import Operations
from riverui.features.operations.store import SAMPLES, OperationStatus
from riverui.storage.connect import connect
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.interface.params import Field, JobFilter, JobOrder, Op, Term
from riverui.web.config import DashboardConfig
from tests.features.operations.conftest import Begin
from tests.operations import RETRYABLE, count, ended, fill, idle, reach, start

Connection = AsyncConnection[Any]
DONE = OperationStatus.DONE
SLOW = {"pause": timedelta(minutes=10)}
"""After the first chunk nothing more happens while the test looks."""
STEADY = {"pause": timedelta(milliseconds=300)}
"""Slow enough to meet it between two chunks."""
RUNNING = JobFilter(states=(JobState.RUNNING,))
EVEN = replace(RETRYABLE, terms=(Term(field=Field.TAG, op=Op.EQ, values=("even",)),))


async def until(fits: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await fits():  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.02)


async def kill(operations: Operations) -> None:
    """End its work without releasing anything, as kill -9 does."""
    await operations.close(release=False)


async def journal(connection: Connection) -> None:
    """Have the database write down each change of a job, and each removal."""
    await connection.execute(
        """
        create table journal (id bigint not null);
        create function journal() returns trigger language plpgsql as
        'begin insert into journal values (old.id); return new; end';
        create trigger journal after update or delete on river_job for each row
        execute function journal();
        """
    )


async def acted(connection: Connection) -> tuple[int, int]:
    """Return how many jobs were acted on, and how often on the one with the most."""
    found = await connection.execute(
        "select count(*) as jobs, coalesce(max(n), 0) as most"
        " from (select count(*) as n from journal group by id) as each"
    )
    row = await found.fetchone()
    assert row is not None
    return row["jobs"], row["most"]


class Gate:
    """A driver that lets its dashboard write only while it is open, and can lose what was sent."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.capabilities = driver.capabilities
        self.read_only = ""
        self.open = asyncio.Event()
        self.open.set()
        self.lose = 0
        """How many of the next commits are kept, though the dashboard sees them fail."""
        self.reading = driver.reading

    @asynccontextmanager
    async def transaction(self, **limits: Any) -> AsyncIterator[Transaction]:
        await self.open.wait()
        async with self._driver.transaction(**limits) as transaction:
            yield transaction
        if self.lose:
            self.lose -= 1
            raise DatabaseUnavailable

    @asynccontextmanager
    async def autocommit(self, **limits: Any) -> AsyncIterator[Executor]:
        await self.open.wait()
        async with self._driver.autocommit(**limits) as executor:
            yield executor


async def test_one_starts_it_and_the_other_stops_it(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 2_500)
    one, other = dashboards(limits={"pause": timedelta(seconds=1)}), dashboards()
    operation = await start(one, driver)
    seen = await reach(other, lambda found: found.processed)
    assert (seen.verb, seen.user, seen.holder) == ("retry", "ada", "dashboard 1")
    assert (await other.stop(operation, user="eve")).status is OperationStatus.STOPPING
    found = await reach(other, lambda found: found.ended_at)
    assert (found.status, found.changed, found.stopped_by) == ("stopped", 1_000, "eve")


@pytest.mark.parametrize(
    ("verb", "matching", "given", "jobs", "changed", "requested", "skipped"),
    [
        (CANCEL, JobFilter(states=(JobState.SCHEDULED, JobState.RUNNING)), {}, 4_000, 0, 4_000, 0),
        (DELETE, RUNNING, {}, 1_030, 0, 0, 1_030),
        (DELETE, EVEN, {}, 6_000, 3_000, 0, 0),
        (MOVE, RETRYABLE, {"queue": "slow", "priority": 3}, 1_200, 1_200, 0, 0),
    ],
    ids=["requests", "skips", "without an index", "parameters"],
)
async def test_a_killed_one_is_taken_over_and_no_job_is_met_twice(
    verb: JobVerb,
    matching: JobFilter,
    given: dict[str, Any],
    jobs: int,
    changed: int,
    requested: int,
    skipped: int,
    dashboards: Begin,
    driver: Driver,
    connection: Connection,
) -> None:
    state = "running" if JobState.RUNNING in matching.states else "retryable"
    await fill(connection, jobs, state)
    await journal(connection)
    config = DashboardConfig(search_window=1_100)
    one, other = dashboards(limits=SLOW, config=config), dashboards(config=config)
    await start(one, driver, verb, matching, order=JobOrder.ID, parameters=given)
    before = await reach(other, lambda found: found.processed)
    assert before.processed < jobs
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended_at)
    assert (found.status, found.holder, found.parameters) == (DONE, "dashboard 2", given)
    assert (found.changed, found.requested) == (changed, requested)
    assert await acted(connection) == (changed + requested, 1 if changed + requested else 0)
    number, ids = found.skipped.get(SkipReason.RUNNING, (0, ()))
    assert (number, len(ids)) == (skipped, min(skipped, SAMPLES))


async def test_one_that_ends_lets_go_at_once(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 1_500)
    lasting = {"term": timedelta(hours=1)}
    one, other = dashboards(limits=SLOW | lasting), dashboards(limits=lasting)
    await start(one, driver)
    await reach(other, lambda found: found.processed)
    await one.close()
    found = await reach(other, lambda found: True)
    # The other may have seen that already.
    assert found.waiting or found.holder == "dashboard 2"
    assert (found.status, found.ended_at) == ("running", None)
    other.watch()
    found = await reach(other, lambda found: found.ended_at)
    assert (found.status, found.changed, found.waiting) == (DONE, 1_500, False)


async def test_one_that_was_held_up_writes_nothing_after_it_was_taken_over(
    dashboards: Begin, driver: Driver, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(connection, 5_000)
    await journal(connection)
    gate = Gate(driver)
    one, other = dashboards(gate, limits=STEADY), dashboards(limits=SLOW)
    await start(one, driver)
    await reach(other, lambda found: found.processed)
    gate.open.clear()
    other.watch()
    found = await reach(
        other, lambda found: found.holder == "dashboard 2" and found.processed > 1_000
    )
    gate.open.set()
    await idle(one)
    assert "taken this operation over" in caplog.text
    assert await acted(connection) == (found.processed, 1)
    assert (await reach(other, lambda found: True)).processed == found.processed
    await other.close()
    third = dashboards()
    third.watch()
    found = await reach(third, lambda found: found.ended_at)
    assert (found.status, found.changed, found.holder) == (DONE, 5_000, "dashboard 3")
    assert await acted(connection) == (5_000, 1)


async def test_a_commit_whose_answer_was_lost_is_not_done_again(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    await fill(connection, 3_500, "running")
    await journal(connection)
    gate = Gate(driver)
    one = dashboards(gate, limits=STEADY)
    await start(one, driver, CANCEL, RUNNING)
    await reach(one, lambda found: found.processed)
    gate.lose = 2
    found = await ended(one)
    assert gate.lose == 0
    assert (found.status, found.requested) == (DONE, 3_500)
    assert await acted(connection) == (3_500, 1)


@pytest.mark.long
async def test_connections_that_are_cut_cost_no_job_twice(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    """The server cuts them five times, in the midst of a chunk or of its commit."""
    await fill(connection, 3_000, "running")
    await journal(connection)
    quick = {"pause": timedelta(milliseconds=20)}
    one, other = dashboards(limits=quick), dashboards(limits=quick)
    await start(one, driver, CANCEL, RUNNING)
    other.watch()
    cut = 0

    async def done() -> bool:
        nonlocal cut
        if cut < 5:
            rows = await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'riverui'"
                " and state <> 'idle' and random() < 0.5"
            )
            cut += len(await rows.fetchall())
        rows = await connection.execute("select status from riverui_operation")
        row = await rows.fetchone()
        return row is not None and row["status"] == "done"

    await until(done)
    found = await reach(other, lambda found: True)
    assert cut
    assert found.requested == 3_000
    assert await acted(connection) == (3_000, 1)


@pytest.mark.long
async def test_behind_pgbouncer(
    dashboards: Begin, bouncer_url: str, connection: Connection
) -> None:
    """In transaction mode, with fewer server connections than the dashboards ask for."""
    await fill(connection, 2_500)
    await journal(connection)
    through = [connect(bouncer_url), connect(bouncer_url)]
    one, other = dashboards(through[0], limits=SLOW), dashboards(through[1])
    await start(one, through[0])
    await reach(other, lambda found: found.processed)
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended_at)
    assert (found.status, found.changed) == (DONE, 2_500)
    assert await acted(connection) == (2_500, 1)
    await other.close()
    for driver in through:
        await driver.close()


@pytest.mark.parametrize(
    ("change", "status", "changed", "error"),
    [
        # Every job: that is what the row says.
        ("query = ''", "done", 1_200, ""),
        ("query = 'state:retryable flavour:sweet'", "failed", 1_000, "query cannot be read"),
        ("query = 'state:retryable kind:'", "failed", 1_000, "query cannot be read"),
        (
            """parameters = '{"queue": "No Queue"}', verb = 'move', allowed = 'jobs.move'""",
            "failed",
            1_000,
            "queue",
        ),
        ("allowed = 'jobs.read'", "failed", 1_000, "right 'jobs.read'"),
        ("status = 'stopping'", "stopped", 1_000, ""),
    ],
)
async def test_a_row_is_checked_before_it_is_continued(
    change: str,
    status: str,
    changed: int,
    error: str,
    dashboards: Begin,
    driver: Driver,
    connection: Connection,
) -> None:
    await fill(connection, 1_200)
    one, other = dashboards(limits=SLOW), dashboards()
    await start(one, driver)
    await reach(other, lambda found: found.processed)
    await kill(one)
    await connection.execute(f"update riverui_operation set {change}".encode())
    other.watch()
    found = await reach(other, lambda found: found.ended_at)
    assert (found.status, found.changed) == (status, changed)
    assert error in found.error


class Careful(Feature):
    """Takes part in retries."""

    async def retry(self, executor: Any, ids: Any, do_inner: Any) -> Any:
        return await do_inner(ids)


async def test_only_a_dashboard_that_may_and_has_the_same_features_takes_it_over(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    careful = Pilot([Feature(), Careful()])
    assert careful.verb_features == "Feature,Careful"
    assert Pilot([Feature()]).verb_features == ""
    await fill(connection, 1_500)
    one = dashboards(limits=SLOW, pilot=careful)
    reader = dashboards(config=DashboardConfig(read_only=True), pilot=careful)
    plain = dashboards()
    await start(one, driver)
    await reach(reader, lambda found: found.processed)
    await one.close()
    reader.watch()
    plain.watch()
    await start(plain, driver, id="two")
    await ended(plain, "two")
    same = dashboards(name="same", pilot=careful)
    same.watch()
    assert (await reach(same, lambda found: found.ended_at)).holder == "same"


async def test_a_verb_of_another_version_is_left_to_it_and_old_ones_are_deleted(
    dashboards: Begin, driver: Driver, connection: Connection
) -> None:
    one = dashboards(limits={"forget": timedelta(0), "forgotten": 2})
    for number in range(6):
        await start(one, driver, id=str(number))
        await ended(one, str(number))
    await connection.execute(
        "update riverui_operation set ended_at = now() - interval '30 d 1 min' where id < '4'"
    )
    await connection.execute(
        "update riverui_operation set verb = 'explode', status = 'running', ended_at = null"
        " where id = '4'"
    )

    async def one_is_left() -> bool:
        return [found.id for found in await one.list(limit=9)] == ["5"]

    await until(one_is_left)
    assert await one.get("4") is None


async def test_the_table_may_come_and_go(
    dashboards: Begin, driver: Driver, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(connection, 3_000)
    one = dashboards(limits=STEADY)
    await start(one, driver)
    await reach(one, lambda found: found.processed)
    await connection.execute("alter table riverui_operation rename to elsewhere")
    await idle(one)
    assert "waits for the database" in caplog.text
    assert await count(connection, "available") < 3_000
    assert not await one.shared()
    await start(one, driver, RETRY, id="alone")
    await connection.execute("alter table elsewhere rename to riverui_operation")
    assert await one.shared()
    # What was started without the table is still found, and ends here.
    assert (await ended(one, "alone")).status is DONE
    assert [found.id for found in await one.list(limit=9)] == ["one"]
