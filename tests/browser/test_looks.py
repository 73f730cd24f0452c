"""What the eye meets: rows in line, names whole, banners on one line, nothing covered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests import factory
from tests.browser.conftest import LOOP, Site

pytestmark = [pytest.mark.browser, LOOP]

MIDDLE = (
    "element => { const box = element.getBoundingClientRect(); return (box.top + box.bottom) / 2 }"
)
LINES = """element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return new Set([...range.getClientRects()].map(box => Math.round(box.bottom))).size;
}"""
CUT = """element =>
  element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight + 1"""


async def _box(locator: Locator) -> dict[str, float]:
    found: Any = await locator.bounding_box()
    return dict(found)


async def test_the_dot_before_the_queue_is_no_part_of_its_link(site: Site, page: Page) -> None:
    job = await site.make.job("available", queue="tenant_mailers_")
    await page.goto(f"/jobs/{job}")
    link = page.locator(".job-line").get_by_role("link", name="tenant_mailers_")
    before = await link.evaluate("link => getComputedStyle(link, '::before').content")
    assert before == "none"
    # An underscore reaches some 2 px below the baseline.
    assert (
        await link.evaluate("link => parseFloat(getComputedStyle(link).textUnderlineOffset)") >= 4
    )


async def test_names_of_queues_are_as_wide_as_there_is_room(site: Site, page: Page) -> None:
    await site.make.job("available", queue="tenant_4711_mailers", kind="email_send")
    await page.goto("/jobs")
    cell = page.locator("td.c-queue")
    assert not await cell.evaluate(CUT)
    await expect(cell).to_have_attribute("title", "tenant_4711_mailers")

    longest = "nightly-reconciliation-of-warehouse-stock-eu-central-1_000000001"
    assert len(longest) == 64, "the most that River takes"
    await site.make.queue(longest)
    await page.goto("/queues")
    link = page.get_by_role("link", name=longest)
    assert not await link.evaluate(CUT)
    await expect(link).to_have_attribute("title", longest)


async def test_long_names_leave_room_for_the_args(site: Site, page: Page) -> None:
    await site.make.job("available", queue="q" * 64, kind="k" * 127)
    await page.goto("/jobs")
    assert (await _box(page.locator("td.c-args")))["width"] >= 150


@pytest.mark.parametrize("state", ["available", "retryable"])
async def test_what_stands_in_a_row_is_in_line(state: str, site: Site, page: Page) -> None:
    await site.make.job(state, kind="email_send", tags=["vip"])
    await page.goto("/jobs")
    cells = [
        ".c-check input",
        ".c-state svg",
        ".c-kind bdi",
        ".c-queue bdi",
        ".c-args code",
        ".c-when time",
    ]
    middles = [await page.locator(f"tbody.job {cell}").evaluate(MIDDLE) for cell in cells]
    assert max(middles) - min(middles) <= 1.5, dict(zip(cells, middles, strict=True))


async def test_a_running_job_does_not_look_failed(site: Site, page: Page) -> None:
    errors = [factory.attempt_error(1, "TimeoutError: upstream took longer than 30 s")]
    running = await site.make.job("running", attempt=2, errors=errors)
    failed = await site.make.job("retryable", attempt=2, errors=errors)
    await page.goto("/jobs")
    calm, red = (page.locator(f"#job-{job} .job-error td:last-child") for job in (running, failed))
    await expect(calm).to_have_text("Earlier attempt:TimeoutError: upstream took longer than 30 s")
    await expect(red).to_have_text("TimeoutError: upstream took longer than 30 s")
    colour = "cell => getComputedStyle(cell).color"
    assert await calm.evaluate(colour) == await page.locator(
        f"#job-{running} td.c-id"
    ).first.evaluate(colour)
    assert await red.evaluate(colour) != await calm.evaluate(colour)


async def test_many_attempts_fit_into_the_page(site: Site, page: Page) -> None:
    at = (datetime.now(UTC) - timedelta(minutes=48)).isoformat()
    errors = [factory.attempt_error(n + 1, at=at) for n in range(25)]
    job = await site.make.job("discarded", attempt=25, errors=errors)
    await page.goto(f"/jobs/{job}")
    line = page.locator(".timeline")
    assert await line.evaluate("line => line.scrollWidth <= line.clientWidth")
    # The same error is shown once; the attempts before are behind one line.
    await expect(page.locator(".attempt-error:visible")).to_have_count(1)
    await page.get_by_text("Attempts 1–24: the same error").click()
    await expect(page.locator(".attempt:visible")).to_have_count(25)
    await expect(page.locator(".attempt-error:visible")).to_have_count(1)


async def test_tags_that_do_not_fit_leave_no_slivers(site: Site, page: Page) -> None:
    args = {"order_id": 1840021700649456636, "payment_reference": "pi_1840021700649456636"}
    tags = ["money", "audit-trail", "european-union"]
    await site.make.job("available", tags=tags, args=args, queue="tenant_4711_mailers_of_the_north")
    await page.goto("/jobs")
    cell = await _box(page.locator("td.c-args > div"))
    shown = 0
    for tag in await page.locator("td.c-args .tag").all():
        box = await _box(tag)
        if box["y"] < cell["y"] + cell["height"]:
            shown += 1
            assert box["x"] + box["width"] <= cell["x"] + cell["width"] + 0.5
    assert 1 <= shown < len(tags)
    await expect(page.locator("td.c-args .tag").first).to_have_attribute("title", ", ".join(tags))
    assert (await _box(page.locator("td.c-args code")))["width"] >= cell["width"] / 2


async def test_selecting_moves_nothing(site: Site, page: Page) -> None:
    await site.connection.execute(
        "insert into river_job (kind, args, max_attempts) select 'k', '{}', 25"
        " from generate_series(1, 60)"
    )
    await page.goto("/jobs?state=available&limit=50")
    rows, bar = page.locator("tbody.job"), page.locator(".bulk")
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    places = "[...document.querySelectorAll('tbody.job')].map(row => row.getBoundingClientRect().y)"
    before = await page.evaluate(places)
    await rows.nth(49).locator("input").click()
    await expect(bar).to_be_visible()
    await page.keyboard.press("a")
    await page.get_by_role("button", name="Select all 60 matching").click()
    await expect(bar.get_by_role("link", name="Cancel all…")).to_be_focused()
    assert await page.evaluate(places) == before
    await bar.get_by_role("button", name="Clear the selection").click()
    await expect(bar).to_be_hidden()
    assert await page.evaluate(places) == before


async def test_rows_that_the_keyboard_reaches_are_clear_of_the_bar(site: Site, page: Page) -> None:
    for _ in range(40):
        await site.make.job("available")
    await page.goto("/jobs")
    await page.locator("tbody.job").nth(39).wait_for()
    tops = [(await _box(row))["y"] for row in await page.locator("tbody.job").all()]
    lowest = max(n for n, top in enumerate(tops) if top + 36 <= 800)
    await page.locator("tbody.job a").nth(lowest).focus()
    await page.keyboard.press("x")
    bar = page.locator(".bulk")
    for at in (lowest, lowest + 1):
        row = await _box(page.locator("tbody.job").nth(at))
        assert row["y"] + row["height"] <= (await _box(bar))["y"]
        await page.keyboard.press("j")


async def test_the_counts_stay_within_the_rail(site: Site, page: Page) -> None:
    await site.connection.execute(
        "insert into river_job (kind, args, state, finalized_at, scheduled_at)"
        " select 'k', '{}', s::river_job_state, case when s = 'completed' then now() end, now()"
        " from generate_series(1, 9999) n, unnest(array['completed', 'scheduled']) s"
    )
    await page.goto("/jobs?state=scheduled")
    for entry in await page.locator("#jobs-states a:has(.count)").all():
        link, count = await _box(entry), await _box(entry.locator(".count"))
        assert count["x"] + count["width"] <= link["x"] + link["width"] - 8
