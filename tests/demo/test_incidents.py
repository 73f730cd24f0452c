"""Each incident of the demo: the health report names its cause, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import httpx2
import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.actions.health import health_report
from riverui.demo.incidents import INCIDENTS
from riverui.demo.incidents.incident import Past
from riverui.demo.incidents.prepare import forgotten_transaction, prepare
from riverui.demo.opening import working
from riverui.domain.checks import Result
from riverui.domain.figures import WINDOWS, Figures, Window
from riverui.domain.health import Cause, HealthReport, Level
from riverui.domain.health_facts import UsualHour
from riverui.features.marks.reader import Marks
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.web.config import DashboardConfig
from riverui.web.live.collector import Collector
from tests.demo.test_demo import Demo
from tests.demo.test_workers import until
from tests.health_facts import tally
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
    "nobody-works": Verdict("flow", "served", Level.CRITICAL),
    "leaderless": Verdict("flow", "leader", Level.CRITICAL),
    "slow-dependency": Verdict("flow", "slow", Level.WARN, "kind fraud_check"),
    "bad-deploy": Verdict("success", "failures", Level.CRITICAL, "kind email_send"),
    "flood-of-one-kind": Verdict("flow", "flood", Level.WARN, "kind push_notification"),
    "poison-job": Verdict("success", "poison", Level.WARN, "job "),
    "retry-storm": Verdict("flow", "retries", Level.WARN, "kind webhook_delivery"),
    "long-transaction": Verdict("flow", "transactions", Level.WARN),
}
"""Of those in which something is wrong; of the others it says that all is well."""
CALM = ("calm", "nightly-batch", "quiet-night")


@pytest.fixture
async def shop(database_url: str) -> AsyncIterator[Driver]:
    """Yield the demo's database, with the tables that it has."""
    driver = connect(database_url, max_size=8)
    await migrate(driver, "up", line="riverui")
    yield driver
    await driver.close()


class Moved:
    """Figures as they would be a while later, if everything had gone on as it did."""

    def __init__(self, figures: Collector, span: timedelta) -> None:
        self._figures = figures
        self._span = span

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        found = await self._figures.read(window, queue=queue, kind=kind)
        assert found.read_at is not None
        columns = [replace(column, at=column.at + self._span) for column in found.columns]
        return replace(found, columns=columns, read_at=found.read_at + self._span)


class Nights:
    """A week in which 300 jobs waited for 40 minutes at this hour, and some attempts failed."""

    async def usual_hour(self, at: datetime, *, queue: str = "", kind: str = "") -> UsualHour:
        return UsualHour(tally=tally(300, 30, wait=timedelta(minutes=40)), days=7)


async def report_on(
    driver: Driver, *, later: timedelta = timedelta(0), usual: Nights | None = None
) -> HealthReport:
    """Return the health report of a dashboard that was just opened."""
    figures = Collector(driver, DashboardConfig())
    try:
        while not figures.known(WINDOWS["1h"]).complete:
            # A busy machine may take longer than a slice has time.
            await figures.tick()
            while await figures.fill():
                pass
        return await health_report(
            driver,
            Moved(figures, later) if later else figures,
            usual=usual,
            marks=Marks(driver),
            now=datetime.now(UTC) + later,
        )
    finally:
        await figures.close()


async def begin(driver: Driver, url: str, name: str) -> None:
    await prepare(driver, url, INCIDENTS[name], now=datetime.now(UTC), rng=Random(1))


def hold(report: HealthReport, name: str) -> None:
    """Check that the report says what is wrong, and nothing else."""
    found = {
        (section.name, check.name): check.evidence
        for section in report.sections
        for check in section.checks
        if check.result is Result.FAILED
    }
    assert report.cause is INCIDENTS[name].cause, found
    if name in CALM:
        assert (report.level, found) == (Level.OK, {})
        assert all(section.action is None for section in report.sections)
        return
    wanted = VERDICTS[name]
    assert set(found) == {(wanted.section, wanted.check)}, found
    assert report.worst.name == wanted.section
    assert report.level is wanted.level
    others = [section for section in report.sections if section is not report.worst]
    assert [section.level for section in others] == [Level.OK] * 2, others
    culprit = report.worst.culprit
    assert bool(culprit) is bool(wanted.culprit)
    if culprit is not None:
        assert f"{culprit.what} {culprit.name}".startswith(wanted.culprit)
    assert report.worst.action is not None


