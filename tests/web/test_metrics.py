"""Figures for Prometheus: what they say, what they cost, and that nothing of them is shared between
apps.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx2 import AsyncClient
from prometheus_client.parser import text_string_to_metric_families
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.domain.figures import Tally
from riverui.domain.sketch import Sketch
from riverui.features.figures.reader.collector import FigureCollector
from riverui.features.figures.reader.totals import EndedTotals, up_to_bounds
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, Access
from riverui.web.config import DashboardConfig
from riverui.web.http.metrics import MEDIA
from tests import factory
from tests.factory import Make
from tests.web.stand_ins import DeadDriver, Later, browser, dashboard

Connection = AsyncConnection[dict[str, Any]]
Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def figures(client: AsyncClient) -> Figures:
    """Return every sample by its name and labels."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == MEDIA
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def at(found: Figures, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


async def test_jobs_and_queues(client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    await make.queue("mail", paused_at=now)
    await make.job(queue="mail", scheduled_at=now - timedelta(minutes=10))
    await make.job(queue='a"b\nc')
    await make.job("running", queue="mail")
    await make.job("completed", finalized_at=now - timedelta(seconds=20))
    await make.job("completed", finalized_at=now - timedelta(minutes=20))
    await make.leader()
    found = await figures(client)
    assert at(found, "river_jobs", state="available") == 2
    assert at(found, "river_jobs", state="completed") == 2
    assert at(found, "river_jobs", state="pending") == 0
    assert at(found, "river_jobs_finished_last_minute", state="completed") == 1
    assert at(found, "river_queue_jobs", queue="mail", state="available") == 1
    assert at(found, "river_queue_jobs", queue="mail", state="running") == 1
    assert at(found, "river_queue_jobs", queue='a"b\nc', state="available") == 1
    assert at(found, "river_queue_paused", queue="mail") == 1
    waited = at(found, "river_queue_oldest_waiting_seconds", queue="mail")
    assert waited is not None
    assert 600 <= waited < 660
    assert at(found, "river_leader") == 1
    assert at(found, "riverui_database_up") == 1


async def test_how_fast_we_answer(client: AsyncClient) -> None:
    await client.get("/queues")
    await client.get("/nothing")
    await client.post("/api/jobs/cancel", json={"ids": [1]})
    found = await figures(client)
    assert (
        at(found, "riverui_request_seconds_count", method="GET", route="queues.index", status="200")
        == 1
    )
    assert at(found, "riverui_request_seconds_count", method="GET", route="none", status="404") == 1
    assert (
        at(
            found,
            "riverui_request_seconds_count",
            method="POST",
            route="api.jobs.cancel",
            status="404",
        )
        == 1
    )
    # The page of queues, and the open incidents.
    assert at(found, "riverui_database_seconds_count", access="read") == 2
    assert at(found, "riverui_database_seconds_count", access="write") == 1


async def test_many_scrapers_are_one_question(driver: Driver, make: Make) -> None:
    app = create_app(driver, no_auth=True)
    async with browser(app) as client:
        first = await figures(client)
        await make.job(queue="late")
        again = await figures(client)
    assert at(first, "river_queue_jobs", queue="late", state="available") is None
    assert at(again, "river_queue_jobs", queue="late", state="available") is None
    await app.state.dashboard.close()


async def test_without_a_database_the_rest_is_told() -> None:
    async with dashboard(DeadDriver()) as client:
        await client.get("/jobs")
        found = await figures(client)
        assert at(found, "riverui_database_up") == 0
        assert (
            at(
                found,
                "riverui_request_seconds_count",
                method="GET",
                route="jobs.index",
                status="503",
            )
            == 1
        )
        assert not any(name.startswith("river_") for name, _ in found)


async def test_it_has_a_right_of_its_own_and_its_errors_are_json() -> None:
    def app(rights: frozenset[str]) -> Starlette:
        return create_app(DeadDriver(), authenticate=lambda connection: Access(rights=rights))

    async with browser(app(frozenset({"metrics.read"}))) as client:
        assert (await client.get("/metrics")).status_code == 200
    async with browser(app(EVERYTHING - {"metrics.read"})) as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, answer.headers["content-type"]) == (
            403,
            "application/json; charset=utf-8",
        )


async def test_two_dashboards_share_nothing() -> None:
    apps = [create_app(DeadDriver(), no_auth=True) for _ in range(2)]
    for app in apps:
        async with browser(app) as client:
            await client.get("/about")
            found = await figures(client)
            assert (
                at(
                    found,
                    "riverui_request_seconds_count",
                    method="GET",
                    route="about",
                    status="503",
                )
                == 1
            )


async def test_what_ended_since_the_start(app: Starlette, make: Make) -> None:
    """Ends count once their time has settled; what was over before the start never does."""
    now = datetime.now(UTC)
    began = now - timedelta(seconds=30)
    error = factory.attempt_error(at=(now + timedelta(seconds=1)).isoformat())
    await make.job("completed", kind="early", finalized_at=now - timedelta(hours=1))
    given: dict[str, Any] = {"queue": "mail", "attempted_at": began, "scheduled_at": began}
    later = Later(app.state.dashboard.driver)
    ended = EndedTotals()
    collector = FigureCollector(later, DashboardConfig(), totals=ended, clock=lambda: 1000.0)
    await collector.tick()
    for kind, state in (("send", "completed"), ("send", "completed"), ("send", "discarded")):
        columns = given | {"attempt": 1, "kind": kind, "finalized_at": now, "errors": [error]}
        await make.job(state, **columns)
    assert ended.totals == {}
    for _ in range(2):
        later.by = timedelta(minutes=4)
        await collector.tick()
        while await collector.fill():
            pass
        (pair,) = [pair for pair in ended.totals if pair[0] == "mail"]
        total = ended.totals[pair]
        assert pair == ("mail", "send")
        assert (total.completed, total.cancelled, total.discarded) == (2, 0, 1)
        assert (total.run.n, total.wait.n) == (2, 3)
        assert total.run.sum_us == pytest.approx(60e6, abs=1e6)
    # Runs of 30 seconds are within 5 % of a bound, so they may count on either side of it.
    assert up_to_bounds(total.run)[6] == 0
    assert up_to_bounds(total.run)[8:] == [2] * 6
    assert ("default", "early") not in ended.totals


def test_totals_of_further_pairs_are_told_together() -> None:
    totals = EndedTotals(pairs=2)
    for n in range(4):
        cells = {
            ("q", f"kind_{n}"): Tally(
                completed=n + 1, run=Sketch.from_spans([timedelta(seconds=1)])
            )
        }
        totals.add(cells)
    assert {pair: total.completed for pair, total in totals.totals.items()} == {
        ("q", "kind_0"): 1,
        ("q", "kind_1"): 2,
        ("*", "*"): 7,
    }


async def test_histograms_of_runs_and_waits(app: Starlette, client: AsyncClient) -> None:
    tally = Tally(
        completed=3,
        discarded=1,
        run=Sketch.from_spans([timedelta(seconds=n) for n in (2, 2, 90)]),
        wait=Sketch.from_spans([timedelta(milliseconds=3)] * 4),
    )
    ended = app.state.dashboard.metrics.ended
    ended.add({("mail", 'a"b'): tally})
    ended.add_failed(("mail", 'a"b'), 10)
    found = await figures(client)
    given = {"queue": "mail", "kind": 'a"b'}
    assert at(found, "river_jobs_ended_total", state="completed", **given) == 3
    assert at(found, "river_jobs_ended_total", state="discarded", **given) == 1
    assert at(found, "river_attempts_failed_total", **given) == 10
    assert at(found, "river_job_run_seconds_bucket", le="1.0", **given) == 0
    assert at(found, "river_job_run_seconds_bucket", le="5.0", **given) == 2
    assert at(found, "river_job_run_seconds_bucket", le="300.0", **given) == 3
    assert at(found, "river_job_run_seconds_count", **given) == 3
    assert at(found, "river_job_run_seconds_sum", **given) == 94
    assert at(found, "river_job_wait_seconds_bucket", le="0.01", **given) == 4


async def test_a_scrape_starts_the_collector(app: Starlette, client: AsyncClient) -> None:
    collector = app.state.dashboard.figures.collector
    await client.get("/operations")
    assert collector.resting
    await figures(client)
    assert not collector.resting
