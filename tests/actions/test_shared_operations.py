"""Actions on all matching jobs that several dashboards of one database share: each sees them, one
at a time works on them, and none acts twice on a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.actions.job_verbs import CANCEL, DELETE, JOB_VERBS, MOVE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.engine.pilot import Feature, Pilot
from riverui.errors import BadRequest, DatabaseUnavailable, PermissionDenied
from riverui.storage.connect import connect
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.interface.params import Count, Field, JobFilter, JobOrder, Op, Term
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from riverui.web.live.operation_run import Operation, OperationLimits, OperationStatus
from riverui.web.live.operation_store import NewOperation
from riverui.web.live.shared_operations import OperationTimes, SharedOperations, features_of
from riverui.web.search import query
from tests.actions.test_operations import count, fill

RETRYABLE = JobFilter(states=(JobState.RETRYABLE,))
HURRY = OperationLimits(pause=timedelta(0))
SLOW = OperationLimits(pause=timedelta(minutes=10))
"""After the first chunk nothing more happens while the test looks."""
QUICK = OperationTimes(
    term=timedelta(seconds=1),
    renew=timedelta(milliseconds=200),
    look=timedelta(milliseconds=50),
    believe=timedelta(0),
)

Begin = Callable[..., SharedOperations]


@pytest.fixture
async def dashboards(driver: Driver, own_tables: None) -> AsyncIterator[Begin]:
    """Make the operations of one dashboard each time that it is called."""
    made: list[SharedOperations] = []

    def begin(
        through: Any = None,
        *,
        name: str = "",
        config: DashboardConfig | None = None,
        **options: Any,
    ) -> SharedOperations:
        made.append(
            SharedOperations(
                through or driver,
                config or DashboardConfig(),
                name=name or f"dashboard {len(made) + 1}",
                **{"limits": HURRY, "times": QUICK, **options},
            )
        )
        return made[-1]

    yield begin
    for registry in made:
        await registry.close()


async def start(
    registry: SharedOperations,
    driver: Driver,
    verb: JobVerb = RETRY,
    filter: JobFilter = RETRYABLE,
    *,
    id: str = "one",
    order: JobOrder = JobOrder.TIME,
    given: dict[str, Any] | None = None,
) -> Operation:
    async with driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    return await registry.begin(
        NewOperation(
            id=id,
            verb=verb,
            given=given or {},
            filter=filter,
            filter_text=query.format(filter),
            order=order,
            cutoff=cutoff,
            total=Count(value=7),
            user="ada",
        )
    )


async def reach(
    registry: SharedOperations, fits: Callable[[Operation], object], *, id: str = "one"
) -> Operation:
    """Return the operation once it is as wanted, seen from one dashboard."""
    async with asyncio.timeout(30):
        while True:
            found = await registry.find(id)
            if found is not None and fits(found):
                return found
            await asyncio.sleep(0.02)


async def until(fits: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await fits():  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.02)


async def kill(registry: SharedOperations) -> None:
    """End its work without letting go of anything, as kill -9 does."""
    await registry.close(release=False)


async def journal(connection: AsyncConnection[Any]) -> None:
    """Have the database write down each change of a job's state, and each removal."""
    await connection.execute(
        """
        create table journal (id bigint not null);
        create function journal() returns trigger language plpgsql as
        'begin insert into journal values (old.id); return new; end';
        create trigger journal after update or delete on river_job for each row
        execute function journal();
        """
    )


async def acted(connection: AsyncConnection[Any]) -> tuple[int, int]:
    """How many jobs were acted on, and how often on the one with the most."""
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
        """How many of the next commits are kept, though the dashboard is told that they failed."""
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


