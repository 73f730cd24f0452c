"""River UI's own pages, as its Go module has them, on riverui's API: every list, filter and button.

`RIVER_UI_SOURCE` names the folder of River UI's Go module, in which `dist/` is built already:
`go mod download -json riverqueue.com/riverui@v0.22.0` tells where it is. Nothing of it is part of
this repository. Without the variable this file is not collected, and so counts neither as passed
nor as skipped: what its pages ask was written down by an earlier run and is asked again in every
run of the tests by tests/web/api/test_front_end.py. `RIVER_UI_RECORD=1` besides writes it down
anew, into tests/web/api/front_end_requests.json.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from tests.browser.conftest import LOOP, Watch, browser, dashboard, serving, watch
from tests.interop.front_end import BuiltPages, Recorder
from tests.river_ui_stage import CONFLICT, DEAD, RUNNING, TAGGED, TASKS, TWIN, fill, fill_own

__all__ = ["browser", "watch"]

pytestmark = [pytest.mark.interop, pytest.mark.browser, LOOP]

if not os.environ.get("RIVER_UI_SOURCE"):
    raise pytest.UsageError("RIVER_UI_SOURCE must name the folder of River UI's built pages.")
# Read now, as the tests run without settings of whoever runs them.
SOURCE = Path(os.environ["RIVER_UI_SOURCE"])
RECORD = os.environ.get("RIVER_UI_RECORD") == "1"
RECORDED = Path(__file__).parents[1] / "web" / "api" / "front_end_requests.json"
STATES = (
    "Pending",
    "Scheduled",
    "Available",
    "Running",
    "Retryable",
    "Cancelled",
    "Discarded",
    "Completed",
)


@dataclass(kw_only=True, slots=True)
class Stage:
    """The pages in a browser, what they asked, and the database behind the API."""

    page: Page
    recorder: Recorder
    connection: AsyncConnection[Any]
    watch: Watch

    async def state(self, job_id: int) -> str | None:
        """Return a job's state; None where there is no such job."""
        row = await (
            await self.connection.execute(
                "select state::text as state from river_job where id = %s", [job_id]
            )
        ).fetchone()
        return row and row["state"]

    async def go(self, path: str, words: str) -> None:
        """Open a page and wait for its words."""
        await self.page.goto(path)
        await expect(self.page.locator("#root")).to_contain_text(words)

    async def filter(self, text: str, rows: int) -> None:
        """Type a filter into the empty search box and wait for as many rows."""
        box = self.page.get_by_test_id("job-search-input")
        await box.fill(text)
        await box.blur()
        await expect(
            self.page.get_by_role("checkbox", name=re.compile("Select job"))
        ).to_have_count(rows)


@pytest_asyncio.fixture(loop_scope="session")
async def stage(browser: Browser, database_url: str, watch: Watch) -> AsyncIterator[Stage]:
    """Yield the pages on a filled database; whatever goes wrong in them fails the test."""
    async with _staged(browser, database_url, watch, fill) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def own_stage(browser: Browser, database_url: str, watch: Watch) -> AsyncIterator[Stage]:
    """Yield the pages on a database with a workflow in riverui's own tables alone."""
    async with _staged(browser, database_url, watch, fill_own) as stage:
        yield stage


@asynccontextmanager
async def _staged(
    browser: Browser,
    database_url: str,
    watch: Watch,
    filling: Callable[[AsyncConnection[Any]], Awaitable[object]],
) -> AsyncIterator[Stage]:
    async with (
        await AsyncConnection.connect(
            database_url, autocommit=True, row_factory=dict_row
        ) as connection,
        dashboard(database_url) as api,
    ):
        await filling(connection)
        recorder = Recorder(BuiltPages(SOURCE), api, connection)
        async with serving(recorder) as url:
            context = await browser.new_context(
                base_url=url, viewport={"width": 1280, "height": 900}
            )
            context.set_default_timeout(10_000)
            page = await context.new_page()
            page.on("console", watch.on_console)
            page.on("pageerror", watch.on_error)
            yield Stage(page=page, recorder=recorder, connection=connection, watch=watch)
            await context.close()


