"""Durable periodic jobs: their next run survives the leader, and users change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.lead.maintenance.periodic_job_enqueuer import PeriodicJobEnqueuer
from riverui.engine.lead.periodic import (
    CronSchedule,
    PeriodicInterval,
    PeriodicJob,
    PeriodicJobs,
)
from riverui.errors import ConfigError
from riverui.features.durable_periodic.domain import DurablePeriodicRow, PeriodicChange
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.durable_periodic.engine.plan import DurablePlan
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.engine.conftest import Playground
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.maintenance.test_periodic_enqueuer import Losing
from tests.engine.ticking import Ticking, eventually

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
Leader = Callable[..., PeriodicJobEnqueuer]


@dataclass
class Report:
    kind: ClassVar[str] = "report"
    name: str = ""


pytestmark = pytest.mark.usefixtures("own_tables")


@pytest.fixture
def jobs() -> PeriodicJobs:
    return PeriodicJobs()


@pytest.fixture
def leader(
    driver: Driver, service_parts: NewServiceParts, clock: Ticking, jobs: PeriodicJobs
) -> Leader:
    """Make the service of a client that begins to lead; every one has the same jobs."""

    def make(inserting: Any = None, **settings: Any) -> PeriodicJobEnqueuer:
        parts = service_parts()
        client = Client(driver, parts.config, clock=clock.now)
        config = DurablePeriodicJobsConfig(enabled=True, **settings)
        insert = client.insert_requests if inserting is None else inserting(client).insert
        return PeriodicJobEnqueuer(
            parts.context,
            jobs,
            prepare=client.prepare_insert,
            insert_requests=insert,
            next_runs=DurablePlan(config, parts.context),
        )

    return make


def every(minutes: float, id: str | None = "hourly", **opts: Any) -> PeriodicJob:
    schedule = PeriodicInterval(timedelta(minutes=minutes))
    return PeriodicJob(schedule, lambda: Report(id or ""), id=id, **opts)


@dataclass
class Plan:
    """Durable periodic jobs and their runs."""

    leader: Leader
    jobs: PeriodicJobs
    clock: Ticking
    driver: Driver
    connection: AsyncConnection[Any]

    async def inserted(self) -> list[datetime]:
        """Return the planned times of the jobs, in the order of their ids."""
        rows = await self.connection.execute("select scheduled_at from river_job order by id")
        return [row["scheduled_at"] for row in await rows.fetchall()]

    async def row(self, id: str = "hourly") -> DurablePeriodicRow:
        """Return what is stored of a periodic job."""
        async with self.driver.reading() as executor:
            (row,) = await DurablePeriodicStore(executor).durable_periodic_list(ids=[id], limit=1)
        return row

    async def change(
        self, what: PeriodicChange, id: str = "hourly", **given: str
    ) -> DurablePeriodicRow | None:
        """Change a periodic job as a user does in the dashboard."""
        async with self.driver.transaction() as transaction:
            storage = DurablePeriodicStore(transaction)
            return await storage.durable_periodic_change(id, what, user="ada", **given)


@pytest.fixture
def plan(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> Plan:
    return Plan(leader, jobs, clock, driver, connection)


async def test_the_next_run_outlives_its_leader(plan: Plan) -> None:
    plan.jobs.add(every(60))
    plan.jobs.add(every(60, None))
    began = plan.clock.now()
    assert await plan.leader().run_once() == 0
    assert (await plan.row()).next_run_at == began + HOUR
    for minutes in (25, 50):
        plan.clock.advance(25 * 60)
        assert await plan.leader().run_once() == 0, minutes
    plan.clock.advance(25 * 60)
    # The one without an id begins anew with every leader, and never comes.
    assert await plan.leader().run_once() == 1
    assert await plan.inserted() == [began + HOUR]
    row = await plan.row()
    assert row.next_run_at == began + 2 * HOUR
    assert row.program_schedule == "@every 1h"


async def test_missed_runs_are_made_up_for_one_by_one(plan: Plan) -> None:
    plan.jobs.add(every(60))
    began = plan.clock.now()
    await plan.leader().run_once()
    plan.clock.advance(3.5 * 3600)
    assert await plan.leader().run_once() == 3
    assert await plan.inserted() == [began + hours * HOUR for hours in (1, 2, 3)]


async def test_a_ratchet_makes_one_of_many_missed_runs(plan: Plan) -> None:
    plan.jobs.add(every(1))
    await plan.leader().run_once()
    plan.clock.advance(3600)
    now = plan.clock.now()
    assert await plan.leader(next_run_at_ratchet=lambda at, now: max(at, now)).run_once() == 1
    assert await plan.inserted() == [now]

    def fails(at: datetime, now: datetime) -> datetime:
        raise RuntimeError("no")

    plan.clock.advance(180)
    assert await plan.leader(next_run_at_ratchet=fails).run_once() == 3
    # It never moves a run back.
    back = plan.leader(next_run_at_ratchet=lambda at, now: at - HOUR)
    plan.clock.advance(60)
    assert await back.run_once() == 1


async def test_a_changed_schedule_takes_effect_after_the_stored_run(plan: Plan) -> None:
    plan.jobs.add(every(600))
    began = plan.clock.now()
    await plan.leader().run_once()
    plan.jobs.clear()
    plan.jobs.add(every(60))
    plan.jobs.add(every(60, "hourly_v2"))
    enqueuer = plan.leader()
    plan.clock.advance(61 * 60)
    await enqueuer.run_once()
    assert (await plan.row()).next_run_at == began + 10 * HOUR
    plan.clock.advance(9 * 3600)
    await enqueuer.run_once()
    assert (await plan.row()).next_run_at == began + 11 * HOUR
    assert (await plan.inserted()).count(began + 10 * HOUR) == 1


async def test_run_on_start_comes_besides(plan: Plan) -> None:
    plan.jobs.add(every(60, run_on_start=True))
    began = plan.clock.now()
    assert await plan.leader().run_once() == 1
    plan.clock.advance(60)
    assert await plan.leader().run_once() == 1
    assert (await plan.row()).next_run_at == began + HOUR


async def test_a_backlog_at_the_start_is_spread(plan: Plan) -> None:
    for number in range(20):
        plan.jobs.add(every(1, f"job_{number}"))
    await plan.leader().run_once()
    plan.clock.advance(180)
    now = plan.clock.now()
    enqueuer = plan.leader(start_stagger_threshold=20, start_stagger_spread=timedelta(seconds=40))
    assert await enqueuer.run_once() <= 2
    for _ in range(40):
        plan.clock.advance(1)
        await enqueuer.run_once()
    found = await plan.inserted()
    assert len(found) == 20
    assert len(set(found)) > 10
    assert all(now <= at <= now + timedelta(seconds=40) for at in found)
    # Below the threshold they come at once, with all that was missed.
    plan.clock.advance(180)
    assert await plan.leader(start_stagger_threshold=21).run_once() >= 20


async def test_jobs_without_a_leader_are_deleted(plan: Plan) -> None:
    for name in ("gone", "paused", "old", "kept"):
        plan.jobs.add(every(60, name))
    await plan.leader().run_once()
    await plan.change(PeriodicChange.PAUSE, "paused")
    await plan.change(PeriodicChange.PAUSE, "old")
    for name, days in (("gone", 2), ("paused", 2), ("old", 40)):
        await plan.connection.execute(
            "update riverui_periodic_job set updated_at = now() - make_interval(days => %s)"
            " where id = %s",
            [days, name],
        )
    plan.jobs.clear()
    plan.jobs.add(every(60, "kept"))
    await plan.leader().run_once()
    rows = await plan.connection.execute(
        "select id, next_run_at from riverui_periodic_job order by id"
    )
    found = {row["id"]: row["next_run_at"] for row in await rows.fetchall()}
    assert found.keys() == {"kept", "paused"}
    assert found["paused"] is None


async def test_an_expired_row_does_not_revive(plan: Plan) -> None:
    """River 0.50: a new leader enqueued every missed run of a row that had expired."""
    plan.jobs.add(every(60))
    await plan.leader().run_once()
    await plan.connection.execute(
        "update riverui_periodic_job set updated_at = now() - interval '25 hours'"
    )
    plan.clock.advance(25 * 3600)
    assert await plan.leader().run_once() == 0
    assert (await plan.row()).next_run_at == plan.clock.now() + HOUR


@pytest.mark.parametrize("committed", [True, False])
async def test_a_lost_answer_makes_no_run_twice_and_loses_none(committed: bool, plan: Plan) -> None:
    plan.jobs.add(every(60))
    began = plan.clock.now()
    await plan.leader().run_once()
    plan.clock.advance(3601)
    enqueuer = plan.leader(lambda client: Losing(client, committed=committed))
    round_ = asyncio.create_task(enqueuer.run_once())
    await eventually(lambda: plan.clock.sleeping)
    plan.clock.advance(2)
    assert await round_ == 1
    await enqueuer.run_once()
    assert await plan.inserted() == [began + HOUR]
    # The next leader continues from the same rows.
    assert await plan.leader().run_once() == 0


async def test_two_leaders_for_a_moment_make_each_run_once(plan: Plan) -> None:
    plan.jobs.add(every(60))
    plan.jobs.add(every(30, "often"))
    began = plan.clock.now()
    old, new = plan.leader(), plan.leader()
    await asyncio.gather(old.run_once(), new.run_once())
    for _ in range(12):
        plan.clock.advance(15 * 60)
        await asyncio.gather(old.run_once(), new.run_once())
    found = await plan.inserted()
    expected = [began + n * 30 * MINUTE for n in range(1, 7)]
    expected += [began + n * HOUR for n in range(1, 4)]
    assert sorted(found) == sorted(expected)


async def test_pause_and_resume(plan: Plan) -> None:
    plan.jobs.add(every(60))
    enqueuer = plan.leader()
    await enqueuer.run_once()
    row = await plan.change(PeriodicChange.PAUSE)
    assert row is not None
    assert row.paused_at is not None
    assert row.changed_by == "ada"
    for _ in range(3):
        plan.clock.advance(3600)
        assert await enqueuer.run_once() == 0
        assert await plan.leader().run_once() == 0
    await plan.change(PeriodicChange.RESUME)
    resumed = plan.clock.now()
    # Missed runs are not made up for.
    assert await enqueuer.run_once() == 0
    assert (await plan.row()).next_run_at == resumed + HOUR
    plan.clock.advance(3600)
    assert await enqueuer.run_once() == 1
    assert await plan.inserted() == [resumed + HOUR]


async def test_another_schedule(plan: Plan) -> None:
    plan.jobs.add(every(600))
    enqueuer = plan.leader()
    await enqueuer.run_once()
    await plan.change(PeriodicChange.SCHEDULE, schedule="*/5 * * * *")
    now = plan.clock.now()
    await enqueuer.run_once()
    row = await plan.row()
    assert row.next_run_at == CronSchedule("*/5 * * * *").next(now)
    assert (row.schedule, row.program_schedule) == ("*/5 * * * *", "@every 10h")
    plan.clock.advance(300)
    assert await enqueuer.run_once() == 1
    # The next leader continues with it; programs need not know.
    plan.clock.advance(300)
    assert await plan.leader().run_once() == 1
    await plan.change(PeriodicChange.SCHEDULE, schedule="")
    back = plan.clock.now()
    await enqueuer.run_once()
    assert (await plan.row()).next_run_at == back + 10 * HOUR


async def test_an_unreadable_schedule_leaves_the_programs(plan: Plan) -> None:
    plan.jobs.add(every(60))
    enqueuer = plan.leader()
    await enqueuer.run_once()
    await plan.change(PeriodicChange.SCHEDULE, schedule="whenever")
    await enqueuer.run_once()
    assert (await plan.row()).next_run_at == plan.clock.now() + HOUR


async def test_run_now(plan: Plan) -> None:
    plan.jobs.add(every(60))
    began = plan.clock.now()
    enqueuer, other = plan.leader(), plan.leader()
    await enqueuer.run_once()
    await other.run_once()
    await plan.change(PeriodicChange.PAUSE)
    await plan.change(PeriodicChange.RUN)
    plan.clock.advance(60)
    await asyncio.gather(enqueuer.run_once(), other.run_once())
    await enqueuer.run_once()
    assert await plan.inserted() == [plan.clock.now()]
    row = await plan.row()
    assert (row.run_requested_at, row.next_run_at) == (None, began + HOUR)
    await plan.change(PeriodicChange.RUN)
    assert await enqueuer.run_once() == 1


async def test_a_time_without_a_job_is_kept_too(plan: Plan) -> None:
    schedule = PeriodicInterval(HOUR)
    made: list[Report | None] = [Report("1"), None, None]
    plan.jobs.add(PeriodicJob(schedule, lambda: made.pop(0), id="hourly"))
    began = plan.clock.now()
    enqueuer = plan.leader()
    await enqueuer.run_once()
    plan.clock.advance(3 * 3600)
    assert await enqueuer.run_once() == 1
    assert (await plan.row()).next_run_at == began + 4 * HOUR


async def test_without_the_table_others_go_on(plan: Plan) -> None:
    plan.jobs.add(every(60))
    plan.jobs.add(every(60, None))
    await migrate(plan.driver, "down", line="riverui", target_version=-1)
    enqueuer = plan.leader()
    await enqueuer.run_once()
    plan.clock.advance(3600)
    assert await enqueuer.run_once() == 1
    await migrate(plan.driver, "up", line="riverui")
    await enqueuer.run_once()
    assert (await plan.row()).next_run_at == plan.clock.now() + HOUR


async def test_a_client_that_asks_for_them_without_their_table_does_not_start(
    play: Playground, driver: Driver
) -> None:
    await migrate(driver, "down", line="riverui", target_version=-1)
    message = "durable_periodic_jobs needs the tables of riverui: run `riverui migrate"
    with pytest.raises(ConfigError, match=message):
        await play.start(durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True))


async def test_a_real_leader_keeps_them_and_heeds_changes_within_seconds(
    play: Playground, plan: Plan
) -> None:
    await play.start(
        leader_election_disabled=False,
        skip_unknown_job_check=True,
        periodic_jobs=[every(600)],
        durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True),
    )

    async def kept() -> bool:
        return bool(await play.rows("select id from riverui_periodic_job"))

    await play.until(kept)
    begun = datetime.now(UTC)
    await plan.change(PeriodicChange.RUN)

    async def run() -> bool:
        return bool(await play.rows("select id from river_job where kind = 'report'"))

    await play.until(run)
    assert datetime.now(UTC) - begun < timedelta(seconds=8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stale_threshold": timedelta(0)}, "stale_threshold must be at least a minute"),
        ({"stale_threshold": 5}, "stale_threshold must be a timedelta"),
        ({"start_stagger_spread": -MINUTE}, "start_stagger_spread must not be negative"),
        ({"start_stagger_threshold": -1}, "start_stagger_threshold must be a whole number"),
        ({"next_run_at_ratchet": 5}, "next_run_at_ratchet must be a function"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DurablePeriodicJobsConfig(**given)


def test_off_unless_asked_for() -> None:
    assert ClientConfig().durable_periodic_jobs is None
    assert not DurablePeriodicJobsConfig().enabled
    with pytest.raises(ConfigError, match="durable_periodic_jobs must be a Durable"):
        ClientConfig(durable_periodic_jobs=True)  # type: ignore[arg-type]