async def test_one_starts_it_and_the_other_sees_it_to_the_end(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 2_500)
    await fill(connection, 5, "discarded")
    one, other = dashboards(), dashboards()
    started = await start(one, driver)
    await fill(connection, 3, kind="late")
    assert (started.status, started.user, started.holder) == ("running", "ada", "dashboard 1")
    seen = await reach(other, lambda found: found.ended)
    assert (seen.status, seen.changed, seen.skipped) == (OperationStatus.DONE, 2_500, {})
    assert (seen.user, seen.filter, seen.verb, seen.error) == ("ada", RETRYABLE, RETRY, "")
    assert seen.total == Count(value=7)
    assert await count(connection, "available") == 2_500
    assert await count(connection, "retryable") == 3
    listed = await other.page(limit=10)
    assert [operation.id for operation in listed.operations] == ["one"]
    assert listed.older is None


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=() if order is JobOrder.ID else pytest.mark.long)
        for order in JobOrder
    ],
)
async def test_a_killed_one_is_taken_over_and_no_job_is_met_twice(
    order: JobOrder, dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 2_500, "running")
    await fill(connection, 1_500, "scheduled")
    await journal(connection)
    everything = JobFilter(states=(JobState.SCHEDULED, JobState.RUNNING))
    one, other = dashboards(limits=SLOW), dashboards()
    await start(one, driver, CANCEL, everything, order=order)
    before = await reach(other, lambda found: found.seen)
    assert before.seen == 1_000
    await kill(one)
    other.watch()
    after = await reach(other, lambda found: found.ended)
    assert (after.status, after.changed, after.requested) == (OperationStatus.DONE, 1_500, 2_500)
    assert after.holder == "dashboard 2"
    assert await acted(connection) == (4_000, 1)


