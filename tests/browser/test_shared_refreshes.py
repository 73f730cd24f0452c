"""Live regions that ask for what others look at too: nothing moves while nothing is new, an action
shows at once, and a server that has too much to do is left alone for a moment.
"""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, Request, Response, expect

from riverui.web.http.admission import Admission, AdmissionLimits
from tests.browser.conftest import LOOP, NewPage, Site, Watch, dashboard, serving

pytestmark = [pytest.mark.browser, LOOP]

OBSERVE = """() => {
  window.changes = [];
  const ticks = node => (node.nodeType === 1 ? node : node.parentElement)
    ?.closest('time, [data-since]');
  const notes = change => change.attributeName === 'class' || change.type === 'attributes'
    && change.attributeName.startsWith('data-htmx');
  new MutationObserver(list => list.forEach(change => {
    if (!ticks(change.target) && !notes(change)) {
      window.changes.push(`${change.type} ${change.attributeName ?? change.target.nodeName}`);
    }
  })).observe(document.querySelector('#jobs-list'),
    {subtree: true, childList: true, characterData: true, attributes: true});
}"""


async def _refreshed(page: Page, status: int) -> Response:
    """Let a refresh come that is answered with this status."""

    def expected(answer: Response) -> bool:
        return answer.status == status and "riverui-live" in answer.request.headers

    async with page.expect_response(expected) as found:
        await page.clock.run_for(2_000)
    answer = await found.value
    await answer.finished()
    await expect(page.locator(".htmx-request")).to_have_count(0)
    return answer


async def test_an_unchanged_refresh_touches_nothing(site: Site, page: Page) -> None:
    jobs = [await site.make.job("available") for _ in range(3)]
    await page.clock.install()
    await page.goto("/jobs")
    first = await _refreshed(page, 200)
    assert await first.request.header_value("riverui-live") == "2"
    assert await first.request.header_value("if-none-match") is None
    link = page.locator(f"#job-{jobs[1]} a").first
    await link.focus()
    await page.evaluate(OBSERVE)
    for _ in range(3):
        unchanged = await _refreshed(page, 304)
        assert (
            await unchanged.request.header_value("if-none-match")
            == await unchanged.header_value("etag")
            == await first.header_value("etag")
        )
    assert await page.evaluate("window.changes") == []
    await expect(link).to_be_focused()
    await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "live")
    await site.connection.execute("update river_job set priority = 4 where id = %s", [jobs[0]])
    changed = await _refreshed(page, 200)
    assert await changed.header_value("etag") != await first.header_value("etag")
    await expect(link).to_be_focused()
    await _refreshed(page, 304)


async def test_every_live_page_settles_on_unchanged(site: Site, page: Page) -> None:
    job = await site.make.job("available")
    await site.make.queue()
    await page.clock.install()
    for path in (f"/jobs/{job}", "/queues", "/queues/default", "/operations", "/about"):
        await page.goto(path)
        await _refreshed(page, 200)
        await _refreshed(page, 304)


async def test_unticked_rows_move_again(site: Site, page: Page) -> None:
    jobs = [await site.make.job("available") for _ in range(2)]
    await page.clock.install()
    await page.goto("/jobs?state=available")
    await _refreshed(page, 200)
    await page.get_by_label(f"Select job {jobs[0]}").check()
    new = await site.make.job("available")
    await _refreshed(page, 200)
    await expect(page.locator("[data-new-rows]")).to_have_text("1 new")
    # The rows are as they were put together here, and that is still what belongs there.
    await _refreshed(page, 304)
    await expect(page.locator("[data-new-rows]")).to_have_text("1 new")
    await page.get_by_label(f"Select job {jobs[0]}").uncheck()
    await _refreshed(page, 200)
    await expect(page.locator(f"#job-{new}")).to_be_visible()


async def test_going_to_another_list_and_back_shows_that_list(site: Site, page: Page) -> None:
    available = await site.make.job("available")
    cancelled = await site.make.job("cancelled")
    await page.clock.install()
    await page.goto("/jobs?state=available")
    await _refreshed(page, 200)
    await page.locator("#jobs-states .s-cancelled").click()
    await expect(page.locator(f"#job-{cancelled}")).to_be_visible()
    other = await _refreshed(page, 200)
    assert await other.request.header_value("if-none-match") is None
    await page.locator("#jobs-states .s-available").click()
    await expect(page.locator(f"#job-{available}")).to_be_visible()
    await _refreshed(page, 200)
    await expect(page.locator(f"#job-{available}")).to_be_visible()


