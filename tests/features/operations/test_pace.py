"""Operations with a limited pace, a trial, and an automatic stop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.engine.feature_list import plain_pilot
from riverui.features.operations.run import OperationLimits
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.cases import cases
from tests.factory import job
from tests.features.operations.conftest import QUICK
from tests.operations import until_operation
from tests.web.html import parse
from tests.web.stand_ins import browser


@asynccontextmanager
async def board(driver: Driver, **limits: Any) -> AsyncIterator[Starlette]:
    quick = OperationLimits(**QUICK | {"outcomes": timedelta(milliseconds=10)} | limits)
    app = build_app(
        driver,
        SignIn(no_auth=True),
        pilot=plain_pilot(),
        options=AppOptions(limits=DashboardLimits(features=(quick,))),
    )
    yield app
    await app.state.dashboard.close()


@pytest.fixture
async def client(keeping: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    async with board(keeping) as app, browser(app) as client:
        yield client


async def discarded(connection: AsyncConnection[Any], number: int) -> list[int]:
    return [await job(connection, "discarded", kind="mail") for _ in range(number)]


async def retry(client: httpx2.AsyncClient, **pace: int) -> str:
    answer = await client.post("/api/jobs/retry", json={"query": "kind:mail", **pace})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["operation"]["id"])


async def until(client: httpx2.AsyncClient, operation: str, **wanted: Any) -> dict[str, Any]:
    """Return the operation once it meets a condition."""
    return await until_operation(
        client, f"/api/operations/{operation}", lambda found: wanted.items() <= found.items()
    )


async def end(connection: AsyncConnection[Any], *, failing: int = 0) -> None:
    """Let all available jobs end, so many of them with an error."""
    cursor = await connection.execute("select id from river_job where state = 'available'")
    for place, row in enumerate(await cursor.fetchall()):
        await connection.execute(
            """update river_job set attempt = attempt + 1, errors = case when %(failed)s
               then array_append(errors, '{}'::jsonb) else errors end,
               state = case when %(failed)s then 'retryable'::river_job_state else 'completed' end,
               finalized_at = case when %(failed)s then null else now() end
               where id = %(id)s""",
            {"failed": place < failing, "id": row["id"]},
        )


async def available(connection: AsyncConnection[Any]) -> int:
    cursor = await connection.execute(
        "select count(*) as number from river_job where state = 'available'"
    )
    row = await cursor.fetchone()
    assert row
    return int(row["number"])


async def test_the_rest_follows_a_trial_that_went_well(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 40)
    operation = await retry(client, canary=10)
    await until(client, operation, changed=10, status="running")
    assert await available(connection) == 10
    page = parse((await client.get(f"/operations/{operation}")).text).one(id="operation").text
    assert "10 jobs first" in page
    assert "the rest waits for the first jobs" in page
    await end(connection, failing=2)
    found = await until(client, operation, status="done")
    assert (found["changed"], found["failing_again"]) == (40, 2)
    assert found["pace"] == {"canary": 10}


async def test_a_trial_that_fails_stops_it(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 40)
    operation = await retry(client, canary=10, stop_failing=30)
    await until(client, operation, changed=10)
    await end(connection, failing=4)
    found = await until(client, operation, status="stopped")
    assert found["changed"] == 10
    assert found["error"] == (
        "It stopped by itself: 4 of the newest 10 jobs failed again (40 %, more than 30 %)."
    )
    page = parse((await client.get(f"/operations/{operation}")).text).one(id="operation").text
    assert "It stopped by itself" in page
    assert "4 of the newest 10 finished" in page.replace("  ", " ")


async def test_a_slow_trial_is_judged_once_all_of_it_has_run(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 10)
    # One job every half second.
    operation = await retry(client, canary=2, per_minute=119)
    await until(client, operation, changed=1)
    await end(connection, failing=1)
    await until(client, operation, changed=2)
    await end(connection)
    found = await until(client, operation, status="stopped")
    assert (found["changed"], found["failing_again"]) == (2, 1)


async def test_it_goes_so_many_a_minute_and_stops_when_they_fail(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 500)
    operation = await retry(client, per_minute=1200, stop_failing=50)
    await until(client, operation, changed=20)
    await end(connection, failing=1000)
    found = await until(client, operation, status="stopped")
    assert found["changed"] < 500
    assert "failed again" in found["error"]


async def test_a_slow_operation_is_stopped(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 3)
    operation = await retry(client, per_minute=1)
    await until(client, operation, changed=1)
    await client.post(f"/api/operations/{operation}/stop", json={})
    found = await until(client, operation, status="stopped")
    assert (found["changed"], found["error"]) == (1, "")


async def test_a_trial_that_takes_too_long_stops_it(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 5)
    async with board(driver, trial=timedelta(milliseconds=30)) as app, browser(app) as client:
        operation = await retry(client, canary=3)
        found = await until(client, operation, status="stopped")
    assert found["changed"] == 3
    assert found["error"].startswith("It stopped by itself: 3 of the first 3 jobs had not ended")


@pytest.mark.parametrize(
    ("failing", "status", "changed", "states"),
    [
        # Each job is let run once: none of the first ten is met again.
        (1, "done", 30, ["available"] * 20 + ["completed"] * 9 + ["retryable"]),
        (9, "stopped", 10, ["completed"] + ["discarded"] * 20 + ["retryable"] * 9),
    ],
)
async def test_another_dashboard_goes_on_with_the_trial(
    failing: int,
    status: str,
    changed: int,
    states: list[str],
    driver: Driver,
    connection: AsyncConnection[Any],
) -> None:
    await discarded(connection, 30)
    async with board(driver) as app, browser(app) as first:
        operation = await retry(first, canary=10)
        await until(first, operation, changed=10)
    await end(connection, failing=failing)
    async with board(driver) as app, browser(app) as client:
        found = await until(client, operation, status=status)
    assert (found["changed"], found["failing_again"]) == (changed, failing)
    cursor = await connection.execute("select state::text as state from river_job order by id")
    assert sorted(row["state"] for row in await cursor.fetchall()) == states


@pytest.mark.parametrize("kept", ["table"], indirect=True)
async def test_the_form_asks_for_it(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await discarded(connection, 12)
    page = parse((await client.get("/jobs/bulk?verb=retry&state=discarded")).text)
    form = next(
        form
        for form in page.all("form")
        if form.attributes.get("action", "").endswith("/jobs/bulk/retry")
    )
    fields = dict(form.fields())
    assert {"per_minute", "canary", "stop_failing"} <= fields.keys()
    address = form.attributes["action"]
    refused = await client.post(address, data={**fields, "canary": "1000"})
    assert refused.status_code == 400
    assert "from 1 to 100" in refused.text
    answer = await client.post(address, data={**fields, "canary": "5"})
    operation = answer.headers["location"].rsplit("/", 1)[-1]
    await until(client, operation, changed=5, pace={"canary": 5})
    refused = await client.post("/jobs/bulk/cancel", data={**fields, "canary": "5"})
    assert refused.status_code == 400
    deleting = (await client.get("/jobs/bulk?verb=delete&state=discarded")).text
    assert 'name="per_minute"' in deleting
    assert 'name="canary"' not in deleting


@pytest.mark.parametrize("kept", ["process"], indirect=True)
async def test_nonsense_is_refused(client: httpx2.AsyncClient) -> None:
    with cases() as case:
        for verb, pace, message in (
            ("retry", {"per_minute": 0}, "1 to 1,000,000"),
            ("retry", {"per_minute": "many"}, "1 to 1,000,000"),
            ("retry", {"canary": 101}, "1 to 100"),
            ("retry", {"stop_failing": 1.5}, "1 to 100"),
            ("cancel", {"canary": 5}, "may be given, not `canary`"),
            ("delete", {"stop_failing": 5}, "may be given, not `stop_failing`"),
        ):
            with case((verb, pace)):
                answer = await client.post(f"/api/jobs/{verb}", json={"query": "", **pace})
                assert answer.status_code == 400
                assert message in answer.json()["message"]
