"""Periodic jobs are planned in each term, and inserted when they are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection

from riverui.engine.client import Client
from riverui.engine.hooks import Hook, Middleware
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.engine.lead.elector import LeaderTerm
from riverui.engine.lead.maintenance.periodic_job_enqueuer import PeriodicJobEnqueuer
from riverui.engine.lead.periodic import (
    CronSchedule,
    NeverSchedule,
    PeriodicInterval,
    PeriodicJob,
    PeriodicJobs,
)
from riverui.errors import DatabaseUnavailable
from riverui.storage.interface import Driver, Executor
from tests.engine.maintenance.conftest import NewServiceParts
from tests.engine.ticking import Ticking, eventually, settled

MINUTE = timedelta(minutes=1)
New = Callable[..., PeriodicJobEnqueuer]


@dataclass
class Report:
    kind: ClassVar[str] = "report"
    name: str = "daily"


def every(seconds: float, made: Any = None, **opts: Any) -> PeriodicJob:
    """Return a job that comes at this interval."""
    made = made or Report()
    return PeriodicJob(PeriodicInterval(timedelta(seconds=seconds)), lambda: made, **opts)


@dataclass
class Bench:
    """A leader's periodic jobs, and the jobs that were inserted."""

    new: New
    """Makes the service of a client with these settings."""
    jobs: PeriodicJobs
    clock: Ticking
    connection: AsyncConnection[Any]

    async def rows(self) -> list[dict[str, Any]]:
        """Return the jobs that were inserted."""
        found = await self.connection.execute("select * from river_job order by id")
        return [dict(row) for row in await found.fetchall()]

    async def kinds(self) -> list[str]:
        """Return the names of the reports that were inserted."""
        return [row["args"]["name"] for row in await self.rows()]


@pytest.fixture
def bench(new: New, jobs: PeriodicJobs, clock: Ticking, connection: AsyncConnection[Any]) -> Bench:
    return Bench(new, jobs, clock, connection)


@pytest.fixture
def jobs() -> PeriodicJobs:
    return PeriodicJobs()


@pytest.fixture
def new(driver: Driver, service_parts: NewServiceParts, clock: Ticking, jobs: PeriodicJobs) -> New:
    """Make the service of a client with these settings."""

    def make(**settings: Any) -> PeriodicJobEnqueuer:
        parts = service_parts(**settings)
        client = Client(driver, parts.config, clock=clock.now)
        return PeriodicJobEnqueuer(
            parts.context,
            jobs,
            prepare=client.prepare_insert,
            insert_requests=client.insert_requests,
            hooks=client.extensions.periodic_jobs_start,
        )

    return make


async def test_a_job_is_inserted_as_available_with_its_planned_time(bench: Bench) -> None:
    enqueuer = bench.new()
    bench.jobs.add(every(60, id="reports.daily"))
    bench.jobs.add(every(3600))
    await enqueuer.start()
    assert await enqueuer.run_once() == 0
    began = bench.clock.now()
    bench.clock.advance(61.5)
    assert await enqueuer.run_once() == 1
    assert await enqueuer.run_once() == 0
    (row,) = await bench.rows()
    assert row["kind"] == "report"
    assert row["state"] == "available"
    assert row["scheduled_at"] == began + MINUTE
    assert row["created_at"] == bench.clock.now()
    assert row["metadata"] == {"periodic": True, "river:periodic_job_id": "reports.daily"}


async def test_what_is_due_within_a_tenth_of_a_second_goes_along(bench: Bench) -> None:
    enqueuer = bench.new()
    for seconds, name in [(10, "a"), (10.09, "b"), (10.11, "c")]:
        bench.jobs.add(every(seconds, Report(name)))
    began = bench.clock.now()
    await enqueuer.run_once()
    bench.clock.advance(10)
    assert await enqueuer.run_once() == 2
    assert sorted(await bench.kinds()) == ["a", "b"]
    # The next time counts from the planned one, not from the one at which it was noticed.
    bench.clock.advance(10.09)
    assert await enqueuer.run_once() == 3
    assert sorted(row["scheduled_at"] for row in await bench.rows()) == [
        began + timedelta(seconds=each) for each in (10, 10.09, 10.11, 20, 20.18)
    ]


