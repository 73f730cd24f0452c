"""The bar of phones and the palette: where one is, and how one gets anywhere else."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

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


async def test_the_palette_opens_pages_and_does_what_the_page_can_by_keyboard(
    site: Site, page: Page
) -> None:
    job = await site.make.job("discarded", kind="mail_send", queue="mailers")
    await page.goto(f"/jobs/{job}")
    keys, palette = page.keyboard, page.locator("#palette")
    await keys.press("Control+k")
    # What is typed at once is no shortcut of the page.
    await keys.type("mailers")
    await expect(palette.get_by_role("option").first).to_have_text("mailers queue")
    await expect(palette.get_by_role("option", selected=True)).to_have_count(1)
    assert (await Axe().run(page)).response["violations"] == []
    await keys.press("ArrowDown")
    await expect(palette.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    await keys.press("ArrowUp")
    await keys.press("Enter")
    await expect(page).to_have_url(re.compile("/queues/mailers$"))

    await page.goto(f"/jobs/{job}")
    await keys.press("Meta+k")
    await expect(palette.get_by_role("option", name="Delete action")).to_be_visible()
    await expect(palette.get_by_role("option", selected=True)).to_have_count(0)
    await keys.press("Escape")
    await expect(palette).to_be_hidden()
    await keys.press("Control+k")
    await keys.type("dele")
    await expect(palette.get_by_role("option", selected=True)).to_have_text("Delete action")
    await keys.press("Enter")
    await expect(page.locator("#dialog")).to_contain_text(f"Delete job {job}?")
    await keys.press("Control+k")
    await expect(palette).to_be_hidden()


async def test_enter_before_the_entries_opens_a_page_but_does_nothing_unseen(
    site: Site, page: Page
) -> None:
    job = await site.make.job("discarded")
    await page.goto(f"/jobs/{job}")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("retry")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("option", selected=True)).to_have_text("Retry action")
    await page.keyboard.press("Escape")
    await expect(page.locator("#job")).to_contain_text("discarded")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("operat")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/operations$"))


async def test_without_script_the_palette_is_a_page(new_page: NewPage) -> None:
    page = await new_page(java_script_enabled=False)
    await page.goto("/jobs")
    await page.get_by_role("link", name="Find").click()
    await page.get_by_label("Name, id or page").fill("peri")
    await page.keyboard.press("Enter")
    await page.get_by_role("main").get_by_role("link", name="Periodic").click()
    await expect(page).to_have_url(re.compile("/periodic$"))
