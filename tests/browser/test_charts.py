"""Charts under the hand: pointer, keyboard and finger tell what a column shows, and lead to its
jobs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from msgspec.structs import replace
from playwright.async_api import Page, expect

from riverui.domain.figures import WINDOWS, FigureColumn, Figures, Tally, Window
from riverui.web.config import DashboardConfig
from tests.browser.conftest import LOOP, NewPage, Site, dashboard, serving
from tests.browser.test_accessibility import axe_violations
from tests.web.made_figures import MadeFigures, figures, tally

pytestmark = [pytest.mark.browser, LOOP]

NOW = datetime(2026, 11, 22, 14, 2, 30, tzinfo=UTC)
LONG = "a_very_long_kind_without_any_break_" * 5


def made(window: Window, queue: str, kind: str) -> Figures:
    """Return as many completed jobs in each column as its number tells."""
    n = window.columns

    def column(number: int) -> FigureColumn | Tally | None:
        if number < 3:
            return None
        done = replace(tally(number, wait=number, discarded=number % 2, failed=number % 3))
        return FigureColumn(
            at=NOW,
            tally=done,
            waiting=min(200 * number, 10_000),
            waiting_capped=200 * number >= 10_000,
            oldest_waiting=timedelta(seconds=number) if number > n - 20 else None,
        )

    pairs = {("mail", LONG): tally(900, run=4), ("mail", "ping"): tally(90_000, failed=7)}
    return figures(window, column, now=NOW, pairs=pairs)


@pytest_asyncio.fixture(loop_scope="session")
async def charts(site: Site, database_url: str) -> AsyncIterator[str]:
    """Yield the address of a dashboard of the site's database whose figures are made by hand."""
    await site.make.queue("mail")
    await site.make.job("completed", finalized_at=NOW - timedelta(minutes=1))
    async with dashboard(database_url, config=DashboardConfig()) as app:
        await app.state.dashboard.close()
        MadeFigures(make=made).put_into(app.state.dashboard)
        async with serving(app) as url:
            yield url


@pytest_asyncio.fixture(loop_scope="session")
async def chart_page(charts: str, new_page: NewPage, site: Site) -> Page:
    """Return a page of that dashboard."""
    site.url = charts
    return await new_page()


def column(page: Page, name: str, at: str) -> str:
    return f'#chart-{name} .chart-hit[aria-label^="{at}"]'


@pytest.mark.short
async def test_the_pointer_shows_a_column_and_a_click_leads_to_its_jobs(chart_page: Page) -> None:
    page, tip = chart_page, chart_page.locator(".chart-tip")
    await page.goto("/")
    await expect(tip).to_be_hidden()
    found = page.locator(column(page, "ended", "14:01"))
    await found.hover()
    await expect(tip).to_be_visible()
    assert await tip.locator("p").all_inner_texts() == [
        "14:01 to 14:02 UTC",
        "completed 58",
        "cancelled 0",
        "failed, tried again 1",
        "discarded 0",
    ]
    box, place = await tip.bounding_box(), await found.bounding_box()
    assert box
    assert place
    assert box["y"] + box["height"] <= place["y"]
    assert abs(box["x"] + box["width"] / 2 - place["x"] - place["width"] / 2) < 200
    assert await found.evaluate("element => element.classList.contains('on')")
    await page.locator("h1").hover()
    await expect(tip).to_be_hidden()
    await found.click()
    await expect(page).to_have_url(re.compile(r"/jobs\?q=finished:.*14:01Z"))
    await expect(page.locator("tbody.job")).to_have_count(1)


async def test_the_keyboard_goes_from_column_to_column(chart_page: Page) -> None:
    page, tip = chart_page, chart_page.locator(".chart-tip")
    await page.goto("/figures/wait")
    newest = page.locator(column(page, "wait", "14:02"))
    await newest.focus()
    await expect(tip).to_contain_text("14:02 to 14:03")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(column(page, "wait", "14:00"))).to_be_focused()
    await expect(tip).to_contain_text("14:00 to 14:01")
    await page.keyboard.press("Home")
    await expect(tip).to_contain_text("nothing known")
    await page.keyboard.press("End")
    await expect(newest).to_be_focused()
    await page.keyboard.press("ArrowRight")
    await expect(newest).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/jobs\?q=finished:.*14:01Z"))


