"""The health report on the front page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, Access
from tests import factory
from tests.web.html import Element, parse
from tests.web.stand_ins import DeadDriver, browser

Connection = AsyncConnection[dict[str, Any]]


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def verdict(client: httpx2.AsyncClient) -> Element:
    answer = await client.get("/")
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text).one("section", class_="verdict")


async def test_a_calm_front_page(client: httpx2.AsyncClient) -> None:
    found = await verdict(client)
    lines = [line.text for line in found.all("summary")]
    assert len(lines) == 3
    assert lines[0].startswith("OK: Nothing to do. No job waits, runs or is due later.")
    assert lines[2].startswith("OK: These figures are fresh:")
    assert found.all("a") == []


async def test_trouble_comes_with_its_checks_and_a_way_to_act(
    client: httpx2.AsyncClient, connection: Connection
) -> None:
    await factory.queue(connection, "\u202eliam<b>", paused_at=ago(minutes=38))
    await factory.queue(connection)
    await factory.job(connection, queue="\u202eliam<b>", scheduled_at=ago(minutes=30))
    found = await verdict(client)
    first = found.all("summary")[0].text
    assert first.startswith("Warning: Queue \\u202eliam<b> is paused. 1 job waits there")
    assert found.one("a").attributes["href"] == "/queues/%E2%80%AEliam%3Cb%3E"
    check = found.one(class_="check-failed").text
    assert check.startswith("No paused queue has jobs waiting: found. Paused for 38 m")


async def test_no_way_leads_where_a_viewer_may_not_go(
    driver: Driver, connection: Connection
) -> None:
    await factory.queue(connection, paused_at=ago(minutes=38))
    await factory.job(connection, scheduled_at=ago(minutes=30))

    def app(*rights: str) -> Starlette:
        viewer = Access(user="ada", rights=EVERYTHING.intersection(rights))
        return create_app(driver, authenticate=lambda connection: viewer)

    async with browser(app("figures.read", "queues.read")) as client:
        assert (await verdict(client)).one("a").text == "Open the queue"
    async with browser(app("figures.read", "jobs.read")) as client:
        assert (await verdict(client)).all("a") == []


async def test_while_the_database_is_away_nothing_is_promised() -> None:
    async with browser(create_app(DeadDriver(), no_auth=True)) as client:
        found = await verdict(client)
    assert [line.text.split(":")[0] for line in found.all("summary")] == ["Unknown"] * 3
