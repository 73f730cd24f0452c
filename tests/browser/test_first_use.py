"""Before there are tables, and before there are jobs."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests.browser.conftest import LOOP, NewPage, Site, dashboard, serving

pytestmark = [pytest.mark.browser, LOOP]


@pytest.mark.short
async def test_without_tables_the_page_helps(browser: Browser, empty_database_url: str) -> None:
    async with dashboard(empty_database_url) as app, serving(app) as url:
        page = await browser.new_page()
        await page.goto(f"{url}/jobs")
        await expect(page.get_by_role("heading", name="No River tables yet")).to_be_visible()
        await expect(page.locator(".command code")).to_have_text("riverui migrate-up")
        driver = connect(empty_database_url)
        await migrate(driver, "up")
        await driver.close()
        await expect(page.locator(".empty")).to_contain_text("No jobs yet", timeout=10_000)
        await expect(page.locator("#jobs-states")).to_be_visible()
        await page.context.close()


@pytest.mark.short
async def test_every_list_has_words_for_being_empty(site: Site, new_page: NewPage) -> None:
    page = await new_page()
    for path, words in {
        "/jobs": "No jobs yet",
        "/jobs?state=retryable": "No retryable jobs",
        "/jobs?q=kind:none": "No job matches this search",
        "/queues": "No queues yet",
        "/operations": "No operations",
    }.items():
        await page.goto(path)
        await expect(page.locator(".empty")).to_contain_text(words)