async def test_everything_that_its_pages_do(stage: Stage) -> None:
    for step in (
        lists,
        filters,
        one_job,
        chosen_jobs,
        queues,
        workflows,
        periodic_jobs,
        dead_letters,
        settings,
        what_fails,
    ):
        await step(stage)
        assert await stage.page.locator("#root").inner_text(), f"a blank page after {step.__name__}"
    assert not stage.watch.problems
    meant = {404, 409}
    failed = [found for found in stage.recorder.requests if not 200 <= found["status"] < 300]
    assert {found["status"] for found in failed} == meant, failed
    if RECORD:
        lines = ",\n".join(
            json.dumps(found, ensure_ascii=False) for found in stage.recorder.requests
        )
        RECORDED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


async def test_its_pages_show_workflows_of_riverui_itself(own_stage: Stage) -> None:
    page = own_stage.page
    await own_stage.go("/workflows", "Order 42")
    for tab in ("Active", "Inactive", "All"):
        await page.get_by_label("Tabs").get_by_role("link", name=tab, exact=True).click()
        await expect(page).to_have_url(
            re.compile(r"workflows" if tab == "All" else f"state={tab.lower()}")
        )
    await expect(page.locator("#root")).to_contain_text("Order 42")
    await own_stage.go("/workflows/01JD_ORDER", "Order 42")
    root = page.locator("#root")
    for task in ("read", "charge", "pack", "ship"):
        await expect(root).to_contain_text(task)
    await expect(root).to_contain_text("Order 42")
    await page.get_by_role("button", name="Cancel").first.click()
    await expect(page.get_by_text("Workflow cancellation requested")).to_be_visible()
    row = await (
        await own_stage.connection.execute(
            "select state::text as state from river_job where metadata->>'task' = 'ship'"
        )
    ).fetchone()
    assert row == {"state": "cancelled"}
    assert not own_stage.watch.problems
    assert not [each for each in own_stage.recorder.requests if each["status"] >= 400]


async def lists(stage: Stage) -> None:
    """Each state's list by its link, and more and fewer rows."""
    page = stage.page
    await stage.go("/", "Job State")
    rows = page.get_by_role("checkbox", name=re.compile("Select job"))
    counts = dict(zip(STATES, (3, 2, 4, 1, 2, 1, 4, 20), strict=True))
    for state in STATES:
        await page.get_by_role("link", name=re.compile(f"^{state}")).first.click()
        await expect(rows).to_have_count(counts[state])
    await page.get_by_role("button", name="More").click()
    await expect(rows).to_have_count(40)
    await page.get_by_role("button", name="More").click()
    await expect(rows).to_have_count(51)
    await page.get_by_role("button", name="Fewer").click()
    await expect(rows).to_have_count(40)


async def filters(stage: Stage) -> None:
    """Each filter typed, suggestions taken, and all of them by address."""
    for text, state, rows in (
        ("kind:order_ship", "available", 3),
        ("kind:order_ship,invoice", "available", 4),
        ("queue:shipping", "discarded", 2),
        ("tags:vip", "scheduled", 1),
        ("priority:3", "scheduled", 1),
        (f"id:{TWIN}", "available", 1),
        ("kind:order_ship priority:2", "available", 1),
    ):
        await stage.go(f"/jobs?state={state}", "Job State")
        await stage.filter(text, rows)
    shown = stage.page.get_by_role("checkbox", name=re.compile("Select job"))
    suggestions = stage.page.get_by_test_id("suggestions-list").get_by_role("button")
    for typed, suggested in (("kind:ship", "order_ship"), ("queue:ship", "shipping")):
        await stage.go("/jobs?state=available", "Job State")
        box = stage.page.get_by_test_id("job-search-input")
        await box.click()
        # At once: letter by letter, a busy machine's pages put them into another order.
        await box.fill(typed)
        await expect(suggestions).to_have_text([suggested])
        await suggestions.click()
        await expect(shown).to_have_count(3)
    await stage.go(
        "/jobs/?kind=report&queue=default&tags=vip&priority=3&state=scheduled&limit=40", "Job State"
    )
    await expect(stage.page.get_by_role("checkbox", name=re.compile("Select job"))).to_have_count(1)


