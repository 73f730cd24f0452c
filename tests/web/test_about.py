"""About, help and this browser's preferences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from httpx2 import AsyncClient

from riverui.domain.figures import Tally
from riverui.features.figures.domain import HOUR, Rollup
from riverui.features.figures.store import RollupStore
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, dashboard

Htmx = Callable[..., dict[str, str]]


async def test_versions_database_leader_and_rights(
    client: AsyncClient,
    reader: AsyncClient,
    make: Make,
    htmx: Htmx,
) -> None:
    await make.leader("host_a")
    text = parse((await client.get("/about")).text).one(id="about").text
    for shown in ("riverui", "PostgreSQL", "Starlette", "host_a", "shared_buffers", "delete jobs"):
        assert shown in text, shown
    assert "Missing migrations" not in text
    assert "delete jobs" not in parse((await reader.get("/about")).text).one(id="about").text
    fragment = parse((await client.get("/about", headers=htmx("about"))).text)
    assert not fragment.all("html")


async def test_missing_and_unknown_migrations_are_named(client: AsyncClient, make: Make) -> None:
    await make.execute("delete from river_migration where version = 7")
    await make.execute(
        "insert into river_migration (line, version) values ('main', 900), ('pro', 3)"
    )
    text = parse((await client.get("/about")).text).one(id="about").text
    assert "Missing migrations: 7." in text
    assert "900 unknown" in text
    assert "pro" in text


async def test_a_version_that_does_nothing_is_not_missed(client: AsyncClient, make: Make) -> None:
    await make.execute("delete from river_migration where version = 8")
    assert "Missing migrations" not in (await client.get("/about")).text
    await make.execute("delete from river_migration where version = 6")
    assert "Missing migrations: 6." in parse((await client.get("/about")).text).one(id="about").text


async def test_another_line_is_missed_once_it_is_begun(client: AsyncClient, make: Make) -> None:
    assert "Missing migrations" not in (await client.get("/about")).text
    await make.execute("insert into river_migration (line, version) values ('riverui', 900)")
    text = parse((await client.get("/about")).text).one(id="about").text
    assert "Missing migrations of line riverui: 1" in text
    assert "riverui migrate-up --line riverui" in text


async def test_it_tells_what_is_wrong_with_the_database(empty_database_url: str) -> None:
    async with dashboard(DeadDriver()) as client:
        answer = await client.get("/about")
        assert answer.status_code == 503
        assert parse(answer.text).one(id="about").text.count("cannot be reached") == 1
    driver = connect(empty_database_url)
    async with dashboard(driver) as client:
        answer = await client.get("/about")
        assert answer.status_code == 503
        assert "riverui migrate-up" in parse(answer.text).one(id="about").text
    await driver.close()


async def test_help_works_without_a_database(htmx: Htmx) -> None:
    async with dashboard(DeadDriver()) as client:
        page = parse((await client.get("/help")).text)
        assert "args.customer.id:42" in page.text
        fragment = parse((await client.get("/help", headers=htmx("dialog"))).text)
        assert not fragment.all("html")


async def test_preferences_are_kept(client: AsyncClient, htmx: Htmx) -> None:
    answer = await client.post(
        "/preferences", data={"theme": "dark", "next": "/jobs?state=running"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=running")
    assert (await client.post("/preferences", data={"limit": "20", "live": "0"})).status_code == 303
    page = parse((await client.get("/jobs")).text)
    html = page.one("html").attributes
    assert (html["data-theme"], html["data-live"]) == ("dark", "0")
    sizes = page.one(id="menu-more").all("a", class_="choice")
    assert [size.text for size in sizes if "aria-current" in size.attributes] == ["20"]
    quiet = await client.post("/preferences", data={"time": "utc"}, headers=htmx())
    assert (quiet.status_code, "hx-refresh" in quiet.headers) == (204, False)
    anew = await client.post("/preferences", data={"show_args": "0"}, headers=htmx())
    assert (anew.status_code, anew.headers["hx-refresh"]) == (204, "true")
    assert parse((await client.get("/jobs")).text).one("html").attributes["data-time"] == "utc"


async def test_the_sizes_of_own_tables_are_shown(
    own_tables: None, client: AsyncClient, reader: AsyncClient, driver: Driver, make: Make
) -> None:
    at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    stored = Rollup(at=at, span=HOUR, pairs={("mail", "send"): Tally(completed=1)})
    async with driver.transaction() as transaction:
        await RollupStore(transaction).rollup_put([stored])
    await make.execute("analyze riverui_rollup")
    page = parse((await client.get("/about")).text).one(id="about")
    row = next(row.text for row in page.all("tr") if "riverui_rollup" in row.text)
    assert "3" in row
    assert "kB" in row
    assert "Delete all stored figures" in page.text
    seen = parse((await reader.get("/about")).text).one(id="about").text
    assert "riverui_rollup" in seen
    assert "Delete all stored figures" not in seen
    assert (await reader.post("/about/figures/delete")).status_code == 403
