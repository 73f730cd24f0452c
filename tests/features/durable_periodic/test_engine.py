"""Durable periodic jobs: their next run outlives the leader, and people change them."""

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
            durable=DurablePlan(config, parts.context),
        )

    return make


def every(minutes: float, id: str | None = "hourly", **opts: Any) -> PeriodicJob:
    schedule = PeriodicInterval(timedelta(minutes=minutes))
    return PeriodicJob(schedule, lambda: Report(id or ""), id=id, **opts)


async def inserted(connection: AsyncConnection[Any]) -> list[datetime]:
    """Return the planned times of the jobs, in the order of their ids."""
    rows = await connection.execute("select scheduled_at from river_job order by id")
    return [row["scheduled_at"] for row in await rows.fetchall()]


async def row_of(driver: Driver, id: str = "hourly") -> DurablePeriodicRow:
    async with driver.reading() as executor:
        (row,) = await DurablePeriodicStore(executor).durable_periodic_list(ids=[id], limit=1)
    return row


async def change(
    driver: Driver, what: PeriodicChange, id: str = "hourly", **given: str
) -> DurablePeriodicRow | None:
    async with driver.transaction() as transaction:
        storage = DurablePeriodicStore(transaction)
        return await storage.durable_periodic_change(id, what, user="ada", **given)


async def test_the_next_run_outlives_its_leader(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(60))
    jobs.add(every(60, None))
    began = clock.now()
    assert await leader().run_once() == 0
    assert (await row_of(driver)).next_run_at == began + HOUR
    for minutes in (25, 50):
        clock.advance(25 * 60)
        assert await leader().run_once() == 0, minutes
    clock.advance(25 * 60)
    # The one without an id begins anew with every leader, and never comes.
    assert await leader().run_once() == 1
    assert await inserted(connection) == [began + HOUR]
    row = await row_of(driver)
    assert row.next_run_at == began + 2 * HOUR
    assert row.program_schedule == "@every 1h"


