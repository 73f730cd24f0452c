"""A real dashboard on a database of its own, in a real browser that tolerates no violation."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
    expect,
)
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from starlette.applications import Starlette
from starlette.types import ASGIApp

from riverui import create_app
from riverui.storage.connect import connect
from riverui.web.config import DashboardConfig
from tests.factory import Make
from tests.needs import need

# One event loop for everything here: the browser lives as long as the session.
LOOP = pytest.mark.asyncio(loop_scope="session")


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to pytest."""
        yield


@dataclass(kw_only=True, slots=True)
class Site:
    """A dashboard that listens, and the database behind it."""

    url: str
    connection: AsyncConnection[DictRow]

    @property
    def make(self) -> Make:
        """Return what writes rows to the database."""
        return Make(self.connection)


@dataclass(kw_only=True)
class Watch:
    """What went wrong in the browser; a test that means to provoke something takes it out of
    here.
    """

    problems: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    """What addresses may begin with besides the site's own."""

    def forgive(self, *parts: str) -> None:
        """Take out what the test provoked: problems that hold any of these texts."""
        self.problems = [
            problem for problem in self.problems if not any(part in problem for part in parts)
        ]

    def on_console(self, message: ConsoleMessage) -> None:
        """Keep errors and warnings of the page, violations of its policy among them."""
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def on_error(self, error: Exception) -> None:
        """Keep exceptions that nobody caught."""
        self.problems.append(f"exception: {error}")


NewPage = Callable[..., Awaitable[Page]]


async def asked_while(page: Page, milliseconds: int) -> list[str]:
    """Let so much time pass for a page at once; return the addresses that it asked for meanwhile.

    Its clock must have been installed before it was opened: `page.clock.install()`. What the page
    is waiting for comes first, as a region that waits for an answer does not ask again.
    """
    asked: list[str] = []
    await expect(page.locator(".htmx-request")).to_have_count(0)
    await _mark(page)
    page.on("request", note := lambda request: asked.append(request.url))
    await page.clock.run_for(milliseconds)
    await _mark(page)
    page.remove_listener("request", note)
    return [url for url in asked if not url.endswith(MARK)]


MARK = "/static/x/favicon.svg?mark"


async def _mark(page: Page) -> None:
    """Ask for a file by the page itself: its requests are told in the order they were made."""
    async with page.expect_request(f"**{MARK}"):
        await page.evaluate("url => void fetch(url)", MARK)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Yield one Chromium for all tests."""
    path = await asyncio.to_thread(need, "Chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
def config() -> DashboardConfig:
    """Return how the dashboard of this test is set up; a test may override it."""
    return DashboardConfig(env_name="test", env_color="violet")


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """Serve the app on a free port of this machine; return its origin."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = _Server(
            uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        )
        running = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@contextlib.asynccontextmanager
async def dashboard(database_url: str, **options: Any) -> AsyncIterator[Starlette]:
    """Yield a dashboard of that database, open to everybody, closed behind the test."""
    driver = connect(database_url)
    app = create_app(driver, no_auth=True, **options)
    try:
        yield app
    finally:
        await app.state.dashboard.close()
        await driver.close()


@pytest_asyncio.fixture(loop_scope="session")
async def site(database_url: str, config: DashboardConfig) -> AsyncIterator[Site]:
    """Yield a running dashboard, open to everybody."""
    async with (
        dashboard(database_url, config=config) as app,
        serving(app) as url,
        await AsyncConnection.connect(
            database_url, autocommit=True, row_factory=dict_row
        ) as connection,
    ):
        yield Site(url=url, connection=connection)


@pytest.fixture
def watch() -> Watch:
    """Return what went wrong in the browser."""
    return Watch()


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(browser: Browser, site: Site, watch: Watch) -> AsyncIterator[NewPage]:
    """Open pages (keywords as for Browser.new_context); whatever goes wrong in one fails the
    test.
    """
    contexts: list[BrowserContext] = []

    async def open_page(**options: Any) -> Page:
        context = await browser.new_context(
            base_url=site.url, **({"viewport": {"width": 1280, "height": 800}} | options)
        )
        contexts.append(context)
        context.set_default_timeout(5_000)

        def own_origin_only(request: Request) -> None:
            if not request.url.startswith((site.url, "data:", *watch.own)):
                watch.problems.append(f"foreign request: {urlsplit(request.url).netloc}")

        context.on("request", own_origin_only)
        page = await context.new_page()
        page.on("console", watch.on_console)
        page.on("pageerror", watch.on_error)
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert not watch.problems


@pytest_asyncio.fixture(loop_scope="session")
async def page(new_page: NewPage) -> Page:
    """Return one page of a browser with script, 1280 pixels wide."""
    return await new_page()
