"""About, help and this browser's preferences."""

from __future__ import annotations

from collections.abc import Callable

from httpx2 import AsyncClient

from riverui.storage.connect import connect
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
    page = parse((await client.get("/about")).text).one(id="about")
    text = page.text
    for shown in ("riverui", "PostgreSQL", "Starlette", "host_a", "shared_buffers", "delete jobs"):
        assert shown in text, shown
    assert "/database" in [link.attributes["href"] for link in page.all("a")]
    assert "delete jobs" not in parse((await reader.get("/about")).text).one(id="about").text
    fragment = parse((await client.get("/about", headers=htmx("about"))).text)
    assert not fragment.all("html")


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