def test_every_incident_is_held_to_its_verdict() -> None:
    assert set(INCIDENTS) == {*VERDICTS, *CALM}
    for name, incident in INCIDENTS.items():
        assert incident.name == name
        assert incident.words.endswith(".")
        assert (incident.cause is Cause.NONE) is (name in CALM)
    causes = [incident.cause for incident in INCIDENTS.values() if incident.cause]
    assert len(set(causes)) == len(VERDICTS)


@pytest.mark.parametrize("name", sorted({*VERDICTS, *CALM} - {"long-transaction"}))
async def test_it_is_named(shop: Driver, database_url: str, name: str) -> None:
    await begin(shop, database_url, name)
    hold(await report_on(shop), name)


async def test_a_long_transaction_is_named(
    shop: Driver, connection: Connection, database_url: str
) -> None:
    await begin(shop, database_url, "long-transaction")
    # They would be overdue: nobody works in the time that is leapt over.
    await connection.execute("delete from river_job where state in ('scheduled', 'retryable')")
    async with forgotten_transaction(database_url):
        assert (await report_on(shop)).level is Level.OK, "it has just begun"
        report = await report_on(shop, later=timedelta(minutes=20))
        hold(report, "long-transaction")
        assert "(nightly-report), idle in transaction has been open for 20 m" in report.headline
    assert (await report_on(shop, later=timedelta(minutes=20))).level is Level.OK


async def test_a_batch_is_a_flood_only_where_it_is_not_usual(
    shop: Driver, database_url: str
) -> None:
    def begun(past: Past) -> None:
        past.steady()
        since = timedelta(minutes=12)
        past.wait("report_export", 140, since=since, until=since)
        past.run("report_export", 3, client=past.client("reports"), since=past.ago(seconds=5))

    batch = replace(INCIDENTS["nightly-batch"], past=begun)
    await prepare(shop, database_url, batch, now=datetime.now(UTC), rng=Random(1))
    report = await report_on(shop)
    assert (report.level, report.cause) == (Level.CRITICAL, Cause.FLOOD)
    assert (await report_on(shop, usual=Nights())).level is Level.OK


async def test_a_deploy_is_named(shop: Driver, database_url: str) -> None:
    await begin(shop, database_url, "bad-deploy")
    report = await report_on(shop)
    assert "(deploy v1.4.2)." in report.headline
    assert report.success.detail.startswith("TypeError: unsupported operand type(s)")


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("dead-worker", 5),
        ("leaderless", 5),
        ("slow-dependency", 3),
        ("bad-deploy", 5),
        ("flood-of-one-kind", 40),
        ("calm", 5),
    ],
)
async def test_it_goes_on_while_clients_work(
    shop: Driver, connection: Connection, database_url: str, name: str, ended: int
) -> None:
    await begin(shop, database_url, name)
    started = datetime.now(UTC)
    async with working(shop, INCIDENTS[name]):

        async def went_on() -> bool:
            cursor = await connection.execute(
                "select count(*) filter (where finalized_at > %s) as ended,"
                " count(*) filter (where created_at > %s) as came from river_job",
                [started, started],
            )
            row = await cursor.fetchone()
            return row is not None and row["ended"] >= ended and row["came"] >= 3

        await until(went_on)
        hold(await report_on(shop), name)


async def test_what_is_worked_may_fail_as_it_did(
    shop: Driver, connection: Connection, database_url: str
) -> None:
    await begin(shop, database_url, "bad-deploy")
    started = datetime.now(UTC)
    async with working(shop, INCIDENTS["bad-deploy"]):

        async def failed() -> DictRow | None:
            cursor = await connection.execute(
                "select errors[array_upper(errors, 1)] as error from river_job"
                " where kind = 'email_send' and attempted_at > %s and errors is not null"
                " and errors[array_upper(errors, 1)] ->> 'error' like '%%decimal.Decimal%%'",
                [started],
            )
            return await cursor.fetchone()

        row = await until(failed, seconds=60)
    assert "go_wrong" in row["error"]["trace"], "a real one, with its traceback"


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
        assert INCIDENTS["all-paused"].words in demo.words
        page = httpx2.get(demo.url).text
        assert "All 7 queues are paused." in page
        assert page.count("all-paused") >= 1, "the badge names it"
        report = httpx2.get(demo.url + "api/health-report").json()
        assert (report["level"], report["cause"]) == ("critical", "paused")
    finally:
        demo.stop()
