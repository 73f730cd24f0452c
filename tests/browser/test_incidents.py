"""The front page in trouble: from there the failed jobs are retried at a pace in two clicks, and
the pages of incidents fit and are accessible.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from riverui.domain.health.baseline import Baseline, Subject
from riverui.features.incidents.domain import IncidentFacts
from riverui.features.incidents.store import IncidentStore
from riverui.storage.connect import connect
from tests import own_tables
from tests.browser.conftest import LOOP, NewPage, Site
from tests.browser.test_accessibility import LONG
from tests.features.incidents.test_store import incident

pytestmark = [pytest.mark.browser, LOOP]

MINUTE = timedelta(minutes=1)


async def fail(site: Site, database_url: str, kind: str = "email_send") -> None:
    """Keep an incident of a kind that has failed for ten minutes, and some of its jobs."""
    await own_tables.create(site.connection)
    for _ in range(3):
        await site.make.job("retryable", kind=kind)
    began = datetime.now(UTC) - 10 * MINUTE
    first = int(began.timestamp()) // 60 - 30
    shares = [(first + n, 0.04 if n < 30 else 0.77) for n in range(40)]
    found = incident(
        1,
        subject=Subject("kind", kind),
        title=f"{kind} is failing.",
        opened_at=began,
        found_at=began + MINUTE,
        seen_at=datetime.now(UTC),
        facts=IncidentFacts(
            check="failures",
            baseline=Baseline(before=began, minutes=45.0, completed=96.0, failed=4.0),
            minutes=tuple(shares),
        ),
    )
    driver = connect(database_url)
    try:
        async with driver.autocommit() as executor:
            await IncidentStore(executor).incident_save(found)
    finally:
        await driver.close()


async def test_what_failed_is_retried_at_a_pace_in_two_clicks(
    site: Site, new_page: NewPage, database_url: str
) -> None:
    await fail(site, database_url)
    page = await new_page()
    await page.goto("/")
    await expect(page.get_by_role("heading", name="email_send is failing.")).to_be_visible()
    await page.get_by_role("link", name="Retry 3 at a pace").click()
    await expect(page.get_by_label("Jobs a minute")).to_have_value("60")
    await page.get_by_role("button", name="Retry 3 jobs").click()
    await expect(page).to_have_url(re.compile("/operations/"))
    await expect(page.locator("main")).to_contain_text("60 a minute")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_incidents_fit_and_are_accessible(
    site: Site, new_page: NewPage, database_url: str, theme: str, width: int
) -> None:
    await fail(site, database_url, LONG)
    page = await new_page(
        color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    for path in ("/", "/incidents", "/incidents/incident1", "/timeline"):
        await page.goto(path)
        await expect(page.locator("main")).to_contain_text("is failing.")
        assert (await Axe().run(page)).response["violations"] == [], path
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
    await page.goto("/incidents/incident1")
    await page.get_by_role("textbox", name="Note").fill("Rolled back.")
    await page.get_by_role("button", name="Save").click()
    await page.reload()
    await expect(page.get_by_role("textbox", name="Note")).to_have_value("Rolled back.")
