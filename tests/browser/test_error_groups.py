"""Errors in a browser: from the list to a group, ignored and retried in a dialog."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from tests import factory
from tests.browser.conftest import LOOP, Site, Watch

pytestmark = [pytest.mark.browser, LOOP]


async def _failed(site: Site, error: str, number: int) -> None:
    for n in range(number):
        at = datetime.now(UTC) - timedelta(minutes=n)
        await site.make.job(
            "discarded",
            attempted_at=at,
            finalized_at=at,
            errors=[factory.attempt_error(error=f"{error} {n}", at=at.isoformat())],
        )


@pytest.mark.short
async def test_a_group_is_found_by_its_keys_and_retried(site: Site, page: Page) -> None:
    await _failed(site, "vendor down", 12)
    await _failed(site, "no such customer", 3)
    await page.goto("/jobs")
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    await expect(page).to_have_url(re.compile("/errors$"))
    rows = page.locator(".error-table tbody tr")
    await expect(rows).to_have_count(2)
    await page.locator("#q").fill("VENDOR")
    await page.keyboard.press("Enter")
    await expect(rows).to_have_count(1)
    await page.get_by_role("link", name=re.compile("vendor down")).click()
    await expect(page.locator("#chart-failed")).to_be_visible()
    await page.get_by_role("link", name=re.compile("Retry 12 at a pace")).click()
    dialog = page.locator("#dialog")
    await expect(dialog).to_contain_text("Retry 12 discarded jobs?")
    await dialog.get_by_role("button", name="Retry 12 jobs").click()
    await expect(page).to_have_url(re.compile("/operations/"))
    await expect(page.locator("#operation")).to_contain_text("12 jobs retried")
    left = await site.connection.execute("select count(*) from river_job where state = 'discarded'")
    assert (await left.fetchone()) == {"count": 3}


async def test_long_names_of_clients_fit_on_a_phone(site: Site, page: Page) -> None:
    client = "ip-10-0-3-17_eu-central-1_compute_internal_2026_11_22T08_30_19_044118"
    await site.make.job("discarded", attempted_by=[client])
    await page.set_viewport_size({"width": 360, "height": 800})
    await page.goto("/errors")
    await page.get_by_role("link", name=re.compile("it broke")).click()
    await expect(page.locator("#error")).to_contain_text("ip-10-0-3-17")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_a_group_is_ignored(site: Site, page: Page, watch: Watch, database_url: str) -> None:
    driver = connect(database_url)
    await migrate(driver, "up", line="riverui")
    await driver.close()
    await _failed(site, "vendor down", 4)
    await page.goto("/errors")
    await page.get_by_role("link", name=re.compile("vendor down")).click()
    await page.get_by_role("button", name="Ignore…").click()
    dialog = page.locator("#dialog")
    await dialog.get_by_label("For how long").select_option("For a day")
    await dialog.get_by_label("Or until this many more").fill("none")
    await dialog.get_by_role("button", name="Ignore", exact=True).click()
    await expect(page.locator("#ask-problem")).to_contain_text("whole number")
    await dialog.get_by_label("Or until this many more").fill("50")
    await dialog.get_by_label("Reason").fill("they know")
    await dialog.get_by_role("button", name="Ignore", exact=True).click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator("#notices .notice")).to_contain_text("Ignored: vendor down")
    await expect(page.locator("#error .lead").last).to_contain_text("until 50 more")
    await expect(page.locator("#error")).to_contain_text("“they know”")
    await page.get_by_role("link", name="Errors").first.click()
    await expect(page.locator("#errors-list")).to_contain_text("No unresolved errors")
    await page.get_by_role("link", name="All errors").click()
    await page.get_by_role("link", name=re.compile("vendor down")).click()
    await page.get_by_role("button", name="Unresolve").click()
    await expect(page.locator("#error .lead").last).not_to_contain_text("until 50 more")
    watch.forgive("400")
