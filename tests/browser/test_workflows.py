"""The graph of a workflow under the hand, and its pages for everybody."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect
from psycopg import AsyncConnection

from riverui.features.workflows.waits.domain import SignalTerm, Wait
from tests.browser.conftest import LOOP, NewPage, Site, Watch
from tests.browser.test_accessibility import axe_violations
from tests.own_tables import OWN_TABLES
from tests.workflows import DIAMOND, fan, workflow

pytestmark = [pytest.mark.browser, LOOP]

CHAIN = {f"step-{n:02}": ("completed", [f"step-{n - 1:02}"] if n else []) for n in range(25)}


async def waiting(connection: AsyncConnection[Any], id: str) -> None:
    """Let the task `ship` wait for signals, some of which have come."""
    wait = Wait("approved", [SignalTerm("approved", "approval", required_count=2)]).to_json()
    await connection.execute(
        "update riverui_workflow_task set state = 'wait', wait = %s::jsonb where workflow_id = %s"
        " and name = 'ship'",
        [wait, id],
    )
    await connection.execute(
        "insert into riverui_workflow_signal (workflow_id, attempt, key, payload, source)"
        " select %s, 1, 'approval', to_jsonb(repeat('long ', n * 20)), '{\"user\": \"ada\"}'"
        " from generate_series(1, 60) n",
        [id],
    )


async def scrolled(page: Page) -> float:
    found = await page.locator("#wf-canvas").evaluate("canvas => canvas.scrollLeft")
    return float(found)


@pytest.mark.short
async def test_a_click_on_a_task_shows_it_beside_the_graph(site: Site, new_page: NewPage) -> None:
    await site.connection.execute(OWN_TABLES)
    await workflow(site.connection, DIAMOND, id="w", name="Order 42")
    page = await new_page()
    await page.goto(f"{site.url}/workflows")
    await page.get_by_role("link", name="Order 42").click()
    await page.evaluate("window.stays = true")
    await page.locator(".wf-box", has_text="ship").click()
    await expect(page.locator("#wf-task")).to_contain_text("It waits for pack (running).")
    await expect(page).to_have_url(re.compile(r"\?task=ship$"))
    await page.locator("#wf-task").get_by_role("link", name="pack").click()
    await expect(page.locator("#task-title")).to_contain_text("pack")
    assert await page.evaluate("window.stays")
    await page.go_back()
    await expect(page.locator("#task-title")).to_contain_text("ship")


async def test_a_failed_task_is_two_clicks_from_the_front_page(
    site: Site, new_page: NewPage
) -> None:
    await site.connection.execute(OWN_TABLES)
    states = {
        **DIAMOND,
        "charge": ("discarded", ["read"]),
        "pack": ("completed", ["read"]),
        "ship": ("cancelled", ["charge", "pack"]),
    }
    await workflow(site.connection, states, id="w", name="Order 42")
    page = await new_page()
    await page.goto(f"{site.url}/")
    clicks = 0
    for link in (
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Workflows"),
        page.get_by_role("link", name="2 of 4 done, 1 failed, 1 cancelled because of it"),
    ):
        await link.click()
        clicks += 1
    await expect(page.locator("#task-title")).to_contain_text("charge")
    await expect(page.locator(".wf-error")).to_be_in_viewport()
    assert clicks == 2


async def test_the_graph_is_dragged_and_sized(site: Site, new_page: NewPage) -> None:
    await site.connection.execute(OWN_TABLES)
    await workflow(site.connection, CHAIN, id="w")
    page = await new_page(viewport={"width": 1280, "height": 800})
    await page.goto(f"{site.url}/workflows/w?zoom=100")
    canvas, graph = page.locator("#wf-canvas"), page.locator(".wf-graph")
    box = await canvas.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + 30
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.mouse.move(x - 300, y, steps=4)
    await page.mouse.up()
    assert await scrolled(page) == 300
    await expect(page.locator("#wf-task")).to_have_count(0)
    before = await graph.get_attribute("width")
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -200)
    await page.keyboard.up("Control")
    await expect(graph).not_to_have_attribute("width", str(before))
    larger = await graph.get_attribute("width")
    assert int(larger or 0) > int(before or 0)
    # A refresh, and a task that is selected, leave size and place as they are.
    place = await scrolled(page)
    await page.keyboard.press(".")
    await expect(page.locator(".htmx-request")).to_have_count(0)
    await expect(graph).to_have_attribute("width", str(larger))
    assert await scrolled(page) == place
    # A size that is chosen by its link counts again.
    await (
        page.get_by_role("navigation", name="Zoom")
        .get_by_role("link", name="50 %", exact=True)
        .click()
    )
    await expect(graph).not_to_have_attribute("width", str(larger))
    await page.goto(f"{site.url}/workflows/w?task=step-24")
    await expect(page.locator(".wf-box.on")).to_be_in_viewport()


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_the_pages_suit_everybody(
    site: Site, new_page: NewPage, color_scheme: str, width: int
) -> None:
    await site.connection.execute(OWN_TABLES)
    await fan(site.connection, 500, id="fan", name="Scan of 500 pages")
    await workflow(site.connection, DIAMOND, id="w", name="o" * 300)
    page = await new_page(
        viewport={"width": width, "height": 800},
        color_scheme=color_scheme,
        reduced_motion="reduce",
    )
    await waiting(site.connection, "w")
    paths = ("", "/fan?task=page-0007", "/w?task=ship", "/w/signals", "?match=nothing")
    for path in paths:
        await page.goto(f"{site.url}/workflows{path}")
        assert await axe_violations(page) == [], path
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, path


async def test_without_javascript_links_and_forms_do_it_all(site: Site, new_page: NewPage) -> None:
    await site.connection.execute(OWN_TABLES)
    await workflow(site.connection, DIAMOND, id="w", name="Order 42")
    page = await new_page(java_script_enabled=False)
    await page.goto(f"{site.url}/workflows/w")
    await page.locator(".wf-box", has_text="ship").click()
    await expect(page.locator("#wf-task")).to_contain_text("It waits for pack")
    await page.get_by_role("button", name="Cancel 2 tasks…").click()
    await page.get_by_role("button", name="Cancel 2 tasks").click()
    await expect(page.locator("#notices")).to_contain_text("1 task of Order 42 cancelled")


async def test_a_signal_without_javascript(site: Site, new_page: NewPage, watch: Watch) -> None:
    await site.connection.execute(OWN_TABLES)
    await workflow(site.connection, DIAMOND, id="w", name="Order 42")
    await waiting(site.connection, "w")
    page = await new_page(java_script_enabled=False)
    await page.goto(f"{site.url}/workflows/w?task=ship")
    await page.locator("#wf-task").get_by_role("link", name="approval", exact=True).click()
    await expect(page.get_by_label("Key", exact=True)).to_have_value("approval")
    await page.get_by_label("Payload").fill('{"ok": tru}')
    await page.get_by_role("button", name="Send signal").click()
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was sent.")
    await expect(page.get_by_label("Payload")).to_have_value('{"ok": tru}')
    watch.forgive("400 (Bad Request)")
    await page.get_by_label("Payload").fill('{"ok": true}')
    await page.get_by_role("button", name="Send signal").click()
    await expect(page).to_have_url(re.compile(r"/workflows/w\?task=ship$"))
    await expect(page.locator("#notices")).to_contain_text("Signal approval sent")
    await expect(page.locator("#signal-61")).to_contain_text('{"ok": true}')
    await page.get_by_role("link", name="all signals").click()
    await page.get_by_role("link", name="Earlier").click()
    await expect(page.locator("#workflow-signals tbody tr")).to_have_count(11)
