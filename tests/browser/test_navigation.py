"""The bar of phones: where one is, what else there is, and the title of every page."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import LOOP, NewPage, Site

pytestmark = [pytest.mark.browser, LOOP]


async def test_phones_have_a_title_and_their_place_on_every_page(
    site: Site, new_page: NewPage
) -> None:
    page = await new_page(viewport={"width": 360, "height": 740}, java_script_enabled=False)
    await page.goto("/jobs")
    more = page.locator(".rail-more")
    paths = [
        await link.get_attribute("href") or ""
        for link in await page.locator(".rail a[data-section]").all()
    ]
    assert len(set(paths)) >= 10
    for path in dict.fromkeys(paths):
        await page.goto(path)
        await expect(page.locator("h1")).to_be_in_viewport(ratio=1)
        current = page.locator(".rail > a[data-phone][aria-current]")
        if not await current.count():
            await more.locator("summary").click()
            current = more.locator("[aria-current]")
        await expect(current).to_be_in_viewport(ratio=1)


async def test_other_bars_stand_above_that_of_phones(site: Site, new_page: NewPage) -> None:
    job = await site.make.job("discarded")
    page = await new_page(viewport={"width": 360, "height": 740})
    for path, bar in ((f"/jobs/{job}", ".job-actions .button"), ("/jobs", ".bulk .button")):
        await page.goto(path)
        if path == "/jobs":
            await page.get_by_label(f"Select job {job}").check()
        # Playwright refuses a click on what something else covers.
        await page.locator(bar).filter(visible=True).last.click(trial=True)
