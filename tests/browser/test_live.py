"""Live updates: they come by themselves, and never take away what a person holds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests import factory
from tests.browser.conftest import LOOP, NewPage, Site, Watch, asked_while

pytestmark = [pytest.mark.browser, LOOP]


async def _every_second(page: Page, path: str) -> None:
    """Open the page with live updates each second."""
    await page.goto(path)
    await page.locator("#menu-live > summary").click()
    await page.get_by_role("button", name="1 s", exact=True).click()
    await page.keyboard.press("Escape")
    await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "live")


async def _polled(page: Page) -> None:
    """Wait until one more refresh has come and gone."""
    await page.evaluate(
        "() => new Promise(done => document.addEventListener('htmx:finally:request', "
        "() => done(null), {once: true}))"
    )


async def _set_state(connection: AsyncConnection[Any], job: int, state: str) -> None:
    await connection.execute(
        "update river_job set state = %s::river_job_state, finalized_at = case when %s then now()"
        " end where id = %s",
        [state, state in ("completed", "cancelled", "discarded"), job],
    )


@pytest.mark.short
async def test_new_jobs_and_new_states_appear_by_themselves(site: Site, page: Page) -> None:
    first = await site.make.job("available")
    await _every_second(page, "/jobs")
    row = page.locator(f"#job-{first}")
    await row.evaluate("row => { row.seen = true }")
    second = await site.make.job("available")
    await _set_state(site.connection, first, "cancelled")
    await expect(page.locator(f"#job-{second}")).to_be_visible()
    await expect(row.get_by_role("img", name="cancelled")).to_be_visible()
    assert await row.evaluate("row => row.seen"), "the row was morphed in place, not replaced"
    # States that take long to count are counted less often: so they do on a busy machine.
    cancelled = page.locator("#jobs-states .s-cancelled .count")
    await expect(cancelled).to_have_text("1", timeout=30_000)


async def test_the_number_of_matching_jobs_lives_with_the_list(site: Site, page: Page) -> None:
    await site.make.job("available")
    await _every_second(page, "/jobs?state=available")
    await expect(page.locator("#jobs-matching")).to_have_text("1 job Cancel 1…")
    await site.make.job("available")
    await expect(page.locator("#jobs-matching")).to_have_text("2 jobs Cancel 2…")


@pytest.mark.short
async def test_new_rows_wait_while_rows_are_ticked(site: Site, page: Page) -> None:
    jobs = [await site.make.job("available") for _ in range(3)]
    await _every_second(page, "/jobs")
    await page.get_by_label(f"Select job {jobs[1]}").check()
    dot = page.locator("[data-live-dot]")
    await expect(dot).to_have_attribute("data-live-dot", "held")
    await expect(page.locator("#menu-live > summary")).to_have_attribute(
        "title", re.compile("1 job selected")
    )
    for _ in range(2):
        await site.make.job("available")
    await _set_state(site.connection, jobs[1], "cancelled")
    pill = page.locator("[data-new-rows]")
    await expect(pill).to_have_text("2 new")
    await expect(page.locator("tbody.job")).to_have_count(3)
    await expect(
        page.locator(f"#job-{jobs[1]}").get_by_role("img", name="cancelled")
    ).to_be_visible()
    await expect(page.get_by_label(f"Select job {jobs[1]}")).to_be_checked()

    await pill.click()
    await expect(page.locator("tbody.job")).to_have_count(5)
    await expect(pill).to_be_hidden()
    await expect(page.get_by_label(f"Select job {jobs[1]}")).to_be_checked()


async def test_rows_keep_their_place_while_others_are_ticked(site: Site, page: Page) -> None:
    jobs = [await site.make.job("available") for _ in range(3)]
    await _every_second(page, "/jobs?state=available")
    await page.get_by_label(f"Select job {jobs[0]}").check()
    await _set_state(site.connection, jobs[2], "cancelled")
    await expect(page.locator(f"#job-{jobs[2]}[data-gone]")).to_be_visible()
    await page.get_by_label(f"Select job {jobs[0]}").uncheck()
    await expect(page.locator(f"#job-{jobs[2]}")).to_have_count(0)


async def test_new_rows_wait_while_the_list_is_scrolled(site: Site, page: Page) -> None:
    for _ in range(60):
        await site.make.job()
    await _every_second(page, "/jobs")
    await page.mouse.wheel(0, 600)
    await page.wait_for_function("() => scrollY > 300")
    top = (
        "() => [...document.querySelectorAll('tbody.job')].find(r => r.getBoundingClientRect().top"
        " > 100).id"
    )
    before = await page.evaluate(top)
    await site.make.job()
    await expect(page.locator("[data-new-rows]")).to_have_text("1 new")
    assert await page.evaluate(top) == before
    await page.locator("[data-new-rows]").click()
    await expect(page.locator("tbody.job")).to_have_count(61)
    assert await page.evaluate("scrollY") == 0


@pytest.mark.short
async def test_opened_details_stay_open_and_typed_text_stays_typed(site: Site, page: Page) -> None:
    job = await site.make.job(
        "running",
        attempt=2,
        errors=[factory.attempt_error(trace='File "/app/a.py", line 1, in work')],
        metadata={"river:log": [{"attempt": 2, "log": "first line"}]},
    )
    await _every_second(page, f"/jobs/{job}")
    await page.get_by_text("Traceback", exact=True).click()
    await expect(page.locator("pre.trace")).to_be_visible()
    await site.connection.execute(
        "update river_job set metadata = %s where id = %s",
        [Jsonb({"river:log": [{"attempt": 2, "log": "first line\nsecond line"}]}), job],
    )
    await expect(page.locator("pre.log").first).to_contain_text("second line")
    await expect(page.locator("pre.trace")).to_be_visible()

    await page.clock.install()
    await page.goto("/jobs")
    await page.locator("#q").fill("kind:unfinished")
    await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "held")
    await site.make.job()
    asked = await asked_while(page, 3_000)
    assert [url for url in asked if "/suggest?" not in url] == []
    await expect(page.locator("#q")).to_have_value("kind:unfinished")
    await expect(page.locator("#q")).to_be_focused()


@pytest.mark.short
async def test_hidden_tabs_and_open_dialogs_fetch_nothing(site: Site, page: Page) -> None:
    await site.make.job()
    await page.clock.install()
    await _every_second(page, "/jobs")
    assert await asked_while(page, 2_200) != []
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert await asked_while(page, 2_200) == []
    await page.evaluate(
        "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
    )
    await _polled(page)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await asked_while(page, 1_600) == []
    await page.keyboard.press("Escape")
    await _polled(page)


@pytest.mark.short
async def test_a_failing_server_shows_at_the_dot(site: Site, page: Page, watch: Watch) -> None:
    job = await site.make.job()
    await _every_second(page, "/jobs")
    await page.route("**/jobs", lambda route: route.abort())
    await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "failing")
    await expect(page.locator(f"#job-{job}")).to_be_visible()
    await expect(page.locator("#notices .notice")).to_have_count(0)
    await page.unroute("**/jobs")
    await expect(page.locator("[data-live-dot]")).to_have_attribute("data-live-dot", "live")
    watch.forgive("ERR_FAILED", "htmx:error")


async def test_refreshes_shift_nothing(site: Site, page: Page) -> None:
    jobs = [await site.make.job("available") for _ in range(30)]
    await page.clock.install()
    await _every_second(page, "/jobs")
    # A number that grows in a right-aligned cell moves its own first letter: only boxes that move
    # count.
    await page.evaluate(
        "window.shifts = []; new PerformanceObserver(list => list.getEntries().forEach(entry =>"
        " window.shifts.push(...entry.sources.map(source => source.node)"
        ".filter(node => node?.nodeType === 1).map(node => `${node.nodeName} ${node.className}`))))"
        ".observe({type: 'layout-shift', buffered: false})"
    )
    for job in jobs[:12]:
        await _set_state(site.connection, job, "cancelled")
        await page.clock.run_for(1_000)
    await expect(page.locator("#jobs-states .s-cancelled .count")).to_have_text("12")
    assert await page.evaluate("window.shifts") == []


async def test_times_tick_in_words_the_server_would_use(site: Site, new_page: NewPage) -> None:
    job = await site.make.job("running")
    await site.make.job("scheduled")
    page = await new_page(timezone_id="Asia/Kolkata")
    await page.clock.install()
    await page.goto("/jobs")
    ticking = page.locator(f"#job-{job} .c-when span")
    before = await ticking.text_content()
    await page.clock.run_for(1_300)
    assert await ticking.text_content() != before
    assert re.fullmatch(r"\d+ s|\d+ m \d+ s", await ticking.text_content() or "")
    await page.locator("#menu-view > summary").click()
    await page.get_by_role("button", name="UTC").click()
    utc = await page.locator(".job time").text_content() or ""
    await page.get_by_role("button", name="Local").click()
    local = await page.locator(".job time").text_content() or ""
    minutes = [int(text[-5:-3]) + 60 * int(text[-8:-6]) for text in (utc, local)]
    assert (minutes[1] - minutes[0]) % 1440 == 330
    await expect(page.locator(".job time")).to_have_attribute("title", re.compile("UTC$"))


async def test_a_deleted_job_is_reported_once(site: Site, page: Page, watch: Watch) -> None:
    job = await site.make.job("available", kind="short_lived")
    await page.clock.install()
    await _every_second(page, f"/jobs/{job}")
    await site.connection.execute("delete from river_job where id = %s", [job])
    notice = page.locator("#notices .notice")
    await expect(notice).to_contain_text(
        f"No longer exists Job not found: {job}", use_inner_text=True
    )
    assert await asked_while(page, 2_500) == []
    await expect(notice).to_have_count(1)
    await expect(page.locator("#job-kind")).to_have_text("short_lived")
    await expect(page.locator("#menu-live > summary")).to_have_attribute(
        "title", re.compile("any more")
    )
    await notice.get_by_role("link", name="Jobs").click()
    await expect(page).to_have_url(re.compile("/jobs$"))
    watch.forgive("404")