async def test_what_was_missed_is_made_up_for_in_order(bench: Bench) -> None:
    enqueuer = bench.new()
    bench.jobs.add(every(60))
    began = bench.clock.now()
    await enqueuer.run_once()
    bench.clock.advance(3.5 * 60)
    assert await enqueuer.run_once() == 3
    assert await enqueuer.run_once() == 0
    assert [row["scheduled_at"] for row in await bench.rows()] == [
        began + number * MINUTE for number in (1, 2, 3)
    ]


async def test_run_on_start_inserts_once_a_term_and_goes_on_by_the_schedule(bench: Bench) -> None:
    enqueuer = bench.new()
    bench.jobs.add(every(60, Report("starting"), run_on_start=True))
    bench.jobs.add(every(60, Report("waiting")))
    await enqueuer.start()
    assert await enqueuer.run_once() == 1
    assert await enqueuer.run_once() == 0
    (row,) = await bench.rows()
    assert row["scheduled_at"] == bench.clock.now()
    assert row["metadata"] == {"periodic": True}
    bench.clock.advance(60)
    assert await enqueuer.run_once() == 2
    # Another term: what was planned in the one before is forgotten.
    bench.clock.advance(30)
    await enqueuer.start()
    assert await enqueuer.run_once() == 1
    bench.clock.advance(30)
    assert await enqueuer.run_once() == 0
    assert await bench.kinds() == ["starting", "starting", "waiting", "starting"]


async def test_options_of_the_job_are_kept(bench: Bench) -> None:
    later = bench.clock.now() + timedelta(days=1)
    opts = InsertOpts(
        queue="reports",
        priority=2,
        max_attempts=3,
        tags=["night"],
        metadata={"by": "cron"},
        scheduled_at=later,
    )
    bench.jobs.add(every(60, (Report(), opts), run_on_start=True, id="it"))
    await bench.new().run_once()
    (row,) = await bench.rows()
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("reports", 2, 3)
    assert row["tags"] == ["night"]
    assert row["metadata"] == {"by": "cron", "periodic": True, "river:periodic_job_id": "it"}
    assert (row["state"], row["scheduled_at"]) == ("scheduled", later)


async def test_a_pending_job_stays_pending(bench: Bench) -> None:
    bench.jobs.add(
        every(60, InsertManyParams(Report(), InsertOpts(pending=True)), run_on_start=True)
    )
    await bench.new().run_once()
    assert [row["state"] for row in await bench.rows()] == ["pending"]


async def test_a_unique_job_is_inserted_once_a_period_by_all_leaders(bench: Bench) -> None:
    bench.clock.advance(3600 - bench.clock.now().timestamp() % 3600)
    unique = InsertOpts(unique_opts=UniqueOpts(by_period=timedelta(hours=1)))
    bench.jobs.add(every(1800, (Report(), unique), run_on_start=True))
    first, second = bench.new(), bench.new()
    await first.run_once()
    await second.run_once()
    bench.clock.advance(1800)
    await first.run_once()
    await second.run_once()
    assert len(await bench.rows()) == 1
    # A little early, and planned for the next hour: that is the one that counts.
    bench.clock.advance(1799.95)
    assert await first.run_once() == 1
    assert len(await bench.rows()) == 2


async def test_nothing_is_inserted_where_the_constructor_makes_nothing(bench: Bench) -> None:
    made: list[Any] = [None, (None, InsertOpts()), Report("third")]
    bench.jobs.add(PeriodicJob(PeriodicInterval(MINUTE), lambda: made.pop(0)))
    enqueuer = bench.new()
    await enqueuer.run_once()
    for expected in (0, 0, 1):
        bench.clock.advance(60)
        assert await enqueuer.run_once() == expected
    assert await bench.kinds() == ["third"]


