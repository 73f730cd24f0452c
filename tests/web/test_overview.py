"""The front page: figures as they are, what needs a look, and what happened lately."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui import create_app
from riverui.actions.job_verbs import DELETE
from riverui.domain.figures import FigureColumn, Figures, Window
from riverui.domain.jobs import JobState
from riverui.domain.marks import Mark
from riverui.features.operations.runner import OPERATIONS
from riverui.storage.interface import Driver
from riverui.storage.interface.params import JobFilter
from riverui.web.auth.rights import EVERYTHING, Access
from riverui.web.config import DashboardConfig
from tests import factory
from tests.cases import cases
from tests.operations import idle, start
from tests.web.html import Element, parse
from tests.web.made_figures import MadeFigures, busy, figures, tally
from tests.web.stand_ins import DeadDriver, SlowDriver, browser, mark

Htmx = Callable[..., dict[str, str]]


@pytest.fixture
def made(app: Starlette) -> MadeFigures:
    """Give the dashboard figures made by hand; return their reader."""
    found = MadeFigures(make=busy)
    found.put_into(app.state.dashboard)
    return found


async def home(client: httpx2.AsyncClient, path: str = "/") -> Element:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text[:2000]
    return parse(answer.text)


def card(page: Element, name: str) -> Element:
    return page.one("section", aria_labelledby=f"title-{name}")


def lines(found: Element) -> list[list[str]]:
    return [[cell.text for cell in row.all("td")] for row in found.one("tbody").all("tr")]


async def test_the_front_page_has_the_charts_of_its_window(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    page = await home(client, "/?window=6h")
    assert made.asked == [("6h", "", "")]
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        "chart-ended",
        "chart-wait",
        "chart-run",
    ]
    ended = card(page, "ended")
    assert ended.one("h2").text == "Ended per 10 minutes last 6 hours"
    assert ended.link("Ended per 10 minutes") == "/figures/ended?window=6h"
    legend = [line.text for line in ended.one(class_="chart-legend").all("li")]
    assert legend == ["completed 360", "cancelled 0", "failed, tried again 2", "discarded 1"]
    windows = page.one("nav", class_="windows")
    assert [(link.text, link.attributes["href"]) for link in windows.all("a")] == [
        ("1h", "/"),
        ("6h", "/?window=6h"),
        ("24h", "/?window=24h"),
        ("7d", "/?window=7d"),
        ("90d", "/?window=90d"),
    ]
    assert [link.text for link in windows.all("a", aria_current="true")] == ["6h"]
    assert page.one("nav", class_="rail").all("a", aria_current="page")[0].text == "Overview"


async def test_a_column_leads_to_exactly_the_jobs_that_ended_in_it(
    client: httpx2.AsyncClient, made: MadeFigures, connection: AsyncConnection[Any]
) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    ids = {}
    for name, seconds in (("before", -0.000001), ("first", 0), ("last", 59.999999), ("after", 60)):
        at = minute + timedelta(seconds=seconds)
        ids[name] = await factory.job(connection, "completed", finalized_at=at)
    discarded = await factory.job(connection, "discarded", finalized_at=minute)
    await factory.job(connection, "running")
    page = await home(client)
    links = [hit.attributes["href"] for hit in card(page, "ended").all("a", class_="chart-hit")]
    (link,) = [link for link in links if f"finished:%3E%3D{minute:%Y-%m-%dT%H:%M}Z" in link]
    found = await home(client, link)
    shown = {row.attributes["id"] for row in found.all("tbody", class_="job")}
    assert shown == {f"job-{job}" for job in (ids["first"], ids["last"], discarded)}


async def test_kinds_come_by_the_time_they_took(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    kinds = card(await home(client), "kinds")
    assert lines(kinds) == [
        ["mail_send", "16 m 42 s", "", "501", "2.0 s", "0.6 %"],
        ["ping", "1 m 30 s", "", "9,000", "10 ms", "–"],
        ["all others", "5.0 s", "", "5", "1.0 s", "17 %"],
    ]
    assert kinds.link("mail_send") == "/kinds/mail_send"
    assert [bar.attributes["width"] for bar in kinds.all("rect")] == ["100.0", "9.0", "0.5"]


async def test_queues_that_need_a_look_come_worst_first(
    client: httpx2.AsyncClient, made: MadeFigures, connection: AsyncConnection[Any]
) -> None:
    now = datetime.now(UTC)
    for name, seconds in (("mail", 90), ("hooks", 3), ("paused", 5), ("unserved", 4000)):
        at = now - timedelta(seconds=seconds)
        await factory.job(connection, "available", queue=name, scheduled_at=at)
        if name != "unserved":
            paused_at = now - timedelta(minutes=7) if name == "paused" else None
            await factory.queue(connection, name, paused_at=paused_at)
    page = await home(client)
    needs = card(page, "queues")
    found = [row.one("td", class_="c-main") for row in needs.one("tbody").all("tr")]
    # Three seconds are no wait, unless nothing takes the jobs.
    assert [cell.text.split()[:3] for cell in found] == [
        ["unserved", "no", "client"],
        ["mail"],
        ["paused", "paused", "7"],
    ]
    assert lines(needs)[1][1:] == ["1", "1 m 30 s", "500 ms"]
    assert needs.link("mail") == "/queues/mail"
    happened = card(page, "recently").all("li")
    assert [line.text for line in happened] == ["paused paused7 m ago"]


async def test_operations_are_told_with_who_did_what(
    app: Starlette,
    client: httpx2.AsyncClient,
    made: MadeFigures,
    connection: AsyncConnection[Any],
) -> None:
    for _ in range(3):
        await factory.job(connection, "completed")
    board = app.state.dashboard
    completed = JobFilter(states=(JobState.COMPLETED,))
    await start(board.get(OPERATIONS), board.driver, DELETE, completed, id="abc", user="ada <i>")
    await idle(board.get(OPERATIONS))
    recently = card(await home(client), "recently")
    assert [line.text for line in recently.all("li")] == ["3 jobs deleted by ada <i>now"]
    assert recently.link("3 jobs deleted") == "/operations/abc"


async def test_deploys_stand_in_the_charts_and_among_what_happened(
    app: Starlette, client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=20)
    mark(app, Mark(at=at, label="v1.4.2 <b>", url="https://git.test/v1.4.2"))
    page = await home(client)
    for chart in ("ended", "wait", "run"):
        (drawn,) = page.one(id=f"chart-{chart}").all(class_="chart-mark")
        assert drawn.one("text").text == "v1.4.2 <b>"
        assert drawn.one("a").attributes["href"] == "https://git.test/v1.4.2"
    assert card(page, "recently").link("v1.4.2 <b>") == "https://git.test/v1.4.2"
    alone = await home(client, "/figures/ended")
    assert len(alone.all(class_="chart-mark")) == 1


async def test_what_is_not_known_is_said(client: httpx2.AsyncClient, made: MadeFigures) -> None:
    def young(window: Window, queue: str, kind: str) -> Figures:
        first = window.columns - 14
        found = figures(
            window,
            lambda n: (
                replace(FigureColumn(at=datetime.now(UTC), tally=tally(3)), sampled=10)
                if n >= first
                else None
            ),
            complete=False,
        )
        return replace(found, since=found.columns[first].at)

    made.make = young
    page = await home(client)
    note = page.one(class_="figures-note").text
    assert note.startswith(
        "figures read now from the rows of jobs counts are estimated: one in 10 jobs"
    )
    assert "the oldest are from 13 m ago" in note
    assert note.endswith("older columns are still being read")
    assert len(page.one(id="chart-ended").all(class_="chart-gap")) == 1


async def test_figures_that_could_not_be_read_lately_are_shown_and_told(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    old = datetime.now(UTC) - timedelta(minutes=4)
    made.make = lambda window, queue, kind: replace(
        busy(window, queue, kind), trouble="The database did not answer in time.", read_at=old
    )
    page = await home(client)
    note = page.one(class_="figures-note").text
    assert note.startswith("Not up to date: The database did not answer in time.")
    assert "figures read 4 m ago" in note
    assert page.all("figure")


async def test_figures_are_read_for_the_first_time(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    made.make = lambda window, queue, kind: figures(
        window, lambda n: None, read_at=None, since=None
    )
    page = await home(client)
    assert page.one(class_="figures-note").text == "figures are being read for the first time"
    words = [text.text for text in page.all(class_="chart-nothing")]
    assert words == ["Figures are being read."] * 3


async def test_without_figures_the_rest_of_the_page_is_there(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await factory.queue(connection, "mail", paused_at=datetime.now(UTC) - timedelta(hours=2))
    app = create_app(driver, no_auth=True, config=DashboardConfig(charts=False))
    async with browser(app) as client:
        page = await home(client)
        note = page.one(class_="figures-note").text
        assert note == "Charts are switched off (RIVERUI_CHARTS)."
        assert not page.all("figure")
        assert card(page, "recently").all("li")
    await app.state.dashboard.close()


async def test_figures_of_real_rows_are_there_at_the_first_look(
    client: httpx2.AsyncClient, connection: AsyncConnection[Any]
) -> None:
    at = datetime.now(UTC) - timedelta(seconds=30)
    ended = {"finalized_at": at, "attempted_at": at - timedelta(seconds=4), "kind": "mail"}
    for _ in range(5):
        await factory.job(connection, "completed", scheduled_at=at - timedelta(seconds=64), **ended)
    await factory.job(connection, "discarded", **ended)
    page = await home(client)
    legend = [line.text for line in card(page, "ended").one(class_="chart-legend").all("li")]
    assert legend[0] == "completed 5"
    assert legend[-1] == "discarded 1"
    assert lines(card(page, "kinds"))[0][:1] == ["mail"]
    wait = (await client.get("/figures/wait.json")).json()["columns"]
    assert [55 < column["p95"] < 65 for column in wait if column["p95"]] == [True]
    assert "rows of jobs" in page.one(class_="figures-note").text


@pytest.mark.parametrize("window", ["", "90d"])
async def test_a_new_database_says_that_nothing_waits(
    client: httpx2.AsyncClient, made: MadeFigures, window: str
) -> None:
    made.make = lambda window, queue, kind: figures(window, lambda n: tally())
    page = await home(client, f"/?window={window}")
    assert "No job has been waiting" in card(page, "queues").text
    assert "Nothing in the last 24 hours." in card(page, "recently").text
    assert not page.all("section", aria_labelledby="title-kinds")
    zero = page.one(id="chart-ended").all(class_="chart-hit")[0].attributes["aria-label"]
    assert zero.endswith("completed 0; cancelled 0; failed, tried again 0; discarded 0")


async def test_who_may_not_see_figures_is_led_to_the_jobs(driver: Driver) -> None:
    viewer = Access(user="ada", rights=EVERYTHING - {"figures.read"})
    app = create_app(driver, authenticate=lambda connection: viewer)
    async with browser(app) as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (302, "/jobs")
        page = parse((await client.get("/jobs")).text)
        assert not page.all("a", data_section="overview")
    await app.state.dashboard.close()


async def test_who_may_see_figures_alone_gets_no_link_to_jobs(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await factory.queue(connection, "mail", paused_at=datetime.now(UTC))
    viewer = Access(user="ada", rights=frozenset({"figures.read"}))
    app = create_app(driver, authenticate=lambda connection: viewer)
    MadeFigures(make=busy).put_into(app.state.dashboard)
    async with browser(app) as client:
        page = await home(client)
        main = page.one("main")
        assert not [
            link.attributes["href"]
            for link in main.all("a")
            if not link.attributes["href"].startswith(("/figures/", "/kinds", "/timeline"))
        ]
        assert lines(card(page, "kinds"))[0][0] == "mail_send"
        assert not page.all("section", aria_labelledby="title-queues")
    await app.state.dashboard.close()


async def test_a_database_that_does_not_answer_takes_the_queues_alone() -> None:
    app = create_app(DeadDriver(), no_auth=True)
    MadeFigures(make=busy).put_into(app.state.dashboard)
    async with browser(app) as client:
        page = await home(client)
        assert "cannot be reached" in page.one(class_="banner").text
        assert len(page.all("figure")) == 3
        assert not page.all("section", aria_labelledby="title-queues")
        # Nothing counts as healthy or empty that was not read.
        assert not page.all("section", aria_labelledby="title-recently")
        assert "Cannot tell whether work is flowing." in page.one("header", class_="standing").text
        for path in ("/timeline", "/alerts", "/incidents", "/errors/fp1:0123456789abcdef"):
            assert (await client.get(path)).status_code == 503, path


async def test_so_do_queues_that_take_too_long(driver: Driver) -> None:
    app = create_app(SlowDriver(driver, "queue_list"), no_auth=True)
    MadeFigures(make=busy).put_into(app.state.dashboard)
    async with browser(app) as client:
        page = await home(client)
        assert page.one(class_="banner").text
        assert len(page.all("figure")) == 3


async def test_its_live_part_is_drawn_alone_and_not_sent_twice(
    client: httpx2.AsyncClient, made: MadeFigures, htmx: Htmx
) -> None:
    at = datetime.now(UTC)
    made.make = lambda window, queue, kind: replace(busy(window, queue, kind), read_at=at)
    asked = htmx("overview", current="/")
    answer = await client.get("/", headers=asked)
    assert [child.tag for child in parse(answer.text).children if isinstance(child, Element)] == [
        "section"
    ]
    live = {**asked, "Riverui-Live": "2"}
    first = await client.get("/", headers=live)
    again = await client.get("/", headers={**live, "If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)


async def test_nonsense_in_the_address_is_refused_in_words(
    client: httpx2.AsyncClient, made: MadeFigures
) -> None:
    with cases() as case:
        for path, words in (
            ("/?window=2h", "Unknown window; the windows are 1h, 6h, 24h, 7d, 90d."),
            ("/?windows=6h", "Unknown parameter “windows”"),
        ):
            with case((path[:60], words)):
                answer = await client.get(path)
                assert answer.status_code == 400
                assert words in parse(answer.text).text


EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}\u202e"


async def test_names_are_text_everywhere(
    client: httpx2.AsyncClient, made: MadeFigures, connection: AsyncConnection[Any]
) -> None:
    await factory.queue(connection, EVIL, paused_at=datetime.now(UTC))
    await factory.job(connection, "available", queue=EVIL)
    made.make = lambda window, queue, kind: figures(
        window, lambda n: tally(3), pairs={(EVIL, EVIL): tally(3, failed=2)}
    )
    named = {"queue": EVIL, "kind": EVIL}
    for path in ("/", str(httpx2.URL("/figures/wait", params=named)), "/queues"):
        page = await home(client, path)
        assert "<script>alert(1)</script>" in page.text
        assert "\u202e" not in page.text
        for element in page.one("main").walk():
            assert element.tag not in ("script", "img", "style"), path
            assert not any(name.startswith("on") for name in element.attributes)
            href = element.attributes.get("href", "/")
            assert href.startswith("/")
            assert not href.startswith("//")
    page = await home(client)
    for name, text in (("kinds", "kinds"), ("queues", "queues"), ("recently", "queues")):
        (link,) = [
            link.attributes["href"]
            for link in card(page, name).all("a")
            if link.attributes["href"] not in ("/queues", "/kinds", "/timeline")
        ]
        assert link.startswith(f"/{text}/")
        assert (await client.get(link)).status_code == 200
