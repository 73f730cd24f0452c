"""Choosing columns: with and without script, wide and narrow, while the list refreshes."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import LOOP, NewPage, Site

pytestmark = [pytest.mark.browser, LOOP]

EXTRA = "/jobs?columns=id,kind,queue,args,waited,ran,args.to,priority,attempt,when"


async def _choose(page: Page, button: str) -> None:
    """Tick a column and name a path in the chooser, and send it."""
    await page.goto("/jobs")
    await page.locator("#menu-columns > summary").click()
    panel = page.locator("#menu-columns form")
    await panel.get_by_label("Ran column", exact=True).check()
    await panel.get_by_label("Queue column", exact=True).uncheck()
    await panel.get_by_label("Value inside the args").fill("args.to")
    await panel.get_by_role("button", name=button, exact=True).click()


@pytest.mark.short
@pytest.mark.parametrize("script", [True, False])
async def test_columns_are_chosen_or_kept(script: bool, site: Site, new_page: NewPage) -> None:
    job = await site.make.job("completed", args={"to": "ada@mail.example"})
    page = await new_page(java_script_enabled=script)
    headers = page.locator("#jobs-table th")
    shown = ["Id", "Kind", "Args", "Pri", "Att", "When", "Ran", "to"]
    await _choose(page, "Show")
    await expect(page).to_have_url(
        re.compile("columns=id,kind,args,priority,attempt,when,ran,args.to$")
    )
    assert (await headers.all_inner_texts())[2:] == shown
    await expect(page.locator(f"#job-{job} .c-json")).to_have_text("ada@mail.example")
    await page.goto("/jobs")
    await expect(page.locator("#jobs-table .c-ran")).to_have_count(0)
    await _choose(page, "Show and keep")
    await expect(page).to_have_url(re.compile("/jobs$"))
    assert (await headers.all_inner_texts())[2:] == shown


async def test_a_list_that_refreshes_keeps_its_columns(site: Site, page: Page) -> None:
    await page.goto("/jobs?columns=kind,ran")
    job = await site.make.job("running", kind="mail_send")
    await expect(page.locator(f"#job-{job} td.c-ran")).to_have_text(re.compile(r"\d+ s"))
    await site.make.job("completed")
    await expect(page.locator("tbody.job")).to_have_count(2)
    assert len(await page.locator("#jobs-table th").all()) == 4


@pytest.mark.parametrize("width", [360, 1024, 1280])
async def test_nothing_reaches_beyond_the_edge(width: int, site: Site, new_page: NewPage) -> None:
    await site.make.job("completed", args={"to": "x" * 300}, tags=["vip"])
    await site.make.job("retryable", queue="q" * 64, kind="k" * 100)
    page = await new_page(viewport={"width": width, "height": 800})
    await page.goto(EXTRA)
    await page.locator("#menu-columns > summary").click()
    panel = page.locator("#menu-columns .panel")
    box = await panel.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    header = await page.locator("#jobs-table th").first.bounding_box()
    row = await page.locator("tbody.job").first.bounding_box()
    assert row is not None
    if header is not None:
        assert header["y"] + header["height"] <= row["y"] + 1, "the header covers a row"
