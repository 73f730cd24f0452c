"""Steps of a search that no index serves: one search a viewer, three a process, and only honest
addresses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.auth.rights import READ_ONLY, Access
from riverui.web.config import DashboardConfig
from riverui.web.search.long_searches import Searches, Turn
from tests.cases import cases
from tests.web.html import Element, parse
from tests.web.stand_ins import SlowDriver, browser

Htmx = Callable[..., dict[str, str]]
CONFIG = DashboardConfig(search_window=300)


@pytest.fixture
async def app(driver: Driver, connection: AsyncConnection[Any]) -> AsyncIterator[Starlette]:
    """Yield a dashboard in small steps; who asks is named by a header."""
    await connection.execute(
        """insert into river_job (kind, args, tags)
        select 'k', '{}', case when n % 450 = 1 then '{rare}' else '{}' end::varchar[]
        from generate_series(1, 850) n"""
    )
    app = create_app(
        driver,
        config=CONFIG,
        authenticate=lambda asking: Access(user=asking.headers.get("x-user", ""), rights=READ_ONLY),
    )
    yield app
    await app.state.dashboard.close()


async def _begun(client: AsyncClient, user: str = "") -> str:
    """Open a search's page and return the address of its first step."""
    page = parse((await client.get("/jobs?q=tag:rare", headers={"x-user": user})).text)
    return page.one(id="search-note").attributes["hx-get"] or ""


async def _step(client: AsyncClient, url: str, headers: dict[str, str]) -> Element:
    answer = await client.get(url, headers=headers)
    assert answer.status_code == 200, answer.text
    return parse(answer.text)


async def test_each_step_brings_rows_and_the_next_address(app: Starlette, htmx: Htmx) -> None:
    async with browser(app) as client:
        url = await _begun(client)
        first = await _step(client, url, htmx("search-note"))
        assert first.one(id="search-note").attributes["data-search"] == "going"
        assert "Searched 600 of 850 jobs, 1 found." in first.one(id="search-note").text
        assert [row.attributes["id"] for row in first.all("tbody")] == ["job-451"]
        last = await _step(
            client, first.one(id="search-note").attributes["hx-get"] or "", htmx("search-note")
        )
        assert "Search finished: 2 found." in last.one(id="search-note").text
        assert "hx-get" not in last.one(id="search-note").attributes


async def test_a_newer_search_replaces_an_older_one(app: Starlette, htmx: Htmx) -> None:
    headers = htmx("search-note") | {"x-user": "ada"}
    async with browser(app) as client:
        older = await _step(client, await _begun(client, "ada"), headers)
        newer = await _step(client, await _begun(client, "ada"), headers)
        assert newer.one(id="search-note").attributes["data-search"] == "going"
        told = await _step(client, older.one(id="search-note").attributes["hx-get"] or "", headers)
        note = told.one(id="search-note")
        assert note.attributes["data-search"] == "stopped"
        assert "Stopped: ada has started another search." in note.text
        assert "Searched 600 of 850 jobs" in note.text
        # Whoever wants the older one can have it, where it stood.
        (button,) = [button for button in told.all("button") if button.text == "Continue"]
        assert (
            "Search finished"
            in (await _step(client, button.attributes["hx-get"] or "", headers)).text
        )


async def test_a_fourth_search_waits_for_its_turn(app: Starlette, htmx: Htmx) -> None:
    async with browser(app) as client:
        going = [await _step(client, await _begun(client), htmx("search-note")) for _ in range(3)]
        fourth = await _step(client, await _begun(client), htmx("search-note"))
        note = fourth.one(id="search-note")
        assert note.attributes["data-search"] == "waiting"
        assert "Waiting for other searches to finish." in note.text
        # One that ends makes room.
        await _step(
            client, going[0].one(id="search-note").attributes["hx-get"] or "", htmx("search-note")
        )
        after = await _step(client, note.attributes["hx-get"] or "", htmx("search-note"))
        assert after.one(id="search-note").attributes["data-search"] == "going"


def test_a_page_that_asks_no_more_is_forgotten() -> None:
    now = 1000.0
    searches = Searches(clock=lambda: now)
    for viewer in ("a", "b", "c"):
        assert searches.turn(viewer, viewer, begin=True, step=3) is Turn.TAKEN
        searches.rest(viewer, viewer, over=False)
    assert searches.turn("d", "d", begin=True, step=3) is Turn.BUSY
    now += 5.1
    assert searches.turn("d", "d", begin=True, step=3) is Turn.TAKEN


async def test_a_step_that_times_out(app: Starlette, driver: Driver, htmx: Htmx) -> None:
    async with browser(app) as client:
        url = await _begun(client)
    slow: Any = SlowDriver(driver, "job_list")
    async with browser(create_app(slow, config=CONFIG, no_auth=True)) as client:
        note = (await _step(client, url, htmx("search-note"))).one(id="search-note")
        assert "Stopped: the database took too long." in note.text
        assert note.attributes["data-search"] == "stopped"


async def test_an_address_that_no_page_gave_out_is_refused(app: Starlette, htmx: Htmx) -> None:
    with cases() as case:
        for address in (
            "/jobs/search",
            "/jobs/search?q=tag:rare&after=601&looked=300&found=0",
            "/jobs/search?q=tag:rare&after=601&looked=300&found=0&search=../../..",
            "/jobs/search?q=tag:rare&after=601&looked=-1&found=0&search=0123abcd",
            "/jobs/search?q=tag:rare&after=601&looked=300&found=100&search=0123abcd",
            "/jobs/search?q=tag:rare&before=601&looked=300&found=0&search=0123abcd",
            "/jobs/search?q=tag:rare&looked=300&found=0&search=0123abcd",
        ):
            with case(address):
                async with browser(app) as client:
                    assert (
                        await client.get(address, headers=htmx("search-note"))
                    ).status_code == 400


async def test_opened_as_a_page_a_step_is_the_list_from_there(app: Starlette) -> None:
    async with browser(app) as client:
        answer = await client.get(await _begun(client))
        assert answer.headers["location"] == "/jobs?q=tag:rare&after=551"
        page = parse((await client.get("/jobs?q=tag:rare&after=551")).text)
        assert [row.attributes["id"] for row in page.all("tbody")] == ["job-451"]