async def one_job(stage: Stage) -> None:
    """Go through a job's page: cancel, retry, delete; a running one is asked to stop."""
    page = stage.page
    await stage.go(f"/jobs/{TAGGED}", "vip")
    await page.get_by_role("button", name="Cancel").first.click()
    await expect(page.locator("#root")).to_contain_text("Cancelled")
    await page.get_by_role("button", name="Retry").first.click()
    await expect(page.locator("#root")).to_contain_text("Available")
    assert await stage.state(TAGGED) == "available"
    await stage.go(f"/jobs/{RUNNING}", "report")
    await page.get_by_role("button", name="Cancel").first.click()
    await expect(page.get_by_text(re.compile("[Jj]ob.* cancelled")).first).to_be_visible()
    await stage.go("/jobs/59", "it broke <x>")
    await page.get_by_role("button", name="Delete").first.click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete job").click()
    await expect(page).to_have_url(re.compile(r"/jobs(\?|$)"))
    assert await stage.state(59) is None


async def chosen_jobs(stage: Stage) -> None:
    """Several jobs of a list: retried, cancelled, deleted."""
    page = stage.page
    rows = page.get_by_role("checkbox", name=re.compile("Select job"))
    await stage.go("/jobs?state=retryable", "order_ship")
    for box in await rows.all():
        await box.click()
    await page.get_by_role("button", name="Retry").first.click()
    await expect(page.locator("#root")).to_contain_text("No jobs found")
    await stage.go("/jobs?state=pending", "import")
    await rows.first.click()
    await page.get_by_role("button", name="Cancel").first.click()
    await expect(rows).to_have_count(2)
    await stage.go("/jobs?state=completed", "mail_send")
    await expect(rows).to_have_count(20)
    await rows.nth(0).click()
    await rows.nth(4).click(modifiers=["Shift"])
    await page.get_by_role("button", name="Delete").first.click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete jobs").click()
    await expect(page.get_by_text("Jobs deleted")).to_be_visible()
    row = await (
        await stage.connection.execute("select count(*) as n from river_job where id <= 50")
    ).fetchone()
    assert row == {"n": 45}


async def queues(stage: Stage) -> None:
    """Go through the queues, a pause and a resume in the list and on a queue's page, and the
    limits.
    """
    page = stage.page
    await stage.go("/queues", "shipping")
    line = page.get_by_role("row").filter(has_text="shipping")
    await line.get_by_role("button", name=re.compile("Pause")).first.click()
    await expect(line).to_contain_text("Paused")
    await line.get_by_role("button", name=re.compile("Resume")).first.click()
    await expect(line).to_contain_text("Active")
    await page.get_by_role("link", name="default").first.click()
    await expect(page.locator("#root")).to_contain_text("worker_1")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await page.get_by_role("button", name="Resume", exact=True).click()
    await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    await stage.go("/queues/shipping", "Override concurrency settings")
    await page.locator("#override-concurrency").first.click()
    await page.locator("[name=globalLimit]").fill("7")
    async with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        await page.get_by_role("button", name="Save").click()
    found = await (
        await stage.connection.execute("select metadata from river_queue where name = 'shipping'")
    ).fetchone()
    assert found
    assert (found["metadata"]["concurrency"]["global_limit"], found["metadata"]["keep"]) == (
        7,
        True,
    )


