"""About, help and this browser's preferences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
from psycopg import AsyncConnection

from riverui import create_app
from riverui.domain.figures import Tally
from riverui.domain.rollups import HOUR, Rollup
from riverui.storage.connect import connect
from riverui.storage.interface import ROLLUPS, Driver
from tests.cases import cases
from tests.factory import leader
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, browser

Htmx = Callable[..., dict[str, str]]


async def test_versions_database_leader_and_rights(
    client: httpx2.AsyncClient,
    reader: httpx2.AsyncClient,
    connection: AsyncConnection[Any],
    htmx: Htmx,
) -> None:
    await leader(connection, "host_a")
    text = parse((await client.get("/about")).text).one(id="about").text
    for shown in ("riverui", "PostgreSQL", "Starlette", "host_a", "shared_buffers", "delete jobs"):
        assert shown in text, shown
    assert "Missing migrations" not in text
    assert "delete jobs" not in parse((await reader.get("/about")).text).one(id="about").text
    fragment = parse((await client.get("/about", headers=htmx("about"))).text)
    assert not fragment.all("html")


async def test_missing_and_unknown_migrations_are_named(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await connection.execute("delete from river_migration where version = 7")
    await connection.execute(
        "insert into river_migration (line, version) values ('main', 900), ('pro', 3)"
    )
    text = parse((await client.get("/about")).text).one(id="about").text
    assert "Missing migrations: 7." in text
    assert "900 unknown" in text
    assert "pro" in text


async def test_a_version_that_does_nothing_is_not_missed(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    await connection.execute("delete from river_migration where version = 8")
    assert "Missing migrations" not in (await client.get("/about")).text
    await connection.execute("delete from river_migration where version = 6")
    assert "Missing migrations: 6." in parse((await client.get("/about")).text).one(id="about").text


async def test_another_line_is_missed_once_it_is_begun(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    assert "Missing migrations" not in (await client.get("/about")).text
    await connection.execute("insert into river_migration (line, version) values ('riverui', 900)")
    text = parse((await client.get("/about")).text).one(id="about").text
    assert "Missing migrations of line riverui: 1" in text
    assert "riverui migrate-up --line riverui" in text


async def test_it_tells_what_is_wrong_with_the_database(empty_database_url: str) -> None:
    async with browser(create_app(DeadDriver(), no_auth=True)) as client:
        answer = await client.get("/about")
        assert answer.status_code == 503
        assert parse(answer.text).one(id="about").text.count("cannot be reached") == 1
    driver = connect(empty_database_url)
    async with browser(create_app(driver, no_auth=True)) as client:
        answer = await client.get("/about")
        assert answer.status_code == 503
        assert "riverui migrate-up" in parse(answer.text).one(id="about").text
    await driver.close()


async def test_help_works_without_a_database(htmx: Htmx) -> None:
    async with browser(create_app(DeadDriver(), no_auth=True)) as client:
        page = parse((await client.get("/help")).text)
        assert "args.customer.id:42" in page.text
        fragment = parse((await client.get("/help", headers=htmx("dialog"))).text)
        assert not fragment.all("html")


async def test_preferences_are_kept(client: httpx2.AsyncClient, htmx: Htmx) -> None:
    answer = await client.post(
        "/preferences", data={"theme": "dark", "next": "/jobs?state=running"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=running")
    assert (await client.post("/preferences", data={"limit": "20", "live": "0"})).status_code == 303
    page = parse((await client.get("/jobs")).text)
    html = page.one("html").attributes
    assert (html["data-theme"], html["data-live"]) == ("dark", "0")
    assert "20 per page" in page.text
    quiet = await client.post("/preferences", data={"time": "utc"}, headers=htmx())
    assert (quiet.status_code, "hx-refresh" in quiet.headers) == (204, False)
    anew = await client.post("/preferences", data={"show_args": "0"}, headers=htmx())
    assert (anew.status_code, anew.headers["hx-refresh"]) == (204, "true")
    assert parse((await client.get("/jobs")).text).one("html").attributes["data-time"] == "utc"


async def test_choices_that_are_not_offered_change_nothing(client: httpx2.AsyncClient) -> None:
    with cases() as case:
        for data in (
            {"theme": "neon"},
            {"live": "9" * 5000},
            {"live": "3"},
            {"limit": "-1"},
            {"limit": "１００"},
            {"nonsense": "1"},
        ):
            with case(str(data)[:40]):
                assert (await client.post("/preferences", data=data)).status_code == 303
                html = parse((await client.get("/help")).text).one("html").attributes
                assert (html["data-theme"], html["data-live"], html["data-time"]) == (
                    "system",
                    "2",
                    "relative",
                )


async def test_forged_cookies_are_ignored(client: httpx2.AsyncClient) -> None:
    for cookie in (
        "x",
        "eyJ0aGVtZSI6ImRhcmsifQ.aaaa.bbbb",
        "é".encode().decode("latin-1"),
        "a" * 4000,
    ):
        both = f"riverui_preferences={cookie}; riverui_notice={cookie}"
        headers = {b"Cookie": both.encode("latin-1")}
        answer = await client.get("/help", headers=headers)
        assert answer.status_code == 200
        assert parse(answer.text).one("html").attributes["data-theme"] == "system"


class TestOwnTables:
    """The tables of riverui's own: their sizes, and how stored figures are deleted."""

    async def fill(self, driver: Driver) -> None:
        at = datetime(2026, 11, 22, 12, tzinfo=UTC)
        tally = Tally(completed=1)
        async with driver.transaction() as db:
            await ROLLUPS.on(db).rollup_put(
                [Rollup(at=at, span=HOUR, pairs={("mail", "send"): tally})]
            )

    async def rows(self, connection: AsyncConnection[Any]) -> int:
        found = await connection.execute("select count(*) as n from riverui_rollup")
        row = await found.fetchone()
        assert row is not None
        return int(row["n"])

    async def test_their_sizes_are_told(
        self,
        own_tables: None,
        client: httpx2.AsyncClient,
        reader: httpx2.AsyncClient,
        driver: Driver,
        connection: AsyncConnection[Any],
    ) -> None:
        await self.fill(driver)
        await connection.execute("analyze riverui_rollup")
        page = parse((await client.get("/about")).text).one(id="about")
        row = next(row.text for row in page.all("tr") if "riverui_rollup" in row.text)
        assert "3" in row
        assert "kB" in row
        assert "Delete all stored figures" in page.text
        seen = parse((await reader.get("/about")).text).one(id="about").text
        assert "riverui_rollup" in seen
        assert "Delete all stored figures" not in seen
        assert (await reader.post("/about/figures/delete")).status_code == 403

    async def test_stored_figures_are_deleted_once_that_is_confirmed(
        self,
        own_tables: None,
        client: httpx2.AsyncClient,
        driver: Driver,
        connection: AsyncConnection[Any],
        htmx: Htmx,
    ) -> None:
        await self.fill(driver)
        assert (await client.post("/about/figures/delete")).status_code == 400
        assert await self.rows(connection) == 3
        confirmed = {"confirmed": "1"}
        answer = await client.post("/about/figures/delete", data=confirmed)
        assert (answer.status_code, answer.headers["location"]) == (303, "/about")
        assert "Stored figures deleted" in (await client.get("/about")).text
        assert await self.rows(connection) == 0
        answer = await client.post(
            "/about/figures/delete", data=confirmed, headers=htmx("notices", "/about")
        )
        assert answer.headers["hx-trigger"] == "about-changed"

    async def test_without_the_line_there_is_nothing_to_delete(
        self, client: httpx2.AsyncClient
    ) -> None:
        assert "own tables" not in (await client.get("/about")).text
        answer = await client.post("/about/figures/delete", data={"confirmed": "1"})
        assert answer.status_code == 501
        assert "riverui migrate-up --line riverui" in answer.text
