"""What pages are read from is kept up to date on a page that stays open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from riverui.engine.feature_list import plain_pilot
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.http.read_replica import ReplicaTimes
from riverui.web.limits import DashboardLimits
from tests.browser.conftest import LOOP, Site, serving
from tests.conftest import create_database, drop_database
from tests.databases.conftest import caught_up
from tests.databases.streaming import Servers, streaming
from tests.drivers import connect
from tests.factory import job

pytestmark = [pytest.mark.browser, LOOP]
_AT_MOST = 30_000
"""Milliseconds for a page to be told by its next live refresh: one second, but for a slow machine.
"""


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Yield a primary and a standby."""
    with streaming() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def site(servers: Servers) -> AsyncIterator[Site]:
    """Yield a dashboard that reads from a standby, and warns of a fifth of a second."""
    name = create_database(servers.primary)
    urls = servers.urls(name)
    drivers = [connect(url) for url in urls]
    await migrate(drivers[0], "up")
    caught_up(servers)
    limits = DashboardLimits(replica_times=ReplicaTimes(late=0.2, look=0.05))
    app = build_app(
        drivers[0],
        SignIn(no_auth=True),
        pilot=plain_pilot(),
        options=AppOptions(limits=limits, standby=drivers[1]),
    )
    async with (
        serving(app) as url,
        await AsyncConnection.connect(urls[0], autocommit=True, row_factory=dict_row) as primary,
    ):
        yield Site(url=url, connection=primary)
    await app.state.dashboard.close()
    for driver in drivers:
        await driver.close()
    servers.resume()
    drop_database(servers.primary, name)


async def test_lag_is_told_on_an_open_page(servers: Servers, site: Site, page: Page) -> None:
    await page.goto("/queues")
    await page.locator("#menu-live > summary").click()
    await page.get_by_role("button", name="1 s", exact=True).click()
    await page.keyboard.press("Escape")
    tag, foot = page.locator("[data-standby-tag]"), page.locator("footer [data-standby]")
    await expect(foot).to_contain_text("Read from a standby, ", timeout=_AT_MOST)
    await expect(tag).to_be_hidden(timeout=_AT_MOST)
    servers.pause()
    await job(site.connection)
    await expect(tag).to_be_visible(timeout=_AT_MOST)
    said = await tag.get_attribute("title")
    assert said is not None
    assert said.startswith("Read from a standby, ")
    assert said.endswith(" behind.")
    servers.resume()
    await expect(tag).to_be_hidden(timeout=_AT_MOST)
    await expect(foot).to_contain_text("Read from a standby, ")