async def test_missed_runs_are_made_up_for_one_by_one(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    jobs.add(every(60))
    began = clock.now()
    await leader().run_once()
    clock.advance(3.5 * 3600)
    assert await leader().run_once() == 3
    assert await inserted(connection) == [began + hours * HOUR for hours in (1, 2, 3)]


async def test_a_ratchet_makes_one_of_many_missed_runs(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    jobs.add(every(1))
    await leader().run_once()
    clock.advance(3600)
    now = clock.now()
    assert await leader(next_run_at_ratchet=lambda at, now: max(at, now)).run_once() == 1
    assert await inserted(connection) == [now]

    def fails(at: datetime, now: datetime) -> datetime:
        raise RuntimeError("no")

    clock.advance(180)
    assert await leader(next_run_at_ratchet=fails).run_once() == 3
    # It never moves a run back.
    back = leader(next_run_at_ratchet=lambda at, now: at - HOUR)
    clock.advance(60)
    assert await back.run_once() == 1


async def test_a_changed_schedule_takes_effect_after_the_stored_run(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(600))
    began = clock.now()
    await leader().run_once()
    jobs.clear()
    jobs.add(every(60))
    jobs.add(every(60, "hourly_v2"))
    enqueuer = leader()
    clock.advance(61 * 60)
    await enqueuer.run_once()
    assert (await row_of(driver)).next_run_at == began + 10 * HOUR
    clock.advance(9 * 3600)
    await enqueuer.run_once()
    assert (await row_of(driver)).next_run_at == began + 11 * HOUR
    assert (await inserted(connection)).count(began + 10 * HOUR) == 1


async def test_run_on_start_comes_besides(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, driver: Driver
) -> None:
    jobs.add(every(60, run_on_start=True))
    began = clock.now()
    assert await leader().run_once() == 1
    clock.advance(60)
    assert await leader().run_once() == 1
    assert (await row_of(driver)).next_run_at == began + HOUR


async def test_a_backlog_at_the_start_is_spread(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    for number in range(20):
        jobs.add(every(1, f"job_{number}"))
    await leader().run_once()
    clock.advance(180)
    now = clock.now()
    enqueuer = leader(start_stagger_threshold=20, start_stagger_spread=timedelta(seconds=40))
    assert await enqueuer.run_once() <= 2
    for _ in range(40):
        clock.advance(1)
        await enqueuer.run_once()
    found = await inserted(connection)
    assert len(found) == 20
    assert len(set(found)) > 10
    assert all(now <= at <= now + timedelta(seconds=40) for at in found)
    # Below the threshold they come at once, with all that was missed.
    clock.advance(180)
    assert await leader(start_stagger_threshold=21).run_once() >= 20


async def test_what_nobody_knows_any_more_is_forgotten(
    leader: Leader, jobs: PeriodicJobs, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for name in ("gone", "paused", "old", "kept"):
        jobs.add(every(60, name))
    await leader().run_once()
    await change(driver, PeriodicChange.PAUSE, "paused")
    await change(driver, PeriodicChange.PAUSE, "old")
    for name, days in (("gone", 2), ("paused", 2), ("old", 40)):
        await connection.execute(
            "update riverui_periodic_job set updated_at = now() - make_interval(days => %s)"
            " where id = %s",
            [days, name],
        )
    jobs.clear()
    jobs.add(every(60, "kept"))
    await leader().run_once()
    rows = await connection.execute("select id, next_run_at from riverui_periodic_job order by id")
    found = {row["id"]: row["next_run_at"] for row in await rows.fetchall()}
    assert found.keys() == {"kept", "paused"}
    assert found["paused"] is None


async def test_an_expired_row_does_not_revive(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    """River 0.50: a new leader enqueued every missed run of a row that had expired."""
    jobs.add(every(60))
    await leader().run_once()
    await connection.execute(
        "update riverui_periodic_job set updated_at = now() - interval '25 hours'"
    )
    clock.advance(25 * 3600)
    assert await leader().run_once() == 0
    assert (await row_of(driver)).next_run_at == clock.now() + HOUR


@pytest.mark.parametrize("committed", [True, False])
async def test_a_lost_answer_makes_no_run_twice_and_loses_none(
    committed: bool,
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(60))
    began = clock.now()
    await leader().run_once()
    clock.advance(3601)
    enqueuer = leader(lambda client: Losing(client, committed=committed))
    round_ = asyncio.create_task(enqueuer.run_once())
    await eventually(lambda: clock.sleeping)
    clock.advance(2)
    assert await round_ == 1
    await enqueuer.run_once()
    assert await inserted(connection) == [began + HOUR]
    # Whoever leads next has the same to go on from.
    assert await leader().run_once() == 0


async def test_two_leaders_for_a_moment_make_each_run_once(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, connection: AsyncConnection[Any]
) -> None:
    jobs.add(every(60))
    jobs.add(every(30, "often"))
    began = clock.now()
    old, new = leader(), leader()
    await asyncio.gather(old.run_once(), new.run_once())
    for _ in range(12):
        clock.advance(15 * 60)
        await asyncio.gather(old.run_once(), new.run_once())
    found = await inserted(connection)
    expected = [began + n * 30 * MINUTE for n in range(1, 7)]
    expected += [began + n * HOUR for n in range(1, 4)]
    assert sorted(found) == sorted(expected)


async def test_pause_and_resume(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(60))
    enqueuer = leader()
    await enqueuer.run_once()
    row = await change(driver, PeriodicChange.PAUSE)
    assert row is not None
    assert row.paused_at is not None
    assert row.changed_by == "ada"
    for _ in range(3):
        clock.advance(3600)
        assert await enqueuer.run_once() == 0
        assert await leader().run_once() == 0
    await change(driver, PeriodicChange.RESUME)
    resumed = clock.now()
    # What was missed is not made up for.
    assert await enqueuer.run_once() == 0
    assert (await row_of(driver)).next_run_at == resumed + HOUR
    clock.advance(3600)
    assert await enqueuer.run_once() == 1
    assert await inserted(connection) == [resumed + HOUR]


async def test_another_schedule(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(600))
    enqueuer = leader()
    await enqueuer.run_once()
    await change(driver, PeriodicChange.SCHEDULE, schedule="*/5 * * * *")
    now = clock.now()
    await enqueuer.run_once()
    row = await row_of(driver)
    assert row.next_run_at == CronSchedule("*/5 * * * *").next(now)
    assert (row.schedule, row.program_schedule) == ("*/5 * * * *", "@every 10h")
    clock.advance(300)
    assert await enqueuer.run_once() == 1
    # The next leader goes on with it, and nobody's program has to know.
    clock.advance(300)
    assert await leader().run_once() == 1
    await change(driver, PeriodicChange.SCHEDULE, schedule="")
    back = clock.now()
    await enqueuer.run_once()
    assert (await row_of(driver)).next_run_at == back + 10 * HOUR


async def test_a_schedule_that_nobody_can_read_leaves_the_programs(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, driver: Driver
) -> None:
    jobs.add(every(60))
    enqueuer = leader()
    await enqueuer.run_once()
    await change(driver, PeriodicChange.SCHEDULE, schedule="whenever")
    await enqueuer.run_once()
    assert (await row_of(driver)).next_run_at == clock.now() + HOUR


async def test_run_now(
    leader: Leader,
    jobs: PeriodicJobs,
    clock: Ticking,
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    jobs.add(every(60))
    began = clock.now()
    enqueuer, other = leader(), leader()
    await enqueuer.run_once()
    await other.run_once()
    await change(driver, PeriodicChange.PAUSE)
    await change(driver, PeriodicChange.RUN)
    clock.advance(60)
    await asyncio.gather(enqueuer.run_once(), other.run_once())
    await enqueuer.run_once()
    assert await inserted(connection) == [clock.now()]
    row = await row_of(driver)
    assert (row.run_requested_at, row.next_run_at) == (None, began + HOUR)
    await change(driver, PeriodicChange.RUN)
    assert await enqueuer.run_once() == 1


async def test_a_time_without_a_job_is_kept_too(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, driver: Driver
) -> None:
    schedule = PeriodicInterval(HOUR)
    made: list[Report | None] = [Report("1"), None, None]
    jobs.add(PeriodicJob(schedule, lambda: made.pop(0), id="hourly"))
    began = clock.now()
    enqueuer = leader()
    await enqueuer.run_once()
    clock.advance(3 * 3600)
    assert await enqueuer.run_once() == 1
    assert (await row_of(driver)).next_run_at == began + 4 * HOUR


async def test_without_the_table_others_go_on(
    leader: Leader, jobs: PeriodicJobs, clock: Ticking, driver: Driver
) -> None:
    jobs.add(every(60))
    jobs.add(every(60, None))
    await migrate(driver, "down", line="riverui", target_version=-1)
    enqueuer = leader()
    await enqueuer.run_once()
    clock.advance(3600)
    assert await enqueuer.run_once() == 1
    await migrate(driver, "up", line="riverui")
    await enqueuer.run_once()
    assert (await row_of(driver)).next_run_at == clock.now() + HOUR


async def test_a_client_that_asks_for_them_without_their_table_does_not_start(
    play: Playground, driver: Driver
) -> None:
    await migrate(driver, "down", line="riverui", target_version=-1)
    told = "durable_periodic_jobs needs migration 014 of the line riverui: run `riverui migrate"
    with pytest.raises(ConfigError, match=told):
        await play.start(durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True))


async def test_a_real_leader_keeps_them_and_heeds_changes_within_seconds(
    play: Playground, driver: Driver
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
    await change(driver, PeriodicChange.RUN)

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
    assert not ClientConfig().durable_periodic_jobs.enabled
    with pytest.raises(ConfigError, match="durable_periodic_jobs must be a Durable"):
        ClientConfig(durable_periodic_jobs=True)  # type: ignore[arg-type]
