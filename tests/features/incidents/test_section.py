"""The pages and the API of incidents, and the timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.domain.findings import Link
from riverui.features.incidents.domain import Deed, Incident, IncidentFacts
from riverui.features.incidents.store import IncidentStore
from riverui.features.incidents.watch import INCIDENTS
from riverui.features.marks.store import MarkInsertParams
from riverui.features.marks.verbs import mark_insert
from riverui.storage.interface import Driver
from riverui.web.auth.rights import READ_ONLY, Access
from tests.factory import Make
from tests.features.incidents.test_store import incident
from tests.web.html import Element, parse
from tests.web.stand_ins import dashboard

NOW = datetime.now(UTC).replace(second=0, microsecond=0)
MINUTE = timedelta(minutes=1)
FIRST = int(NOW.timestamp()) // 60 - 60
SHARES = tuple((FIRST + n, 0.05 if n < 30 else 0.77) for n in range(60))
SINCE = {"opened_at": NOW - 30 * MINUTE, "found_at": NOW - 29 * MINUTE, "seen_at": NOW}
LINK = Link(label="Open the error", page="errors", kind="email_send")
OPEN = incident(1, **SINCE, facts=IncidentFacts(minutes=SHARES, link=LINK))


@pytest.fixture
def driver(driver: Driver, own_tables: None) -> Driver:
    """Return a driver of a database with riverui's own tables."""
    return driver


async def keep(driver: Driver, *incidents: Incident) -> None:
    """Store incidents."""
    async with driver.autocommit() as executor:
        for each in incidents:
            await IncidentStore(executor).incident_save(each)


async def page(client: httpx2.AsyncClient, path: str) -> Element:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text)


async def test_the_list_has_the_open_ones_and_then_days(
    driver: Driver, client: httpx2.AsyncClient
) -> None:
    yesterday = NOW - timedelta(days=1)
    times = {"opened_at": yesterday, "seen_at": yesterday + 9 * MINUTE}
    await keep(driver, OPEN, incident(2, **times, closed_at=yesterday + 14 * MINUTE))
    found = (await page(client, "/incidents")).one(id="incidents-list")
    assert [title.text for title in found.all("h2")] == ["Open", f"{yesterday:%A, %d %B %Y}"]
    opened, closed = found.all("li")
    assert opened.one("a").attributes["href"] == "/incidents/incident1"
    assert closed.one("p", class_="incident-when").text.endswith("for 9 m 0 s")
    assert not found.all("p", class_="figures-note")


async def test_older_ones_are_on_further_pages(driver: Driver, client: httpx2.AsyncClient) -> None:
    many = [
        incident(n, id=f"n{n:03}", opened_at=NOW - n * MINUTE, closed_at=NOW) for n in range(1, 53)
    ]
    await keep(driver, OPEN, *many)
    first = (await page(client, "/incidents")).one(id="incidents-list")
    older = await page(client, first.link("Older"))
    shown = [line.attributes.get("id", "") for part in (first, older) for line in part.all("li")]
    own = [name for name in shown if name.startswith("incident-n")]
    assert own == [f"incident-n{n:03}" for n in range(1, 53)]
    assert shown.count("incident-incident1") == 1
    assert (await client.get("/incidents?before=other")).status_code == 404


@pytest.mark.parametrize(
    "odd",
    [
        "subject_is = 'job', subject = 'seven'",
        "subject_is = 'job', subject = '99999999999999999999'",
        "facts = '{\"minutes\": [[1000000000000000000, 1]]}'",
        'facts = \'{"baseline": {"before": "2026-11-28T10:00:00", "minutes": 60}}\'',
        'facts = \'{"link": {"label": "Open", "page": "job", "name": "seven"}}\'',
        'facts = \'{"link": {"label": "Open", "page": "moon", "state": "full"}}\'',
        'deeds = \'[["2026-11-28T10:00:00", "ada", "2 jobs retried"]]\'',
    ],
)
async def test_odd_values_take_no_page_away(
    driver: Driver, client: httpx2.AsyncClient, connection: AsyncConnection[Any], odd: str
) -> None:
    await keep(driver, OPEN)
    await connection.execute(f"update riverui_incident set {odd}".encode())
    for path in ("/", "/incidents", "/incidents/incident1", "/timeline", "/api/timeline"):
        assert (await client.get(path)).status_code == 200, path


async def test_without_any_the_page_says_how_they_come(client: httpx2.AsyncClient) -> None:
    assert "No incidents" in (await page(client, "/incidents")).text