async def test_one_that_ends_lets_go_at_once(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    lasting = replace(QUICK, term=timedelta(hours=1))
    one, other = dashboards(limits=SLOW, times=lasting), dashboards(times=lasting)
    await start(one, driver)
    await reach(other, lambda found: found.seen)
    await one.close()
    found = await reach(other, lambda found: True)
    assert (found.status, found.waiting, found.ended) == (OperationStatus.RUNNING, True, False)
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert (found.status, found.changed, found.waiting) == (OperationStatus.DONE, 1_500, False)


async def test_one_that_was_held_up_writes_nothing_after_it_was_taken_over(
    dashboards: Begin,
    driver: Driver,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(connection, 5_000)
    await journal(connection)
    gate = Gate(driver)
    pause = OperationLimits(pause=timedelta(milliseconds=300))
    one, other = dashboards(gate, limits=pause), dashboards(limits=SLOW)
    await start(one, driver)
    await reach(other, lambda found: found.seen)
    gate.open.clear()
    other.watch()
    found = await reach(other, lambda found: found.holder == "dashboard 2" and found.seen > 1_000)
    seen = found.seen
    gate.open.set()
    await until(lambda: _holds_nothing(one))
    assert "taken this operation over" in caplog.text
    assert await acted(connection) == (seen, 1)
    assert (await reach(other, lambda found: True)).seen == seen
    await other.close()
    third = dashboards()
    third.watch()
    found = await reach(third, lambda found: found.ended)
    assert (found.status, found.changed, found.holder) == (
        OperationStatus.DONE,
        5_000,
        "dashboard 3",
    )
    assert await acted(connection) == (5_000, 1)


async def _holds_nothing(registry: SharedOperations) -> bool:
    return not registry.held


async def test_a_commit_whose_answer_was_lost_is_not_done_again(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 3_500, "running")
    await journal(connection)
    gate = Gate(driver)
    one = dashboards(gate, limits=OperationLimits(pause=timedelta(milliseconds=300)))
    await start(one, driver, CANCEL, JobFilter(states=(JobState.RUNNING,)))
    await reach(one, lambda found: found.seen)
    gate.lose = 2
    found = await reach(one, lambda found: found.ended)
    assert gate.lose == 0
    assert (found.status, found.requested) == (OperationStatus.DONE, 3_500)
    assert await acted(connection) == (3_500, 1)


@pytest.mark.long
async def test_connections_that_are_cut_cost_no_job_twice(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    """The server cuts them five times, in the midst of a chunk or of its commit."""
    await fill(connection, 2_000, "running")
    await fill(connection, 1_000, "scheduled")
    await journal(connection)
    everything = JobFilter(states=(JobState.SCHEDULED, JobState.RUNNING))
    quick = OperationLimits(pause=timedelta(milliseconds=20))
    one, other = dashboards(limits=quick), dashboards(limits=quick)
    await start(one, driver, CANCEL, everything)
    other.watch()
    cut = 0

    async def ended() -> bool:
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

    await until(ended)
    found = await reach(other, lambda found: True)
    assert cut
    assert (found.changed, found.requested) == (1_000, 2_000)
    assert await acted(connection) == (3_000, 1)


@pytest.mark.long
async def test_behind_pgbouncer(
    dashboards: Begin, bouncer_url: str, connection: AsyncConnection[Any]
) -> None:
    """In transaction mode, with fewer server connections than the dashboards ask for."""
    await fill(connection, 2_500)
    await journal(connection)
    through = [connect(bouncer_url), connect(bouncer_url)]
    one, other = dashboards(through[0], limits=SLOW), dashboards(through[1])
    await start(one, through[0])
    await reach(other, lambda found: found.seen)
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert (found.status, found.changed) == (OperationStatus.DONE, 2_500)
    assert await acted(connection) == (2_500, 1)
    await other.close()
    for driver in through:
        await driver.close()


async def test_any_dashboard_can_stop_it(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 2_500)
    one, other = dashboards(limits=replace(SLOW, pause=timedelta(seconds=1))), dashboards()
    operation = await start(one, driver)
    await reach(other, lambda found: found.seen)
    stopping = await other.halt(operation, user="eve")
    assert stopping.status is OperationStatus.STOPPING
    found = await reach(other, lambda found: found.ended)
    assert (found.status, found.changed, found.stopped_by) == (
        OperationStatus.STOPPED,
        1_000,
        "eve",
    )
    again = await one.halt(found, user="bob")
    assert (again.status, again.stopped_by) == (OperationStatus.STOPPED, "eve")


async def test_one_that_was_to_stop_is_only_ended_by_who_takes_it_over(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 2_500)
    one, other = dashboards(limits=SLOW), dashboards()
    operation = await start(one, driver)
    await reach(other, lambda found: found.seen)
    await kill(one)
    await other.halt(operation, user="eve")
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert (found.status, found.changed) == (OperationStatus.STOPPED, 1_000)


async def test_sent_twice_it_starts_once_and_few_run_at_a_time(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    one, other = dashboards(limits=SLOW), dashboards(limits=SLOW)
    await asyncio.gather(*(start(registry, driver) for registry in (one, other, one, other)))
    await start(one, driver, id="two")
    await start(other, driver, id="three")
    with pytest.raises(BadRequest, match="wait for one, or stop one"):
        await start(other, driver, id="too many")
    listed = await one.page(limit=2)
    assert [operation.id for operation in listed.operations] == ["three", "two"]
    rest = await one.page(limit=2, before=listed.older)
    assert [operation.id for operation in rest.operations] == ["one"]
    assert one.held | other.held == {"one", "two", "three"}
    assert not one.held & other.held


async def test_what_is_skipped_is_told_wherever_it_went_on(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_030, "running")
    one, other = dashboards(limits=SLOW), dashboards()
    await start(one, driver, DELETE, JobFilter(states=(JobState.RUNNING,)))
    await reach(other, lambda found: found.seen)
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert found.skipped == {SkipReason.RUNNING: 1_030}
    assert len(found.skipped_samples[SkipReason.RUNNING]) == 10


async def test_a_search_without_an_index_goes_on_where_it_was(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 6_000)
    await journal(connection)
    config = DashboardConfig(search_window=1_100)
    even = Term(field=Field.TAG, op=Op.EQ, values=("even",))
    one, other = dashboards(limits=SLOW, config=config), dashboards(config=config)
    await start(one, driver, DELETE, replace(RETRYABLE, terms=(even,)))
    await reach(other, lambda found: found.seen)
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert (found.status, found.changed) == (OperationStatus.DONE, 3_000)
    assert await acted(connection) == (3_000, 1)


async def test_parameters_go_along(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_200)
    one, other = dashboards(limits=SLOW), dashboards()
    await start(one, driver, MOVE, given={"queue": "slow", "priority": 3})
    await reach(other, lambda found: found.seen)
    await kill(one)
    other.watch()
    found = await reach(other, lambda found: found.ended)
    assert (found.given, found.changed) == ({"queue": "slow", "priority": 3}, 1_200)
    rows = await connection.execute(
        "select count(*) as n from river_job where queue = 'slow' and priority = 3"
    )
    row = await rows.fetchone()
    assert row is not None
    assert row["n"] == 1_200


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("query = ''", ""),
        ("query = 'state:retryable flavour:sweet'", "query cannot be read"),
        ("query = 'state:retryable kind:'", "query cannot be read"),
        ("""parameters = '{"queue": "No Queue"}', verb = 'move', allowed = 'jobs.move'""", "queue"),
        ("allowed = 'jobs.read'", "right 'jobs.read'"),
    ],
)
async def test_what_cannot_be_understood_is_not_gone_on_with(
    change: str,
    told: str,
    dashboards: Begin,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    await fill(connection, 1_200)
    one, other = dashboards(limits=SLOW), dashboards()
    await start(one, driver)
    await reach(other, lambda found: found.seen)
    await kill(one)
    await connection.execute(f"update riverui_operation set {change}".encode())
    other.watch()
    found = await reach(other, lambda found: found.ended)
    if told:
        assert (found.status, found.changed) == (OperationStatus.FAILED, 1_000)
        assert told in found.error
    else:
        # Every job: that is what the row says.
        assert (found.status, found.changed) == (OperationStatus.DONE, 1_200)


async def test_a_verb_of_another_version_is_left_to_it(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 10)
    one = dashboards()
    await start(one, driver)
    await reach(one, lambda found: found.ended)
    await connection.execute(
        "update riverui_operation set verb = 'explode', status = 'running', ended_at = null"
    )
    one.watch()
    await start(one, driver, id="two")
    await reach(one, lambda found: found.ended, id="two")
    assert [operation.id for operation in (await one.page(limit=9)).operations] == ["two"]
    assert await one.find("one") is None
    assert "explode" not in JOB_VERBS


async def test_a_dashboard_that_may_change_nothing_takes_nothing_over(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    one = dashboards(limits=SLOW)
    reader = dashboards(config=DashboardConfig(read_only=True))
    other = dashboards(name="plain")
    await start(one, driver)
    await reach(reader, lambda found: found.seen)
    await one.close()
    reader.watch()
    other.watch()
    found = await reach(reader, lambda found: found.ended)
    assert found.holder == "plain"


class Careful(Feature):
    """Takes part in retries."""

    async def retry(self, executor: Any, ids: Any, do_inner: Any) -> Any:
        return await do_inner(ids)


def test_which_features_take_part_is_known() -> None:
    assert features_of(plain_pilot()) == ""
    assert features_of(Pilot([])) == ""
    assert features_of(Pilot([Feature()])) == ""
    assert features_of(Pilot([Feature(), Careful()])) == "Feature,Careful"


async def test_features_go_on_with_what_features_began(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 1_500)
    careful = Pilot([Careful()])
    one = dashboards(limits=SLOW, pilot=careful)
    plain = dashboards(name="plain", pilot=plain_pilot())
    await start(one, driver)
    await reach(plain, lambda found: found.seen)
    await one.close()
    plain.watch()
    await start(plain, driver, id="two")
    await reach(plain, lambda found: found.ended, id="two")
    same = dashboards(name="same", pilot=careful)
    same.watch()
    assert (await reach(same, lambda found: found.ended)).holder == "same"


async def test_old_ones_are_forgotten(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    one = dashboards(times=replace(QUICK, forgotten=2))
    for number in range(6):
        await start(one, driver, id=str(number))
        await reach(one, lambda found: found.ended, id=str(number))
    await connection.execute(
        "update riverui_operation set ended_at = now() - interval '30 d 1 min' where id < '5'"
    )
    one.watch()
    await until(lambda: _left(one, ["5"]))


async def _left(registry: SharedOperations, ids: list[str]) -> bool:
    return [operation.id for operation in (await registry.page(limit=9)).operations] == ids


async def test_an_error_is_written_down(
    dashboards: Begin, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await fill(connection, 10)
    await connection.execute(
        "create function no() returns trigger language plpgsql as"
        " 'begin raise exception using errcode = ''42501'', message = ''no''; end'"
    )
    await connection.execute(
        "create trigger no before update on river_job for each row execute function no()"
    )
    one, other = dashboards(), dashboards()
    await start(one, driver)
    found = await reach(other, lambda found: found.ended)
    assert found.status is OperationStatus.FAILED
    assert found.error == f"{PermissionDenied.__doc__} (no)"


async def test_the_table_may_be_taken_away_meanwhile(
    dashboards: Begin,
    driver: Driver,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(connection, 3_000)
    one = dashboards(limits=OperationLimits(pause=timedelta(milliseconds=300)))
    await start(one, driver)
    await reach(one, lambda found: found.seen)
    await migrate(driver, "down", line="riverui", target_version=-1)
    await until(lambda: _holds_nothing(one))
    assert "waits for the database" in caplog.text
    assert await count(connection, "available") < 3_000
    assert not await one.ready()


async def test_without_the_table_it_is_not_ready_until_it_is_made(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = connect(database_url)
    registry = SharedOperations(
        driver, DashboardConfig(), name="one", times=QUICK, pilot=plain_pilot()
    )
    assert not await registry.ready()
    await migrate(driver, "up", line="riverui")
    assert await registry.ready()
    await migrate(driver, "down", line="riverui", target_version=-1)
    assert not await registry.ready()
    await registry.close()
    assert not caplog.records
    await driver.close()
