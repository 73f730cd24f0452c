"""One address, two sizes; notices in place or across a redirect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from httpx2 import AsyncClient
from jinja2 import Template
from jinja2.environment import TemplateModule
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from riverui import create_app
from riverui.web.http.cookies import Notice
from riverui.web.http.routes import GuardedRoute
from riverui.web.sections import SECTIONS
from riverui.web.view.notices import done
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, browser

Headers = Callable[..., dict[str, str]]
NOTICE = Notice(
    level="success",
    title="2 jobs <retried>",
    details=("1 skipped",),
    link=("Show them", "/jobs?state=available"),
)


def _app() -> Starlette:
    async def act(request: Request) -> Response:
        return done(request, NOTICE, next="/help", changed="jobs")

    app = create_app(DeadDriver(), no_auth=True)
    app.router.routes[:0] = [GuardedRoute("POST", "/act", "act", "jobs.read", act)]
    return app


async def test_a_page_answers_whole_or_as_the_fragment_that_htmx_names(htmx: Headers) -> None:
    async with browser(_app()) as client:
        whole = await client.get("/help")
        assert whole.text.count("<!doctype html>") == 1
        assert whole.headers["vary"] == "HX-Request, HX-Target"
        part = await client.get("/help", headers=htmx("dialog"))
        assert "<html" not in part.text
        assert "Keyboard and search" in part.text
        other = await client.get("/help", headers=htmx("page"))
        assert "<html" in other.text
        restored = await client.get(
            "/help", headers=htmx("dialog") | {"HX-History-Restore-Request": "true"}
        )
        assert "<html" in restored.text


async def test_htmx_gets_the_notice_in_place_and_a_word_to_the_live_regions(htmx: Headers) -> None:
    async with browser(_app()) as client:
        answer = await client.post("/act", headers=htmx("jobs-list", current="/help?x=1"))
        assert answer.status_code == 200
        assert answer.headers["hx-retarget"] == "#notices"
        assert answer.headers["hx-reswap"] == "beforeend"
        assert answer.headers["hx-trigger"] == "jobs-changed"
        notice = parse(answer.text).one("div", class_="notice")
        assert "2 jobs <retried>" in notice.text
        assert notice.link("Show them") == "/jobs?state=available"
        assert "set-cookie" not in answer.headers


async def test_a_plain_form_is_sent_on_and_the_next_page_shows_the_notice_once() -> None:
    async with browser(_app()) as client:
        answer = await client.post("/act")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/help"
        first = await client.get("/help")
        assert "2 jobs <retried>" in parse(first.text).one("div", class_="notice").text
        assert not parse((await client.get("/help")).text).all("div", class_="notice")


async def test_htmx_is_sent_on_where_the_next_page_is_another_one(htmx: Headers) -> None:
    async with browser(_app()) as client:
        answer = await client.post("/act", headers=htmx("jobs-list", current="/jobs/7"))
        assert answer.headers["hx-redirect"] == "/help"
        assert answer.text == ""
        assert parse((await client.get("/help")).text).all("div", class_="notice")


async def test_a_fragment_leaves_the_notice_for_the_page(htmx: Headers) -> None:
    async with browser(_app()) as client:
        await client.post("/act")
        assert not parse((await client.get("/help", headers=htmx("dialog"))).text).all(
            "div", class_="notice"
        )
        assert parse((await client.get("/help")).text).all("div", class_="notice")


@pytest.mark.parametrize("cookie", ["", "x", "e30.aSHdFA.forged", "a.b.c.d", "🦆".encode().hex()])
async def test_a_forged_notice_is_no_notice(cookie: str) -> None:
    async with browser(_app()) as client:
        answer = await client.get("/help", headers={"Cookie": f"riverui_notice={cookie}"})
        assert answer.status_code == 200
        assert not parse(answer.text).all("div", class_="notice")


async def test_odd_htmx_headers_are_no_harm(htmx: Headers) -> None:
    async with browser(_app()) as client:
        for headers in (
            {"HX-Target": "%zz#%ff"},
            {"HX-Target": "###"},
            {"HX-Current-URL": "http://[bad"},
            {"HX-Target": "div#" + "x" * 4_000},
        ):
            answer = await client.get("/help", headers=htmx() | headers)
            assert answer.status_code == 200
            assert (await client.post("/act", headers=htmx() | headers)).status_code == 200


async def test_macros_are_made_once_and_not_for_each_page(
    client: AsyncClient, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make.job()
    made: list[str | None] = []

    class Counted(TemplateModule):
        def __init__(self, template: Template, *given: Any, **named: Any) -> None:
            made.append(template.name)
            super().__init__(template, *given, **named)

    monkeypatch.setattr("jinja2.environment.TemplateModule", Counted)
    paths = ("/jobs", "/jobs/1", "/queues", "/queues/default", "/operations", "/about", "/help")
    for path in paths:
        await client.get(path)
    assert made
    assert len(made) == len(set(made))


async def test_the_shell_shows_only_where_one_may_go(reader: AsyncClient) -> None:
    page = parse((await reader.get("/jobs")).text)
    shown = [link.text for link in page.one("nav", class_="rail").all("a") if link.text]
    entries = [entry for entry in SECTIONS.navigation.values() if entry.store is None]
    more = [entry.label for entry in entries if not entry.phone]
    pages = [label for label in shown if label not in ("Find", "Help")]
    assert pages == [*(entry.label for entry in entries), *more]
    assert "ada" in page.one("footer").text


async def test_the_shell_names_database_and_schema(client: AsyncClient, make: Make) -> None:
    await client.get("/jobs")
    page = parse((await client.get("/help")).text)
    assert f"{make.connection.info.dbname} · public" in page.one("footer").text
