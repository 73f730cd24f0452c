"""The page of periodic jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette

from riverui import (
    Client,
    ClientConfig,
    CronSchedule,
    Job,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    Workers,
)
from riverui.storage.migrations import migrate
from riverui.web.auth.rights import READ_ONLY, Access
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import dashboard


@dataclass
class Hourly:
    """A kind that the client of these tests works."""

    kind: ClassVar[str] = "hourly"


async def come(make: Make, name: str, *minutes: float, state: str = "completed") -> None:
    """Leave the rows of a periodic job that was due so many minutes ago."""
    for ago in sorted(minutes, reverse=True):
        at = datetime.now(UTC) - timedelta(minutes=ago)
        await make.job(
            state,
            kind="report_build",
            scheduled_at=at,
            attempted_at=at + timedelta(seconds=1),
            finalized_at=at + timedelta(seconds=4),
            metadata={"periodic": True, "river:periodic_job_id": name},
        )


async def test_nothing_yet(client: AsyncClient) -> None:
    assert "No periodic jobs" in (await client.get("/periodic")).text


async def test_the_list(client: AsyncClient, make: Make) -> None:
    await come(make, "hourly<b>", 30, 90, 150, 210)
    await come(make, "late", 40, 50, 60, 70)
    page = parse((await client.get("/periodic")).text)
    assert not page.all("b", id="")
    late, hourly = (page.one(id=f"periodic-{n}").text for n in (1, 2))
    assert "late" in late
    assert "about every 10 m" in late
    assert "none for 40 m" in late
    assert "hourly<b>" in hourly
    assert "about every 1 h" in hourly
    assert "in 29 m" in hourly or "in 30 m" in hourly
    # The name leads to its jobs and to no others.
    address = page.one(id="periodic-1").all("a")[0].attributes["href"]
    listed = parse((await client.get(f"{address}&limit=50")).text)
    assert len([row for row in listed.all("tr") if "report_build" in row.text]) == 4


async def test_a_row_of_bars_leads_to_the_jobs(client: AsyncClient, make: Make) -> None:
    await come(make, "hourly", 90, 150)
    await come(make, "hourly", 30, state="discarded")
    page = parse((await client.get("/periodic")).text)
    bars = page.one("svg", **{"class": "runs"}).all("a")
    assert len(bars) == 3
    assert "discarded" in bars[-1].attributes["aria-label"]
    assert "waited 1.0 s, ran 3.0 s" in bars[0].attributes["aria-label"]
    assert (await client.get(bars[-1].attributes["href"])).status_code == 200


async def test_running_now_takes_the_right(app: Starlette, client: AsyncClient, make: Make) -> None:
    await come(make, "hourly", 30)
    driver = app.state.dashboard.driver
    async with dashboard(driver, access=Access(user="ada")) as writer:
        page = parse((await writer.get("/periodic")).text)
        address = page.one("td", **{"class": "c-action"}).one("a").attributes["href"]
        assert "report_build" in (await writer.get(address)).text
    async with dashboard(driver, access=Access(user="eve", rights=READ_ONLY)) as reader:
        assert "Run now" not in (await reader.get("/periodic")).text


async def test_clients_report_schedules(app: Starlette, client: AsyncClient, make: Make) -> None:
    driver = app.state.dashboard.driver
    await migrate(driver, "up", line="riverui")
    await come(make, "hourly", 30, 90, 150)
    workers = Workers()

    @workers.work(Hourly)
    async def work(job: Job[Hourly]) -> None:
        pass

    config = ClientConfig(
        queues={"default": QueueConfig(max_workers=1)},
        periodic_jobs=[
            PeriodicJob(CronSchedule("*/20 * * * *"), lambda: None, id="hourly"),
            PeriodicJob(PeriodicInterval(timedelta(hours=9)), lambda: None, id="rare<b>"),
        ],
        workers=workers,
    )
    async with Client(driver, config):
        page = parse((await client.get("/periodic")).text).one(id="periodic-list")
        (found,) = (await client.get("/api/periodic-jobs")).json()["data"]
    assert "*/20 * * * *" in page.text
    assert "Without a job so far: rare<b> @every 9h" in " ".join(page.text.split())
    assert found["schedule"] == "*/20 * * * *"
    assert datetime.fromisoformat(found["expected_at"]).minute % 20 == 0


async def test_the_api(client: AsyncClient, make: Make) -> None:
    await come(make, "late", 40, 50, 60, 70)
    answer = (await client.get("/api/periodic-jobs")).json()
    (found,) = answer["data"]
    assert (found["id"], found["kind"], found["jobs"]) == ("late", "report_build", 4)
    assert found["usual_seconds"] == pytest.approx(600, abs=1)
    assert found["overdue_seconds"] == pytest.approx(2400, abs=60)
    assert answer["complete"] is True
