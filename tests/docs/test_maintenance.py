"""The page about maintenance: its defaults are the code's, and each of its settings does what it
says to real rows, under a client that leads.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui import (
    NO_LIMIT,
    Client,
    ClientConfig,
    CronSchedule,
    DeadLetterConfig,
    DurablePeriodicJobsConfig,
    InsertOpts,
    Job,
    NeverSchedule,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    SequenceOpts,
    TimerTerm,
    Wait,
    Workers,
)
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.engine.lead.maintenance.queue_cleaner import QueueCleaner
from riverui.features.dead_letters.engine.feature import DeadLetterCleaner
from riverui.features.rate_limits.engine import RateCleaner
from riverui.features.retention.engine import QueueRetentionCleaner
from tests.docs.programs import DOCS
from tests.factory import job, queue
from tests.interop.look import eventually, jobs, settled

PAGE = (DOCS / "operate/maintenance.md").read_text(encoding="utf-8")
MINUTE = timedelta(minutes=1)
Connection = AsyncConnection[DictRow]
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


def table(title: str) -> dict[str, list[str]]:
    """Return the rows of a section's table by their first cell."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if line.startswith("| ")
    ][1:]
    return {row[0].strip("` |"): [cell.strip(" |") for cell in row[1:]] for row in rows}


SETTINGS = table("The settings")
SERVICES = table("The services")


def words(value: object) -> str:
    """Return a default as the page tells it."""
    match value:
        case timedelta():
            for unit, name in ((86400 * 2, ""), (3600, "h"), (60, "min"), (1, "s")):
                seconds = value.total_seconds()
                if not name and seconds >= unit:
                    return f"{seconds / 86400:.0f} days"
                if name and seconds >= unit:
                    return f"{seconds / unit:.0f} {name}"
            raise AssertionError(value)
        case False:
            return "off"
        case DeadLetterConfig() | DurablePeriodicJobsConfig():
            return "on" if value.enabled else "off"
        case ():
            return "none"
    raise AssertionError(value)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_defaults_are_those_of_the_config(name: str) -> None:
    config = ClientConfig()
    told = SETTINGS[name][0]
    if name == "rescue_stuck_jobs_after":
        assert told == words(config.rescue_after)
    elif name == "reindexer_schedule":
        assert config.reindexer_schedule is None
        assert told == SERVICES["reindexer"][0] == "daily at midnight UTC"
    elif name == "reindexer_index_names":
        assert (config.reindexer_index_names, told) == (None, "River's")
    else:
        assert told == words(getattr(config, name))


def test_no_setting_of_the_maintenance_is_left_out() -> None:
    names = [field.name for field in fields(ClientConfig)]
    first = names.index("heartbeat_interval")
    assert set(names[first:]) <= set(SETTINGS)


def test_the_services_run_as_often_as_the_page_says() -> None:
    services: dict[str, Any] = {
        "dead letter cleaner (riverui)": DeadLetterCleaner,
        "job cleaner": JobCleaner,
        "job rescuer": JobRescuer,
        "job scheduler": JobScheduler,
        "queue cleaner": QueueCleaner,
        "queue retention (riverui)": QueueRetentionCleaner,
        "rate limits (riverui)": RateCleaner,
    }
    assert services.keys() | {"periodic job enqueuer", "reindexer"} == SERVICES.keys()
    for name, service in services.items():
        assert SERVICES[name][0] == words(service.interval), name


@dataclass
class Known:
    kind: ClassVar[str] = "known"


