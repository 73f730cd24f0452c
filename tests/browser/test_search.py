"""A search that no index serves goes on by itself, step by step, as long as somebody waits for
it.
"""

from __future__ import annotations

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, Response, expect

from riverui.web.config import DashboardConfig
from tests.browser.conftest import LOOP, NewPage, Site, Watch, asked_while

pytestmark = [pytest.mark.browser, LOOP]

WINDOW = 20_000
"""Rows that one step looks at."""
JOBS = 200_000
"""Jobs in the table: ten steps."""


@pytest.fixture
def config() -> DashboardConfig:
    """Return a dashboard whose searches take small steps."""
    return DashboardConfig(search_window=WINDOW)


async def _fill(site: Site, *, every: int, jobs: int = JOBS) -> None:
    """Finished jobs, one in `every` of them with a rare tag, from the oldest on."""
    await site.connection.execute(
        """insert into river_job (kind, args, state, finalized_at, tags)
        select 'k', '{}', 'completed', now(), case when n %% %s = 1 then '{rare}' else '{}'
        end::varchar[]
        from generate_series(1, %s) n""",
        [every, jobs],
    )


async def test_it_goes_on_to_the_end_and_tells_how_far_it_is(site: Site, page: Page) -> None:
    await _fill(site, every=70_000)
    await page.goto("/jobs?q=tag:rare")
    note = page.locator("#search-note")
    await expect(note).to_contain_text("Searching…")
    await expect(note).to_contain_text("of ")
    await expect(note.get_by_role("progressbar")).to_be_visible()
    await expect(page.locator("#job-140001")).to_be_visible(timeout=15_000)
    await expect(page.locator("#job-1")).to_be_visible(timeout=15_000)
    await expect(note).to_contain_text("Search finished: 3 found.")
    await expect(page.locator("#jobs-here")).to_have_text("3 jobs")
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    # What was found can be worked with like any list.
    await page.locator("#job-1 input").check()
    await expect(page.locator("[data-selected]")).to_have_text("1 job selected")


async def test_where_nothing_is_found_it_says_so_at_the_end(site: Site, page: Page) -> None:
    await _fill(site, every=JOBS, jobs=50_000)
    await page.goto("/jobs?q=tag:none&state=completed")
    await expect(page.locator("#search-note")).to_have_text(
        "No job matches this search.", timeout=15_000
    )
    await expect(page.locator("#jobs-table")).to_be_hidden()


async def test_it_ends_when_the_page_is_full(site: Site, page: Page) -> None:
    await _fill(site, every=1_500)
    await page.goto("/jobs?q=tag:rare&limit=50")
    await expect(page.locator("#search-note")).to_contain_text("This page is full.", timeout=15_000)
    rows = page.locator("tbody.job")
    await expect(rows).to_have_count(50)
    last = int((await rows.last.get_attribute("id") or "").removeprefix("job-"))
    await page.get_by_role("link", name="Next").click()
    await expect(page.locator(f"#job-{last - 1500}")).to_be_visible(timeout=15_000)
    await expect(page.locator(f"#job-{last}")).to_have_count(0)


async def test_it_stops_when_told_and_goes_on_when_told(site: Site, page: Page) -> None:
    await _fill(site, every=JOBS)
    steps: list[str] = []
    page.on(
        "request",
        lambda request: steps.append(request.url) if "/jobs/search" in request.url else None,
    )
    await page.clock.install()
    await page.goto("/jobs?q=tag:rare")
    note = page.locator("#search-note")
    async with page.expect_response(lambda response: "/jobs/search" in response.url):
        pass
    await page.get_by_role("button", name="Stop").click()
    await expect(note).to_contain_text("Stopped.")
    stopped = len(steps)
    words = await note.inner_text()
    # A step would have come long since, and live updates leave the list alone as well.
    assert await asked_while(page, 1_500) == []
    assert (len(steps), await note.inner_text()) == (stopped, words)
    await page.get_by_role("button", name="Continue").click()
    await expect(note).to_contain_text("Search finished: 1 found.", timeout=20_000)
    assert all(later.count("after=") == 1 for later in steps)


async def test_a_failing_server_stops_it(site: Site, page: Page, watch: Watch) -> None:
    await _fill(site, every=JOBS, jobs=100_000)
    await page.route("**/jobs/search?*", lambda route: route.abort())
    await page.goto("/jobs?q=tag:rare")
    await expect(page.locator("#search-note")).to_contain_text("Stopped.")
    await expect(page.get_by_text("The server does not answer")).to_be_visible()
    watch.forgive("ERR_FAILED", "htmx:error")
    await page.unroute("**/jobs/search?*")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.locator("#search-note")).to_contain_text("1 found", timeout=15_000)


async def test_an_open_menu_stays_open_while_it_goes_on(site: Site, page: Page) -> None:
    await _fill(site, every=JOBS)
    await page.goto("/jobs?q=tag:rare")
    await page.locator("#menu-sort > summary").click()

    def is_step(response: Response) -> bool:
        return "/jobs/search" in response.url

    for _ in range(2):
        async with page.expect_response(is_step):
            pass
    await expect(page.locator("#menu-sort")).to_have_attribute("open", "")


async def test_without_script_a_link_leads_further_back(site: Site, new_page: NewPage) -> None:
    await _fill(site, every=JOBS, jobs=30_000)
    page = await new_page(java_script_enabled=False)
    await page.goto("/jobs?q=tag:rare")
    note = page.locator("#search-note")
    await expect(note).to_contain_text("Nothing found so far.")
    await expect(note).to_contain_text("No index covers this search.")
    for script in ("Searching…", "Stopped.", "Stop", "Continue"):
        await expect(note.get_by_text(script, exact=True)).to_be_hidden()
    await page.get_by_role("link", name="Search further back").click()
    await expect(page.locator("#job-1")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_stopped_search_is_accessible(theme: str, site: Site, new_page: NewPage) -> None:
    await _fill(site, every=JOBS)
    page = await new_page(color_scheme=theme, viewport={"width": 360, "height": 740})
    await page.goto("/jobs?q=tag:rare")
    await expect(page.locator("#search-note")).to_contain_text("Searched")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("button", name="Continue")).to_be_visible()
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