async def workflows(stage: Stage) -> None:
    """Go through the workflows by their tabs, one of them with its tasks, waits and signals,
    cancelled and retried.
    """
    page = stage.page
    await stage.go("/workflows", "wf_1")
    for tab in ("Active", "Inactive", "All"):
        await page.get_by_label("Tabs").get_by_role("link", name=tab, exact=True).click()
        await expect(page).to_have_url(
            re.compile(r"workflows" if tab == "All" else f"state={tab.lower()}")
        )
    await stage.go(f"/workflows/wf_1?selected={TASKS[2]}", "approve")
    await expect(page.locator("#root")).to_contain_text("import")
    for button in await page.get_by_role(
        "button", name=re.compile("details|diagnostics|signals", re.I)
    ).all():
        await button.click()
    await page.get_by_role("button", name="Cancel").first.click()
    await expect(page.get_by_text("Workflow cancellation requested")).to_be_visible()
    await page.get_by_role("button", name="Retry").first.click()
    await page.get_by_role("radio").first.click()
    await page.get_by_role("button", name="Re-run jobs").click()
    await expect(page.get_by_text("Workflow retry requested")).to_be_visible()


async def periodic_jobs(stage: Stage) -> None:
    """Go through the durable periodic jobs."""
    await stage.go("/periodic-jobs", "nightly")


async def dead_letters(stage: Stage) -> None:
    """More and fewer dead letters, each filter, a suggestion taken, one opened and retried."""
    page = stage.page
    await stage.go("/dead-letter-jobs", "video_upload")
    await page.get_by_role("link", name="Dead Letters").first.wait_for()
    rows = page.get_by_role("link", name=re.compile(r"#\d+$"))
    await expect(rows).to_have_count(20)
    await page.get_by_role("button", name="More").click()
    await expect(rows).to_have_count(25)
    await page.get_by_role("button", name="Fewer").click()
    await expect(rows).to_have_count(20)
    for text, found in (
        ("kind:video_encode,invoice", 1),
        ("queue:mail", 0),
        ("tags:vip", 1),
        ("priority:3", 6),
        (f"id:{DEAD},{DEAD + 1}", 2),
    ):
        await stage.go("/dead-letter-jobs", "video_upload")
        box = page.get_by_test_id("job-search-input")
        await box.fill(text)
        await box.blur()
        await expect(rows).to_have_count(found)
    suggestions = page.get_by_test_id("suggestions-list").get_by_role("button")
    for typed, suggested in (("queue:VI", "video"), ("kind:video_e", "video_encode")):
        await stage.go("/dead-letter-jobs", "video_upload")
        box = page.get_by_test_id("job-search-input")
        await box.click()
        await box.fill(typed)
        await expect(suggestions).to_have_text([suggested])
        await suggestions.click()
    await expect(rows).to_have_text([re.compile(f"video_encode.*#{DEAD}")])
    await rows.click()
    await expect(page.locator("#root")).to_contain_text("no space left")
    await expect(page.locator("#root")).to_contain_text("1970670598291982290")
    await page.get_by_role("button", name="Retry job").click()
    await expect(page).to_have_url(re.compile(rf"/jobs/{DEAD}$"))
    await expect(page.locator("#root")).to_contain_text("Available")
    assert await stage.state(DEAD) == "available"


async def settings(stage: Stage) -> None:
    """Go through the settings, which ask the API nothing of their own."""
    await stage.go("/settings", "Settings")


async def what_fails(stage: Stage) -> None:
    """Retry a job that its twin is in the way of, which is told in our words, and look at a job
    and a dead letter that are gone, which have their pages.
    """
    page = stage.page
    await stage.go(f"/jobs/{CONFLICT}", "invoice")
    await page.get_by_role("button", name="Retry").first.click()
    await expect(
        page.get_by_text("Wait for it to finish or delete it before retrying.")
    ).to_be_visible()
    await stage.go("/jobs/99999", "Job not found")
    await stage.go(f"/dead-letter-jobs/{DEAD}", "Dead letter job not found")
    stage.watch.forgive(
        "status of 409",
        "status of 404",
        "Job not found: 99999.",
        f"Dead letter not found: {DEAD}.",
    )
