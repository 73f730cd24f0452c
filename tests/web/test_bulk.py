"""All matching jobs: the preview promises, the token carries the promise, the operation keeps
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from itsdangerous import URLSafeTimedSerializer
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.limits import DashboardLimits
from riverui.web.live.operations import Operations
from tests.cases import cases
from tests.factory import job
from tests.web.html import Element, parse
from tests.web.stand_ins import browser

Htmx = Callable[..., dict[str, str]]


async def preview(client: httpx2.AsyncClient, query: str, status: int = 200) -> Element:
    answer = await client.get(f"/jobs/bulk?{query}")
    assert answer.status_code == status, answer.text[:2000]
    return parse(answer.text).one("form", class_="ask")


async def finished(app: Starlette) -> None:
    operations: Operations = app.state.dashboard.operations
    for operation in operations.list():
        if operation.task:
            await asyncio.wait_for(asyncio.shield(operation.task), 20)


async def states(connection: AsyncConnection[Any]) -> list[str]:
    rows = await (
        await connection.execute("select state::text from river_job order by id")
    ).fetchall()
    return [row["state"] for row in rows]


async def test_preview_and_operation(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    for n in range(7):
        await job(connection, "discarded", kind="mail" if n else "ship")
    await job(connection, "completed", kind="mail")
    form = await preview(
        client, "verb=retry&state=discarded&q=kind:mail&next=/jobs?state=discarded"
    )
    assert "Retry 6 discarded jobs?" in form.text
    assert "state:discarded kind:mail" in form.text
    assert "ship" not in form.text
    late = await job(connection, "discarded", kind="mail")

    answer = await client.post(form.attributes["action"], data=dict(form.fields()))
    assert answer.status_code == 303
    where = answer.headers["location"]
    assert where.startswith("/operations/")
    await finished(app)
    page = parse((await client.get(where)).text)
    assert "state:discarded kind:mail" in page.one(id="operation").text
    assert "6 of 6 processed" in page.one(id="operation").text
    assert page.link("Show the jobs") == "/jobs?q=kind:mail&state=discarded"
    assert "all matching: started" in page.text
    assert await states(connection) == ["discarded", *["available"] * 6, "completed", "discarded"]
    assert late

    # The same form sent twice does not do it twice.
    again = await client.post(form.attributes["action"], data=dict(form.fields()))
    assert again.headers["location"] == where
    assert len(app.state.dashboard.operations.list()) == 1


async def test_by_htmx_the_dialog_leads_to_the_operation(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any], htmx: Htmx
) -> None:
    await job(connection)
    asked = await client.get("/jobs/bulk?verb=delete&state=available", headers=htmx("dialog"))
    form = parse(asked.text).one("form", class_="ask")
    assert not parse(asked.text).all("html")
    assert "cannot be undone" in form.text
    answer = await client.post(
        "/jobs/bulk/delete", data=dict(form.fields()), headers=htmx("notices")
    )
    assert answer.headers["hx-redirect"].startswith("/operations/")
    await finished(app)
    assert await states(connection) == []


async def test_only_states_in_which_the_verb_does_something_are_touched(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    for state in ("available", "completed", "running", "pending"):
        await job(connection, state)
    form = await preview(client, "verb=cancel")
    assert "Cancel 3 jobs (1 pending, 1 available, 1 running)?" in form.text
    assert "completed" not in form.one("dl").text
    form = await preview(client, "verb=cancel&state=completed")
    assert "nothing to cancel among completed jobs" in form.text
    assert not form.all("button")


async def test_retry_without_a_state_means_what_failed(
    app: Starlette, client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    every = ("retryable", "discarded", "discarded", "completed", "cancelled", "scheduled")
    for state in every:
        await job(connection, state, kind="mail")
    form = await preview(client, "verb=retry&q=kind:mail")
    assert "Retry 4 jobs (1 retryable, 2 discarded, 1 cancelled)?" in form.text
    assert "state:retryable,discarded,cancelled kind:mail" in form.text
    assert "Jobs in other states are left out: name a state to include them." in form.text
    named = await preview(client, "verb=retry&state=completed&q=kind:mail")
    assert "Retry 1 completed job?" in named.text
    assert "other states" not in named.text

    await client.post(form.attributes["action"], data=dict(form.fields()))
    await finished(app)
    assert await states(connection) == [*["available"] * 3, "completed", "available", "scheduled"]


@pytest.mark.parametrize("dashboard_limits", [DashboardLimits(preview_jobs=2)])
async def test_states_are_counted_beyond_the_jobs_looked_at(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    for state in ("completed", "discarded", "discarded", "discarded", "retryable"):
        await job(connection, state)
    assert "Retry 4 jobs (1 retryable, 3 discarded)?" in (await preview(client, "verb=retry")).text


@pytest.mark.parametrize("dashboard_limits", [DashboardLimits(preview_jobs=2)])
async def test_kinds_are_told_of_the_jobs_looked_at(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    for _ in range(2):
        await job(connection, "discarded", kind="mail")
    assert "among" not in (await preview(client, "verb=retry&state=discarded")).text
    await job(connection, "discarded", kind="mail")
    assert "mail 2 among 2 of them" in (await preview(client, "verb=retry&state=discarded")).text


async def test_spans_of_time_are_frozen(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "discarded")
    form = await preview(client, "verb=retry&q=created:<1h")
    assert "created:>=20" in form.text


async def test_nonsense_gets_no_preview(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/jobs/bulk?verb=retry&q=knd:x")
    assert answer.status_code == 400
    assert "did you mean kind:?" in answer.text
    assert (await client.get("/jobs/bulk?verb=explode")).status_code == 400
    assert (await client.get("/jobs/bulk")).status_code == 400


async def test_nothing_matches(client: httpx2.AsyncClient) -> None:
    form = await preview(client, "verb=delete&q=kind:none")
    assert "Delete 0 jobs?" in form.text
    assert not form.all("button")


async def test_a_reader_gets_no_preview_and_starts_nothing(
    client: httpx2.AsyncClient, reader: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "retryable")
    with cases() as case:
        for verb in ("retry", "cancel", "move", "delete"):
            with case(verb):
                assert (await reader.get(f"/jobs/bulk?verb={verb}")).status_code == 403
                form = await preview(client, f"verb={verb}")
                assert (
                    await reader.post(f"/jobs/bulk/{verb}", data=dict(form.fields()))
                ).status_code == 403
                assert await states(connection) == ["retryable"]


async def test_tokens_that_are_not_ours_start_nothing(
    app: Starlette,
    client: httpx2.AsyncClient,
    connection: AsyncConnection[Any],
) -> None:
    await job(connection, "retryable")
    token = dict((await preview(client, "verb=retry")).fields())["token"]
    foreign = URLSafeTimedSerializer("another key of the same length", salt="riverui")
    forged = str(foreign.dumps({"verb": "delete", "filter": ""}, salt="riverui.bulk"))
    cookie_like = str(app.state.dashboard.signer.dumps({"verb": "retry"}, salt="preferences"))
    for bad in ("", "x", token[:-1], token[1:], token + "a", forged, cookie_like, "é\u202e"):
        answer = await client.post("/jobs/bulk/retry", data={"token": bad})
        assert answer.status_code == 400, bad
    # A preview of one verb is no leave for another.
    assert (await client.post("/jobs/bulk/delete", data={"token": token})).status_code == 400
    assert await states(connection) == ["retryable"]
    assert app.state.dashboard.operations.list() == ()


async def test_a_preview_expires(driver: Driver, connection: AsyncConnection[Any]) -> None:
    await job(connection, "retryable")
    config = DashboardConfig(secret_key="the same for both apps")
    soon = build_app(driver, SignIn(no_auth=True), config, pilot=plain_pilot())
    async with browser(soon) as client:
        token = dict((await preview(client, "verb=retry")).fields())["token"]
    late = build_app(
        driver,
        SignIn(no_auth=True),
        config,
        limits=DashboardLimits(preview_seconds=-1),
        pilot=plain_pilot(),
    )
    async with browser(late) as client:
        answer = await client.post("/jobs/bulk/retry", data={"token": token})
    assert answer.status_code == 400
    assert "has expired" in answer.text
    assert await states(connection) == ["retryable"]
    assert late.state.dashboard.operations.list() == ()
    async with browser(soon) as client:
        answer = await client.post("/jobs/bulk/retry", data={"token": token})
    assert answer.status_code == 303
    await soon.state.dashboard.close()


async def test_a_count_that_is_not_cheap_is_a_lower_bound(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await connection.execute(
        """insert into river_job (kind, args, state)
        select 'k', '{}', 'scheduled' from generate_series(1, 11000)"""
    )
    form = await preview(client, "verb=cancel&state=scheduled")
    assert "Cancel 10,000+ scheduled jobs?" in form.text


async def test_a_search_without_an_index_may_be_acted_on_before_anything_is_found(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await connection.execute(
        """insert into river_job (kind, args, tags)
        select 'k', '{}', case when n = 1 then '{rare}' else '{}' end::varchar[]
        from generate_series(1, 2000) n"""
    )
    app = create_app(driver, no_auth=True, config=DashboardConfig(search_window=300))
    async with browser(app) as client:
        form = await preview(client, "verb=delete&state=available&order=-time&q=tag:rare")
        await client.post(form.attributes["action"], data=dict(form.fields()))
        await finished(app)
    assert len(await states(connection)) == 1_999
    [operation] = app.state.dashboard.operations.list()
    assert operation.changed == 1
