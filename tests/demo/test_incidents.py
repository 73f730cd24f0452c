"""Each incident of the demo: the health report names its cause, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import httpx2
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.actions.health import health_report
from riverui.demo.incidents import INCIDENTS, Incident, Past, prepare
from riverui.demo.run import working
from riverui.domain.findings import Level, Result
from riverui.domain.health import Cause, HealthReport
from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.sections import SECTIONS
from tests.demo.test_demo import Demo
from tests.demo.test_postgres import wait_for
from tests.demo.test_workers import until
from tests.test_cli import Run, run

__all__ = ["run"]

Connection = AsyncConnection[DictRow]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the report says of an incident."""

    section: str
    check: str
    level: Level
    culprit: str = ""
    """What owns at least half of it; empty for nothing."""


VERDICTS: Mapping[str, Verdict] = {
    "dead-worker": Verdict("flow", "clients", Level.WARN, "client ip-10-0-3-17"),
    "all-paused": Verdict("flow", "paused", Level.CRITICAL),
    "slow-dependency": Verdict("flow", "held", Level.WARN, "kind fraud_check"),
    "bad-deploy": Verdict("success", "failures", Level.CRITICAL, "kind email_send"),
    "poison-job": Verdict("success", "poison", Level.CRITICAL, "job "),
    "retry-storm": Verdict("flow", "retries", Level.WARN, "kind webhook_delivery"),
}
NAMED = [name for name in INCIDENTS if SECTIONS.marks or name != "bad-deploy"]
"""A deploy is known by its mark."""
WORKED = ("dead-worker", "slow-dependency", "bad-deploy")
"""Incidents that go on while clients work."""
CALM = Incident(name="calm", summary="Nothing is wrong.", cause=Cause.NONE, past=Past.steady)


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[Driver]:
    """Yield the demo's database, with the tables that it has."""
    driver = connect(database_url, max_size=8)
    await migrate(driver, "up", line="riverui")
    yield driver
    await driver.close()


async def report_on(driver: Driver) -> HealthReport:
    """Return the health report of a dashboard that was just opened."""
    board = build_app(driver, SignIn(no_auth=True), pilot=plain_pilot()).state.dashboard
    figures = board.figures
    try:
        while not figures.collector.complete:
            # A busy machine may take longer than a slice has time.
            await figures.collector.tick()
            while await figures.collector.fill():
                pass
        return await health_report(
            driver, figures, usual=None, marks=board.marks, now=datetime.now(UTC)
        )
    finally:
        await board.close()


async def begin(driver: Driver, url: str, incident: Incident) -> None:
    await prepare(driver, url, incident, now=datetime.now(UTC), rng=Random(1))


def check(report: HealthReport, name: str) -> None:
    """Assert that the report names what is wrong, and nothing else."""
    found = {
        (section.name, check.name): check.evidence
        for section in report.sections
        for check in section.checks
        if check.result is Result.FAILED
    }
    wanted = VERDICTS[name]
    assert report.cause is INCIDENTS[name].cause, found
    assert set(found) == {(wanted.section, wanted.check)}, found
    assert report.worst.name == wanted.section
    assert report.level is wanted.level
    others = [section for section in report.sections if section is not report.worst]
    # Nothing succeeds or fails while all queues are paused.
    calm = {Level.OK, Level.UNKNOWN} if name == "all-paused" else {Level.OK}
    assert {section.level for section in others} <= calm, others
    culprit = report.worst.culprit
    assert bool(culprit) is bool(wanted.culprit)
    if culprit is not None:
        assert f"{culprit.what} {culprit.name}".startswith(wanted.culprit)
    assert report.worst.link is not None


@pytest.mark.parametrize("name", NAMED)
async def test_it_is_named(shop: Driver, database_url: str, name: str) -> None:
    await begin(shop, database_url, INCIDENTS[name])
    report = await report_on(shop)
    check(report, name)
    if name == "bad-deploy":
        assert "(deploy v1.4.2)" in report.headline
        assert report.success.detail.startswith("TypeError: unsupported operand type(s)")


async def test_a_usual_hour_is_calm(shop: Driver, database_url: str) -> None:
    await begin(shop, database_url, CALM)
    report = await report_on(shop)
    assert (report.level, report.cause) == (Level.OK, Cause.NONE)
    assert all(section.link is None for section in report.sections)


@pytest.mark.parametrize("name", [name for name in NAMED if name in WORKED])
async def test_it_goes_on_while_clients_work(
    shop: Driver, connection: Connection, database_url: str, name: str
) -> None:
    incident = INCIDENTS[name]
    await begin(shop, database_url, incident)
    started = datetime.now(UTC)
    async with working(shop, incident):

        async def went_on() -> bool:
            cursor = await connection.execute(
                "select count(*) filter (where finalized_at > %(at)s) as ended,"
                " count(*) filter (where created_at > %(at)s) as inserted,"
                " count(*) filter (where attempted_at > %(at)s and array_to_string(errors, '') like"
                " '%%in _add_fee%%') as failed from river_job",
                {"at": started},
            )
            row = await cursor.fetchone()
            assert row is not None
            fails = row["failed"] > 0 or name != "bad-deploy"
            return fails and row["ended"] >= 3 and row["inserted"] >= 3

        await until(went_on, seconds=60)
        check(await report_on(shop), name)


def test_an_unknown_incident_lists_all(run: Run) -> None:
    code, out, err = run("demo", "--incident", "meteor")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "'meteor'" in err
    assert all(name in err for name in INCIDENTS)


def test_the_demo_plays_one(home: Path) -> None:
    demo = Demo(home, "--incident", "all-paused")
    try:
        assert "all-paused" in demo.words
        assert INCIDENTS["all-paused"].summary in demo.words
        assert "all-paused" in httpx2.get(demo.url).text, "the badge names it"
        # It opens when a second look agrees.
        wait_for(lambda: "All 7 queues are paused." in httpx2.get(demo.url).text, seconds=120)
        report = httpx2.get(demo.url + "api/health-report").json()
        assert (report["level"], report["cause"]) == ("critical", "paused")
    finally:
        demo.stop()