async def test_a_finger_is_shown_a_column_before_it_is_led_there(
    charts: str, new_page: NewPage, site: Site
) -> None:
    site.url = charts
    page = await new_page(has_touch=True, viewport={"width": 360, "height": 740})
    await page.goto("/figures/ended")
    plot = await page.locator(".chart-plot").bounding_box()
    assert plot
    x, y = plot["x"] + plot["width"] * (58.5 / 60), plot["y"] + 60
    await page.touchscreen.tap(x, y)
    await expect(page.locator(".chart-tip")).to_contain_text("14:01 to 14:02")
    box = await page.locator(".chart-tip").bounding_box()
    assert box
    assert 0 <= box["x"] <= 360 - box["width"]
    assert page.url.endswith("/figures/ended")
    await page.touchscreen.tap(x, y)
    await expect(page).to_have_url(re.compile(r"/jobs\?q=finished:.*14:01Z"))


async def test_times_are_of_the_zone_that_was_chosen(
    charts: str, new_page: NewPage, site: Site
) -> None:
    site.url = charts
    page = await new_page(timezone_id="Asia/Tokyo")
    await page.goto("/figures/ended")
    labels = page.locator(".chart-x text")
    assert (await labels.all_text_contents())[-1] == "14:00"
    await page.locator("#menu-view > summary").click()
    await page.get_by_role("button", name="Local").click()
    await page.reload()
    await expect(labels.last).to_have_text("23:00")
    await expect(page.locator(".chart-zone")).to_have_text("local")
    await page.locator(column(page, "ended", "14:01")).hover()
    await expect(page.locator(".chart-tip p").first).to_have_text("11-22 23:01")


async def test_a_table_that_is_open_stays_open_over_refreshes(chart_page: Page) -> None:
    page = chart_page
    await page.clock.install()
    await page.goto("/figures/ended")
    await page.locator(".chart-table summary").click()
    rows = page.locator(".chart-rows tbody tr")
    await expect(rows).to_have_count(60)
    await expect(rows.first).to_contain_text("14:02 to 14:03 so far")
    async with page.expect_response("**/figures/ended") as answer:
        await page.clock.run_for(3_000)
    assert (await answer.value).status in (200, 304)
    await expect(rows.first).to_be_visible()


async def test_charts_are_there_without_script(charts: str, new_page: NewPage, site: Site) -> None:
    site.url = charts
    page = await new_page(java_script_enabled=False)
    await page.goto("/queues/mail")
    await page.locator("#table-wait summary").click()
    await expect(page.locator("#table-wait tbody tr")).to_have_count(60)
    await page.locator(column(page, "flow", "14:01")).click()
    await expect(page).to_have_url(re.compile(r"/jobs\?q=queue:mail%20finished:"))


async def test_g_and_o_lead_to_the_front_page(chart_page: Page) -> None:
    await chart_page.goto("/jobs")
    await chart_page.keyboard.press("g")
    await chart_page.keyboard.press("o")
    await expect(chart_page.locator("h1")).to_have_text("Overview")


@pytest.mark.parametrize("width", [360, 1024])
async def test_pages_with_charts_fit_and_have_no_violation(
    charts: str, new_page: NewPage, site: Site, width: int
) -> None:
    site.url = charts
    for theme in ("light", "dark"):
        page = await new_page(
            color_scheme=theme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        for path in ("/", *(f"/figures/flow?window={name}" for name in WINDOWS), "/queues/mail"):
            await page.goto(path)
            assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
            for details in await page.locator(".chart-table").all():
                await details.evaluate("element => element.open = true")
            assert not await axe_violations(page), path
        await page.context.close()