class Leader:
    """A database, and clients that lead it, with some settings."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url, self.connection = url, connection

    @asynccontextmanager
    async def leading(self, **settings: Any) -> AsyncIterator[Client]:
        """Yield a started client that leads, unless its settings keep it from that."""
        workers = Workers()

        @workers.work(Known)
        async def known(job: Job[Known]) -> None: ...

        config = ClientConfig(
            queues={"default": QueueConfig(max_workers=1)}, workers=workers, **settings
        )
        async with Client(self.url, config) as client:
            yield client

    async def led(self, look: Callable[[], Awaitable[object]], **settings: Any) -> None:
        """Have a client with these settings lead until `look` gives something."""
        async with self.leading(**settings):
            await eventually(look)

    async def led_a_round(self, **settings: Any) -> None:
        """Have a client with these settings lead for a round of every service: the scheduler, the
        rescuer and the cleaner have all done something.
        """
        due = await job(
            self.connection,
            "scheduled",
            kind="elsewhere",
            scheduled_at=datetime(2001, 1, 1, tzinfo=UTC),
        )
        old = await job(
            self.connection,
            "cancelled",
            queue="elsewhere",
            finalized_at=datetime(2001, 1, 1, tzinfo=UTC),
        )
        lost = await job(
            self.connection, "running", kind="known", max_attempts=1,
            attempted_at=LONG_AGO,
        )  # fmt: skip

        async def done() -> bool:
            rows = {row["id"]: row["state"] for row in await jobs(self.connection)}
            return (rows[due], rows.get(old), rows[lost]) == ("available", None, "discarded")

        await self.led(done, **settings)

    async def gone(self, id: int) -> bool:
        """Return whether a job's row is gone."""
        return not await jobs(self.connection, f"id = {id}")

    async def rows(self, statement: str) -> list[DictRow]:
        """Return what a statement gives."""
        return await (await self.connection.execute(statement)).fetchall()


@pytest.fixture
def leader(database_url: str, connection: Connection) -> Leader:
    """Return what leads this test's database."""
    return Leader(database_url, connection)


def ago(**span: float) -> datetime:
    """Return a time in the past."""
    return datetime.now(UTC) - timedelta(**span)


