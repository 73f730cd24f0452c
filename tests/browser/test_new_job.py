"""Inserting a job: with script, and without."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import LOOP, NewPage, Site, Watch

pytestmark = [pytest.mark.browser, LOOP]


async def test_args_are_checked_while_typed(site: Site, new_page: NewPage, watch: Watch) -> None:
    await site.make.job(kind="mail_send", args={"to": "ann"})
    page = await new_page()
    await page.goto("/jobs")
    await expect(page.locator("tbody.job")).to_have_count(1)
    await page.keyboard.press("n")
    await expect(page).to_have_url(re.compile("/jobs/new$"))
    await page.get_by_role("combobox", name="Kind").fill("mail_send")
    await page.get_by_role("button", name="Fill in from the newest").click()
    args = page.get_by_label("Args, a JSON object")
    await expect(args).to_have_value('{\n  "to": "ann"\n}')
    told = page.locator("#new-job-check")
    await args.fill('{"to":\n bob}')
    await expect(told).to_have_text("Line 2, column 2: expecting value.")
    await args.fill('{"to": "bob"}')
    await expect(told).to_have_text("The args are valid.")
    await page.get_by_role("button", name="Insert job").last.click()
    await expect(page).to_have_url(re.compile("/jobs/[0-9]+$"))
    await expect(page.locator("#notices")).to_contain_text("inserted")
    await expect(page.locator("#args-tree")).to_contain_text("bob")


@pytest.mark.short
async def test_edit_and_retry_without_script(site: Site, new_page: NewPage, watch: Watch) -> None:
    old = await site.make.job("discarded", args={"to": "amm"})
    page = await new_page(java_script_enabled=False)
    await page.goto(f"/jobs/{old}")
    await page.locator("#menu-job > summary").click()
    await page.get_by_role("link", name="Edit and retry…").click()
    args = page.get_by_label("Args, a JSON object")
    await args.fill('{"to": }')
    await page.get_by_role("button", name="Insert job").last.click()
    await expect(page.get_by_role("alert")).to_contain_text("Line 1, column 8: expecting value.")
    await expect(args).to_have_value('{"to": }')
    await args.fill('{"to": "ann"}')
    await page.get_by_role("button", name="Insert job").last.click()
    await expect(page.locator("#notices")).to_contain_text("inserted")
    watch.forgive("400")
