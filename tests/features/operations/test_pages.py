"""The pages of operations, and their API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.actions.job_verbs import DELETE
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.features.operations.run import OperationLimits
from riverui.features.operations.runner import OPERATIONS
from riverui.features.operations.store import Operation
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.interface.params import Count, JobFilter
from riverui.web.app import build_app
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.factory import job
from tests.features.operations.conftest import QUICK
from tests.operations import ended, idle, reach, start
from tests.web.html import parse
from tests.web.stand_ins import browser

Htmx = Callable[..., dict[str, str]]
RUNNING = JobFilter(states=(JobState.RUNNING,))


@asynccontextmanager
async def board(
    driver: Driver, *, pause: timedelta = timedelta(0), name: str = "", **sign_in: Any
) -> AsyncIterator[Starlette]:
    """Open another dashboard of the same database, as another process has it."""
    limits = OperationLimits(**QUICK | {"pause": pause})
    app = build_app(
        driver,
        SignIn(**(sign_in or {"no_auth": True})),
        pilot=plain_pilot(),
        options=AppOptions(limits=DashboardLimits(features=(limits,)), name=name),
    )
    yield app
    await app.state.dashboard.close()


async def begin(app: Starlette, **given: Any) -> Operation:
    """Start to delete the running jobs, which skips them all."""
    asked = {"total": Count(value=3), "user": "ada <i>"} | given
    board = app.state.dashboard
    return await start(board.get(OPERATIONS), board.driver, DELETE, RUNNING, **asked)


async def test_the_list_and_one_operation(
    keeping: Driver, kept: str, connection: AsyncConnection[Any], htmx: Htmx
) -> None:
    running = [await job(connection, "running") for _ in range(3)]
    async with board(keeping, name="web <1>") as app, board(keeping) as other:
        await begin(app)
        await idle(app.state.dashboard.get(OPERATIONS))
        async with browser(other if kept == "table" else app) as client:
            listed = parse((await client.get("/operations")).text).one(id="operations-list").text
            page = parse((await client.get("/operations/one")).text).one(id="operation")
            for address, part in (
                ("/operations/one", "operation"),
                ("/operations", "operations-list"),
            ):
                fragment = parse((await client.get(address, headers=htmx(part))).text)
                assert not fragment.all("html")
                assert fragment.one(id=part)
            answer = (await client.get("/api/operations/one")).json()["operation"]
            assert (await client.get("/api/operations")).json() == {"data": [answer]}
            await client.post("/operations/one/stop", data={"next": "/operations/one"})
            assert "It had already finished" in (await client.get("/operations/one")).text
    assert "ada <i>" in listed
    assert ("this process" in listed) == (kept == "process")
    assert page.attributes["data-final"] == "1"
    assert "0 jobs deleted, 3 skipped" in page.text
    assert "3 still running" in page.text
    assert "Jobs newer than" in page.text
    assert ("web <1>" in page.text) == (kept == "table")
    assert all(f"#{job_id}" in page.text for job_id in running)
    assert (answer["status"], answer["changed"], answer["user"]) == ("done", 0, "ada <i>")
    assert answer["skipped"] == {"running": 3}


async def test_stopping(keeping: Driver, kept: str, connection: AsyncConnection[Any]) -> None:
    await connection.execute(
        """insert into river_job (kind, args, state, attempted_at)
        select 'k', '{}', 'running', now() - interval '1 m' from generate_series(1, 2500)"""
    )
    slow = timedelta(milliseconds=500)
    eve = Access(user="eve", rights=READ_ONLY | {"jobs.retry"})
    async with (
        board(keeping, pause=slow) as app,
        board(keeping) as other,
        board(driver=keeping, authenticate=lambda _: eve) as hers,
    ):
        if kept == "process":
            other = app
        await begin(app)
        await reach(app.state.dashboard.get(OPERATIONS), lambda found: found.processed)
        async with browser(other) as client:
            page = parse((await client.get("/operations/one")).text)
            assert page.one(id="operation").attributes["data-final"] == "0"
            form = next(
                form
                for form in page.all("form")
                if form.attributes.get("action", "").endswith("/stop")
            )
            if kept == "table":
                async with browser(hers) as reader:
                    assert (await reader.get("/operations/one")).status_code == 200
                    for path in ("/operations/one/stop", "/api/operations/one/stop"):
                        assert (await reader.post(path, data={})).status_code == 403
            answer = await client.post(form.attributes["action"], data=dict(form.fields()))
            assert (answer.status_code, answer.headers["location"]) == (303, "/operations/one")
            found = await ended(app.state.dashboard.get(OPERATIONS))
            assert (found.status, found.processed) == ("stopped", 1_000)
            page = parse((await client.get("/operations/one")).text).one(id="operation")
            assert "Stopped: 0 of " in page.text


async def test_an_operation_without_holder_waits_and_continues(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for _ in range(3):
        await job(connection, "running")
    # It is not taken over: its features are those of another client.
    async with board(driver, pause=timedelta(minutes=1)) as app:
        await begin(app)
        await reach(app.state.dashboard.get(OPERATIONS), lambda found: found.processed)
    await connection.execute("update riverui_operation set features = 'Unknown'")
    async with board(driver) as other, browser(other) as client:
        answer = await client.post("/api/operations/one/stop", json={})
        found = answer.json()["operation"]
        assert found["status"] == "stopping"
        page = parse((await client.get("/operations/one")).text).one(id="operation").text
        assert "No dashboard is working on it" in page
        rows = await connection.execute("select * from riverui_operation")
        row = await rows.fetchone()
        assert row is not None
        assert datetime.fromisoformat(found["cutoff_at"]) == row["cutoff_at"]
        assert found["stopped_by"] == row["stopped_by"]
        await connection.execute("update riverui_operation set features = ''")
        # An app without lifespan goes on once it is asked.
        await reach(other.state.dashboard.get(OPERATIONS), lambda found: found.ended_at)


async def test_history_by_pages(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    assert "No operations" in (await client.get("/operations")).text
    await begin(app)
    await idle(app.state.dashboard.get(OPERATIONS))
    await connection.execute(
        """insert into riverui_operation (id, created_at, ended_at, status, verb, allowed, query,
          sort, cutoff_id, cutoff_at, total, total_kind)
        select 'n' || n, created_at - n * interval '1 min', ended_at, 'done', 'cancel',
          'jobs.cancel', query, sort, cutoff_id, cutoff_at, n, total_kind
        from riverui_operation, generate_series(1, 110) n"""
    )
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
    assert shown == ["one", *(f"n{n}" for n in range(1, 111))]
    last = parse((await client.get("/operations?before=n110")).text)
    assert "No more operations" in last.one(id="operations-list").text
    rest = (await client.get("/api/operations?before=n9&limit=2")).json()["data"]
    assert [each["id"] for each in rest] == ["n10", "n11"]
    assert (await client.get("/operations?after=n9")).status_code == 400
    assert (await client.get("/api/operations?limit=0")).status_code == 400

    await connection.execute(
        "update riverui_operation set query = 'state:discarded flavour:<b>sweet',"
        """ skipped = '{"sour": [3, [1]], "running": [2, [1, 2]]}'"""
    )
    page = parse((await client.get("/operations/one")).text).one(id="operation")
    assert "flavour:<b>sweet" in page.text
    assert "2 still running" in page.text


async def test_an_unknown_one_and_the_way_to_share_them(
    driver: Driver, connection: AsyncConnection[Any], database_url: str
) -> None:
    addresses = ("/operations/nope", "/api/operations/nope")
    async with board(driver) as app, browser(app) as client:
        for address in addresses:
            answer = await client.get(address)
            assert answer.status_code == 404
            assert "30 days after their end" in answer.text
        assert (await client.post("/operations/nope/stop", data={})).status_code == 404
        await connection.execute("drop table riverui_operation")
        # The first statement that fails makes the dashboard ask again.
        await client.get("/operations")
        others: list[Driver] = []
        for sentence in ("", "Another dashboard is", "2 other dashboards are"):
            page = parse((await client.get("/operations")).text).one(id="operations-list").text
            assert "Operations are kept in this process" in page
            assert "The tables of riverui" in page
            assert "riverui migrate-up --line riverui" in page
            assert sentence in page
            assert ("connected to this database" in page) == bool(sentence)
            for address in addresses:
                answer = await client.get(address)
                assert answer.status_code == 404
                assert "when the dashboard restarts" in answer.text
                assert ("may know it: each knows only its own" in answer.text) == bool(sentence)
            others.append(connect(database_url, dashboard=f"web-{len(others)}:1:abc"))
            await others[-1].ping()
        for other in others:
            await other.close()
