"""The health report on the front page: it opens to its checks, stays open while the page refreshes,
and axe finds nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.browser.conftest import LOOP, NewPage, Site
from tests.browser.test_accessibility import LONG

pytestmark = [pytest.mark.browser, LOOP]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_it_opens_to_its_checks(
    site: Site, new_page: NewPage, theme: str, width: int
) -> None:
    ago = datetime.now(UTC) - timedelta(minutes=38)
    await site.make.queue(LONG, paused_at=ago)
    await site.make.queue()
    await site.make.job(queue=LONG, scheduled_at=ago)
    page = await new_page(
        color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    await page.goto("/")
    verdict = page.locator(".verdict")
    flow = verdict.locator("#verdict-flow")
    await expect(flow).to_contain_text("is paused. 1 job waits there")
    await expect(flow.locator(".check").first).to_be_hidden()
    await flow.locator("summary").click()
    await expect(flow.locator(".check-failed")).to_contain_text("Paused for 38 m")
    assert (await Axe().run(page)).response["violations"] == []
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    await page.keyboard.press(".")
    await expect(flow.locator(".check").first).to_be_visible()
    await verdict.get_by_role("link", name="Open the queue").click()
    await expect(page).to_have_url(re.compile(f"/queues/{LONG}$"))