async def test_a_page_names_what_to_do_and_what_happened(
    driver: Driver, client: httpx2.AsyncClient, make: Make
) -> None:
    for _ in range(3):
        await make.job("retryable", kind="email_send")
    await mark_insert(driver, MarkInsertParams(label="v1.4.2", at=NOW - 31 * MINUTE))
    await keep(driver, OPEN)
    async with driver.autocommit() as executor:
        deeds = [Deed(NOW - 5 * MINUTE, "ada", "2 jobs retried")]
        await IncidentStore(executor).incident_deed(deeds)
    found = await page(client, "/incidents/incident1")
    acts = found.one(class_="incident-acts")
    assert acts.link("Open the error") == "/errors?open=worst&kind=email_send"
    retry = acts.link("Retry 3 at a pace")
    preview = await page(client, retry)
    values = {
        field.attributes["name"]: field.attributes.get("value")
        for field in preview.one("main").all("input")
    }
    assert (values["per_minute"], values["canary"]) == ("60", "10")
    assert found.one(id="incident").link("email_send") == "/kinds/email_send"
    timeline = found.one("section", aria_labelledby="timeline-title")
    assert [line.one(class_="event").text for line in timeline.all("li")] == [
        "v1.4.2",
        "It began",
        "Found by the dashboard",
        "2 jobs retried",
    ]
    bars = found.one("figure")
    assert "usual before" not in bars.text
    assert "77 %" in bars.text


async def test_a_note_needs_its_right(
    driver: Driver, client: httpx2.AsyncClient, app: Starlette
) -> None:
    await keep(driver, OPEN)
    headers, address = {"Origin": "http://river.test"}, "/incidents/incident1/note"
    answer = await client.post(address, data={"note": " Rolled back. "}, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/incidents/incident1")
    assert (await page(client, "/incidents/incident1")).one("textarea").text == "Rolled back."
    long = {"note": "n" * 4_001}
    assert (await client.post(address, data=long, headers=headers)).status_code == 400
    async with dashboard(driver, access=Access(user="ada", rights=READ_ONLY)) as reader:
        assert (await reader.post(address, data=long, headers=headers)).status_code == 403
        found = await page(reader, "/incidents/incident1")
        assert "Rolled back." in found.text
        assert not found.one(id="incident").all("form")


async def test_the_api_has_all_of_an_incident(driver: Driver, client: httpx2.AsyncClient) -> None:
    await keep(driver, OPEN, incident(2, closed_at=NOW))
    listed = (await client.get("/api/incidents")).json()
    assert [found["id"] for found in listed["data"]] == ["incident1", "incident2"]
    assert listed["shared"]
    listed = (await client.get("/api/incidents?open=true&limit=5")).json()
    assert [found["id"] for found in listed["data"]] == ["incident1"]
    found = (await client.get("/api/incidents/incident1")).json()["incident"]
    assert found["minutes"][-1] == [FIRST + 59, 0.77]
    assert (found["subject_is"], found["subject"]) == ("kind", "email_send")
    assert found["url"] == "/incidents/incident1"
    changed = await client.put("/api/incidents/incident1/note", json={"note": "Rolled back."})
    assert changed.json()["incident"]["note"] == "Rolled back."
    assert (await client.get("/api/incidents/other")).status_code == 404
    health = (await client.get("/api/health-report")).json()
    assert [found["id"] for found in health["incidents"]] == ["incident1"]
    text = (await client.get("/api/health-report?format=text")).text
    assert text.startswith("✗ Open since ")
    assert 'riverui_incidents_open{cause="deploy"} 1.0' in (await client.get("/metrics")).text


async def test_the_timeline_has_what_all_sections_know(
    driver: Driver, client: httpx2.AsyncClient, make: Make
) -> None:
    await keep(driver, OPEN, incident(2, opened_at=NOW - timedelta(days=9), closed_at=NOW))
    await mark_insert(driver, MarkInsertParams(label="v1.4.2", at=NOW - 31 * MINUTE, user="ci"))
    await make.queue("imports", paused_at=NOW - 40 * MINUTE)
    await make.leader()
    found = (await page(client, "/timeline")).one(id="timeline")
    words = [event.text for event in found.all(class_="event")]
    assert {"email_send is failing.", "v1.4.2", "imports paused"} <= set(words)
    assert any(text.endswith("was elected leader") for text in words)
    older = (await page(client, found.link("Older"))).one(id="timeline")
    assert [event.text for event in older.all(class_="event")] == ["email_send is failing."]
    answer = (await client.get("/api/timeline")).json()["data"]
    assert {"words": "v1.4.2", "user": "ci", "url": ""}.items() <= {
        key: value for found in answer if found["words"] == "v1.4.2" for key, value in found.items()
    }.items()
    assert (await client.get("/timeline?until=yesterday")).status_code == 400


async def test_what_is_done_on_the_dashboard_is_kept_with_the_incident(
    driver: Driver, client: httpx2.AsyncClient, app: Starlette, make: Make
) -> None:
    await keep(driver, OPEN)
    job = await make.job("retryable")
    await client.post(
        "/jobs/retry", data={"ids": str(job)}, headers={"Origin": "http://river.test"}
    )
    shown = (await page(client, "/incidents/incident1")).text
    assert "1 job" in shown
    await app.state.dashboard.get(INCIDENTS).tick()
    async with driver.reading() as executor:
        kept = await IncidentStore(executor).incident_get("incident1")
    assert kept is not None
    assert len(kept.deeds) == 1
    assert not app.state.dashboard.deeds
