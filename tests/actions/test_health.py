"""The health report on a real database: what is read, and what cannot be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import AsyncConnection

from riverui.actions.health import health_report
from riverui.domain.findings import Level, Result
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.slo import objectives
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.testing import MemoryDatabase
from tests.contract.seeds import insert, job as to_insert
from tests.factory import client, job, leader, queue
from tests.health_facts import figures
from tests.web.stand_ins import SlowDriver

Connection = AsyncConnection[Any]


class Made:
    """Figures of a calm hour, just read."""

    def arrivals(self) -> dict[str, list[int]]:
        return {}

    def failed_jobs(self, since: datetime) -> dict[str, list[datetime]]:
        return {}

    async def read(self, window: Any, *, queue: str = "", kind: str = "") -> Any:
        now = datetime.now(UTC)
        return figures(window=window.name, now=now, read_at=now)


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


def results(report: HealthReport) -> dict[str, Result]:
    return {check.name: check.result for part in report.sections for check in part.checks}


async def test_a_calm_database(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection)
    await job(connection, "running")
    report = await health_report(driver, Made())
    assert report.level is Level.OK
    assert set(results(report).values()) == {Result.PASSED}


async def test_without_figures_calm_is_not_promised(driver: Driver) -> None:
    report = await health_report(driver, None)
    assert [part.level for part in report.sections] == [Level.UNKNOWN] * 3


async def test_objectives_are_checked_by_their_queues(
    driver: Driver, connection: Connection
) -> None:
    await queue(connection)
    await leader(connection)
    wanted = objectives("default=99.9% < 100ms, mail=99% < 1m")
    report = await health_report(driver, Made(), objectives=wanted)
    assert (report.cause, report.flow.level) == (Cause.SLO_BURN, Level.CRITICAL)
    assert report.flow.title == "Queue default misses its objective."
    found = results(report)
    assert (found["slo default"], found["slo mail"]) == (Result.FAILED, Result.PASSED)


async def test_a_sqlite_file() -> None:
    bare = MemoryDatabase()
    report = await health_report(bare, Made())
    assert report.flow.level is Level.OK
    found = results(report)
    assert not found.keys() & {"locks", "transactions", "notifications", "primary"}
    assert set(found.values()) == {Result.PASSED}
    await insert(bare, to_insert(scheduled_at=ago(minutes=30)))
    async with bare.autocommit() as executor:
        await executor.queues.upsert("default")
        await executor.queues.pause("default")
    assert (await health_report(bare, Made())).cause is Cause.PAUSED


async def test_one_fact_that_cannot_be_read_costs_no_other(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute("alter table river_leader rename to river_leader_away")
    report = await health_report(driver, Made())
    found = results(report)
    assert found.pop("leader") is Result.UNKNOWN
    assert set(found.values()) == {Result.PASSED}


async def test_a_row_that_cannot_be_read_costs_no_other_fact(driver: Driver) -> None:
    report = await health_report(SlowDriver(driver, "leader_get", error=OverflowError), Made())
    checks = {check.name: check for part in report.sections for check in part.checks}
    assert "cannot be read" in checks.pop("leader").evidence
    assert {check.result for check in checks.values()} == {Result.PASSED}


async def test_a_client_that_stopped_to_give_signs_of_life(
    driver: Driver, connection: Connection
) -> None:
    await migrate(driver, "up", line="riverui")
    await queue(connection)
    await leader(connection)
    old = ago(minutes=2)
    for name in ("alive", "gone"):
        await client(driver, name, kinds=["test_kind"])
        await job(connection, "running", attempted_by=[name], attempted_at=old)
    assert (await health_report(driver, Made())).level is Level.OK
    await connection.execute(
        "update riverui_client set heartbeat_at = now() - interval '70 seconds',"
        " heartbeat_interval = interval '17 seconds' where id = 'gone'"
    )
    report = await health_report(driver, Made())
    assert (report.level, report.cause) == (Level.WARN, Cause.LOST_CLIENT)
    assert "It still holds 1 job: test_kind." in report.headline
    assert "has been silent for 1 m 10 s" in report.flow.evidence


async def test_a_kind_that_nobody_works_any_more(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection)
    worked = {"attempted_at": ago(hours=3), "finalized_at": ago(hours=3)}
    await job(connection, "completed", kind="old_mail", **worked, scheduled_at=ago(hours=4))
    for _ in range(3):
        await job(connection, kind="old_mail", scheduled_at=ago(hours=2))
    assert (await health_report(driver, Made())).cause is Cause.NOBODY_WORKS
    for _ in range(6):
        await job(connection, "completed", scheduled_at=ago(minutes=2))
    # By River's tables alone, younger jobs of the queue are the evidence.
    report = await health_report(driver, Made())
    assert report.cause is Cause.UNKNOWN_KIND
    assert report.headline == (
        "Nobody works old_mail. 3 old_mail jobs wait in queue default, the oldest for 2 h 0 m; 6"
        " younger jobs have overtaken them."
    )
    assert report.flow.detail == "The clients of the queue seem to have no worker for this kind."
    await connection.execute("delete from river_job where kind <> 'old_mail'")
    await migrate(driver, "up", line="riverui")
    await client(driver, "web-2", kinds=["test_kind"])
    report = await health_report(driver, Made())
    assert report.cause is Cause.UNKNOWN_KIND
    assert report.headline == (
        "Nobody works old_mail. 3 old_mail jobs wait in queue default, the oldest for 2 h 0 m."
    )
    assert report.flow.detail == "No live client of the queue reports a worker for this kind."
    assert results(report)["served"] is Result.PASSED
    await client(driver, "web-1", kinds=["old_mail"])
    assert (await health_report(driver, Made())).cause is Cause.NOBODY_WORKS


async def test_names_that_jobs_bring_along_are_bounded(
    driver: Driver, connection: Connection
) -> None:
    huge = "q" * 127
    await leader(connection)
    for _ in range(30):
        await job(connection, queue=huge, kind="k" * 127, scheduled_at=ago(minutes=9), attempt=1)
    await job(connection, "completed", queue=huge, attempted_by=["w" * 5_000])
    report = await health_report(driver, Made())
    assert report.cause is not Cause.NONE
    for part in report.sections:
        assert max(len(text) for text in (part.title, part.headline, part.detail)) < 600
