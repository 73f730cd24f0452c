"""Addresses of River UI's own pages, and addresses that nobody understands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui import create_app
from riverui.web.auth.rights import READ_ONLY, Access
from tests.cases import cases
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, browser, dashboard
from tests.web.test_jobs import ids, notice

Connection = AsyncConnection[dict[str, Any]]
Htmx = Callable[..., dict[str, str]]


async def landed(client: AsyncClient, path: str) -> tuple[str, str]:
    """Where an address leads in the end, and the page there."""
    for _ in range(5):
        answer = await client.get(path)
        if answer.status_code not in (302, 307):
            assert answer.status_code == 200, (path, answer.text[:500])
            return path, answer.text
        path = answer.headers["location"]
    raise AssertionError(f"{path} leads in a circle")


async def test_links_of_river_ui_lead_to_our_pages(client: AsyncClient) -> None:
    with cases() as case:
        for address, place in (
            ("/", "/"),
            ("/jobs/", "/jobs"),
            ("/jobs/?tags=vip&state=completed", "/jobs?q=tag:vip&state=completed"),
            ("/jobs/?tags=vip", "/jobs?q=tag:vip&state=running"),
            ("/jobs/?limit=40", "/jobs?state=running&limit=50"),
            (
                "/jobs/?id=1,2&kind=a%2Cb&limit=100&priority=1,4&queue=q&tags=x",
                "/jobs?q=id:1%2C2%20kind:a%2Cb%20queue:q%20priority:1%2C4%20tag:x&state=running",
            ),
            ("/jobs/?q=kind:a", "/jobs?q=kind:a"),
            ("/jobs?limit=200&state=retryable", "/jobs?limit=200&state=retryable"),
            ("/queues/", "/queues"),
            ("/periodic-jobs", "/jobs?q=metadata.periodic:true"),
            ("/periodic-jobs/", "/jobs?q=metadata.periodic:true"),
            ("/settings", "/about"),
            ("/workflows", "/jobs"),
            ("/workflows/?state=active&limit=40", "/jobs"),
            ("/workflows/wf_1?selected=7", "/jobs?q=metadata.workflow_id:wf_1"),
            ("/workflows/a%20b%2Fc", "/jobs?q=metadata.workflow_id:%22a%20b%2Fc%22"),
        ):
            with case(address):
                assert (await landed(client, address))[0] == place


async def test_a_link_to_a_job_may_end_in_a_slash(client: AsyncClient, make: Make) -> None:
    job_id = await make.job()
    assert (await landed(client, f"/jobs/{job_id}/"))[0] == f"/jobs/{job_id}"


async def test_missing_pages_show_the_nearest(client: AsyncClient, make: Make) -> None:
    task = await make.job(metadata={"workflow_id": "wf 1", "task": "a"})
    tick = await make.job(metadata={"periodic": True})
    for address, found, words in (
        ("/workflows/wf%201", [task], "these are the jobs of this one"),
        ("/periodic-jobs", [tick], "jobs that periodic jobs inserted"),
        ("/workflows", [tick, task], "this is the list of all jobs"),
    ):
        page = parse((await landed(client, address))[1])
        assert ids(page) == found
        assert words in notice(page)


async def test_settings_lead_where_the_person_may_go() -> None:
    async with dashboard(
        DeadDriver(),
        access=Access(user="ada", rights=READ_ONLY - {"about.read"}),
    ) as client:
        assert (await client.get("/settings")).headers["location"] == "/help"


@pytest.mark.parametrize(
    "address", ["/jobs?tga=vip", "/jobs?kind=mail&kind=ship", "/jobs/?tga=vip"]
)
async def test_an_address_that_is_not_understood_shows_nothing_and_offers_nothing(
    client: AsyncClient, make: Make, htmx: Htmx, address: str
) -> None:
    await make.job(kind="mail", tags=["vip"])
    await make.job(kind="ship")
    answer = await client.get(address)
    if answer.status_code == 307:
        answer = await client.get(answer.headers["location"])
    assert answer.status_code == 400
    page = parse(answer.text)
    assert page.one(class_="banner").text.startswith("This address is not valid.")
    assert ids(page) == []
    assert page.link("Show the list without it") == "/jobs"
    assert "Select all" not in answer.text
    listed = page.one(id="jobs-list").attributes
    assert listed["data-final"] == "1"
    assert (await client.get(listed["hx-get"], headers=htmx("jobs-list"))).status_code == 400
    query = address.partition("?")[2]
    preview = await client.get(f"/jobs/bulk?verb=delete&{query}")
    assert preview.status_code == 400
    assert 'name="token"' not in preview.text


async def test_unknown_parameters_of_queues(
    client: AsyncClient,
) -> None:
    assert (await client.get("/queues?match=a&order=name")).status_code == 200
    for query in ("macth=a", "match=a&match=b", "order=name&paused=1"):
        answer = await client.get(f"/queues?{query}")
        assert answer.status_code == 400
        assert parse(answer.text).link("Queues")


async def test_the_api_reports_unknown_parameters(client: AsyncClient, make: Make) -> None:
    await make.job("running")
    with cases() as case:
        for path in ("jobs", "jobs/export"):
            for query in (
                "tag=vip",
                "kind=mail",
                "state=running&customer=42",
                "q=kind:a&q=kind:b",
                "limit=1&limit=2",
                "order=id&order=-id",
            ):
                with case((path, query)):
                    answer = await client.get(f"/api/{path}?{query}")
                    assert answer.status_code == 400
                    assert answer.json()["message"].startswith(("Unknown parameter “", "“"))


@pytest.mark.parametrize("query", ["tag=a&state=running", "q=a&q=b", "tags=a"])
async def test_so_does_the_progress_of_a_group(client: AsyncClient, query: str) -> None:
    assert (await client.get(f"/api/progress?{query}")).status_code == 400


async def test_nobody_is_told_where_to_go_before_signing_in() -> None:
    async with browser(create_app(DeadDriver(), basic_auth=("ada", "secret"))) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers.get("location")) == (401, None)
        answer = await client.get("/", auth=httpx2.BasicAuth("ada", "secret"))
        assert answer.status_code == 200


async def test_crawlers_are_asked_to_stay_away() -> None:
    async with browser(create_app(DeadDriver(), basic_auth=("ada", "secret"))) as client:
        answer = await client.get("/robots.txt")
        assert (answer.status_code, answer.text) == (200, "User-agent: *\nDisallow: /\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert (await client.post("/robots.txt")).status_code == 401
