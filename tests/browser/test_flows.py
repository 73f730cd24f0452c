"""What people do all day, with script."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import LOOP, Site, Watch

pytestmark = [pytest.mark.browser, LOOP]


@pytest.mark.short
async def test_states_and_searches_are_steps_of_the_history(site: Site, page: Page) -> None:
    mail = await site.make.job("retryable", kind="mail_send")
    await site.make.job("retryable", kind="webhook")
    await site.make.job("available", kind="mail_send")
    await page.goto("/jobs")
    rows = page.locator("tbody.job")
    await expect(rows).to_have_count(3)

    await (
        page.locator("#jobs-states").get_by_role("link", name=re.compile("retryable", re.I)).click()
    )
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(re.compile("state=retryable"))
    await page.get_by_role("combobox", name="Search jobs").fill("kind:mail_send")
    await page.keyboard.press("Enter")
    await expect(rows).to_have_count(1)
    await expect(page.locator(f"#job-{mail}")).to_be_visible()
    await expect(page.locator(".chip")).to_have_text(["kind:mail_send"])
    await expect(page).to_have_title(re.compile("Jobs · test · riverui"))

    await page.go_back()
    await expect(rows).to_have_count(2)
    await expect(page.locator(".chip")).to_have_count(0)
    await page.go_back()
    await expect(rows).to_have_count(3)
    await page.go_forward()
    await expect(rows).to_have_count(2)


@pytest.mark.short
async def test_the_filter_form_and_the_chips(site: Site, page: Page) -> None:
    await site.make.job(kind="mail_send", queue="mailers")
    await site.make.job(kind="mail_send", queue="bulk")
    await page.goto("/jobs")
    await page.locator("#menu-filters > summary").click()
    await page.get_by_label("Kind", exact=True).fill("mail_send")
    await page.get_by_label("Queue", exact=True).fill("bulk")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("tbody.job")).to_have_count(1)
    await expect(page.locator("#menu-filters")).not_to_have_attribute("open", "")
    await expect(page.locator("#q")).to_have_value(re.compile("queue:bulk"))
    await page.get_by_role("link", name=re.compile("Remove queue:bulk")).click()
    await expect(page.locator("tbody.job")).to_have_count(2)


@pytest.mark.short
async def test_an_invalid_search_says_what_is_wrong(site: Site, page: Page, watch: Watch) -> None:
    await site.make.job()
    await page.goto("/jobs")
    await page.locator("#q").fill("priority:high")
    await page.keyboard.press("Enter")
    await expect(page.locator(".banner")).to_be_visible()
    await expect(page.locator("#q")).to_have_value("priority:high")
    await expect(page.locator(".banner")).to_contain_text("riority")
    watch.forgive("400")


@pytest.mark.short
async def test_selected_jobs_are_retried_and_the_notice_says_so(site: Site, page: Page) -> None:
    ids = [await site.make.job("discarded") for _ in range(3)]
    await page.goto("/jobs?state=discarded")
    await page.get_by_label(f"Select job {ids[0]}").check()
    await page.get_by_label(f"Select job {ids[2]}").check()
    bar = page.get_by_role("group", name="Selected jobs")
    await expect(bar).to_contain_text("2 jobs selected")
    await bar.get_by_role("button", name="Retry").click()
    await expect(page.locator("#notices .notice")).to_contain_text("2")
    await expect(page.locator("tbody.job")).to_have_count(1)
    await expect(bar).to_be_hidden()
    cursor = await site.connection.execute(
        "select state, count(*) from river_job group by 1 order by 1"
    )
    assert {row["state"]: row["count"] for row in await cursor.fetchall()} == {
        "available": 2,
        "discarded": 1,
    }


@pytest.mark.short
async def test_deleting_asks_first_with_the_safe_choice_focused(site: Site, page: Page) -> None:
    job = await site.make.job("completed")
    await page.goto("/jobs?state=completed")
    await page.get_by_label(f"Select job {job}").check()
    await (
        page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Delete").click()
    )
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    await expect(dialog.get_by_role("heading")).to_have_text(f"Delete job {job}?")
    await expect(dialog.get_by_role("link", name="Keep it")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(page.locator(f"#job-{job}")).to_be_visible()

    await (
        page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Delete").click()
    )
    await dialog.get_by_role("button", name="Delete 1 job").click()
    await expect(dialog).to_be_hidden()
    await expect(page.locator(f"#job-{job}")).to_have_count(0)
    await expect(page.locator("#notices .notice")).to_be_visible()


@pytest.mark.short
async def test_all_matching_jobs_are_retried_in_an_operation(site: Site, page: Page) -> None:
    for _ in range(25):
        await site.make.job("discarded", kind="mail_send")
    await site.make.job("discarded", kind="other")
    await page.goto("/jobs?state=discarded&q=kind:mail_send&limit=20")
    await page.get_by_label("Select all jobs on this page").check()
    await page.get_by_role("button", name=re.compile("Select all 25 matching")).click()
    bar = page.get_by_role("group", name="Selected jobs")
    await bar.get_by_role("link", name=re.compile("Retry all")).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading")).to_contain_text("Retry 25 discarded jobs?")
    await expect(dialog).to_contain_text("kind:mail_send")
    await dialog.get_by_role("button", name=re.compile("Retry 25")).click()
    await expect(page).to_have_url(re.compile("/operations/"))
    await expect(page.locator("#operation h2")).to_have_text("25 jobs retried", timeout=10_000)
    cursor = await site.connection.execute(
        "select kind, state from river_job where state = 'discarded'"
    )
    assert [row["kind"] for row in await cursor.fetchall()] == ["other"]


async def test_operations_refresh_without_live_updates(site: Site, page: Page) -> None:
    for _ in range(3):
        await site.make.job("discarded")
    await page.goto("/about")
    await page.locator("main").get_by_role("button", name="Off", exact=True).click()
    await page.goto("/jobs/bulk?verb=retry&state=discarded")
    async with site.connection.transaction():
        await site.connection.execute("select from river_job for update")
        await page.get_by_role("button", name="Retry 3 jobs").click()
        await expect(page.locator("#operation progress")).to_be_visible()
    await expect(page.locator("#operation h2")).to_have_text("3 jobs retried", timeout=10_000)


@pytest.mark.short
async def test_a_job_is_cancelled_from_its_page(site: Site, page: Page) -> None:
    job = await site.make.job("scheduled", args={"customer": {"id": 9007199254740993}})
    await page.goto(f"/jobs/{job}")
    await expect(page.locator("#args-tree")).to_contain_text("9007199254740993")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".job-name .badge")).to_have_text("cancelled")
    await expect(page.locator("#notices .notice")).to_be_visible()
    await expect(page).to_have_url(re.compile(rf"/jobs/{job}$"))


@pytest.mark.short
async def test_deleting_a_job_from_its_page_leads_to_the_list(site: Site, page: Page) -> None:
    job = await site.make.job("cancelled")
    await page.goto(f"/jobs/{job}")
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete 1 job").click()
    await expect(page).to_have_url(re.compile(r"/jobs\?"))
    await expect(page.locator("#notices .notice")).to_be_visible()


@pytest.mark.short
async def test_a_queue_is_paused_and_resumed_in_the_list(site: Site, page: Page) -> None:
    await site.make.queue("mailers")
    await page.goto("/queues")
    row = page.locator("tr.queue")
    await row.get_by_role("button", name="Pause").click()
    await page.get_by_label("Note").fill("vendor down")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("vendor down")
    await page.locator("#notices").get_by_role("button", name="Undo").click()
    await expect(row.get_by_role("button", name="Pause")).to_be_visible()
    await expect(page.locator("#notices .notice")).to_contain_text("Queue mailers resumed")


@pytest.mark.short
async def test_pages_turn_to_the_last_row_and_back(site: Site, page: Page) -> None:
    ids = [await site.make.job() for _ in range(45)]
    await page.goto("/jobs?limit=20")
    for _ in range(2):
        await page.get_by_role("link", name="Next").click()
        await page.wait_for_function("() => scrollY === 0")
    await expect(page.locator("tbody.job")).to_have_count(5)
    await expect(page.locator(f"#job-{ids[0]}")).to_be_visible()
    await page.get_by_role("link", name="Previous").click()
    await expect(page.locator("tbody.job")).to_have_count(20)
    await page.get_by_role("link", name="First").click()
    await expect(page.locator(f"#job-{ids[-1]}")).to_be_visible()


@pytest.mark.short
async def test_suggestions_are_chosen_with_the_keyboard(site: Site, page: Page) -> None:
    await site.make.job(kind="mail_send")
    await site.make.job(kind="webhook")
    await page.goto("/jobs")
    box = page.get_by_role("combobox", name="Search jobs")
    await box.press_sequentially("kind:ma")
    option = page.get_by_role("option", name=re.compile("mail_send"))
    await expect(option).to_be_visible()
    await expect(box).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowDown")
    await expect(option).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await expect(box).to_have_value(re.compile("^kind:mail_send ?$"))
    await page.keyboard.press("Escape")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody.job")).to_have_count(1)


@pytest.mark.short
async def test_preferences_change_at_once_and_are_kept(site: Site, page: Page) -> None:
    await site.make.job(args={"secret": 1})
    await page.goto("/jobs")
    await page.locator("#menu-view > summary").click()
    await page.get_by_role("button", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.get_by_role("button", name="UTC").click()
    await expect(page.locator(".job time")).to_have_text(re.compile(r"^\d\d-\d\d \d\d:\d\d:\d\d$"))
    await page.keyboard.press("Escape")
    await page.locator("#menu-more > summary").click()
    await page.get_by_role("button", name="Hide").click()
    await expect(page.locator(".job code")).to_have_count(0)
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(page.locator("html")).to_have_attribute("data-time", "utc")
    await expect(page.locator(".job code")).to_have_count(0)


@pytest.mark.short
async def test_a_failed_action_is_a_notice(site: Site, page: Page, watch: Watch) -> None:
    job = await site.make.job("discarded")
    await page.goto("/jobs?state=discarded")
    await page.get_by_label(f"Select job {job}").check()
    await page.route(
        "**/jobs/retry", lambda route: route.fulfill(status=500, body="<h1>broken</h1>")
    )
    await (
        page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Retry").click()
    )
    await expect(page.locator("#notices .n-error")).to_contain_text("500")
    await expect(page.locator(f"#job-{job}")).to_be_visible()
    await expect(page.get_by_label(f"Select job {job}")).to_be_checked()
    watch.forgive("500")


async def test_the_move_dialog_warns_of_unserved_queues(site: Site, page: Page) -> None:
    job_id = await site.make.job()
    await site.make.queue("served")
    await page.goto(f"/jobs/{job_id}")
    await page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    async with page.expect_request(lambda request: "/caution" in request.url) as asked:
        await dialog.get_by_label("Queue").fill("nobody")
    assert (await asked.value).url.endswith("/jobs/move/caution?queue=nobody")
    await expect(dialog).to_contain_text("No client has served queue nobody recently")
    await dialog.get_by_label("Queue").fill("served")
    await expect(dialog.locator("#ask-caution")).to_be_hidden()
    await dialog.get_by_role("button", name="Move 1 job").click()
    await expect(page.locator(".notice")).to_contain_text("1 job moved to queue served")
