"""The pages of operations that dashboards share, and what they say where nothing is shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.actions.job_verbs import RETRY
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, JobFilter, JobOrder
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.limits import DashboardLimits
from riverui.web.live.operation_run import Operation, OperationLimits
from riverui.web.live.operation_store import NewOperation
from riverui.web.live.shared_operations import OperationTimes, SharedOperations
from tests.factory import job
from tests.web.html import parse
from tests.web.stand_ins import browser

NOW = OperationTimes(believe=timedelta(0))
"""Looks each time whether the table is there."""


@pytest.fixture
def driver(driver: Driver, own_tables: None) -> Driver:
    """With riverui's own tables."""
    return driver


@pytest.fixture
async def app(driver: Driver) -> AsyncIterator[Starlette]:
    async with board(driver) as app:
        yield app


@asynccontextmanager
async def board(driver: Driver, **options: Any) -> AsyncIterator[Starlette]:
    """Another dashboard of the same database, as another process has it."""
    config, limits = options.pop("config", None), DashboardLimits(operation_times=NOW)
    app = build_app(
        driver, SignIn(**(options or {"no_auth": True})), config, limits=limits, pilot=plain_pilot()
    )
    yield app
    await app.state.dashboard.close()


async def start(app: Starlette, id: str = "abc", filter: str = "state:discarded") -> Operation:
    dashboard = app.state.dashboard
    assert await dashboard.shared_operations.ready()
    async with dashboard.driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    operation: Operation = await dashboard.shared_operations.begin(
        NewOperation(
            id=id,
            verb=RETRY,
            given={},
            filter=JobFilter(states=(JobState.DISCARDED,)),
            filter_text=filter,
            order=JobOrder.TIME,
            cutoff=cutoff,
            total=Count(value=3),
            user="ada <i>",
        )
    )
    return operation


def slow(app: Starlette) -> None:
    """Let the dashboard's operations rest for long after each chunk."""
    dashboard = app.state.dashboard
    dashboard.shared_operations = SharedOperations(
        dashboard.driver,
        dashboard.config,
        name="slow <one>",
        limits=OperationLimits(pause=timedelta(minutes=10)),
        pilot=plain_pilot(),
    )


async def ended(app: Starlette) -> None:
    async with asyncio.timeout(20):
        board = app.state.dashboard.shared_operations
        while board.held:  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.01)


