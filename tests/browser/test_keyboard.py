"""The whole job list by keyboard."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import LOOP, Site

pytestmark = [pytest.mark.browser, LOOP]


@pytest.mark.short
async def test_rows_are_walked_selected_and_opened(site: Site, page: Page) -> None:
    jobs = [await site.make.job("discarded") for _ in range(5)][::-1]
    await page.goto("/jobs")
    keys = page.keyboard
    for key in ("j", "j", "j", "k"):
        await keys.press(key)
    await expect(page.locator(f"#job-{jobs[1]} a")).to_be_focused()
    await keys.press("x")
    await expect(page.get_by_label(f"Select job {jobs[1]}")).to_be_checked()
    await keys.press("j")
    await keys.press("j")
    await keys.press("Shift+X")
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(3)
    await keys.press("Escape")
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(0)
    await keys.press("a")
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(5)
    await keys.press("a")
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(0)
    await page.locator(f"#job-{jobs[2]} a").focus()
    await keys.press("Enter")
    await expect(page).to_have_url(re.compile(f"/jobs/{jobs[2]}$"))
    await keys.press("Escape")
    await expect(page).to_have_url(re.compile(r"/jobs\?"))


@pytest.mark.short
async def test_the_focused_row_is_retried_and_deleting_asks(site: Site, page: Page) -> None:
    jobs = [await site.make.job("discarded") for _ in range(2)]
    await page.goto("/jobs?state=discarded&order=id")
    await page.keyboard.press("j")
    await page.keyboard.press("r")
    await expect(page.locator(f"#job-{jobs[0]}")).to_have_count(0)
    await page.keyboard.press("j")
    await page.keyboard.press("d")
    await expect(page.get_by_role("dialog")).to_contain_text(f"Delete job {jobs[1]}?")
    await page.keyboard.press("Escape")
    await expect(page.locator(f"#job-{jobs[1]}")).to_be_visible()


@pytest.mark.short
async def test_what_was_searched_has_the_keys(site: Site, page: Page) -> None:
    mails = [await site.make.job("discarded", kind="mail_send") for _ in range(2)]
    await site.make.job("discarded", kind="other")
    await page.goto("/jobs?state=discarded")
    await page.keyboard.press("/")
    await page.keyboard.type("kind:mail_send")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody.job")).to_have_count(2)
    await expect(page.locator(f"#job-{mails[1]} [data-open]")).to_be_focused()
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await page.keyboard.press("r")
    await expect(page.locator(".notice")).to_contain_text("1 job will run again now")
    await expect(page.locator("tbody.job")).to_have_count(1)
    await expect(page.locator("#q")).to_have_value("kind:mail_send")


async def test_a_box_of_the_rail_is_ticked_by_the_space_bar(site: Site, page: Page) -> None:
    for state in ("retryable", "discarded", "available"):
        await site.make.job(state)
    await page.goto("/jobs?state=retryable")
    box = page.get_by_role("checkbox", name="Discarded")
    await expect(box).not_to_be_checked()
    await box.press(" ")
    await expect(page.locator("tbody.job")).to_have_count(2)
    await expect(box).to_be_checked()
    await page.get_by_role("checkbox", name="Retryable").click()
    await expect(page).to_have_url(re.compile(r"\?state=discarded$"))


async def test_search_sections_help_and_refresh_have_keys(site: Site, page: Page) -> None:
    await page.goto("/about")
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await expect(page).to_have_url(re.compile("/queues$"))
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await expect(page).to_have_url(re.compile("/jobs$"))
    await page.keyboard.press("/")
    await expect(page.locator("#q")).to_be_focused()
    await page.keyboard.type("jx?")
    await expect(page.locator("#q")).to_have_value("jx?")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")
    await expect(page.locator("#q")).not_to_be_focused()
    async with page.expect_response(
        lambda response: response.request.headers.get("hx-request") == "true"
    ):
        await page.keyboard.press(".")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("next, previous row")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()


async def test_a_range_is_selected_with_shift_and_the_mouse(site: Site, page: Page) -> None:
    jobs = [await site.make.job() for _ in range(6)][::-1]
    await page.goto("/jobs")
    await page.get_by_label(f"Select job {jobs[1]}").click()
    await page.get_by_label(f"Select job {jobs[4]}").click(modifiers=["Shift"])
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(4)
    await page.locator(f"#job-{jobs[5]} .c-queue").click(modifiers=["Shift"])
    await expect(page.locator('input[name="ids"]:checked')).to_have_count(5)
    assert await page.evaluate("String(getSelection())") == ""


@pytest.mark.short
async def test_menus_close_with_escape_and_give_the_focus_back(site: Site, page: Page) -> None:
    await site.make.job()
    await page.goto("/jobs")
    summary = page.locator("#menu-sort > summary")
    await summary.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#menu-sort ul")).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Escape")
    await expect(page.locator("#menu-sort ul")).to_be_hidden()
    await expect(summary).to_be_focused()


@pytest.mark.short
async def test_tab_reaches_the_content_by_the_skip_link(site: Site, page: Page) -> None:
    await page.goto("/jobs")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()


@pytest.mark.parametrize("late", [False, True])
async def test_a_suggestion_is_taken_and_searched(site: Site, page: Page, late: bool) -> None:
    wanted = [await site.make.job(kind="mail_send") for _ in range(2)][::-1]
    await site.make.job(kind="other")

    typed = asyncio.Event()

    async def answer(route: Route) -> None:
        if late and "hx-request" in route.request.headers:
            await typed.wait()
        await route.continue_()

    await page.route("**/jobs?*", answer)
    await page.goto("/jobs")
    keys = page.keyboard
    await keys.press("/")
    await keys.type("kind:mail")
    await expect(page.get_by_role("option").first).to_contain_text("mail_send")
    for key in ("ArrowDown", "Enter", "Enter", "Escape", "j"):
        await keys.press(key)
    typed.set()
    await expect(page).to_have_url(re.compile(r"q=kind(:|%3A)mail_send"))
    await expect(page.locator("tbody.job")).to_have_count(2)
    await expect(page.locator(f"#job-{wanted[0]} a")).to_be_focused()
    await expect(page.locator("#suggestions")).to_be_hidden()
    await keys.press("j")
    await expect(page.locator(f"#job-{wanted[1]} a")).to_be_focused()
