"""The whole route table, walked: nothing is reached without a decision, and looking changes
nothing.
"""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from psycopg import sql
from starlette.applications import Starlette
from starlette.routing import Match, Route

from riverui import create_app
from riverui.features.error_groups.domain.fingerprints import error_signature
from riverui.storage.interface import Driver
from riverui.web.auth.rights import EVERYTHING, READ_ONLY, RIGHTS, Access
from riverui.web.config import DashboardConfig
from riverui.web.http.context import PUBLIC, SIGNED_IN
from riverui.web.http.routes import GuardedRoute, GuardedRouter, guarded
from tests.factory import Make
from tests.own_tables import dead_letter, incident
from tests.web.stand_ins import DeadDriver, browser, dashboard
from tests.workflows import workflow

PUBLIC_ROUTES = {"health", "robots", "static"}
SIGNED_IN_ROUTES = {"api", "api.openapi", "help", "palette", "preferences"} | {
    "river_ui.settings",
    "root",
}


def table() -> list[GuardedRoute]:
    app = create_app(DeadDriver(), no_auth=True)
    assert all(isinstance(route, GuardedRoute) for route in app.routes), (
        "every route must carry its right"
    )
    return [route for route in app.routes if isinstance(route, GuardedRoute)]


ENTRIES = table()
GUARDED = [entry for entry in ENTRIES if entry.right not in (PUBLIC, SIGNED_IN)]


def method(entry: GuardedRoute) -> str:
    assert entry.methods is not None
    (found,) = entry.methods - {"HEAD"}
    return found


def path(entry: GuardedRoute, **params: object) -> str:
    known: dict[str, object] = {
        "id": 1,
        "job_id": 1,
        "attempt": 1,
        "chart": "ended",
        "field": "args",
        "name": "default",
        "fingerprint": error_signature("it broke").fingerprint,
        "kind": "test_kind",
    }
    known |= {"hash": "x", "path": "app.css"}
    if entry.name == "health":
        known["name"] = "complete"
    return entry.path_format.format_map({**known, **params})


def of_api(entry: GuardedRoute) -> bool:
    return entry.path.startswith(("/api/", "/metrics"))


def names(entries: list[GuardedRoute]) -> list[str]:
    return [f"{method(entry)} {entry.path}" for entry in entries]


def app_for(driver: Driver | DeadDriver, rights: frozenset[str], **config: Any) -> Starlette:
    access = Access(user="ada", rights=rights)
    return create_app(
        driver, authenticate=lambda connection: access, config=DashboardConfig(**config)
    )


def test_each_route_declares_one_right_and_only_these_are_open() -> None:
    assert {entry.name for entry in ENTRIES if entry.right == PUBLIC} == PUBLIC_ROUTES
    assert {entry.name for entry in ENTRIES if entry.right == SIGNED_IN} == SIGNED_IN_ROUTES
    assert {entry.right for entry in GUARDED} == set(RIGHTS), (
        "a right that no route needs, or the other way round"
    )
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_what_changes_something_is_a_post_and_needs_more_than_reading() -> None:
    for entry in GUARDED:
        if method(entry) == "GET":
            assert entry.right in READ_ONLY, entry.name
        elif (
            entry.name.removeprefix("api.") != "operations.stop"
        ):  # asks for the right of the operation's own verb besides
            assert entry.right not in READ_ONLY, entry.name
    assert {method(entry) for entry in ENTRIES if not of_api(entry)} == {"GET", "POST"}


@pytest.mark.parametrize("entry", ENTRIES, ids=names(ENTRIES))
async def test_without_credentials_only_public_routes_answer(entry: GuardedRoute) -> None:
    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    async with browser(app) as client:
        answer = await client.request(method(entry), path(entry))
        assert (answer.status_code == 401) is (entry.name not in PUBLIC_ROUTES)
        assert ("www-authenticate" in answer.headers) is (entry.name not in PUBLIC_ROUTES)


@pytest.mark.parametrize("entry", GUARDED, ids=names(GUARDED))
async def test_each_route_needs_its_right(
    entry: GuardedRoute,
) -> None:
    async with browser(app_for(DeadDriver(), EVERYTHING - {entry.right})) as client:
        assert (await client.request(method(entry), path(entry))).status_code == 403
    async with browser(app_for(DeadDriver(), frozenset({entry.right}))) as client:
        answer = await client.request(method(entry), path(entry))
        assert answer.status_code != 403


@pytest.mark.parametrize("entry", GUARDED, ids=names(GUARDED))
async def test_a_read_only_dashboard_refuses_whatever_is_not_reading(entry: GuardedRoute) -> None:
    async with browser(app_for(DeadDriver(), EVERYTHING, read_only=True)) as client:
        answer = await client.request(method(entry), path(entry))
        assert (answer.status_code == 403) is (entry.right not in READ_ONLY)


POSTS = [entry for entry in ENTRIES if method(entry) == "POST" and not of_api(entry)]
CHANGES = [entry for entry in ENTRIES if method(entry) != "GET"]


@pytest.mark.parametrize("entry", CHANGES, ids=names(CHANGES))
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
    ],
    ids=["cross-site", "same-site", "origin", "null"],
)
async def test_no_change_is_taken_from_another_site(
    entry: GuardedRoute, headers: dict[str, str]
) -> None:
    async with dashboard(DeadDriver()) as client:
        for kind in ("application/x-www-form-urlencoded", "text/plain"):
            sent = {"headers": {**headers, "Content-Type": kind}, "content": b"ids=1&confirmed=1"}
            answer = await client.request(method(entry), path(entry), **sent)  # type: ignore[arg-type]
            assert answer.status_code == 403


