"""The pages of kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.domain.findings import Level
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.auth.rights import READ_ONLY, Access
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import dashboard

Connection = AsyncConnection[Any]


async def ended(
    make: Make, kind: str, *, ran: float, state: str = "completed", **columns: Any
) -> int:
    """Insert a job that ended a minute ago after so many seconds."""
    at = datetime.now(UTC) - timedelta(minutes=1)
    begun = at - timedelta(seconds=ran)
    return await make.job(
        state,
        kind=kind,
        scheduled_at=begun - timedelta(seconds=2),
        attempted_at=begun,
        finalized_at=at,
        **columns,
    )


@pytest.fixture
async def read(client: AsyncClient, app: Starlette) -> AsyncIterator[AsyncClient]:
    """Yield a browser; leave nothing behind that reads."""
    yield client
    await app.state.dashboard.close()


async def test_no_jobs_yet(read: AsyncClient) -> None:
    assert "No kinds yet" in (await read.get("/kinds")).text


async def test_the_list(read: AsyncClient, make: Make) -> None:
    for _ in range(3):
        await ended(make, "long", ran=60, queue="slow")
    await ended(make, "short<b>", ran=1)
    await ended(make, "short<b>", ran=1, state="discarded")
    await make.job(kind="waiting")
    page = parse((await read.get("/kinds")).text)
    rows = [row.text for row in page.one("tbody").all("tr")]
    assert [row.split()[0] for row in rows] == ["long", "short<b>", "waiting"]
    assert "3 m 0 s" in rows[0]
    assert "slow" in rows[0]
    assert "none ended" in rows[2]
    by_name = parse((await read.get("/kinds?order=failed")).text)
    assert by_name.one("tbody").all("tr")[0].text.startswith("short<b>")
    found = parse((await read.get("/kinds?match=HORT")).text)
    assert len(found.one("tbody").all("tr")) == 1
    assert "No kind contains" in (await read.get("/kinds?match=nope")).text
    assert (await read.get("/kinds?order=nope")).status_code == 400
    assert (await read.get("/kinds?window=nope")).status_code == 400


async def test_one_kind(read: AsyncClient, make: Make) -> None:
    newest = [await ended(make, "a/b", ran=2) for _ in range(4)]
    await ended(make, "a/b", ran=1, state="discarded", queue="other")
    await ended(make, "else", ran=1)
    address = f"/kinds/{quote('a/b', safe='')}"
    page = parse((await read.get(address)).text).one(id="kind")
    assert page.one(class_="counts").text.startswith("5 ended")
    assert "20 % of its attempts failed in the last hour." in page.text
    assert not page.all(class_="failing"), "a single failure is no trouble"
    bars = page.one("svg", **{"class": "runs"}).all("a")
    assert len(bars) == 5
    assert f"#{newest[0]}" in page.text
    assert "other" in page.text
    assert "else" not in page.text
    assert page.one("figure", **{"class": "histogram"}).all("rect")
    fragment = parse(
        (await read.get(address, headers={"HX-Request": "true", "HX-Target": "section#kind"})).text
    )
    assert fragment.one(id="kind")


async def test_a_kind_that_nobody_has(read: AsyncClient) -> None:
    answer = await read.get("/kinds/nope")
    assert answer.status_code == 404
    assert "It has no jobs" in answer.text


async def test_who_may_not_see_jobs_sees_figures_alone(app: Starlette, make: Make) -> None:
    await ended(make, "mail", ran=2)
    eve = Access(user="eve", rights=frozenset({"figures.read"}))
    async with dashboard(app.state.dashboard.driver, access=eve) as client:
        page = parse((await client.get("/kinds/mail")).text).one(id="kind")
        assert "1 ended" in page.text
        assert not page.all("svg", **{"class": "runs"})
        assert "New job" not in page.text
    async with dashboard(
        app.state.dashboard.driver,
        access=Access(user="eve", rights=READ_ONLY - {"figures.read"}),
    ) as client:
        assert (await client.get("/kinds")).status_code == 403


async def test_kinds_with_an_open_incident_come_first(
    app: Starlette, read: AsyncClient, make: Make
) -> None:
    for kind, ran in (("busy", 9), ("broken", 2), ("slow", 1)):
        await ended(make, kind, ran=ran)
    now, watch = datetime.now(UTC), app.state.dashboard.get(INCIDENTS)
    async with await watch.store() as store:
        for kind, cause in (("broken", Cause.FAILURES), ("slow", Cause.SLOW_KIND)):
            await store.incident_save(
                Incident(
                    id=kind,
                    cause=cause,
                    subject=Subject("kind", kind),
                    level=Level.CRITICAL,
                    title=f"{kind} is bad.",
                    headline="It is worse than <b>.",
                    opened_at=now,
                    found_at=now,
                    seen_at=now,
                )
            )
    watch.expire()
    page = parse((await read.get("/kinds")).text)
    rows = page.one("tbody").all("tr")
    assert [row.one("td", class_="c-main").text for row in rows] == ["broken", "slow", "busy"]
    assert page.one(class_="summary").text == "broken is bad. slow is bad."
    marked = [
        [
            cell.attributes["data-label"]
            for cell in row.all("td")
            if set(cell.attributes["class"].split()) & {"failing", "slow"}
        ]
        for row in rows
    ]
    assert marked == [["failed"], ["run"], []]
    head = parse((await read.get("/kinds/broken")).text).one("header", class_="subject")
    assert head.text.startswith("broken is bad.")
    assert "It is worse than <b>." in head.text
    assert "attempt" in parse((await read.get("/kinds/busy")).text).one("h2").text