class TestEachSetting:
    """One test a setting, named after it."""

    async def retention(self, leader: Leader, state: str) -> None:
        """Check the period of a state: its default, another, and none."""
        name = f"{state}_job_retention_period"
        default: timedelta = getattr(ClientConfig(), name)
        for period in (default, timedelta(hours=3)):
            kept, removed = [
                await job(leader.connection, state, finalized_at=datetime.now(UTC) - period + slack)
                for slack in (10 * MINUTE, -MINUTE)
            ]

            async def gone(id: int = removed) -> bool:
                return await leader.gone(id)

            await leader.led(gone, **{name: period})
            assert not await leader.gone(kept)
        forever = await job(leader.connection, state, finalized_at=ago(days=4_000))
        other = "cancelled" if state == "completed" else "completed"
        removed = await job(leader.connection, other, finalized_at=ago(days=4_000))

        async def gone_too() -> bool:
            return await leader.gone(removed)

        await leader.led(gone_too, **{name: NO_LIMIT})
        assert not await leader.gone(forever)

    async def test_cancelled_job_retention_period(self, leader: Leader) -> None:
        await self.retention(leader, "cancelled")

    async def test_completed_job_retention_period(self, leader: Leader) -> None:
        await self.retention(leader, "completed")

    async def test_discarded_job_retention_period(self, leader: Leader) -> None:
        await self.retention(leader, "discarded")

    async def test_job_cleaner_timeout(
        self, leader: Leader, caplog: pytest.LogCaptureFixture
    ) -> None:
        old = await job(leader.connection, "completed", finalized_at=ago(days=2))
        await leader.connection.execute(
            "create function slow() returns trigger language plpgsql as"
            " 'begin perform pg_sleep(0.5); return old; end';"
            "create trigger slow before delete on river_job for each row execute function slow()"
        )

        async def failed() -> bool:
            return "job cleaner: this round failed" in caplog.text

        await leader.led(failed, job_cleaner_timeout=timedelta(milliseconds=50))
        assert not await leader.gone(old)

        async def gone() -> bool:
            return await leader.gone(old)

        await leader.led(gone)

    async def test_rescue_stuck_jobs_after(self, leader: Leader) -> None:
        at_work = await job(leader.connection, "running", kind="known", attempted_at=ago(hours=2))
        await leader.led_a_round(rescue_stuck_jobs_after=timedelta(hours=3))
        await leader.led_a_round(job_timeout=timedelta(hours=1.5))  # and an hour
        (row,) = await jobs(leader.connection, f"id = {at_work}")
        assert row["state"] == "running"
        await leader.led_a_round()
        row = await settled(leader.connection, at_work, "retryable", "available", "completed")
        assert "rescued" in row["errors"][0]["error"]

    async def test_discard_unknown_stuck_jobs(self, leader: Leader) -> None:
        unknown = await job(leader.connection, "running", kind="unknown", attempted_at=ago(hours=2))
        await leader.led_a_round()
        (row,) = await jobs(leader.connection, f"id = {unknown}")
        assert row["state"] == "running"
        await leader.led_a_round(discard_unknown_stuck_jobs=True)
        (row,) = await jobs(leader.connection, f"id = {unknown}")
        assert row["state"] == "discarded"

    async def test_periodic_jobs(self, leader: Leader) -> None:
        periodic = PeriodicJob(PeriodicInterval(timedelta(hours=1)), Known, run_on_start=True)
        await leader.led(lambda: jobs(leader.connection), periodic_jobs=[periodic])
        (row,) = await jobs(leader.connection)
        assert row["metadata"]["periodic"] is True

    @pytest.mark.usefixtures("own_tables")
    async def test_durable_periodic_jobs(self, leader: Leader) -> None:
        periodic = PeriodicJob(
            PeriodicInterval(timedelta(hours=1)), Known, id="hourly", run_on_start=True
        )
        await leader.led(lambda: jobs(leader.connection), periodic_jobs=[periodic])
        stored = "select id from riverui_periodic_job"
        assert await leader.rows(stored) == []
        await leader.led(
            lambda: leader.rows(stored),
            periodic_jobs=[periodic],
            durable_periodic_jobs=DurablePeriodicJobsConfig(enabled=True),
        )

    async def files(self, leader: Leader) -> dict[str, int]:
        """Return each index and the number of its file, which a rebuild changes."""
        rows = await leader.rows(
            "select relname, relfilenode from pg_class"
            " where relkind = 'i' and relname like 'river_job%'"
        )
        return {row["relname"]: row["relfilenode"] for row in rows}

    async def test_reindexer_schedule(self, leader: Leader) -> None:
        before = await self.files(leader)
        await leader.led_a_round(reindexer_schedule=NeverSchedule())
        assert await self.files(leader) == before

        async def rebuilt() -> bool:
            return (await self.files(leader))["river_job_kind"] != before["river_job_kind"]

        await leader.led(rebuilt, reindexer_schedule=PeriodicInterval(timedelta(seconds=0.2)))

    async def test_reindexer_index_names(self, leader: Leader) -> None:
        before, names = await self.files(leader), ["river_job_kind"]

        async def rebuilt() -> bool:
            return await self.files(leader) != before

        soon = PeriodicInterval(timedelta(seconds=0.2))
        await leader.led(rebuilt, reindexer_schedule=soon, reindexer_index_names=names)
        after = await self.files(leader)
        # A rebuild under way has a second file.
        assert {name for name in before if after.get(name) != before[name]} <= set(names)

    async def test_reindexer_timeout(
        self, leader: Leader, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def failed() -> bool:
            return "reindexer: river_job_kind could not be rebuilt" in caplog.text

        soon = PeriodicInterval(timedelta(seconds=0.2))
        async with await AsyncConnection.connect(database_url) as other:
            await other.execute("lock table river_job in row exclusive mode")
            await leader.led(
                failed,
                reindexer_schedule=soon,
                reindexer_timeout=timedelta(milliseconds=200),
                reindexer_index_names=["river_job_kind"],
            )

    async def test_leader_election_disabled(self, leader: Leader) -> None:
        due = await job(leader.connection, "scheduled", kind="known", scheduled_at=ago(hours=1))
        async with leader.leading(leader_election_disabled=True) as client:
            inserted = await client.insert(Known())
            await client.wait(inserted.job.id, timeout=MINUTE)
            assert await leader.rows("select * from river_leader") == []
        (row,) = await jobs(leader.connection, f"id = {due}")
        assert row["state"] == "scheduled"
        await leader.led_a_round()
        await settled(leader.connection, due, "available", "running", "completed")

    @pytest.mark.usefixtures("own_tables")
    async def test_dead_letter(self, leader: Leader) -> None:
        dead = "select id from riverui_dead_job"
        old = await job(leader.connection, "discarded", finalized_at=ago(days=8))

        async def gone() -> bool:
            return await leader.gone(old)

        await leader.led(gone)
        assert await leader.rows(dead) == []
        await job(leader.connection, "discarded", finalized_at=ago(days=8))
        await leader.led(lambda: leader.rows(dead), dead_letter=DeadLetterConfig(enabled=True))

    @pytest.mark.usefixtures("own_tables")
    async def test_heartbeat_interval(self, leader: Leader) -> None:
        clients = "select * from riverui_client"
        async with leader.leading(heartbeat_interval=timedelta(seconds=7)):
            (row,) = await eventually(lambda: leader.rows(clients))
        assert timedelta(seconds=7) in row.values()
        await leader.connection.execute("delete from riverui_client")
        await leader.led_a_round(heartbeat_interval=NO_LIMIT)
        assert await leader.rows(clients) == []

    @pytest.mark.usefixtures("own_tables")
    async def test_sequence_scheduler_interval(self, leader: Leader) -> None:
        line = InsertOpts(sequence=SequenceOpts(), queue="elsewhere")
        client = Client(leader.url)
        first, second = [(await client.insert(Known(), line)).job.id for _ in range(2)]
        # As another program does, which knows nothing of sequences.
        await leader.connection.execute(
            "update river_job set state = 'completed', finalized_at = now() where id = %s", [first]
        )

        async def next_one() -> bool:
            rows = await jobs(leader.connection, f"id = {second}")
            return bool(rows[0]["state"] == "available")

        await leader.led(next_one, sequence_scheduler_interval=timedelta(milliseconds=50))

    @pytest.mark.usefixtures("own_tables")
    async def test_workflow_retention_period(self, leader: Leader) -> None:
        kept = "select id from riverui_workflow"
        async with leader.leading() as client:
            workflow = client.workflow("one")
            workflow.add("only", Known())
            (inserted,) = await workflow.insert()
            await client.wait(inserted.job.id, timeout=MINUTE)
        await leader.connection.execute(
            "update riverui_workflow set ended_at = ended_at - interval '2 hours'"
        )
        await leader.led_a_round()
        assert len(await leader.rows(kept)) == 1

        async def forgotten() -> bool:
            return await leader.rows(kept) == []

        await leader.led(forgotten, workflow_retention_period=timedelta(hours=1))

    @pytest.mark.usefixtures("own_tables")
    async def test_workflow_timer_poller_interval(self, leader: Leader) -> None:
        spans = {"poll_only": True, "workflow_timer_poller_interval": timedelta(milliseconds=50)}
        async with leader.leading(**spans) as client:
            workflow = client.workflow("one")
            timer = TimerTerm("soon", after=timedelta(milliseconds=100))
            workflow.add("only", Known(), wait=Wait("soon", [timer]))
            (inserted,) = await workflow.insert()
            row = await client.wait(inserted.job.id, timeout=MINUTE)
        assert row.state == "completed"

    @pytest.mark.parametrize("name", SETTINGS)
    def test_each_setting_has_its_test(self, name: str) -> None:
        assert hasattr(type(self), f"test_{name}")


async def test_what_has_no_settings(leader: Leader) -> None:
    await queue(leader.connection, "new", updated_at=ago(hours=23))
    await queue(leader.connection, "old", updated_at=ago(hours=25))

    async def cleaned() -> bool:
        rows = await leader.rows("select name from river_queue where name in ('new', 'old')")
        return [row["name"] for row in rows] == ["new"]

    await leader.led(cleaned)


async def test_the_statement_about_what_is_overdue(leader: Leader) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert set((await leader.rows(statement))[0].values()) == {0}
    await job(leader.connection, "scheduled", scheduled_at=ago(hours=1))
    await job(leader.connection, "running", attempted_at=ago(hours=3))
    await job(leader.connection, "completed", finalized_at=ago(hours=26))
    assert set((await leader.rows(statement))[0].values()) == {1}
    assert CronSchedule("30 3 * * 0").next(datetime(2026, 11, 23, tzinfo=UTC)).isoweekday() == 7
