"""The page of workers: a rescue, with script and without; axe finds nothing, and it fits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.browser.conftest import LOOP, NewPage, Site, Watch
from tests.features.heartbeats.test_section import client_row, held
from tests.own_tables import OWN_TABLES

pytestmark = [pytest.mark.browser, LOOP]

LONG = "a_client_whose_name_has_no_break_" * 3
WIDE = "W" * 255


async def fill(site: Site) -> None:
    await site.connection.execute(OWN_TABLES)
    await client_row(site.connection, "alive", loop_lag=0.002, memory=9_000_000, release="v7")
    await client_row(site.connection, "silent", 2)
    await client_row(site.connection, LONG[:100], 30, host=LONG, loop_lag=4)
    await client_row(
        site.connection,
        "dead",
        99,
        declared_dead_at=datetime.now(UTC) - timedelta(minutes=5),
        declared_dead_by="alive",
        rescued_at=datetime.now(UTC),
        rescued=3,
    )
    for name in ("alive", "silent", "silent", LONG[:100], f"go_{LONG}"[:100]):
        await held(site.connection, name, kind=LONG, queue=LONG)
    # The widest names there are, wherever the page shows one.
    wide: dict[str, Any] = {
        "host": WIDE,
        "language": WIDE[:100],
        "version": WIDE[:100],
        "release": WIDE[:200],
    }
    queues = [f"{n}{WIDE[:120]}" for n in range(10)]
    slots = json.dumps({name: [10_000, 10_000] for name in queues})
    await client_row(site.connection, WIDE[:100], queues=slots, memory=2**62, pid=2**62, **wide)
    await client_row(
        site.connection,
        f"2{WIDE[:99]}",
        99,
        declared_dead_at=datetime.now(UTC) - timedelta(minutes=5),
        declared_dead_by=WIDE[:200],
        pid=2**62,
        **wide,
    )
    for name in (WIDE[:100], f"go_{WIDE[:90]}"):
        for queue in queues:
            await held(site.connection, name, kind=WIDE[:127], queue=queue)


@pytest.mark.parametrize("script", [True, False])
async def test_the_jobs_of_a_silent_client_are_rescued(
    site: Site, new_page: NewPage, watch: Watch, script: bool
) -> None:
    await fill(site)
    page = await new_page(java_script_enabled=script)
    await page.goto("/jobs")
    if script:
        await page.keyboard.press("g")
        await page.keyboard.press("w")
    else:
        await page.get_by_role("link", name="Workers").click()
    card = page.locator(".gone li", has_text="host-of-silent").filter(has_text="has been silent")
    await expect(card).to_contain_text("They are rescued in")
    await card.get_by_text("Rescue 2 jobs now").click()
    await card.get_by_role("button", name="It has ended").click()
    await expect(page.locator("#notices")).to_contain_text(
        "2 jobs were rescued from host-of-silent"
    )
    await expect(card).to_have_count(0)
    await expect(page.locator("#dead-1")).to_contain_text("silent")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing_and_it_fits(
    site: Site, new_page: NewPage, watch: Watch, theme: str, width: int
) -> None:
    await fill(site)
    page = await new_page(
        color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    await page.goto("/workers")
    await page.get_by_text("Rescue 2 jobs now").click()
    result = await Axe().run(page)
    assert [violation["id"] for violation in result.response["violations"]] == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
