"""What people come for takes few clicks from the front page; fields are counted apart."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import LOOP, Site
from tests.factory import attempt_error
from tests.own_tables import OWN_TABLES

pytestmark = [pytest.mark.browser, LOOP]


@dataclass(kw_only=True)
class Hand:
    """A person at the front page."""

    page: Page
    clicks: int = 0
    fields: int = 0

    async def click(self, name: str, role: str = "button", within: str = "body") -> None:
        """Click what is called so."""
        found: Locator = self.page.locator(within).get_by_role(role, name=name)  # type: ignore[arg-type]
        await found.first.click()
        self.clicks += 1

    async def type(self, label: str, text: str) -> None:
        """Type into the field of this label, and press Enter."""
        await self.page.get_by_label(label, exact=True).fill(text)
        await self.page.keyboard.press("Enter")
        self.fields += 1


@pytest_asyncio.fixture(loop_scope="session")
async def hand(site: Site, page: Page) -> Hand:
    """Return a person who has opened the front page."""
    await site.connection.execute(OWN_TABLES)
    await page.goto("/")
    return Hand(page=page)


async def states(site: Site) -> dict[str, int]:
    """Return how many jobs there are of each state."""
    cursor = await site.connection.execute("select state, count(*) from river_job group by state")
    return {row["state"]: row["count"] for row in await cursor.fetchall()}


async def test_failed_jobs_of_a_kind_with_a_text_are_retried(site: Site, hand: Hand) -> None:
    for kind, error in (("mail", "timeout"), ("mail", "refused"), ("sms", "timeout")):
        for _ in range(3):
            await site.make.job("discarded", kind=kind, errors=[attempt_error(25, error)])
    await hand.click("Jobs", "link", "nav")
    await hand.page.locator("#menu-filters > summary").click()
    hand.clicks += 1
    await hand.page.get_by_label("Kind", exact=True).fill("mail")
    hand.fields += 1
    await hand.type("Error text", "timeout")
    await hand.click("Retry all…", "link")
    await hand.click("Retry 3 jobs")
    await expect(hand.page.locator("#operation h2")).to_have_text("3 jobs retried", timeout=10_000)
    assert await states(site) == {"discarded": 6, "available": 3}
    assert (hand.clicks, hand.fields) == (4, 2)


async def test_jobs_are_cancelled_by_an_arg_and_stopped_half_way(site: Site, hand: Hand) -> None:
    for customer in (42, 7):
        for _ in range(30):
            await site.make.job("available", args={"customer": customer})
    await hand.click("Jobs", "link", "nav")
    await hand.type("Search jobs", "args.customer:42")
    await hand.click("Cancel all…", "link")
    await hand.page.get_by_label("Jobs a minute").fill("10")
    hand.fields += 1
    await hand.click("Cancel 30 jobs")
    await expect(hand.page.locator("#operation")).to_contain_text("10")
    await hand.click("Stop")
    await expect(hand.page.locator("#operation h2")).to_contain_text("Stopped:", timeout=10_000)
    assert 30 < (await states(site))["available"] < 60
    assert (hand.clicks, hand.fields) == (4, 2)


async def test_why_a_job_is_not_running(site: Site, hand: Hand) -> None:
    await site.make.queue("default", paused_at="2026-11-21T10:00:00Z")
    job = await site.make.job("available")
    await hand.click("Jobs", "link", "nav")
    await hand.page.locator(f"#job-{job} [data-open]").click()
    hand.clicks += 1
    await expect(hand.page.locator(".job-why")).to_contain_text("Its queue has been paused")
    assert (hand.clicks, hand.fields) == (2, 0)


async def test_an_ended_job_is_deleted_and_put_back(site: Site, hand: Hand) -> None:
    job = await site.make.job("completed")
    await hand.page.keyboard.press("g")
    await hand.page.keyboard.press("j")
    await hand.page.get_by_label(f"Select job {job}").click()
    hand.clicks += 1
    await hand.click("Delete")
    await hand.click("Undo")
    await expect(hand.page.locator(f"#job-{job}")).to_be_visible()
    assert (hand.clicks, hand.fields) == (3, 0)
