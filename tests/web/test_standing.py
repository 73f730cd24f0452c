"""The front page says first whether something needs somebody: an open incident, nothing, or that
it does not know.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.domain.figures import WINDOWS
from riverui.engine.feature_list import plain_pilot
from riverui.features.incidents.watch import INCIDENTS
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.rights import EVERYTHING, Access
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests import factory
from tests.engine.conftest import until
from tests.web.html import Element, parse
from tests.web.stand_ins import DeadDriver, browser

Connection = AsyncConnection[dict[str, Any]]


@pytest.fixture
def dashboard_limits() -> DashboardLimits:
    """Have each look and each page read anew."""
    return DashboardLimits(health_seconds=0.0)


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def standing(client: httpx2.AsyncClient) -> Element:
    answer = await client.get("/")
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text).one("section", id="overview")


async def trouble(connection: Connection, queue: str = "mail") -> None:
    """Pause a queue in which a job waits."""
    await factory.queue(connection, queue, paused_at=ago(minutes=38))
    await factory.queue(connection)
    await factory.job(connection, queue=queue, scheduled_at=ago(minutes=30))


async def look(app: Starlette) -> None:
    """Look twice, so that what is wrong becomes an incident."""
    for _ in range(2):
        await app.state.dashboard.get(INCIDENTS).tick()


async def test_a_calm_front_page_has_one_sentence(
    app: Starlette, client: httpx2.AsyncClient
) -> None:
    found = await standing(client)
    words = found.one("h2", class_="standing-words").text
    if not words.startswith("Nothing"):
        assert words.startswith("Unknown: ")
        assert "read" in found.one("header").one("p").text
    figures = app.state.dashboard.figures

    async def whole() -> bool:
        return bool((await figures.read(WINDOWS["1h"])).complete)

    await until(whole)
    found = await standing(client)
    assert found.one("h2", class_="standing-words").text == ("Nothing needs you.")
    assert found.one("header").one("p").text == (
        "No job waits, runs or is due later. No attempt ended in the last 15 min."
    )
    assert "checks: " in found.one(id="checks").one("summary").text
    assert found.all("article") == []


async def test_what_one_look_saw_is_not_yet_an_incident(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await trouble(connection)
    found = await standing(client)
    words = found.one("h2", class_="standing-words").text
    assert words.startswith("Unknown: Looking closer: Queue mail is paused?")


async def test_trouble_stands_first_with_a_way_to_act(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await trouble(connection, "\u202eliam<b>")
    await look(app)
    found = await standing(client)
    incident = found.one("article")
    assert incident.one("h2").text == "Warning:Queue \\u202eliam<b> is paused."
    assert incident.one("p").text.startswith("1 job waits there, the oldest for 30 m")
    resume = incident.one("form")
    assert resume.attributes["action"] == "/queues/resume"
    assert next(field.attributes["value"] for field in resume.all("input")) == "\u202eliam<b>"
    assert incident.link("\\u202eliam<b>") == "/queues/%E2%80%AEliam%3Cb%3E"
    assert found.one(id="rest").all("section", aria_labelledby="title-queues")
    assert "kept in this process" in found.text
    answer = await client.post(
        "/queues/resume", data={"name": "\u202eliam<b>"}, headers={"Origin": "http://river.test"}
    )
    assert answer.status_code == 303


async def test_several_are_named_and_the_worst_is_shown(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await trouble(connection)
    await factory.job(connection, "scheduled", scheduled_at=ago(minutes=30))
    await look(app)
    found = await standing(client)
    assert found.one("article").one("h2").text == "Critical:No client leads."
    assert found.one("p", class_="also-open").text == "Also open: Queue mail is paused."


async def test_queues_that_were_paused_together_are_resumed_together(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection
) -> None:
    await trouble(connection, "mail")
    for name, minutes in (("hooks", 30), ("idle", 30), ("spare", 120)):
        await factory.queue(connection, name, paused_at=ago(minutes=minutes))
    await factory.job(connection, queue="hooks", scheduled_at=ago(minutes=20))
    await look(app)
    incident = (await standing(client)).one("article")
    assert "idle was paused with them. spare stays paused: nothing waits there." in incident.text
    resume = incident.one("form")
    assert resume.one("button").text == "Resume 3 queues"
    names = [field.attributes["value"] for field in resume.all("input", name="name")]
    assert sorted(names) == ["hooks", "idle", "mail"]


async def test_no_way_leads_where_a_viewer_may_not_go(
    driver: Driver, connection: Connection
) -> None:
    await trouble(connection)

    async def acts(*rights: str) -> list[str]:
        viewer = Access(user="ada", rights=EVERYTHING.intersection(rights))
        app = build_app(
            driver,
            SignIn(authenticate=lambda connection: viewer),
            pilot=plain_pilot(),
            options=AppOptions(limits=DashboardLimits(health_seconds=0.0)),
        )
        await look(app)
        async with browser(app) as client:
            found = (await standing(client)).one(class_="incident-acts")
        await app.state.dashboard.close()
        return [each.text for each in (*found.all("a"), *found.all("button"))]

    assert await acts("figures.read", "queues.read") == ["Resume the queue"]
    assert await acts("figures.read", "jobs.read") == []
    assert await acts("figures.read", "queues.read", "queues.pause") == ["Resume mail"]


async def test_while_the_database_is_away_nothing_is_promised() -> None:
    app = create_app(DeadDriver(), no_auth=True)
    async with browser(app) as client:
        found = await standing(client)
    await app.state.dashboard.close()
    assert found.one("h2", class_="standing-words").text.startswith("Unknown: ")
    assert "checks: " in found.one(id="checks").text
    assert found.one(id="checks").one("summary").text.endswith(" unknown")