async def test_another_dashboard_shows_it(
    app: Starlette, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for _ in range(3):
        await job(connection, "discarded")
    await start(app)
    async with board(driver) as other, browser(other) as client:
        text = parse((await client.get("/operations")).text).one(id="operations-list").text
        assert "ada <i>" in text
        assert "this process" not in text
        await ended(app)
        page = parse((await client.get("/operations/abc")).text).one(id="operation")
        assert page.attributes["data-final"] == "1"
        assert "3 of 3 processed" in page.text
        assert app.state.dashboard.name in page.text
        answer = (await client.get("/api/operations/abc")).json()["operation"]
        assert (answer["status"], answer["changed"], answer["user"]) == ("done", 3, "ada <i>")
        assert [each["id"] for each in (await client.get("/api/operations")).json()["data"]] == [
            "abc"
        ]


async def test_another_dashboard_stops_it(
    app: Starlette, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await connection.execute(
        """insert into river_job (kind, args, state, max_attempts, finalized_at)
        select 'k', '{}', 'discarded', 3, now() from generate_series(1, 1500)"""
    )
    slow(app)
    await start(app)
    async with board(driver) as other, browser(other) as client:
        answer = await client.post("/operations/abc/stop", data={"next": "/operations/abc"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/operations/abc")
        page = parse((await client.get("/operations/abc")).text).one(id="operation").text
        assert "stopping" in page
        assert "Jobs until" in page
        assert "slow <one>" in page
        await app.state.dashboard.close()
        page = parse((await client.get("/operations/abc")).text).one(id="operation").text
        assert "No dashboard works on it just now" in page
        answer = await client.post("/api/operations/abc/stop", json={})
        assert answer.json()["operation"]["status"] == "stopping"
    rows = await connection.execute("select * from riverui_operation")
    stored = await rows.fetchone()
    assert stored is not None
    async with browser(app) as client:
        told = (await client.get("/api/operations/abc")).json()["operation"]
        assert datetime.fromisoformat(told["cutoff_at"]) == stored["cutoff_at"]
        assert told["stopped_by"] == stored["stopped_by"]


async def test_an_app_without_lifespan_goes_on_once_it_is_asked(
    app: Starlette, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for _ in range(3):
        await job(connection, "discarded")
    await start(app)
    await app.state.dashboard.close()
    async with board(driver) as other, browser(other) as client:
        async with asyncio.timeout(20):
            page = ""
            while "3 of 3 processed" not in page:
                await asyncio.sleep(0.02)
                page = parse((await client.get("/operations/abc")).text).one(id="operation").text
        assert other.state.dashboard.name in page


async def test_stopping_needs_the_right_to_the_verb(
    app: Starlette, driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "discarded")
    slow(app)
    await start(app)
    eve = Access(user="eve", rights=READ_ONLY | {"jobs.cancel"})
    async with board(driver, authenticate=lambda _: eve) as other, browser(other) as client:
        assert (await client.get("/operations/abc")).status_code == 200
        assert (await client.post("/operations/abc/stop", data={})).status_code == 403
        assert (await client.post("/api/operations/abc/stop", json={})).status_code == 403


async def test_a_form_sent_to_any_dashboard_starts_it_once(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    """The preview comes from one process, the form goes to another, and is sent twice."""
    for _ in range(3):
        await job(connection, "discarded")
    config = DashboardConfig(secret_key="the same in every process")
    async with (
        board(driver, no_auth=True, config=config) as one,
        board(driver, no_auth=True, config=config) as other,
    ):
        async with browser(one) as client:
            preview = parse((await client.get("/jobs/bulk?verb=retry&state=discarded")).text)
        form = next(
            form
            for form in preview.all("form")
            if form.attributes.get("action", "").endswith("/jobs/bulk/retry")
        )
        for app in (other, one):
            async with browser(app) as client:
                answer = await client.post("/jobs/bulk/retry", data=dict(form.fields()))
                assert answer.status_code == 303
                assert (await client.get(answer.headers["location"])).status_code == 200
        await ended(one)
        await ended(other)
        listed = await one.state.dashboard.shared_operations.page(limit=9)
        assert [each.changed for each in listed.operations] == [3]


async def test_history_by_pages(app: Starlette, connection: AsyncConnection[Any]) -> None:
    await start(app, "begun")
    await ended(app)
    await connection.execute(
        """insert into riverui_operation (id, created_at, ended_at, status, verb, allowed, query,
          sort, cutoff_id, cutoff_at, total, total_kind)
        select 'n' || n, created_at - n * interval '1 min', ended_at, 'done', 'cancel',
          'jobs.cancel', query, sort, cutoff_id, cutoff_at, n, total_kind
        from riverui_operation, generate_series(1, 110) n"""
    )
    async with browser(app) as client:
        shown: list[str] = []
        path = "/operations"
        while path:
            page = parse((await client.get(path)).text)
            shown += [
                row.attributes["id"].removeprefix("operation-")
                for row in page.all("tr")
                if row.attributes.get("id")
            ]
            links = [a for a in page.all("a") if a.text.strip() == "Older"]
            path = links[0].attributes["href"] if links else ""
        assert shown == ["begun", *(f"n{n}" for n in range(1, 111))]
        last = parse((await client.get("/operations?before=n110")).text)
        assert "No more operations" in last.one(id="operations-list").text
        rest = (await client.get("/api/operations?before=n9&limit=2")).json()["data"]
        assert [each["id"] for each in rest] == ["n10", "n11"]
        assert (await client.get("/operations?after=n9")).status_code == 400
        assert (await client.get("/api/operations?limit=0")).status_code == 400


async def test_what_is_unknown(app: Starlette) -> None:
    async with browser(app) as client:
        assert "No operations" in (await client.get("/operations")).text
        for answer in (
            await client.get("/operations/nope"),
            await client.post("/operations/nope/stop", data={}),
            await client.get("/api/operations/nope"),
        ):
            assert answer.status_code == 404
            assert "30 days after their end" in answer.text


async def test_a_query_of_another_version_is_shown_as_it_is(
    app: Starlette, connection: AsyncConnection[Any]
) -> None:
    await start(app)
    await ended(app)
    await connection.execute(
        "update riverui_operation set query = 'state:discarded flavour:<b>sweet',"
        """ skipped = '{"sour": [3, [1]], "running": [2, [1, 2]]}'"""
    )
    async with browser(app) as client:
        page = await client.get("/operations/abc")
        text = parse(page.text).one(id="operation").text
        assert "flavour:<b>sweet" in text
        assert "2 still running" in text


@pytest.mark.parametrize("others", [0, 1, 2])
async def test_without_the_table_it_says_so_and_warns(
    others: int, database_url: str, client: httpx2.AsyncClient, app: Starlette
) -> None:
    await migrate(app.state.dashboard.driver, "down", line="riverui", target_version=-1)
    seen = [connect(database_url, dashboard=f"web-{n}:1:abc") for n in range(others)]
    for other in seen:
        await other.ping()
    page = parse((await client.get("/operations")).text).one(id="operations-list").text
    assert "Operations are kept in this process" in page
    assert "Migration 001 of the line riverui" in page
    assert "riverui migrate-up --line riverui" in page
    told = {0: "", 1: "Another dashboard is", 2: "2 other dashboards are"}[others]
    assert told in page
    assert ("connected to this database" in page) == bool(others)
    for path in ("/operations/nope", "/api/operations/nope"):
        answer = await client.get(path)
        assert answer.status_code == 404
        assert ("Another dashboard of this database may know it" in answer.text) == bool(others)
    for other in seen:
        await other.close()
