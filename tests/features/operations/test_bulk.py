"""All matching jobs: the preview shows what is meant, its form carries that, and the operation does
that and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from itsdangerous import URLSafeTimedSerializer
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.engine.feature_list import plain_pilot
from riverui.features.operations.runner import OPERATIONS
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests.cases import cases
from tests.factory import job
from tests.operations import idle
from tests.web.html import Element, parse
from tests.web.stand_ins import browser

Htmx = Callable[..., dict[str, str]]
Connection = AsyncConnection[Any]
KEY = DashboardConfig(secret_key="the same in every process")


async def preview(client: httpx2.AsyncClient, query: str) -> Element:
    answer = await client.get(f"/jobs/bulk?{query}")
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text).one("form", class_="ask")


async def number(app: Starlette) -> int:
    """Return how many operations there are."""
    return len(await app.state.dashboard.get(OPERATIONS).list(limit=9))


async def states(connection: Connection) -> list[str]:
    rows = await (
        await connection.execute("select state::text from river_job order by id")
    ).fetchall()
    return [row["state"] for row in rows]


async def test_a_preview_and_its_operation(driver: Driver, connection: Connection) -> None:
    for n in range(7):
        await job(connection, "discarded", kind="mail" if n else "ship")
    await job(connection, "completed", kind="mail")
    one, other = (
        build_app(driver, SignIn(no_auth=True), KEY, pilot=plain_pilot()) for _ in range(2)
    )
    async with browser(one) as client:
        form = await preview(
            client, "verb=retry&state=discarded&q=kind:mail&next=/jobs?state=discarded"
        )
    assert "Retry 6 discarded jobs?" in form.text
    assert "state:discarded kind:mail" in form.text
    assert "ship" not in form.text
    await job(connection, "discarded", kind="mail")

    # The form may go to another process, and be sent twice.
    addresses = set()
    for app in (other, one):
        async with browser(app) as client:
            answer = await client.post(form.attributes["action"], data=dict(form.fields()))
            assert answer.status_code == 303
            addresses.add(answer.headers["location"])
            await idle(app.state.dashboard.get(OPERATIONS))
            page = parse((await client.get(answer.headers["location"])).text)
            assert "state:discarded kind:mail" in page.one(id="operation").text
            assert "6 jobs retried" in page.one(id="operation").text
            assert page.link("Show the jobs") == "/jobs?q=kind:mail&state=discarded"
            assert "all matching: started" in page.text
    assert len(addresses) == await number(one) == 1
    assert await states(connection) == ["discarded", *["available"] * 6, "completed", "discarded"]
    for app in (one, other):
        await app.state.dashboard.close()


async def test_by_htmx_the_dialog_leads_to_the_operation(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection, htmx: Htmx
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
    await idle(app.state.dashboard.get(OPERATIONS))
    assert await states(connection) == []


@pytest.mark.parametrize("dashboard_limits", [DashboardLimits(preview_jobs=2)])
async def test_what_previews_say(client: httpx2.AsyncClient, connection: Connection) -> None:
    for state in ("retryable", "discarded", "discarded", "cancelled", "completed", "scheduled"):
        await job(connection, state, kind="mail")
    for state in ("available", "completed", "running", "pending"):
        await job(connection, state, kind="ship")
    await connection.execute(
        """insert into river_job (kind, args, state)
        select 'many', '{}', 'scheduled' from generate_series(1, 11000)"""
    )
    with cases() as case:
        for query, said, unsaid in (
            (
                "verb=retry&q=kind:mail",
                (
                    "Retry 4 jobs (1 retryable, 2 discarded, 1 cancelled)?",
                    "state:retryable,discarded,cancelled kind:mail",
                    "Jobs in other states are left out: name a state to include them.",
                    "mail 2 among 2 of them",
                ),
                "completed",
            ),
            ("verb=retry&state=discarded&q=kind:mail", ("Retry 2 discarded jobs?",), "among"),
            ("verb=retry&state=completed&q=kind:mail", ("Retry 1 completed job?",), "other states"),
            (
                "verb=cancel&q=kind:ship",
                ("Cancel 3 jobs (1 pending, 1 available, 1 running)?",),
                "completed",
            ),
            ("verb=cancel&state=scheduled", ("Cancel 10,000+ scheduled jobs?",), "none"),
            ("verb=retry&q=created:<1h", ("created:>=20",), "<1h"),
        ):
            with case(query):
                text = (await preview(client, query)).text
                assert all(words in text for words in said)
                assert unsaid not in text
        for query, words in (
            ("verb=cancel&state=completed", "nothing to cancel among completed jobs"),
            ("verb=delete&q=kind:none", "Delete 0 jobs?"),
        ):
            with case(query):
                form = await preview(client, query)
                assert words in form.text
                assert not form.all("button")
        for query, words in (
            ("?verb=retry&q=knd:x", "did you mean kind:?"),
            ("?verb=explode", "Choose one of"),
            ("", "Choose one of"),
        ):
            with case(query):
                answer = await client.get(f"/jobs/bulk{query}")
                assert answer.status_code == 400
                assert words in answer.text


async def test_a_reader_gets_no_preview_and_starts_nothing(
    client: httpx2.AsyncClient, reader: httpx2.AsyncClient, connection: Connection
) -> None:
    await job(connection, "retryable")
    with cases() as case:
        for verb in ("retry", "cancel", "move", "delete"):
            with case(verb):
                assert (await reader.get(f"/jobs/bulk?verb={verb}")).status_code == 403
                fields = dict((await preview(client, f"verb={verb}")).fields())
                answer = await reader.post(f"/jobs/bulk/{verb}", data=fields)
                assert answer.status_code == 403
    assert await states(connection) == ["retryable"]


async def test_tokens_that_are_not_ours_start_nothing(
    driver: Driver, connection: Connection
) -> None:
    await job(connection, "retryable")
    app = build_app(driver, SignIn(no_auth=True), KEY, pilot=plain_pilot())
    late = build_app(
        driver,
        SignIn(no_auth=True),
        KEY,
        pilot=plain_pilot(),
        options=AppOptions(limits=DashboardLimits(preview_seconds=-1)),
    )
    signer = app.state.dashboard.signer
    foreign = URLSafeTimedSerializer("another key of the same length", salt="riverui")
    async with browser(app) as client, browser(late) as too_late:
        token = dict((await preview(client, "verb=retry")).fields())["token"]
        forged = str(foreign.dumps({"verb": "retry", "filter": ""}, salt="riverui.bulk"))
        cookie_like = str(signer.dumps({"verb": "retry"}, salt="preferences"))
        for bad in ("", "x", token[:-1], token[1:], token + "a", forged, cookie_like, "é\u202e"):
            answer = await client.post("/jobs/bulk/retry", data={"token": bad})
            assert answer.status_code == 400, bad
        # A preview of one verb does not start another.
        for other in ("/jobs/bulk/delete", "/dead-letters/bulk/retry"):
            answer = await client.post(other, data={"token": token})
            assert answer.status_code == 400
            assert "made for another action" in answer.text
        answer = await too_late.post("/jobs/bulk/retry", data={"token": token})
        assert answer.status_code == 400
        assert "has expired" in answer.text
        assert await states(connection) == ["retryable"]
        assert await number(app) == 0
        assert (await client.post("/jobs/bulk/retry", data={"token": token})).status_code == 303
    for each in (app, late):
        await each.state.dashboard.close()


async def test_a_search_without_an_index_may_be_acted_on_before_anything_is_found(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(
        """insert into river_job (kind, args, tags)
        select 'k', '{}', case when n = 1 then '{rare}' else '{}' end::varchar[]
        from generate_series(1, 2000) n"""
    )
    app = build_app(
        driver, SignIn(no_auth=True), DashboardConfig(search_window=300), pilot=plain_pilot()
    )
    async with browser(app) as client:
        form = await preview(client, "verb=delete&state=available&order=-time&q=tag:rare")
        await client.post(form.attributes["action"], data=dict(form.fields()))
        await idle(app.state.dashboard.get(OPERATIONS))
    assert len(await states(connection)) == 1_999
    await app.state.dashboard.close()
