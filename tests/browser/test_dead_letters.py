"""Deleting with an undo, and the list of dead letters: with script and without, axe finds nothing,
and it fits.
"""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.browser.conftest import LOOP, NewPage, Site, Watch
from tests.factory import attempt_error, job
from tests.own_tables import OWN_TABLES

pytestmark = [pytest.mark.browser, LOOP]

LONG = "a_kind_whose_name_has_no_break_" * 3


async def fill(site: Site) -> list[int]:
    """Make two dead letters, and return the ids of three completed jobs."""
    await site.connection.execute(OWN_TABLES)
    for kind, by in (("mail_send", "ann"), (LONG, "somebody_" * 8)):
        found = await job(
            site.connection, "discarded", kind=kind, errors=[attempt_error(1, LONG * 3)]
        )
        await site.connection.execute(
            "insert into riverui_dead_job (id, created_at, scheduled_at, attempt, max_attempts,"
            " priority, kind, queue, args, metadata, tags, state, reason, last_error, finalized_at)"
            " select id, created_at, scheduled_at, attempt, max_attempts, priority, kind, queue,"
            " args, jsonb_build_object('riverui:deleted_by', %s::text), tags, 'discarded',"
            " 'deleted', %s, now() from river_job where id = %s",
            [by, LONG * 3, found],
        )
        await site.connection.execute("delete from river_job where id = %s", [found])
    return [await job(site.connection, "completed", kind="report") for _ in range(3)]


async def delete_one(page: Page, id: int) -> None:
    await page.goto(f"/jobs/{id}")
    await page.get_by_role("button", name="Delete", exact=True).click()


@pytest.mark.short
@pytest.mark.parametrize("script", [True, False])
async def test_what_is_deleted_is_put_back(
    site: Site, new_page: NewPage, watch: Watch, script: bool
) -> None:
    first, *_ = await fill(site)
    page = await new_page(java_script_enabled=script)
    await delete_one(page, first)
    notice = page.locator(".notice", has_text="1 job deleted")
    await notice.get_by_role("button", name="Undo").click()
    await expect(page.locator("#notices")).to_contain_text("1 job put back")
    await expect(notice).to_have_count(0)
    await page.goto(f"/jobs/{first}")
    await expect(page.locator("#job-kind")).to_have_text("report")


@pytest.mark.parametrize("script", [True, False])
async def test_all_that_match_are_deleted(
    site: Site, new_page: NewPage, watch: Watch, script: bool
) -> None:
    await fill(site)
    page = await new_page(java_script_enabled=script)
    await page.goto("/dead-letters?kind=mail_send")
    await page.get_by_role("link", name="Delete all…").click()
    form = page.locator("form.ask")
    await expect(form).to_contain_text("Delete 1 dead letter?")
    await form.get_by_role("button", name="Delete 1 dead letter").click()
    await expect(page.locator("#operation")).to_contain_text(re.compile("dead letters? deleted"))
    await expect(page.get_by_role("link", name="Show the dead letters")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing_and_it_fits(
    site: Site, new_page: NewPage, watch: Watch, theme: str, width: int
) -> None:
    first, *_ = await fill(site)
    page = await new_page(
        color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )

    async def check(name: str) -> None:
        result = await Axe().run(page)
        assert [violation["id"] for violation in result.response["violations"]] == [], name
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, name

    await page.goto("/dead-letters")
    await check("list")
    await page.get_by_role("link", name="Retry all…").click()
    await expect(page.locator("#dialog")).to_contain_text("Retry 2 dead letters?")
    await check("bulk")
    await page.goto(f"/jobs/{first}")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.locator(".notice-undo")).to_be_visible()
    await check("notice")