async def test_a_job_that_cannot_be_made_does_not_take_others_along(
    caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    def fail() -> Report:
        raise RuntimeError("no args today")

    bench.jobs.add(PeriodicJob(PeriodicInterval(MINUTE), fail, run_on_start=True, id="failing"))
    bench.jobs.add(every(60, (Report(), InsertOpts(queue="Not A Queue")), run_on_start=True))
    bench.jobs.add(every(60, object(), run_on_start=True))
    bench.jobs.add(every(60, Report("good"), run_on_start=True))
    assert await bench.new().run_once() == 1
    assert await bench.kinds() == ["good"]
    assert "'failing' could not be built" in caplog.text
    assert "no args today" in caplog.text
    assert caplog.text.count("could not be built") == 3


@pytest.mark.parametrize("broken", ["raises", "stands still", "knows no zone"])
async def test_a_broken_schedule_does_not_take_others_along(
    broken: str, caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    class Broken:
        def next(self, after: datetime) -> datetime:
            if broken == "raises":
                raise RuntimeError("no calendar")
            return after if broken == "stands still" else after.replace(tzinfo=None) + MINUTE

    bench.jobs.add(PeriodicJob(Broken(), Report, id="broken"))
    bench.jobs.add(every(60, Report("good")))
    enqueuer = bench.new()
    await enqueuer.run_once()
    bench.clock.advance(60)
    assert await enqueuer.run_once() == 1
    assert "the schedule of 'broken' failed" in caplog.text
    assert caplog.text.count("of 'broken' failed") == 1


async def test_never_is_never(bench: Bench) -> None:
    bench.jobs.add(PeriodicJob(NeverSchedule(), Report, run_on_start=True))
    enqueuer = bench.new()
    assert await enqueuer.run_once() == 1
    bench.clock.advance(1e9)
    assert await enqueuer.run_once() == 0


async def test_jobs_go_the_client_s_usual_way(bench: Bench) -> None:
    seen: list[str] = []

    class Tagging(Middleware):
        async def insert_many(self, requests: Any, do_inner: Any) -> Any:
            seen.extend(request.kind for request in requests)
            return await do_inner(requests)

    class Renaming(Hook):
        def insert_begin(self, request: Any) -> None:
            request.tags = ["seen"]

    bench.jobs.add(every(60, run_on_start=True))
    await bench.new(middleware=[Tagging()], hooks=[Renaming()]).run_once()
    assert seen == ["report"]
    assert [row["tags"] for row in await bench.rows()] == [["seen"]]


async def test_hooks_are_called_at_each_start_and_may_prevent_it(new: New) -> None:
    called: list[str] = []

    class Plain(Hook):
        def periodic_jobs_start(self) -> None:
            called.append("plain")

    class Failing(Hook):
        async def periodic_jobs_start(self) -> None:
            called.append("failing")
            raise RuntimeError("not today")

    enqueuer = new(hooks=[Plain(), Hook(), Failing(), Plain()])
    with pytest.raises(RuntimeError, match="not today"):
        await enqueuer.start()
    assert called == ["plain", "failing"]


async def test_what_the_database_does_not_take_is_inserted_when_it_does(
    caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    caplog.set_level(logging.INFO)
    bench.jobs.add(every(60))
    enqueuer = bench.new()
    began = bench.clock.now()
    await enqueuer.run_once()
    bench.clock.advance(60)
    await bench.connection.execute("alter table river_job rename to river_job_away")
    assert await enqueuer.run_once() == 0
    bench.clock.advance(60)
    assert await enqueuer.run_once() == 0
    assert caplog.text.count("could not be inserted yet") == 1
    await bench.connection.execute("alter table river_job_away rename to river_job")
    assert await enqueuer.run_once() == 2
    assert await enqueuer.run_once() == 0
    assert "all due jobs are inserted again" in caplog.text
    bench.clock.advance(60)
    assert await enqueuer.run_once() == 1
    assert [row["scheduled_at"] for row in await bench.rows()] == [
        began + number * MINUTE for number in (1, 2, 3)
    ]


class Losing:
    """Inserts as a client does, but the answer of the first try is lost: before its commit, or
    after.
    """

    def __init__(self, client: Client, *, committed: bool) -> None:
        self.client = client
        self.committed = committed
        self.tries = 0

    async def insert(
        self,
        requests: Sequence[Any],
        *,
        numbered: Callable[[int], None],
        beside: Callable[[Executor], Awaitable[None]] | None,
    ) -> object:
        self.tries += 1
        first = self.tries == 1

        def record(number: int) -> None:
            numbered(number)
            if first and not self.committed:
                raise DatabaseUnavailable

        results = await self.client.insert_requests(requests, numbered=record, beside=beside)
        if first:
            raise DatabaseUnavailable
        return results


@pytest.mark.parametrize("committed", [True, False])
async def test_a_lost_answer_makes_no_job_twice_and_loses_none(
    committed: bool, driver: Driver, service_parts: NewServiceParts, bench: Bench
) -> None:
    parts = service_parts()
    client = Client(driver, parts.config, clock=bench.clock.now)
    losing = Losing(client, committed=committed)
    enqueuer = PeriodicJobEnqueuer(
        parts.context, bench.jobs, prepare=client.prepare_insert, insert_requests=losing.insert
    )
    bench.jobs.add(every(60, run_on_start=True))
    bench.jobs.add(every(60, run_on_start=True))
    round_ = asyncio.create_task(enqueuer.run_once())
    await eventually(lambda: bench.clock.sleeping)
    bench.clock.advance(2)
    assert await round_ == 2
    assert len(await bench.rows()) == 2
    assert losing.tries == (1 if committed else 2)


async def test_the_plan_goes_on_with_the_term_and_ends_with_it(bench: Bench) -> None:
    bench.jobs.add(every(20))
    bench.jobs.add(every(3600, run_on_start=True))
    enqueuer = bench.new()
    await enqueuer.start()
    assert await enqueuer.run_once() == 1
    began = bench.clock.now()
    # The database was unavailable, and no other client has led.
    bench.clock.advance(50)
    await enqueuer.start(goes_on=True)
    assert await enqueuer.run_once() == 2
    bench.clock.advance(50)
    await enqueuer.start()
    assert await enqueuer.run_once() == 1
    assert [(row["scheduled_at"] - began).total_seconds() for row in await bench.rows()] == [
        0,
        20,
        40,
        100,
    ]


async def test_more_than_ten_minutes_of_every_two_seconds_are_not_made_up_for(
    caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    bench.jobs.add(every(2))
    bench.jobs.add(every(3600, Report("hourly")))
    enqueuer = bench.new()
    await enqueuer.run_once()
    bench.clock.advance(4000)
    assert await enqueuer.run_once() == 301
    assert "missed more than 300 runs" in caplog.text
    bench.clock.advance(2)
    assert await enqueuer.run_once() == 1


async def test_a_job_that_cannot_be_inserted_does_not_take_others_along(
    caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    class Refusing(Hook):
        def insert_begin(self, request: Any) -> None:
            if request.args.name == "bad":
                raise ValueError("not this one")

    for name in ("one", "bad", "two"):
        bench.jobs.add(every(60, Report(name), run_on_start=True))
    assert await bench.new(hooks=[Refusing()]).run_once() == 2
    assert await bench.kinds() == ["one", "two"]
    assert caplog.text.count("a job could not be inserted") == 1
    assert "not this one" in caplog.text


@pytest.mark.parametrize("hours", [2, -2])
async def test_intervals_go_on_whatever_the_clock_is_set_to(hours: float, bench: Bench) -> None:
    bench.jobs.add(every(60))
    enqueuer = bench.new()
    await enqueuer.run_once()
    bench.clock.advance(30)
    bench.clock.set_by(hours * 3600)
    assert await enqueuer.run_once() == 0
    for _ in range(5):
        bench.clock.advance(60)
        assert await enqueuer.run_once() == 1
    # Time in which the database was away counts nevertheless.
    bench.clock.advance(180)
    bench.clock.set_by(hours * 3600)
    assert await enqueuer.run_once() == 3


def at_half_past(clock: Ticking) -> None:
    """Lets time pass until 12:30:30 of some day."""
    clock.advance((45_030 - clock.now().timestamp()) % 86_400)


async def test_a_clock_set_forward_has_a_schedule_come_once_for_all_that_it_left_out(
    bench: Bench,
) -> None:
    at_half_past(bench.clock)
    bench.jobs.add(PeriodicJob(CronSchedule("* * * * *"), Report))
    bench.jobs.add(PeriodicJob(CronSchedule("0 13 * * *"), lambda: Report("noon")))
    bench.jobs.add(PeriodicJob(CronSchedule("0 20 * * *"), lambda: Report("night")))
    enqueuer = bench.new()
    await enqueuer.run_once()
    # Two minutes really pass.
    bench.clock.advance(120)
    bench.clock.set_by(7207)
    assert await enqueuer.run_once() == 2 + 1 + 1
    assert await enqueuer.run_once() == 0
    for _ in range(3):
        bench.clock.advance(60)
        assert await enqueuer.run_once() == 1
    assert sorted(await bench.kinds()) == ["daily"] * 6 + ["noon"]


async def test_a_clock_set_back_does_not_stop_a_schedule_nor_repeat_a_rare_one(
    bench: Bench,
) -> None:
    at_half_past(bench.clock)
    bench.jobs.add(PeriodicJob(CronSchedule("* * * * *"), Report))
    bench.jobs.add(PeriodicJob(CronSchedule("31 12 * * *"), lambda: Report("noon")))
    enqueuer = bench.new()
    await enqueuer.run_once()
    bench.clock.advance(30)
    assert await enqueuer.run_once() == 2
    bench.clock.set_by(-7207)
    assert await enqueuer.run_once() == 0
    for _ in range(3):
        bench.clock.advance(60)
        assert await enqueuer.run_once() == 1
    bench.clock.advance(7207)
    await enqueuer.run_once()
    assert (await bench.kinds()).count("noon") == 1


async def test_a_clock_that_is_slewed_changes_nothing(
    caplog: pytest.LogCaptureFixture, bench: Bench
) -> None:
    bench.jobs.add(every(60))
    enqueuer = bench.new()
    await enqueuer.run_once()
    for _ in range(3):
        bench.clock.advance(60)
        bench.clock.set_by(0.1)
        assert await enqueuer.run_once() == 1
    assert "the clock was set" not in caplog.text


async def test_a_connection_cut_while_nothing_was_due_costs_no_job(
    driver: Driver, bench: Bench
) -> None:
    async with driver.autocommit() as executor:
        assert await executor.leader.get() is None
    bench.jobs.add(every(60, run_on_start=True))
    await bench.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    round_ = asyncio.create_task(bench.new().run_once())
    await eventually(lambda: round_.done() or bench.clock.sleeping)
    bench.clock.advance(2)
    assert await round_ == 1
    assert len(await bench.rows()) == 1


async def test_jobs_can_be_added_and_removed_while_it_runs(term: LeaderTerm, bench: Bench) -> None:
    enqueuer = bench.new()
    term.trusted_until = 1_000_000
    await enqueuer.start()
    task = asyncio.create_task(enqueuer.run(term))

    async def inserted(*names: str) -> None:
        async def they_are() -> bool:
            return sorted(await bench.kinds()) == sorted(names)

        await eventually(they_are)
        await eventually(lambda: bench.clock.sleeping)

    await inserted()
    bench.jobs.add(every(50, Report("a"), run_on_start=True))
    await inserted("a")
    assert bench.clock.soonest == pytest.approx(50)
    bench.clock.advance(20)
    second, _ = bench.jobs.add_many(
        [every(10, Report("b"), id="the_b"), every(10, Report("c"), id="the_c")]
    )
    await eventually(lambda: bench.clock.soonest == pytest.approx(10))
    bench.clock.advance(10)
    await inserted("a", "b", "c")
    assert bench.jobs.remove_by_id("the_c")
    bench.clock.advance(10)
    await inserted("a", "b", "c", "b")
    bench.jobs.remove(second)
    bench.clock.advance(10)
    await inserted("a", "b", "c", "b", "a")
    bench.jobs.clear()
    bench.clock.advance(1000)
    await settled()
    await inserted("a", "b", "c", "b", "a")
    # From another thread, as a synchronous worker would.
    await asyncio.to_thread(bench.jobs.add, every(1, Report("d"), run_on_start=True))
    await inserted("a", "b", "c", "b", "a", "d")
    task.cancel()


async def test_nothing_is_inserted_in_a_term_that_is_over(term: LeaderTerm, bench: Bench) -> None:
    bench.jobs.add(every(20))
    enqueuer = bench.new()
    task = asyncio.create_task(enqueuer.run(term))
    await eventually(lambda: bench.clock.sleeping)
    bench.clock.advance(20)
    await settled()
    assert bench.clock.sleeping
    assert await bench.rows() == []
    task.cancel()
