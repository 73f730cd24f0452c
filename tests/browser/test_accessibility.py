"""axe finds nothing, in both themes, wide and narrow; and no page is wider than its window."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from riverui.features.error_groups.domain.fingerprints import error_signature
from tests import factory
from tests.browser.conftest import LOOP, NewPage, Site, Watch

pytestmark = [pytest.mark.browser, LOOP]

STATES = (
    "available",
    "running",
    "scheduled",
    "retryable",
    "pending",
    "completed",
    "discarded",
    "cancelled",
)
LONG = "a_very_long_kind_without_any_break_" * 3


async def _fill(site: Site) -> int:
    """Insert jobs of every kind of trouble; return the id of one that shows everything a job
    can.
    """
    for state in STATES:
        await site.make.job(state, tags=["eu", "vip"])
    await site.make.queue("default")
    await site.make.queue(LONG)
    await site.make.leader()
    error = f"{LONG} \u202e reversed <script>alert(1)</script>\nsecond line"
    return await site.make.job(
        "retryable",
        kind=LONG,
        queue=LONG,
        attempt=3,
        tags=[LONG],
        args={LONG: LONG, "nested": {"list": [1, 2.5, None, True, {"deep": {"er": "x"}}]}},
        errors=[
            factory.attempt_error(n, error, trace=f'File "/app/a.py", line 1, in work\n{LONG}')
            for n in (1, 2, 3)
        ],
        metadata={
            "output": {"a": 1},
            "river:log": [{"attempt": 3, "log": f"INFO a\nERROR {LONG}\nDEBUG c"}],
        },
    )


def _paths(job: int) -> dict[str, str]:
    return {
        "overview": "/",
        "overview of a week": "/?window=7d",
        "chart": "/figures/flow",
        "jobs": "/jobs",
        "chosen columns": "/jobs?columns=id,kind,queue,args,waited,ran,args.nested,when",
        "failed jobs": "/jobs?state=retryable&q=kind:*kind*",
        "no jobs": "/jobs?q=kind:none",
        "bad search": "/jobs?q=priority:high",
        "job": f"/jobs/{job}",
        "compared": f"/jobs/{job}/compare",
        "new job": f"/jobs/new?like={job}",
        "queues": "/queues",
        "no queues": "/queues?match=zzz",
        "queue": f"/queues/{LONG}",
        "errors": "/errors",
        "no such error": "/errors?match=zzz",
        "error": f"/errors/{error_signature('it broke').fingerprint}",
        "workers": "/workers",
        "no dead letters": "/dead-letters",
        "operations": "/operations",
        "about": "/about",
        "database": "/database",
        "help": "/help",
        "palette": "/palette?q=a",
        "api": "/api",
        "preview": "/jobs/bulk?verb=delete&q=&state=completed&next=/jobs",
        "nothing": "/nowhere",
    }


async def axe_violations(page: Page) -> list[Any]:
    """Return what axe complains about, in one line each."""
    result = await Axe().run(page)
    return [
        f"{violation['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for violation in result.response["violations"]
        for node in violation["nodes"]
    ]


@pytest.mark.short
async def test_pages_that_most_people_see_have_no_axe_violation(site: Site, page: Page) -> None:
    paths = _paths(await _fill(site))
    found = {}
    for name in ("overview", "jobs", "job", "queues", "errors"):
        await page.goto(paths[name])
        if violations := await axe_violations(page):
            found[name] = violations
    assert not found


@pytest.mark.parametrize(
    ("width", "theme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")]
)
async def test_no_page_has_an_axe_violation(
    site: Site, new_page: NewPage, watch: Watch, theme: str, width: int
) -> None:
    job = await _fill(site)
    page = await new_page(
        color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    found: dict[str, list[Any]] = {}
    for name, path in _paths(job).items():
        await page.goto(path)
        if violations := await axe_violations(page):
            found[name] = violations
    await page.goto("/jobs")
    await page.locator("#menu-filters > summary").click()
    if violations := await axe_violations(page):
        found["filters"] = violations
    await page.keyboard.press("Escape")
    await page.locator("#menu-view > summary").click()
    if violations := await axe_violations(page):
        found["view menu"] = violations
    await page.keyboard.press("Escape")
    await page.locator('input[name="ids"]').first.check()
    await (
        page.get_by_role("group", name="Selected jobs").get_by_role("button", name="Delete").click()
    )
    await expect(page.get_by_role("dialog")).to_be_visible()
    if violations := await axe_violations(page):
        found["dialog"] = violations
    watch.forgive("404", "400")
    assert not found, "\n".join(
        f"{name}: {line}" for name, lines in found.items() for line in lines
    )


@pytest.mark.parametrize("width", [pytest.param(360, marks=pytest.mark.short), 768, 1024, 1600])
async def test_no_page_is_wider_than_its_window(
    site: Site, new_page: NewPage, watch: Watch, width: int
) -> None:
    job = await _fill(site)
    page = await new_page(viewport={"width": width, "height": 800})
    too_wide = {}
    for name, path in _paths(job).items():
        await page.goto(path)
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            too_wide[name] = await page.evaluate(
                "[...document.querySelectorAll('body *')]"
                ".filter(element => element.getBoundingClientRect().right > innerWidth + 1)"
                ".slice(0, 5).map(element => `${element.tagName}.${element.className}`)"
            )
    watch.forgive("404", "400")
    assert not too_wide


@pytest.mark.short
async def test_hostile_text_is_shown_and_never_run(site: Site, page: Page) -> None:
    evil = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>\u202e{{7*7}}"
    job = await site.make.job(
        "discarded",
        kind=evil,
        queue=evil,
        tags=[evil],
        args={evil: evil},
        metadata={"output": evil, "river:log": [{"attempt": 1, "log": evil}]},
        attempt=1,
        errors=[factory.attempt_error(1, evil, trace=evil)],
    )
    await site.make.queue(evil)
    for path in ("/jobs", f"/jobs/{job}", "/queues"):
        await page.goto(path)
        await expect(page.locator("main")).to_contain_text("<img src=x onerror=alert(1)>")
        await expect(page.locator("main img, main script")).to_have_count(0)
        await expect(page.locator("main")).not_to_contain_text("\u202e")
