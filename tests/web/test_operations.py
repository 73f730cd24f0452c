"""The pages of operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.actions.job_verbs import DELETE
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface.params import Count, JobFilter, JobOrder
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.live.operations import Operation, OperationLimits, Operations
from tests.factory import job
from tests.web.html import parse
from tests.web.stand_ins import browser

Htmx = Callable[..., dict[str, str]]


async def start(app: Starlette, verb: JobVerb = DELETE) -> Operation:
    board = app.state.dashboard
    async with board.driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    operation: Operation = board.operations.start(
        verb,
        JobFilter(states=(JobState.RUNNING,)),
        id="abc",
        cutoff=cutoff,
        filter_text="state:running <b>",
        order=JobOrder.TIME,
        total=Count(value=3),
        user="ada <i>",
    )
    return operation


async def test_the_list_and_one_operation(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any], htmx: Htmx
) -> None:
    assert "No operations" in (await client.get("/operations")).text
    running = [await job(connection, "running") for _ in range(3)]
    operation = await start(app)
    assert operation.task
    await operation.task
    listed = await client.get("/operations")
    assert "<b>" not in parse(listed.text).one(id="operations-list").text.replace(
        "state:running <b>", ""
    )
    assert "ada <i>" in parse(listed.text).one(id="operation-abc").text
    page = parse((await client.get("/operations/abc")).text)
    text = page.one(id="operation").text
    assert "3 of 3 processed" in text
    assert all(f"#{job_id}" in text for job_id in running)
    fragment = parse((await client.get("/operations/abc", headers=htmx("operation"))).text)
    assert not fragment.all("html")
    assert fragment.one(id="operation").attributes["data-final"] == "1"
    fragment = parse((await client.get("/operations", headers=htmx("operations-list"))).text)
    assert not fragment.all("html")


async def test_unknown_operations(client: httpx2.AsyncClient) -> None:
    for answer in (
        await client.get("/operations/nope"),
        await client.post("/operations/nope/stop", data={}),
    ):
        assert answer.status_code == 404
        assert "restarts" in answer.text


async def test_stopping(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    board = app.state.dashboard
    limits = OperationLimits(pause=timedelta(milliseconds=300))
    board.operations = Operations(board.driver, board.config, limits=limits, pilot=plain_pilot())
    await connection.execute(
        """insert into river_job (kind, args, state, attempted_at)
        select 'k', '{}', 'running', now() - interval '1 m' from generate_series(1, 2500)"""
    )
    operation = await start(app)
    page = parse((await client.get("/operations/abc")).text)
    assert page.one(id="operation").attributes["data-final"] == "0"
    form = next(
        form for form in page.all("form") if form.attributes.get("action", "").endswith("/stop")
    )
    answer = await client.post(form.attributes["action"], data=dict(form.fields()))
    assert (answer.status_code, answer.headers["location"]) == (303, "/operations/abc")
    assert operation.task
    await asyncio.wait_for(operation.task, 10)
    assert operation.status.value == "stopped"
    assert operation.seen < 2_500
    assert "stopped" in parse((await client.get("/operations/abc")).text).one(id="operation").text
    await client.post("/operations/abc/stop", data={"next": "/operations/abc"})
    assert "It had already finished" in (await client.get("/operations/abc")).text


async def test_stopping_needs_the_right_to_the_verb(
    app: Starlette, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "running")
    other = create_app(
        app.state.dashboard.driver,
        authenticate=lambda connection: Access(user="eve", rights=READ_ONLY | {"jobs.retry"}),
    )
    await start(other)
    async with browser(other) as client:
        assert (await client.get("/operations/abc")).status_code == 200
        assert (await client.post("/operations/abc/stop", data={})).status_code == 403
    await other.state.dashboard.close()
