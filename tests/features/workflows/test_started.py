"""Workflows that jobs have started and wait for: on the pages of both, and not in the list."""

from __future__ import annotations

from typing import Any

import httpx2
from psycopg import AsyncConnection

from tests import factory
from tests.web.html import Element, get
from tests.workflows import DIAMOND, workflow

Connection = AsyncConnection[dict[str, Any]]
HOSTILE = "<script>alert(1)</script>"
PAGES = {"page 1": ("completed", ()), "page 2": ("running", ())}


async def begun(connection: Connection, id: str, parent: int, name: str = "") -> None:
    """Insert a workflow of pages that a job has started."""
    await workflow(connection, PAGES, id=id, name=name)
    await connection.execute(
        "update riverui_workflow set parent_job_id = %s where id = %s", [parent, id]
    )


def listed(page: Element) -> list[str]:
    rows = page.one(id="workflows-list").one("tbody").all("tr")
    return [row.one(class_="c-main").all("a")[0].text for row in rows]


async def test_the_list_has_those_of_jobs_where_they_are_asked_for(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    parent = await factory.job(own, "scheduled", metadata={"snoozes": 1})
    await workflow(own, DIAMOND, id="01A", name="Upload")
    for number in range(30):
        await begun(own, f"02{number:02}", parent, f"File {number}")
    page = await get(pages, "/workflows")
    assert listed(page) == ["Upload"]
    (link,) = [a for a in page.all("a") if a.text == "Show them here too"]
    assert link.attributes["href"] == "/workflows?below=1"
    page = await get(pages, "/workflows?below=1")
    assert listed(page)[0] == "File 29"
    (older,) = [a for a in page.all("a") if a.text.strip() == "Older"]
    page = await get(pages, older.attributes["href"] or "")
    assert listed(page)[-1] == "Upload"
    assert "Show them here too" not in page.text
    # A search finds all.
    page = await get(pages, "/workflows?match=File+7")
    assert listed(page) == ["File 7"]
    assert "Show them here too" not in page.text
    assert (await get(pages, "/workflows?state=active")).text.count("File") == 0


async def test_a_job_and_the_workflow_that_it_waits_for_link_to_one_another(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    parent = await factory.job(own, "scheduled", metadata={"snoozes": 1})
    await begun(own, "02A", parent, HOSTILE)
    page = await get(pages, f"/jobs/{parent}")
    card = page.one("section", **{"aria-labelledby": "started-title"})
    assert card.one("h3").text == "It waits for 1 workflow"
    (link,) = card.all("a")
    assert (link.text, link.attributes["href"]) == (HOSTILE, "/workflows/02A")
    assert "1 of 2 done" in card.text
    page = await get(pages, "/workflows/02A")
    (back,) = [a for a in page.all("a") if a.text == f"Job {parent}"]
    assert back.attributes["href"] == f"/jobs/{parent}"

    for number in range(6):
        await begun(own, f"03{number}", parent)
    page = await get(pages, f"/jobs/{parent}")
    card = page.one("section", **{"aria-labelledby": "started-title"})
    assert card.one("h3").text == "It waits for more than 5 workflows"
    assert [a.text for a in card.all("a")] == ["035", "034", "033", "032", "031"]


async def test_other_jobs_and_workflows_say_nothing_of_it(
    pages: httpx2.AsyncClient, own: Connection
) -> None:
    snoozed = await factory.job(own, "scheduled", metadata={"snoozes": 2})
    await workflow(own, DIAMOND, id="01A")
    assert "started-title" not in (await pages.get(f"/jobs/{snoozed}")).text
    assert "waits for it" not in (await pages.get("/workflows/01A")).text
    # Nor if the tables are missing.
    await own.execute("drop table riverui_workflow cascade")
    await get(pages, f"/jobs/{snoozed}")