async def test_an_action_shows_at_once_to_all_viewers(site: Site, new_page: NewPage) -> None:
    job = await site.make.job("available")
    onlooker, actor = await new_page(), await new_page()
    for page in (onlooker, actor):
        await page.clock.install()
        await page.goto("/jobs")
        await _refreshed(page, 200)
    asked: list[Request] = []
    actor.on("request", lambda request: asked.append(request))
    await actor.get_by_label(f"Select job {job}").check()
    await actor.locator("[data-bulk]").get_by_role("button", name="Cancel", exact=True).click()
    await expect(actor.locator(f"#job-{job}").get_by_role("img", name="cancelled")).to_be_visible()
    # No beat has passed: the list was asked for because of the action, by itself and for itself.
    (again,) = [one for one in asked if one.method == "GET" and one.url.endswith("/jobs")]
    assert await again.header_value("riverui-live") is None
    await _refreshed(onlooker, 200)
    await expect(
        onlooker.locator(f"#job-{job}").get_by_role("img", name="cancelled")
    ).to_be_visible()


async def test_no_refresh_shows_older_rows(site: Site, new_page: NewPage) -> None:
    await site.make.job("available")
    onlooker, page = await new_page(), await new_page()
    for one in (onlooker, page):
        await one.clock.install()
    await onlooker.goto("/jobs?state=available")
    await page.goto("/jobs?state=cancelled")
    await page.clock.run_for(1_500)
    await _refreshed(onlooker, 200)
    # What all are given from now on lacks this job, which who goes to the list sees at once.
    new = await site.make.job("available")
    await page.locator("#jobs-states .s-available").click()
    await expect(page.locator(f"#job-{new}")).to_be_visible()
    async with page.expect_response(
        lambda answer: answer.request.headers.get("hx-target") == "section#jobs-list"
    ) as found:
        await page.clock.run_for(600)
    answer = await found.value
    assert "riverui-live" not in answer.request.headers
    await answer.finished()
    await expect(page.locator(".htmx-request")).to_have_count(0)
    await expect(page.locator(f"#job-{new}")).to_be_visible()


async def test_who_asks_by_hand_sees_what_is_new(site: Site, page: Page) -> None:
    await site.make.job("available")
    await page.clock.install()
    await page.goto("/jobs")
    await _refreshed(page, 200)
    new = await site.make.job("available")
    async with page.expect_response(re.compile("/jobs$")) as found:
        await page.keyboard.press(".")
    assert await (await found.value).request.header_value("riverui-live") is None
    await expect(page.locator(f"#job-{new}")).to_be_visible()


async def test_a_server_with_too_much_to_do_says_so_in_the_region_and_is_left_alone(
    site: Site,
    database_url: str,
    new_page: NewPage,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = await site.make.job("available")
    admission = Admission(AdmissionLimits(working=1, waiting=0))
    monkeypatch.setattr("riverui.web.app.Admission", lambda _: admission)
    async with dashboard(database_url) as app, serving(app) as url:
        watch.own.append(url)
        page = await new_page()
        await page.clock.install()
        await page.goto(f"{url}/jobs")
        # Somebody else's work takes the only place.
        place = await admission.enter()
        refused = await _refreshed(page, 503)
        assert 3 <= int(await refused.header_value("retry-after") or "") <= 8
        stale = page.locator("#jobs-list > [data-stale]")
        await expect(stale).to_have_text("Not up to date. The dashboard is too busy. Trying again.")
        await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "failing")
        await expect(page.locator(f"#job-{job}")).to_be_visible()
        await expect(page.locator("#notices .notice")).to_have_count(0)
        asked: list[Request] = []
        page.on("request", lambda request: asked.append(request))
        await page.clock.run_for(2_000)
        assert asked == [], "it comes back when it was told to"
        place.leave()
        new = await site.make.job("available")
        async with page.expect_response(lambda answer: answer.status == 200):
            await page.clock.run_for(9_000)
        await expect(page.locator(f"#job-{new}")).to_be_visible()
        await expect(stale).to_have_count(0)
        await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "live")

        # Whoever opens a page gets one that tries again by itself.
        place = await admission.enter()
        await page.goto(f"{url}/jobs")
        await expect(page.get_by_role("heading", name="The dashboard is too busy")).to_be_visible()
        place.leave()
        async with page.expect_response(lambda answer: answer.status == 200):
            await page.clock.run_for(9_000)
        await expect(page.locator(f"#job-{new}")).to_be_visible()
    watch.forgive("503")
