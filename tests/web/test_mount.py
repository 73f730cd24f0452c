"""The dashboard inside other apps and behind proxies: every link leads back to itself."""

from __future__ import annotations

import re
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Host, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

import riverui
from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.errors import ConfigError
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.http.proxy import Prefix, TrustedProxy
from tests.web.stand_ins import DeadDriver, browser

LINK = re.compile(r'(?:href|src|action|hx-get|hx-post)="([^"#][^"]*)')


def dashboard() -> Starlette:
    return create_app(DeadDriver(dead=False), no_auth=True)


def starlette(*routes: Mount | Route | Host) -> Starlette:
    async def own_page(request: Request) -> Response:
        return PlainTextResponse("the host's own page")

    # A host route of the same name as one of ours: links must not lead there.
    return Starlette(routes=[*routes, Route("/own", own_page, name="jobs.index")])


def fastapi(path: str) -> FastAPI:
    app = FastAPI()
    app.mount(path, dashboard())
    return app


def bare(path: str) -> ASGIApp:
    """Return a host that is no framework: it only moves the prefix into root_path, as ASGI says."""
    app = dashboard()

    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(path)
            scope = {**scope, "root_path": scope.get("root_path", "") + path}
        await app(scope, receive, send)

    return host


def strange(path: str) -> ASGIApp:
    """Return a host that cuts the prefix off the path, as WSGI does."""
    app = dashboard()

    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": path, "path": scope["path"].removeprefix(path)}
        await app(scope, receive, send)

    return host


def silent(path: str) -> ASGIApp:
    """Return a host that cuts the prefix off and tells nobody, as Litestar does; and puts a slash
    behind.
    """
    app = dashboard()

    async def host(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            rest = scope["path"].removeprefix(path)
            scope = {**scope, "path": rest if rest.endswith("/") else f"{rest}/"}
        await app(scope, receive, send)

    return host


def fastapi_told_of_its_proxy() -> FastAPI:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # FastAPI would rather have the server told; apps that do it still exist
        app = FastAPI(root_path="/proxy")
    app.mount("/river", dashboard())
    return app


class Place(NamedTuple):
    """A host app, where its links must lead, where we ask if that differs, and the root path that
    the server gives.
    """

    make: Callable[[], ASGIApp]
    base: str = ""
    ask: str | None = None
    root_path: str = ""


PLACES = {
    "alone": Place(dashboard),
    "starlette": Place(lambda: starlette(Mount("/river", dashboard())), "/river"),
    "starlette, named": Place(
        lambda: starlette(Mount("/river", dashboard(), name="river")), "/river"
    ),
    "starlette, nested": Place(
        lambda: starlette(Mount("/a", routes=[Mount("/b", dashboard(), name="b")], name="a")),
        "/a/b",
    ),
    "starlette, nested apps": Place(
        lambda: starlette(Mount("/a", Starlette(routes=[Mount("/b", dashboard())]))), "/a/b"
    ),
    "starlette, by parameter": Place(
        lambda: starlette(Mount("/{team}/r", dashboard())), "/x%20y/r", "/x y/r"
    ),
    "starlette, our own word": Place(lambda: starlette(Mount("/jobs", dashboard())), "/jobs"),
    "starlette, at the root": Place(lambda: starlette(Mount("/", dashboard()))),
    "fastapi": Place(lambda: fastapi("/river"), "/river"),
    "fastapi, root path": Place(lambda: fastapi("/river"), "/proxy/river", None, "/proxy"),
    "fastapi, its own root path": Place(fastapi_told_of_its_proxy, "/proxy/river", "/river"),
    "bare asgi": Place(lambda: bare("/river"), "/river"),
    "cut off like wsgi": Place(lambda: strange("/river"), "/river"),
    "cut off silently": Place(lambda: silent("/river"), "/river"),
    "cut off in a nest": Place(lambda: silent("/ops/river"), "/ops/river"),
    "server's root path": Place(dashboard, "/proxy", None, "/proxy"),
    "server's root path and mount": Place(
        lambda: starlette(Mount("/river", dashboard())), "/proxy/river", None, "/proxy"
    ),
    "prefix, kept": Place(lambda: Prefix(dashboard(), "/river"), "/river"),
    "prefix, below the server's root path": Place(
        lambda: Prefix(dashboard(), "/b"), "/a/b", None, "/a"
    ),
}


@pytest.mark.parametrize("place", PLACES)
async def test_every_link_leads_back_to_the_same_dashboard(place: str) -> None:
    make, base, asked, root_path = PLACES[place]
    app, ask = make(), base if asked is None else asked
    async with browser(app, root_path=root_path) as client:
        home = await client.get(f"{ask}/")
        assert home.status_code == 200, home.text
        page = await client.get(f"{ask}/help")
        assert page.status_code == 200, page.text
        lost = await client.get(f"{ask}/nothing/here")
        assert lost.status_code == 404
        for text in (home.text, page.text, lost.text):
            links = LINK.findall(text)
            assert links
            assert all(link.startswith(f"{base}/") for link in links), links
        asset = next(link for link in LINK.findall(lost.text) if link.endswith("app.css"))
        assert (await client.get(ask + asset.removeprefix(base))).status_code == 200
        queue = await client.get(f"{ask}/queues/a%2Fb")
        assert queue.status_code != 404 or "a/b" in queue.text


@pytest.mark.parametrize("path", ["/river", "/river/"])
async def test_the_mount_itself_is_the_front_page(path: str) -> None:
    for host in (strange, silent, bare):
        async with browser(host("/river")) as client:
            home = await client.get(path)
            assert home.status_code == 200, host
            assert 'href="/river/jobs"' in home.text, host


@pytest.mark.parametrize(
    "raw", [b"//evil.test/jobs", b"/a/../jobs", b"/\\evil.test/jobs", b"/%0d%0aX:y/jobs"]
)
async def test_an_odd_address_comes_before_no_link(raw: bytes) -> None:
    """A host may smooth an address out that its sender made up; links must not repeat it."""
    app = dashboard()

    async def smoothing(scope: Scope, receive: Receive, send: Send) -> None:
        await app(
            {**scope, "path": "/help", "raw_path": raw.replace(b"jobs", b"help")}, receive, send
        )

    async with browser(smoothing) as client:
        links = LINK.findall((await client.get("/help")).text)
        assert links
        assert not any("evil" in link or ".." in link or "X:y" in link for link in links)


async def test_two_dashboards_in_one_app_know_themselves_apart() -> None:
    app = Starlette(
        routes=[
            Mount(
                "/one", create_app(DeadDriver(dead=False), basic_auth=("ada", "one")), name="one"
            ),
            Mount("/two", create_app(DeadDriver(), no_auth=True), name="two"),
        ]
    )
    async with browser(app) as client:
        assert (await client.get("/one/jobs")).status_code == 401
        assert 'href="/two/jobs"' in (await client.get("/two/")).text
        assert (await client.get("/one/api/health-checks/complete")).status_code == 200
        assert (await client.get("/two/api/health-checks/complete")).status_code == 503


async def test_a_mounted_dashboard_needs_no_lifespan_and_a_standing_one_closes_its_driver() -> None:
    driver = DeadDriver()
    for close_driver in (False, True):
        app = build_app(
            driver,
            SignIn(no_auth=True),
            pilot=plain_pilot(),
            options=AppOptions(close_driver=close_driver),
        )
        async with lifespan(app):
            pass
        assert driver.closed == int(close_driver)


async def test_a_prefix_tells_strangers_where_to_go() -> None:
    async with browser(Prefix(dashboard(), "/river")) as client:
        assert (await client.get("/")).headers["location"] == "/river/"
        assert 'href="/river/jobs"' in (await client.get("/river")).text
        for path in ("/jobs", "/rivers", "/riverjobs", "/favicon.ico"):
            answer = await client.get(path)
            assert (answer.status_code, answer.text) == (
                404,
                "This dashboard lives below /river/\n",
            )
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await client.post("/")).status_code == 404


