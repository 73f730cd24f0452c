"""The documentation's site in a browser: search, ways to each page, phones, accessibility."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urlsplit

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.cases import cases
from tests.needs import need

LOOP = pytest.mark.asyncio(loop_scope="session")
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site"), LOOP]

WIDE = {"width": 1360, "height": 900}
PHONE = {"width": 390, "height": 844}
AT_MOST = 30_000
"""Milliseconds that a page may take on a busy machine."""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Serve the built site; return its home page."""
    files = partial(_Files, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Yield one Chromium for all tests of the site."""
    path = await asyncio.to_thread(need, "Chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    request: pytest.FixtureRequest, chromium: Browser, address: str
) -> AsyncIterator[Page]:
    """Yield a page of the site; what it asks of others, and each error in it, fails the test."""
    options = {"viewport": WIDE} | getattr(request, "param", {})
    context = await chromium.new_context(base_url=address, reduced_motion="reduce", **options)
    context.set_default_timeout(AT_MOST)
    problems: list[str] = []
    context.on(
        "request",
        lambda asked: None if asked.url.startswith(address) else problems.append(asked.url),
    )
    page = await context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda told: problems.append(told.text) if told.type in ("error", "warning") else None,
    )
    yield page
    await context.close()
    assert problems == []


async def results(page: Page, words: str) -> list[str]:
    """Type words into the search box; return the addresses of what it finds, best first."""
    box, found = page.get_by_role("combobox", name="Search"), page.get_by_role("option")
    if await box.is_visible():
        # What was found for the words before stands there until the index has answered.
        await box.fill("")
        await expect(found).to_have_count(0, timeout=AT_MOST)
    else:
        await page.goto("")
        await page.keyboard.press("/")
    await box.fill(words)
    await expect(found.first).to_be_visible(timeout=AT_MOST)
    links = [await each.get_attribute("href") or "" for each in await found.all()]
    # It has a query with the words, which the page then highlights.
    return [urlsplit(link)._replace(query="", scheme="", netloc="").geturl() for link in links]


NAMES = {
    "ClientConfig": "reference/python/client/#ClientConfig",
    "create_app": "reference/python/dashboard/#create_app",
    "resumable_step": "reference/python/context/#resumable_step",
    "CronSchedule": "reference/python/schedules/#CronSchedule",
    "InsertOpts": "reference/python/args/#InsertOpts",
    "rolled_back": "reference/python/testing/#rolled_back",
    "QueueNotFound": "reference/python/errors/#QueueNotFound",
    "insert_on_commit": "reference/python/django/#insert_on_commit",
    "RIVERUI_MAX_JOBS": "reference/configuration/",
    "--soft-stop": "reference/configuration/",
    "DATABASE_URL": "reference/configuration/",
    "riverui job retry": "reference/commands/#riverui-job-retry",
    "dead letters": "features/dead-letters/",
    "PgBouncer": "operate/database/",
}
"""What people look up by its name, and what they should find among the first."""


async def test_search_finds_names(page: Page) -> None:
    with cases() as case:
        for words, place in NAMES.items():
            with case(words):
                found = await results(page, words)
                assert any(each.startswith(f"/{place}") for each in found[:10]), found[:10]


STRANGERS_WORDS = {
    "alerts": "operate/alerts/",
    "celery": "compare/compare/#celery-and-flower",
    "cron": "jobs/periodic/",
    "dedupe": "start/questions/#how-do-i-insert-a-job-only-once",
    "encryption": "features/encryption/",
    "kill": "jobs/writing-workers/#cancelling-and-snoozing",
    "kubernetes": "operate/kubernetes/",
    "multi tenant": "start/questions/#how-do-i-serve-many-tenants",
    "oom": "operate/prompt-rescue/",
    "rate limit": "features/rate-limits/",
    "redis": "compare/compare/",
    "sqlite": "start/sqlite/",
    "sso": "start/questions/#how-do-i-put-a-password-or-our-sign-in-before-it",
    "stuck": "operate/running/#running-for-days",
    "timeout": "jobs/writing-workers/#time-limits",
    "unlimited attempts": "jobs/writing-workers/#errors-and-retries",
    "upgrade": "operate/running/#upgrading",
    "visibility timeout": "start/questions/#is-a-job-ever-worked-twice",
    "webhook": "recipes/webhooks/",
}
"""What people type who do not know riverui's words, and what they should find first."""


async def test_search_understands_strangers(page: Page) -> None:
    await page.goto("")
    await page.keyboard.press("/")
    for words, place in STRANGERS_WORDS.items():
        await page.get_by_role("combobox", name="Search").fill(words)
        where, _, anchor = place.partition("#")
        # What was found for the words before stands there until the index has answered.
        href = re.compile(rf"/{where}\?h=[^#]*(#{anchor}|$)")
        first = page.get_by_role("option").first
        await expect(first, words).to_have_attribute("href", href, timeout=AT_MOST)


async def test_what_is_only_searched_for_is_not_shown(page: Page) -> None:
    await results(page, "dedupe")
    title = page.get_by_role("option").first.get_by_role("heading")
    await expect(title).to_have_text("How do I insert a job only once?", use_inner_text=True)


async def test_the_search_stands_at_the_right_edge(page: Page) -> None:
    await page.goto("")
    search = await page.get_by_role("button", name="Search").bounding_box()
    header = await page.get_by_role("navigation", name="Header").bounding_box()
    assert search
    assert header
    assert 0 <= header["x"] + header["width"] - search["x"] - search["width"] < 40


async def visible_links(page: Page, url: str) -> set[str]:
    """Return the addresses that a reader of a page sees, without their anchors."""
    await page.goto(url, wait_until="domcontentloaded")
    links: list[str] = await page.locator("a[href]").evaluate_all(
        "links => links.filter(each => each.checkVisibility({visibilityProperty: true}))"
        ".map(each => each.href)"
    )
    return {urldefrag(link)[0] for link in links}


async def test_each_page_is_two_clicks_away(page: Page, address: str, site: Path) -> None:
    every = {f"{address}{each}" for each in addresses(site)}
    near = await visible_links(page, address) & every
    reached = set(near)
    for url in sorted(near):
        reached |= await visible_links(page, url)
    assert every - reached == set()


def addresses(site: Path) -> list[str]:
    """Return the address of each page below the home page, that of the home page the first."""
    found = sorted(file.parent.relative_to(site).as_posix() for file in site.rglob("index.html"))
    assert len(found) > 60
    return [f"{each}/".removeprefix("./") for each in found]


TOO_WIDE = """() => {
  const scrolls = each => !!each && (/auto|scroll/.test(getComputedStyle(each).overflowX)
    || scrolls(each.parentElement))
  const wide = [...document.querySelectorAll(".md-content *, .md-header *, .md-footer *")].filter(
    each => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth + 1
      && !scrolls(each.parentElement))
  return [document.documentElement.scrollWidth - innerWidth > 0 ? "scrolls" : "",
    ...wide.map(each => each.outerHTML.slice(0, 120))].filter(each => each)
}"""


@pytest.mark.parametrize("page", [{"viewport": PHONE}], indirect=True, ids=["phone"])
async def test_no_page_is_wider_than_a_phone(page: Page, site: Path) -> None:
    wide = {}
    for each in addresses(site):
        await page.goto(each, wait_until="domcontentloaded")
        if found := await page.evaluate(TOO_WIDE):
            wide[each] = found
    assert wide == {}


AXE_PLACES = (
    "jobs/writing-workers/",
    "reference/python/client/",
    "reference/configuration/",
)
"""Pages of each sort, besides the home page."""


@pytest.mark.parametrize(
    "page",
    [{"viewport": WIDE, "color_scheme": "light"}, {"viewport": PHONE, "color_scheme": "dark"}],
    indirect=True,
    ids=["wide-light", "phone-dark"],
)
async def test_axe_finds_nothing(page: Page) -> None:
    with cases() as case:
        for place in ("", *AXE_PLACES):
            with case(place):
                await page.goto(place)
                found = await Axe().run(page)
                assert found.violations_count == 0, found.generate_report()


async def test_nothing_is_lost_without_script(chromium: Browser, address: str) -> None:
    context = await chromium.new_context(base_url=address, java_script_enabled=False)
    page = await context.new_page()
    await page.goto("jobs/writing-workers/")
    await expect(page.get_by_role("heading", name="Writing workers", level=1)).to_be_visible()
    await expect(page.get_by_role("link", name="Reference").first).to_be_visible()
    await context.close()
