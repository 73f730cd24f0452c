"""Everything works without JavaScript: links, GET forms and POST forms."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests import factory
from tests.browser.conftest import LOOP, NewPage, Site

pytestmark = [pytest.mark.browser, LOOP]


@pytest_asyncio.fixture(loop_scope="session")
async def plain(new_page: NewPage) -> Page:
    """Return a page of a browser without script."""
    return await new_page(java_script_enabled=False)


@pytest.mark.short
async def test_search_filter_and_paging_are_links_and_forms(site: Site, plain: Page) -> None:
    for _ in range(25):
        await site.make.job(kind="mail_send")
    await site.make.job("cancelled", kind="webhook")
    await plain.goto("/jobs?limit=20")
    await plain.get_by_role("link", name="Next").click()
    await expect(plain.locator("tbody.job")).to_have_count(6)
    await plain.locator("#menu-filters > summary").click()
    await plain.get_by_label("Kind", exact=True).fill("webhook")
    await plain.get_by_role("button", name="Apply").click()
    await expect(plain.locator("tbody.job")).to_have_count(1)
    await plain.get_by_role("link", name=re.compile("Remove kind:webhook")).click()
    await (
        plain.locator("#jobs-states")
        .get_by_role("link", name=re.compile("cancelled", re.I))
        .click()
    )
    await expect(plain.locator("tbody.job")).to_have_count(1)
    await plain.locator("#q").fill("kind:nothing")
    await plain.keyboard.press("Enter")
    await expect(plain.locator(".empty")).to_contain_text("No cancelled job matches")


@pytest.mark.short
async def test_ticked_jobs_are_retried_by_a_plain_form(site: Site, plain: Page) -> None:
    jobs = [await site.make.job("discarded") for _ in range(2)]
    await plain.goto("/jobs?state=discarded")
    bar = plain.get_by_role("group", name="Selected jobs")
    await expect(bar).to_be_hidden()
    await plain.get_by_label(f"Select job {jobs[0]}").check()
    await bar.get_by_role("button", name="Retry").click()
    await expect(plain).to_have_url(re.compile("state=discarded"))
    await expect(plain.locator("#notices .notice")).to_be_visible()
    await expect(plain.locator("tbody.job")).to_have_count(1)
    await plain.reload()
    await expect(plain.locator("#notices .notice")).to_have_count(0)


@pytest.mark.short
async def test_deleting_asks_on_a_page_of_its_own(site: Site, plain: Page) -> None:
    job = await site.make.job("completed")
    await plain.goto("/jobs?state=completed")
    await plain.get_by_label(f"Select job {job}").check()
    await (
        plain.get_by_role("group", name="Selected jobs")
        .get_by_role("button", name="Delete")
        .click()
    )
    await expect(plain.get_by_role("heading", name=f"Delete job {job}?")).to_be_visible()
    await plain.get_by_role("button", name="Delete 1 job").click()
    await expect(plain).to_have_url(re.compile("state=completed"))
    await expect(plain.locator("tbody.job")).to_have_count(0)


@pytest.mark.short
async def test_all_matching_jobs_are_cancelled(site: Site, plain: Page) -> None:
    for _ in range(3):
        await site.make.job("scheduled", kind="mail_send")
    await plain.goto("/jobs?state=scheduled&q=kind:mail_send")
    await plain.get_by_role("link", name="Cancel 3…").click()
    await expect(plain.get_by_role("heading", name="Cancel 3 scheduled jobs?")).to_be_visible()
    await plain.get_by_role("button", name="Cancel 3 jobs").click()
    await expect(plain).to_have_url(re.compile("/operations/"))
    outcome = plain.locator("#operation h2")
    for _ in range(100):
        # Without script, a page is as old as its last load.
        if await outcome.inner_text() == "3 jobs cancelled":
            break
        await plain.reload()
    await expect(outcome).to_have_text("3 jobs cancelled")


async def test_job_queue_and_preferences_pages(site: Site, plain: Page) -> None:
    job = await site.make.job(
        "retryable",
        errors=[factory.attempt_error(trace='File "/app/a.py", line 1')],
    )
    await site.make.queue("default")
    await plain.goto(f"/jobs/{job}")
    await plain.get_by_text("Traceback", exact=True).click()
    await expect(plain.locator("pre.trace")).to_be_visible()
    await plain.get_by_role("button", name="Retry").click()
    await expect(plain.locator(".job-name .badge")).to_have_text("available")
    await plain.goto("/queues/default")
    await plain.get_by_role("button", name="Pause").click()
    await plain.get_by_role("button", name="Pause").click()
    await expect(plain.locator("#queue h2")).to_contain_text("aused")
    await plain.goto("/about")
    await plain.get_by_role("button", name="Dark").first.click()
    await expect(plain.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(plain).to_have_url(re.compile("/about$"))


async def test_help_is_a_page_and_what_needs_script_is_not_shown(site: Site, plain: Page) -> None:
    await site.make.job()
    await plain.goto("/jobs")
    await expect(plain.locator("#menu-live")).to_be_hidden()
    await expect(plain.locator("[data-check-all]:visible")).to_have_count(0)
    await plain.get_by_role("link", name="Help").click()
    await expect(plain.get_by_role("heading", name="Keyboard and search")).to_be_visible()


async def test_on_a_phone_the_settings_stand_at_the_edge(site: Site, new_page: NewPage) -> None:
    phone = await new_page(java_script_enabled=False, viewport={"width": 360, "height": 740})
    await phone.goto("/jobs")
    box = await phone.locator("#menu-view").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] > 340