async def test_only_a_trusted_proxy_is_believed() -> None:
    async def show(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        client = request.client.host if request.client else ""
        seen = [request.url.scheme, request.url.netloc, client, scope["root_path"], scope["path"]]
        await JSONResponse(seen)(scope, receive, send)

    told = [
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "forged.test, river.test:444"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-For", "6.6.6.6, 10.0.0.1"),
        ("X-Forwarded-Prefix", "/river/"),
    ]
    async with browser(TrustedProxy(show)) as client:
        assert (await client.get("/jobs", headers=told)).json() == [
            "https",
            "river.test:444",
            "10.0.0.1",
            "/river",
            "/river/jobs",
        ]
        nonsense = {
            "X-Forwarded-Proto": "javascript",
            "X-Forwarded-Host": "a/b",
            "X-Forwarded-Prefix": "//evil.test",
        }
        assert (await client.get("/jobs", headers=nonsense)).json()[:2] == ["http", "river.test"]
        assert (await client.get("/jobs", headers=nonsense)).json()[3:] == ["", "/jobs"]
        for prefix in ("/a/../b", "/a//b", "/a b", "evil.test", "/<x>"):
            assert (await client.get("/jobs", headers={"X-Forwarded-Prefix": prefix})).json()[
                3
            ] == ""
    async with browser(dashboard()) as client:
        assert 'href="/jobs"' in (await client.get("/", headers=told)).text


async def test_the_public_create_app_takes_a_url_a_pool_or_a_driver() -> None:
    from psycopg_pool import AsyncConnectionPool

    url = "postgresql://nobody@127.0.0.1:1/none"
    pool: AsyncConnectionPool = AsyncConnectionPool(url, open=False)
    for database in (url, pool, DeadDriver()):
        app = riverui.create_app(database, no_auth=True)
        async with browser(app) as client:
            assert (await client.get("/api/health-checks/complete")).status_code == 503
    with pytest.raises(ConfigError):
        riverui.create_app(url)
    with pytest.raises(ConfigError):
        riverui.create_app("mysql://nobody@127.0.0.1/none", no_auth=True)
    with pytest.raises(AttributeError):
        _ = riverui.nothing  # type: ignore[attr-defined]
    assert riverui.Access().may("jobs.read")
    assert riverui.DashboardConfig().count_cap


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with app.router.lifespan_context(app):
        yield


def test_what_is_no_database_is_refused_when_the_app_is_made() -> None:
    wrong: Any = object()
    with pytest.raises(ConfigError, match="object is not a database: give a URL"):
        riverui.create_app(wrong, no_auth=True)
    with pytest.raises(ConfigError, match="schema differs from the driver's"):
        riverui.create_app(riverui.connect("postgres://x/y"), schema="other", no_auth=True)
    wrong = riverui.SyncClient("postgres://x/y")
    with pytest.raises(ConfigError, match="cannot use a SyncClient: give the URL"):
        riverui.create_app(wrong, no_auth=True)


async def test_an_engine_of_sqlalchemy_is_a_database(database_url: str) -> None:
    address = database_url.replace("postgres://", "postgresql://").split("://")[1]
    engine = create_async_engine(f"postgresql+psycopg://{address}")
    try:
        async with browser(riverui.create_app(engine, no_auth=True)) as client:
            assert (await client.get("/jobs")).status_code == 200
    finally:
        await engine.dispose()
