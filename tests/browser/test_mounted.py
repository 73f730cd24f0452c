"""The same pages below a prefix of a host app."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.browser.conftest import LOOP, NewPage, Site, Watch, dashboard, serving

pytestmark = [pytest.mark.browser, LOOP]


@pytest_asyncio.fixture(loop_scope="session")
async def mounted(site: Site, database_url: str) -> AsyncIterator[str]:
    """Yield the address of the dashboard under `/tools/river` of another app."""
    async with (
        dashboard(database_url) as app,
        serving(Starlette(routes=[Mount("/tools/river", app)])) as url,
    ):
        yield url + "/tools/river"


@pytest.mark.short
async def test_links_forms_icons_and_live_updates_stay_below_the_prefix(
    site: Site, mounted: str, new_page: NewPage, watch: Watch
) -> None:
    watch.own.append(mounted)
    job = await site.make.job("discarded", kind="mail_send")
    page = await new_page()
    await page.goto(f"{mounted}/jobs")
    await (
        page.locator("#jobs-states").get_by_role("link", name=re.compile("discarded", re.I)).click()
    )
    await expect(page).to_have_url(re.compile(r"/tools/river/jobs\?state=discarded"))
    await page.locator("#q").fill("kind:mail_send")
    await page.keyboard.press("Enter")
    await expect(page.locator(".chip")).to_have_count(1)
    await page.get_by_label(f"Select job {job}").check()
    await page.keyboard.press("r")
    await expect(page.locator("#notices .notice")).to_be_visible()
    await expect(page.locator("tbody.job")).to_have_count(0)
    await page.goto(f"{mounted}/jobs/{job}")
    await page.locator("#menu-view > summary").click()
    await page.get_by_role("button", name="Dark").click()
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await expect(page).to_have_url(re.compile("/tools/river/queues$"))
