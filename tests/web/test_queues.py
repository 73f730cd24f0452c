"""The queue pages: names of any kind, counts that lead to jobs, pause and resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from httpx2 import AsyncClient
from starlette.applications import Starlette

from riverui import create_app
from riverui.domain.figures import Figures, Window
from riverui.domain.queues import QueueMinute
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, Access
from riverui.web.config import DashboardConfig
from tests.factory import Make
from tests.web.html import Element, get, parse
from tests.web.made_figures import MadeFigures, figures, tally
from tests.web.stand_ins import browser

Htmx = Callable[..., dict[str, str]]
NAMES = (
    "default",
    "",
    ".",
    "..",
    "~",
    "~x",
    "~a%0Ab",
    "/",
    "a/b",
    "a\\b",
    "\x7f",
    "a b",
    "a%2Fb",
    "é",
    "a?b#c",
    "<b>",
    "a\nb",
    "*",
    'q"',
    "+",
)
EVIL = "<b>"


def lines(page: Element) -> list[str]:
    return [row.all("a", class_="mono")[0].text for row in page.all("tr", class_="queue")]


def notice(page: Element) -> str:
    return " | ".join(element.text for element in page.all(class_="notice"))


async def paused(make: Make) -> set[str]:
    rows = await make.rows("select name from river_queue where paused_at is not null")
    return {row["name"] for row in rows}


async def test_the_list(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    assert "No queues yet" in (await get(client, "/queues")).text
    await make.queue("a")
    await make.queue("b", paused_at=datetime.now(UTC))
    for _ in range(3):
        await make.job(queue="b")
    await make.job(queue="unserved", scheduled_at=datetime.now(UTC) - timedelta(hours=1))
    await make.job("running", queue="a")
    page = await get(client, "/queues")
    assert lines(page) == ["unserved", "b", "a"]
    assert lines(await get(client, "/queues?order=name")) == ["a", "b", "unserved"]
    row = page.all("tr", class_="queue")[1]
    assert "paused" in row.text
    link = next(link for link in row.all("a") if link.text == "3")
    assert parse_qs(urlsplit(link.attributes["href"]).query) == {
        "q": ["queue:b"],
        "state": ["available"],
    }
    assert lines(await get(client, "/queues?order=oldest")) == ["unserved", "b", "a"]
    assert lines(await get(client, "/queues?order=available")) == ["b", "unserved", "a"]
    assert lines(await get(client, "/queues?match=SERVED")) == ["unserved"]
    assert "No queue name contains" in (await get(client, "/queues?match=%25")).text
    await get(client, "/queues?order=upwards", 400)
    fragment = parse((await client.get("/queues?match=a", headers=htmx("queues-list"))).text)
    assert not fragment.all("html")
    assert fragment.one(id="queues-list").attributes["hx-get"] == "/queues?match=a"


async def test_every_name_has_a_page_of_its_own(client: AsyncClient, make: Make) -> None:
    for name in NAMES:
        await make.queue(name)
    page = await get(client, "/queues")
    links = {
        row.one("a", class_="mono").attributes["href"] for row in page.all("tr", class_="queue")
    }
    assert len(links) == len(NAMES)
    titles = set()
    for link in links:
        shown = await get(client, link)
        titles.add(shown.one("h1").attributes["title"])
        forms = [
            form for form in shown.all("form") if form.attributes.get("action") == "/queues/pause"
        ]
        if link == "/queues/%2A":
            assert not forms, "it would pause all queues"
            assert "to River's clients this name means every queue" in shown.one(id="queue").text
        else:
            titles.add(dict(forms[0].fields())["name"])
    assert titles >= set(NAMES)


async def test_one_queue(
    client: AsyncClient,
    reader: AsyncClient,
    make: Make,
    htmx: Htmx,
) -> None:
    await make.queue("mailers", metadata={"owner": "team"})
    await make.job(queue="mailers", kind="mail_send")
    await make.job("discarded", queue="mailers", kind="mail_bounce")
    failed = await make.job("discarded", queue="mailers", kind="mail_bounce")
    page = await get(client, "/queues/mailers")
    text = page.one(id="queue").text
    assert "mail_send" in text
    assert "owner" in text
    assert page.one(id="queue").link("mail_bounce") == f"/jobs/{failed}"
    assert text.count("it broke") == 1
    assert "2 ×" in text
    links = {link.attributes["href"] for link in page.one(id="queue").all("a")}
    assert "/jobs?q=kind:mail_send%20queue:mailers" in links
    assert "/jobs?q=queue:mailers&state=retryable&state=discarded" in links
    fragment = parse((await client.get("/queues/mailers", headers=htmx("queue"))).text)
    assert not fragment.all("html")
    assert page.all("form", action="/queues/pause")
    assert not (await get(reader, "/queues/mailers")).all("form", action="/queues/pause")


async def test_an_unknown_queue_is_a_friendly_page(client: AsyncClient) -> None:
    assert "Queue not found: nowhere" in (await get(client, "/queues/nowhere", 404)).text
    await get(client, f"/queues/{'x' * 5000}", 404)
    assert (await client.get("/queues/a%00b")).status_code in (400, 404)


async def test_pause_and_resume_one(client: AsyncClient, make: Make, htmx: Htmx) -> None:
    await make.queue("a")
    answer = await client.post("/queues/pause", data={"name": "a", "next": "/queues/a"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/a")
    assert "Queue a paused" in notice(await get(client, "/queues/a"))
    assert await paused(make) == {"a"}
    await client.post("/queues/pause", data={"name": "a"})
    assert "was already paused" in notice(await get(client, "/queues"))
    answer = await client.post(
        "/queues/resume", data={"name": "a", "next": "/queues"}, headers=htmx("notices", "/queues")
    )
    assert (answer.status_code, answer.headers["hx-trigger"]) == (200, "queues-changed")
    assert "Queue a resumed" in parse(answer.text).text
    assert await paused(make) == set()


async def test_pause_and_resume_all(client: AsyncClient, make: Make) -> None:
    for name in ("a", "b", "c"):
        await make.queue(name)
    await client.post("/queues/pause", data={"name": "c"})
    await get(client, "/queues")
    menu = (await get(client, "/queues")).one(id="menu-more")
    asked = await client.post(
        "/queues/pause", data=dict(menu.one("form", action="/queues/pause").fields())
    )
    assert await paused(make) == {"c"}
    await client.post(
        "/queues/pause", data=dict(parse(asked.text).one("form", class_="ask").fields())
    )
    told = notice(await get(client, "/queues"))
    assert "2 queues paused" in told
    assert "a, b" in told
    assert await paused(make) == {"a", "b", "c"}
    await client.post("/queues/resume", data={"all": "1"})
    assert "3 queues resumed" in notice(await get(client, "/queues"))
    await client.post("/queues/resume", data={"all": "1"})
    assert "No queue was paused" in notice(await get(client, "/queues"))


async def test_a_pause_has_a_note_and_can_be_undone(make: Make, driver: Driver) -> None:
    await make.queue("a", metadata={"concurrency": {"global_limit": 2}})
    await make.queue("b", paused_at=datetime.now(UTC))
    async with browser(
        create_app(driver, authenticate=lambda connection: Access(user="ops", rights=EVERYTHING))
    ) as client:
        (button,) = (await get(client, "/queues/a")).all("form", action="/queues/pause")
        asked = await client.post("/queues/pause", data=dict(button.fields()))
        form = dict(parse(asked.text).one("form", class_="ask").fields())
        await client.post("/queues/pause", data={**form, "note": f" vendor {EVIL} "})
        shown = await get(client, "/queues/a")
        assert f"by ops: “vendor {EVIL}”" in shown.one(id="queue").text
        assert f"by ops: “vendor {EVIL}”" in (await get(client, "/queues")).text
        undo = shown.one("form", class_="notice-undo")
        assert undo.attributes["action"] == "/queues/resume"
        await client.post("/queues/resume", data=dict(undo.fields()))
        assert await paused(make) == {"b"}
        (row,) = await make.rows("select metadata from river_queue where name = 'a'")
        kept = row["metadata"]["riverui:pause"]
        assert row["metadata"]["concurrency"] == {"global_limit": 2}
        assert (kept["by"], kept["note"], kept["resumed_by"]) == ("ops", f"vendor {EVIL}", "ops")
        async with driver.transaction() as transaction:
            await transaction.queues.pause("a")
        assert "vendor" not in (await get(client, "/queues")).text, "a later pause has no note"
        tooled = await client.put("/api/queues/*/resume")
        assert tooled.status_code == 200
        await client.put("/api/queues/b/pause", json={"note": "by a tool"})
        assert "by ops: “by a tool”" in (await get(client, "/queues")).text
        for bad in ({"note": "x" * 201}, {"note": 7}, {"note": "\0"}):
            assert (await client.put("/api/queues/a/pause", json=bad)).status_code == 400
        long = await client.post("/queues/pause", data={"name": "a", "note": "x" * 201})
        assert long.status_code == 400
        assert await paused(make) == {"b"}


async def test_pausing_many_can_be_undone_if_a_notice_holds_their_names(
    client: AsyncClient, make: Make
) -> None:
    for n in range(20):
        await make.queue(f"q{n}")
    await client.post("/queues/pause", data={"name": "q0"})
    await client.post("/queues/pause", data={"all": "1"})
    undo = (await get(client, "/queues")).one("form", class_="notice-undo")
    await client.post("/queues/resume", data={"name": [v for n, v in undo.fields() if n == "name"]})
    assert await paused(make) == {"q0"}
    for n in range(20):
        await make.queue(f"long-{n}-{'x' * 100}")
    await client.post("/queues/pause", data={"all": "1"})
    assert not (await get(client, "/queues")).all("form", class_="notice-undo")


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_queue_called_as_all_of_them(verb: str, client: AsyncClient, make: Make) -> None:
    for name in ("a", "*"):
        await make.queue(name)
    listed = (await get(client, "/queues")).one(id="queues-list")
    (form,) = listed.all("form", action="/queues/pause")
    assert dict(form.fields())["name"] == "a"
    answer = await client.post(f"/queues/{verb}", data={"name": "*"})
    assert answer.status_code == 400
    assert f"cannot be {verb}d on its own" in parse(answer.text).text
    assert await paused(make) == set()
    await client.post("/queues/pause", data={"all": "1"})
    assert await paused(make) == {"a", "*"}


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_what_cannot_be_paused(
    verb: str,
    client: AsyncClient,
    reader: AsyncClient,
    make: Make,
) -> None:
    await make.queue("a")
    assert (await reader.post(f"/queues/{verb}", data={"name": "a"})).status_code == 403
    assert (await client.post(f"/queues/{verb}", data={"next": "/queues"})).status_code == 400
    assert (await client.post(f"/queues/{verb}", data={"name": "nowhere"})).status_code == 404
    assert await paused(make) == set()


async def test_buttons_need_the_right(client: AsyncClient, reader: AsyncClient, make: Make) -> None:
    await make.queue("a")
    await make.queue("b", paused_at=datetime.now(UTC))
    for seen_by, columns, verbs in ((client, 8, {"pause", "resume"}), (reader, 7, set())):
        page = await get(seen_by, "/queues")
        assert len(page.one("table").all("th")) == columns
        assert {len(row.all("td")) for row in page.all("tr", class_="queue")} == {columns}
        actions = {form.attributes.get("action", "") for form in page.all("form")}
        assert {f"/queues/{verb}" for verb in verbs} == actions & {
            "/queues/pause",
            "/queues/resume",
        }


async def test_waits_and_forecasts(app: Starlette, client: AsyncClient, make: Make) -> None:
    now = datetime.now(UTC)
    for name, jobs in (("mail", 40), ("deep", 3), ("paused", 40), ("quiet", 0)):
        await make.queue(name, paused_at=now if name == "paused" else None)
        for _ in range(jobs):
            await make.job("available", queue=name)
    emptying = [
        None if n < 20 else QueueMinute(ended=10, inserted=8, wait=timedelta(seconds=1 + n % 3))
        for n in range(60)
    ]
    deep = [QueueMinute(ended=10, inserted=10, waiting=10_000, waiting_capped=True)] * 60
    app.state.dashboard.figures = MadeFigures(
        make=lambda window, queue, kind: figures(window, lambda n: tally(3, inserted=4)),
        queues={"mail": emptying, "paused": emptying, "deep": deep},
    )
    page = await get(client, "/queues")
    rows = dict(zip(lines(page), page.all("tr", class_="queue"), strict=True))
    told = {
        name: [row.one("td", class_=css).text for css in ("s-available", "c-spark")]
        for name, row in rows.items()
    }
    assert told == {
        "deep": ["3", "–"],
        "mail": ["40 empty in ≈ 20 m", "3.0 s"],
        "paused": ["40", "3.0 s"],
        "quiet": ["0", "–"],
    }
    assert len(rows["mail"].all("svg", class_="spark")) == 1
    shown = (await get(client, "/queues/mail")).one(id="queue")
    assert "It will be empty in ≈ 20 m." in shown.text
    assert "be empty in" not in (await get(client, "/queues/paused")).one(id="queue").text


async def test_a_queue_has_charts(app: Starlette, client: AsyncClient, make: Make) -> None:
    await make.queue("a/b <c>")
    made = MadeFigures(make=lambda window, queue, kind: figures(window, lambda n: tally(3)))
    app.state.dashboard.figures = made
    page = (await get(client, "/queues/~a%252Fb%2520%253Cc%253E?window=6h")).one(id="queue")
    assert made.asked == [("6h", "a/b <c>", "")]
    assert page.attributes["hx-get"].endswith("?window=6h")
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        "chart-flow",
        "chart-wait",
    ]
    link = page.one(id="chart-flow").all("a", class_="chart-hit")[0].attributes["href"]
    assert link.startswith("/jobs?q=queue:%22a%2Fb%20%3Cc%3E%22%20finished:")
    assert page.link("In and out per 10 minutes").endswith("?window=6h&queue=a%2Fb+%3Cc%3E")
    assert (await client.get("/queues/a?window=9h")).status_code == 400


async def test_without_figures_queues_are_as_ever(driver: Driver, make: Make) -> None:
    await make.queue("mail")
    off = create_app(driver, no_auth=True, config=DashboardConfig(charts=False))
    rights = EVERYTHING - {"figures.read"}
    blind = create_app(driver, authenticate=lambda connection: Access(rights=rights))
    for app in (off, blind):
        async with browser(app) as client:
            page = await get(client, "/queues")
            assert len(page.one("table").all("th")) == 7
            shown = (await get(client, "/queues/mail")).one(id="queue")
            assert not shown.all("figure")
            assert not shown.all("nav", class_="windows")


async def test_pages_do_not_wait_for_figures(
    app: Starlette, client: AsyncClient, make: Make
) -> None:
    class Slow(MadeFigures):
        async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
            await asyncio.Event().wait()
            raise AssertionError

        async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
            await asyncio.Event().wait()
            raise AssertionError

    app.state.dashboard.figures = Slow(make=lambda window, queue, kind: figures(window, int))  # type: ignore[arg-type]
    await make.queue("mail")
    done = await make.job("completed", queue="mail")
    for path in ("/queues", "/queues/mail", f"/jobs/{done}"):
        assert (await asyncio.wait_for(client.get(path), 5)).status_code == 200


async def test_a_queue_that_waits_longer_than_usual_comes_first(
    app: Starlette, client: AsyncClient, make: Make
) -> None:
    now = datetime.now(UTC)
    for name, minutes in (("early", 0), ("late", 31), ("slow", 31)):
        await make.queue(name)
        await make.job("available", queue=name, scheduled_at=now - timedelta(minutes=minutes))
    # Since it began, the late queue's waits are long as well: they do not become usual.
    waits = {"late": [2] * 28 + [1_800] * 32, "slow": [1_200] * 60}
    app.state.dashboard.figures = MadeFigures(
        make=lambda window, queue, kind: figures(window, lambda n: tally(3)),
        queues={
            name: [QueueMinute(ended=9, inserted=9, wait=timedelta(seconds=wait)) for wait in each]
            for name, each in waits.items()
        },
    )
    page = await get(client, "/queues")
    assert lines(page) == ["late", "early", "slow"]
    assert [row.attributes["class"] for row in page.all("tr", class_="queue")] == [
        "queue overdue",
        "queue",
        "queue",
    ]
    assert "Queue late has waited for 31 m 0 s, usually 2.0 s." in page.one(class_="summary").text
    begins = [line.attributes["d"].split("L")[0] for line in page.all("path", class_="chart-line")]
    assert begins[0] != begins[1], "each line alone would begin at the same height"


async def test_counts_of_deep_queues_are_exact(client: AsyncClient, make: Make) -> None:
    await make.rows(
        "insert into river_job (kind, args, queue) select 'k', '{}', 'deep'"
        " from generate_series(1, 2658) returning id"
    )
    assert (await get(client, "/queues")).one("td", class_="s-available").link("2,658")
    counts = (await get(client, "/queues/deep")).one(class_="counts").text
    assert counts.startswith("2,658 available")