async def test_no_get_changes_anything(driver: Driver, make: Make) -> None:
    await seed(make)
    before = await everything(make)
    async with dashboard(driver) as client:
        for entry in ENTRIES:
            if method(entry) == "GET":
                for query in (
                    "",
                    "?q=kind:test_kind&state=available&verb=delete&ids=1&name=default&confirmed=1",
                ):
                    for htmx in ({}, {"HX-Request": "true", "HX-Target": "div#dialog"}):
                        answer = await client.get(path(entry) + query, headers=htmx)
                        assert answer.status_code < 500, (path(entry), answer.text)
    assert await everything(make) == before


async def test_a_post_without_its_fields_changes_nothing(driver: Driver, make: Make) -> None:
    await seed(make)
    before = await everything(make)
    async with dashboard(driver) as client:
        for entry in POSTS:
            for data in ({}, {"ids": "x", "name": "", "token": "forged", "id": "1"}):
                answer = await client.post(path(entry), data=data)
                assert answer.status_code < 500, (path(entry), answer.text)
                assert "text/html" in answer.headers.get("content-type", "text/html")
        for entry in CHANGES:
            for sent in ({"data": {"ids": "1", "query": "id:1"}}, {"json": [1]}):
                if of_api(entry):
                    answer = await client.request(method(entry), path(entry), **sent)
                    assert 400 <= answer.status_code < 500, (path(entry), answer.text)
                    assert answer.headers["content-type"].startswith("application/json")
    assert await everything(make) == before


async def test_every_page_for_read_only_users(driver: Driver, make: Make) -> None:
    await seed(make)
    left_out = ("dead_letters.bulk", "jobs.bulk", "jobs.search", "operations.show")
    pages = [
        entry
        for entry in ENTRIES
        if method(entry) == "GET" and entry.name not in left_out and not of_api(entry)
    ]
    offered = [post.path for post in POSTS if post.right not in (*READ_ONLY, SIGNED_IN)]
    assert len(pages) > 10
    assert offered
    async with browser(app_for(driver, READ_ONLY)) as client:
        for entry in pages:
            answer = await client.get(path(entry))
            assert answer.status_code in (200, 302, 307), (entry.path, answer.text)
            buttons = re.findall(r'(?:formaction|hx-post)="([^"?]*)', answer.text)
            assert not set(buttons) & set(offered), entry.path


async def seed(make: Make) -> None:
    """Insert a job of every state, among them number 1, and two queues; a dead letter."""
    await make.job(
        "running",
        metadata={"output": {"done": True}, "river:log": [{"attempt": 1, "log": "hello"}]},
    )
    for state in (
        "available",
        "pending",
        "scheduled",
        "retryable",
        "completed",
        "discarded",
        "cancelled",
    ):
        await make.job(state)
    await make.queue()
    await make.queue("paused", paused_at="2026-11-21T09:00:00Z")
    await make.leader()
    await dead_letter(make.connection, 1)
    await workflow(make.connection, {"only": ("running", ())}, id="1")
    await incident(make.connection, "1")


async def everything(make: Make) -> dict[str, list[str]]:
    """Return every row of every table, as text, but for what dashboards write unasked: figures,
    error groups and incidents.
    """
    tables = await make.execute(
        "select relname from pg_class where relkind = 'r' and relname like 'river%'"
        " and relname not in ('riverui_rollup', 'riverui_error_group', 'riverui_incident',"
        " 'riverui_lease')"
    )
    found = {}
    for row in await tables.fetchall():
        rows = await make.execute(
            sql.SQL("select t::text as line from {} t order by 1").format(
                sql.Identifier(row["relname"])
            )
        )
        found[row["relname"]] = [line["line"] for line in await rows.fetchall()]
    assert found["river_job"]
    return found


def test_the_walk_would_notice_a_route_without_a_right() -> None:
    route = GuardedRoute("GET", "/x", "x", "jobs.everything", lambda request: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="names no right"):
        guarded([*ENTRIES, route], RIGHTS)
    with pytest.raises(ValueError, match="is not a GuardedRoute"):
        guarded([*ENTRIES, Route("/x", lambda request: None)], RIGHTS)
    guarded(ENTRIES, RIGHTS)


async def test_even_a_route_that_a_host_adds_by_itself_needs_sign_in() -> None:
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse

    async def added(request: Request) -> PlainTextResponse:
        return PlainTextResponse("added")

    app = create_app(DeadDriver(), basic_auth=("ada", "secret"))
    app.add_route("/added", added)
    async with browser(app) as client:
        assert (await client.get("/added")).status_code == 401
        assert (await client.get("/added", auth=httpx2.BasicAuth("ada", "secret"))).text == "added"


def test_the_table_is_asked_in_its_order_wherever_it_is_entered() -> None:
    """Of the routes that begin like an address, the first is that of the whole table."""
    app = create_app(DeadDriver(), no_auth=True)
    assert isinstance(app.router, GuardedRouter)
    for entry in app.routes:
        assert isinstance(entry, GuardedRoute)
        path = re.sub(r"{[^}]+}", "7", entry.path)
        for method in ("GET", "POST"):
            scope = {"type": "http", "method": method, "path": path, "root_path": ""}
            fits = [route for route in app.routes if route.matches(scope)[0] is Match.FULL]
            near = app.router.table.near(path)
            found = [route for route in near if route.matches(scope)[0] is Match.FULL]
            assert found == fits or not near, path
            answers = app.router.table.find(scope, path)
            assert (answers[0] if answers else None) is next(iter(fits), None), path
            if answers is not None:
                assert answers[1]["path_params"] == fits[0].matches(scope)[1]["path_params"]
